"""Wait for the first of several things; what loses stays where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, assert_never

from stepwell.clock import Duration, Instant, Span, span
from stepwell.errors import InvalidOptionError
from stepwell.model.entries import Entry
from stepwell.model.locations import Location, check_name, named
from stepwell.model.signals import Signal as StoredSignal
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.replay.packing import pack, unpack
from stepwell.replay.primitives.receive import fits, read_messages, write_messages
from stepwell.replay.primitives.reply import check_answered
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import Signal, Wanted, wanted
from stepwell.replay.turn import Arrival


@dataclass(frozen=True, slots=True)
class SignalAwaited:
    """A signal of one of these names, or of any."""

    names: tuple[str, ...]
    typed: Mapping[str, Signal[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimeAwaited:
    """A span of time from the first visit."""

    lasts: Span


Awaited = SignalAwaited | TimeAwaited


def signal(*signals: str | Signal[Any]) -> SignalAwaited:
    """For `ctx.wait_any`: the oldest pending signal of these, or of any."""
    return SignalAwaited(*wanted(signals))


def timer(duration: Duration) -> TimeAwaited:
    """For `ctx.wait_any`: this long, counted from the first visit."""
    return TimeAwaited(span(duration, what="timer"))


class Arrived(NamedTuple):
    """What came first: its label, and the `Message` if it was a signal."""

    label: str
    value: Any


def check_awaited(awaited: Mapping[str, Awaited]) -> None:
    """Refuse what cannot be waited for."""
    if not awaited:
        raise InvalidOptionError("nothing is waited for", fix='ctx.wait_any(answer=signal("answer"), late=timer("1h"))')
    for label, each in awaited.items():
        check_name(label, what="label")
        if not isinstance(each, SignalAwaited | TimeAwaited):
            raise InvalidOptionError(f"{label}: {each!r} cannot be waited for", fix='use signal("name") or timer("1h")')


async def run_wait_any(
    scope: Scope, location: Location, entry: Entry | None, awaited: Mapping[str, Awaited]
) -> Arrived:
    """The first thing to come. Only that one is consumed."""
    turn, takes = scope.turn, _wanted_of(awaited)
    if takes is not None:
        check_answered(scope)
    if entry is None:
        label, arrival = await _first(scope, location, awaited)
        while isinstance(arrival, StoredSignal) and not fits(scope, location, arrival, takes or Wanted()):
            label, arrival = await _first(scope, location, awaited)
        if isinstance(arrival, StoredSignal):
            value = write_messages(scope, location, [arrival])
        else:
            value = pack([], b"")
        stored = pack([label], value)
        entry = turn.journal.record(location, EntryKind.WAIT_ANY, EntryStatus.DONE, stored, turn.now)
    else:
        turn.journal.skip_below(location)
        await turn.in_order(entry)
    scope.saw(entry)
    (label,), value = unpack(entry.value)
    messages = read_messages(scope, location, value, takes or Wanted())
    return Arrived(label, messages[0] if messages else None)


def _wanted_of(awaited: Mapping[str, Awaited]) -> Wanted | None:
    """The types of the signals among what is awaited; None if there is no signal among it."""
    signals = [each for each in awaited.values() if isinstance(each, SignalAwaited)]
    return Wanted((), {name: one for each in signals for name, one in each.typed.items()}) if signals else None


async def _first(scope: Scope, location: Location, awaited: Mapping[str, Awaited]) -> tuple[str, Arrival]:
    turn = scope.turn
    arrived: asyncio.Future[tuple[str, Arrival]] = turn.loop.create_future()

    async def wait(label: str, each: Awaited) -> None:
        at = named(location, turn.journal.names.number(label))
        turn.journal.visited.add(at)
        match each:
            case SignalAwaited(names, _):
                arrival = await turn.wait(at, WaitKind.SIGNAL, None, names)
            case TimeAwaited(lasts):
                stored = turn.stored_wait(at, WaitKind.TIMER)
                due_at = stored.due_at if stored is not None else Instant(turn.now + lasts)
                arrival = await turn.wait(at, WaitKind.TIMER, due_at)
            case _:
                assert_never(each)
        if not arrived.done():
            arrived.set_result((label, arrival))

    waiting = [turn.loop.create_task(wait(label, each)) for label, each in awaited.items()]
    try:
        return await arrived
    finally:
        for each in waiting:
            each.cancel()
