"""A database file that two copies of SQLite have open in one process: they do not see each other's locks."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim.cases.case import Tried
from stepwell import Context, Engine, Start, workflow
from stepwell.errors import InvalidOptionError, StepwellError
from stepwell.stores.sqlite.file_registry import has_two_copies

ROUNDS = 30


@workflow
async def shipping(ctx: Context, number: int) -> int:
    """Nobody runs it here."""
    return number


async def _start_within(path: Path) -> str:
    """Start runs by an engine, and by `sqlite3` transactions that are handed to another engine, which is not open."""
    url, accepted = f"sqlite:///{path}", 0
    acknowledged: list[str] = []
    async with Engine(url, workflows=[shipping], worker=False) as engine:
        closed = Engine(url, workflows=[shipping], worker=False)
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            for number in range(ROUNDS):
                acknowledged.append((await engine.start(shipping, number)).run_id)
                connection.execute("begin immediate")
                try:
                    [handle] = closed.runs.start_within(connection, shipping, [Start(number)])
                except InvalidOptionError:
                    connection.execute("rollback")
                    continue
                accepted += 1
                acknowledged.append((await engine.start(shipping, number)).run_id)
                connection.execute("commit")
                acknowledged.append(handle.run_id)
        finally:
            connection.close()
    if not accepted:
        return ""
    async with Engine(url, worker=False) as reader:
        lost = [run_id for run_id in acknowledged if await reader.status(run_id) is None]
    return f"{accepted} transactions of another SQLite were accepted, and {len(lost)} acknowledged starts are lost"


def sharing() -> Iterator[Tried]:
    """A connection of another copy of SQLite is refused, whichever engine it is handed to."""
    if not has_two_copies():
        return  # one library serves both here, and nothing can go wrong
    with tempfile.TemporaryDirectory() as folder:
        try:
            problem = asyncio.run(_start_within(Path(folder) / "runs.db"))
        except (StepwellError, sqlite3.Error) as error:
            problem = f"the file is damaged: {error}"
        yield Tried("two copies of SQLite", "live", problem)


PLAYS: dict[str, Any] = {"two copies of SQLite on one file": sharing}
