"""Switches that break plain functions, published state and streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sim.sabotage.patches import Patches, statement, switches
from stepwell.codec.base import Place
from stepwell.model.entries import Entry
from stepwell.model.live import Append, ChunkKind
from stepwell.model.locations import Location
from stepwell.replay.plain_code import PlainCode
from stepwell.replay.primitives import stream
from stepwell.replay.scopes import Scope
from stepwell.replay.step_streams import StreamWriter
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions import live


def plain_answer_lost() -> Patches:
    """A plain function that lost its thread is not told the last answer when it is run again."""
    original = PlainCode._enter

    def enter(self: PlainCode) -> None:
        if self._answers:
            self._answers.pop()
        original(self)

    return [(PlainCode, "_enter", enter)]


def plain_chance_forgotten() -> Patches:
    """A plain function that is run again draws new chances, and reads a later time."""

    def read(self: PlainCode, what: str, read: Callable[[], Any]) -> Any:
        return read()

    return [(PlainCode, "read", read)]


def append_made_again() -> Patches:
    """A replay appends again what the workflow had appended."""
    original = stream.run_append

    async def run_append(
        scope: Scope, location: Location, entry: Entry | None, name: str, kind: ChunkKind, value: Any
    ) -> None:
        await original(scope, location, entry, name, kind, value)
        if entry is not None:
            scope.turn.journal.append(Append(name, kind, scope.turn.codec.encode(value, place=Place("", "", ""))))

    return [(stream, "run_append", run_append)]


def parts_mixed() -> Patches:
    """A step that begins again goes on where the attempt before it had stopped."""

    def put(self: StreamWriter, append: Append) -> asyncio.Future[None]:
        return self._outlet.put(self._body, append)

    return [(StreamWriter, "put", put)]


def state_goes_back() -> Patches:
    """A value replaces what is shown, however old it is."""
    return statement("live.publish", "where excluded.position >= position", "where true")


def offset_used_again() -> Patches:
    """What is withdrawn goes before the reset comes, and the reset gets an offset that readers have had."""

    def withdraw(tx: Transaction, run: int, one: Append) -> None:
        where = {"run": run, "stream": one.stream, "source": one.source, "part": one.part}
        found = tx.find("live.find_earlier", **where)
        if found is not None and found[0] is not None:
            tx.run("live.withdraw", since=found[0], **where)
            live._put(tx, run, one._replace(kind=ChunkKind.RESET, value=b"%d" % found[0]))

    return [(live, "_withdraw", withdraw)]


LIVE_SWITCHES = switches(
    plain_answer_lost, plain_chance_forgotten, append_made_again, parts_mixed, state_goes_back, offset_used_again
)
