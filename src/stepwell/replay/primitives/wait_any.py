"""Wait for the first of several signals, events, children or timers; the others stay pending."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, assert_never

from stepwell.clock import Duration, Instant, Span, span
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.entries import Entry
from stepwell.model.events import IncomingEvent
from stepwell.model.locations import Location, check_name, named
from stepwell.model.runs import ChildOutcome
from stepwell.model.signals import Signal as StoredSignal
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.replay.headers import pack, unpack
from stepwell.replay.operations import ChildOperation
from stepwell.replay.primitives.child import await_run, find_spawned, read_outcome, write_outcome
from stepwell.replay.primitives.receive import fits, read_messages, write_messages
from stepwell.replay.primitives.reply import check_answered
from stepwell.replay.primitives.topic import EventAwaited, await_event, read_event, write_event
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import Signal, SignalSelection, wanted
from stepwell.replay.turn import Turn
from stepwell.replay.waits import Arrival


@dataclass(frozen=True, slots=True)
class SignalAwaited:
    """A signal of one of these names, or of any."""

    names: tuple[str, ...]
    typed: Mapping[str, Signal[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimeAwaited:
    """A span of time from the first visit."""

    lasts: Span


@dataclass(frozen=True, slots=True)
class ChildAwaited:
    """The end of a child, or of any run."""

    child: ChildOperation[Any] | RunId

    @property
    def hint(self) -> Any:
        """The type of its result, if this code knows it."""
        return self.child.output_hint if isinstance(self.child, ChildOperation) else Any


# A new kind needs a class here, and a case in each of `_wait`, `_write` and `_read`.
Awaited = SignalAwaited | TimeAwaited | ChildAwaited | EventAwaited[Any]


def signal(*signals: str | Signal[Any]) -> SignalAwaited:
    """For `ctx.wait_any`: the oldest pending signal with one of these names, or any signal."""
    return SignalAwaited(*wanted(signals))


def timer(duration: Duration) -> TimeAwaited:
    """For `ctx.wait_any`: a duration, counted from the first visit."""
    return TimeAwaited(span(duration, what="timer"))


def done(child: ChildOperation[Any] | str) -> ChildAwaited:
    """For `ctx.wait_any`: the end of a child, however it ends. The wait starts the child. If something else comes
    first, the child continues, and the same operation can be awaited later. With the id of a run: the end of that run,
    whoever started it, and of the runs that continue it.
    """
    if not isinstance(child, ChildOperation | str):
        raise InvalidOptionError(
            f"{child!r} is not a child", fix="write done(ctx.child(...)), without await, or done(run_id)"
        )
    return ChildAwaited(child if isinstance(child, ChildOperation) else RunId(child))


class Arrived(NamedTuple):
    """What came first: its label, and the `Message` of a signal, the event of a topic, or the `Outcome` of a child."""

    label: str
    value: Any


def check_awaited(awaited: Mapping[str, Awaited]) -> None:
    """Reject arguments that `wait_any` cannot wait for."""
    if not awaited:
        raise InvalidOptionError(
            "ctx.wait_any has nothing to wait for", fix='write: ctx.wait_any(answer=signal("answer"), late=timer("1h"))'
        )
    for label, each in awaited.items():
        check_name(label, what="label")
        if not isinstance(each, SignalAwaited | TimeAwaited | ChildAwaited | EventAwaited):
            raise InvalidOptionError(
                f"ctx.wait_any cannot wait for {label}={each!r}",
                fix='use signal("name"), topic("name"), timer("1h") or done(child)',
            )


async def run_wait_any(
    scope: Scope, location: Location, entry: Entry | None, awaited: Mapping[str, Awaited]
) -> Arrived:
    """The first to arrive. Only that one is consumed."""
    turn, takes = scope.turn, _wanted_of(awaited)
    if takes is not None:
        check_answered(scope)
    for each in awaited.values():
        if isinstance(each, ChildAwaited) and isinstance(each.child, ChildOperation):
            turn.unawaited.pop(each.child.number, None)
    takes = takes or SignalSelection()
    if entry is None:
        label, arrival = await _first(scope, location, awaited, takes)
        stored = pack([label], _write(scope, location, arrival))
        entry = turn.journal.record(location, EntryKind.WAIT_ANY, EntryStatus.DONE, stored, turn.now)
    else:
        turn.journal.skip_below(location)
        await turn.order.reach(entry)
    scope.note_result(entry)
    (label,), value = unpack(entry.value)
    return Arrived(label, _read(scope, location, awaited.get(label), value, takes))


def _wanted_of(awaited: Mapping[str, Awaited]) -> SignalSelection | None:
    """The selection of all awaited signals; None if there are none."""
    signals = [each for each in awaited.values() if isinstance(each, SignalAwaited)]
    return SignalSelection((), {name: one for each in signals for name, one in each.typed.items()}) if signals else None


async def _first(
    scope: Scope, location: Location, awaited: Mapping[str, Awaited], takes: SignalSelection
) -> tuple[str, Arrival]:
    turn = scope.turn
    arrived: asyncio.Future[tuple[str, Arrival]] = turn.loop.own_future()

    async def wait(label: str, each: Awaited) -> None:
        try:
            arrival = await _wait(scope, location, label, each)
            while isinstance(arrival, StoredSignal) and not fits(scope, location, arrival, takes):
                arrival = await _wait(scope, location, label, each)  # the other waits continue, timers too
        except Exception as error:  # noqa: BLE001  the failure of a wait is the failure of the waiting code
            if not arrived.done():
                arrived.set_exception(error)
            return
        if not arrived.done():
            arrived.set_result((label, arrival))

    waiting = [turn.loop.own_task(wait(label, each)) for label, each in _without_late_timers(awaited).items()]
    try:
        return await arrived
    finally:
        for task in waiting:
            task.cancel()
        for each in awaited.values():
            if isinstance(each, ChildAwaited):
                child = each.child
                at = child.location if isinstance(child, ChildOperation) else find_spawned(scope, child)
                if at is not None:
                    _give_up(turn, at)


def _give_up(turn: Turn, location: Location) -> None:
    """Stop waiting here. A new wait may be armed here before the task of this one ends; it is then a wait of its own,
    whether or not this one was stored.
    """
    turn.waits.disarm(location)
    turn.journal.waits.pop(location, None)


def _without_late_timers(awaited: Mapping[str, Awaited]) -> Mapping[str, Awaited]:
    """Everything except timers that cannot be the first timer to end."""
    timers = {label: each.lasts for label, each in awaited.items() if isinstance(each, TimeAwaited)}
    if len(timers) < 2:
        return awaited
    first = min(timers, key=lambda label: timers[label])
    return {label: each for label, each in awaited.items() if label not in timers or label == first}


async def _wait(scope: Scope, location: Location, label: str, awaited: Awaited) -> Arrival:
    """Wait for one of them."""
    turn = scope.turn
    at = named(location, turn.journal.names.number(label))
    turn.journal.visited[at] = None
    match awaited:
        case SignalAwaited(names, _):
            return await turn.wait(at, WaitKind.SIGNAL, None, names)
        case TimeAwaited(lasts):
            stored = turn.journal.find_wait(at, WaitKind.TIMER)
            due_at = stored.due_at if stored is not None else Instant(turn.now + lasts)
            return await turn.wait(at, WaitKind.TIMER, due_at)
        case EventAwaited():
            return await await_event(scope, at, awaited, None)
        case ChildAwaited(child):
            return await (child.ended() if isinstance(child, ChildOperation) else await_run(scope, at, child))
        case _:
            assert_never(awaited)


def _write(scope: Scope, location: Location, arrival: Arrival) -> bytes:
    """The first arrival as it is stored. Storing it consumes it."""
    match arrival:
        case StoredSignal():
            return write_messages(scope, location, [arrival])
        case IncomingEvent():
            return write_event(scope, location, arrival)
        case ChildOutcome():
            return write_outcome(scope, location, arrival)
        case None:
            return pack([], b"")
        case _:
            assert_never(arrival)


def _read(scope: Scope, location: Location, awaited: Awaited | None, value: bytes, takes: SignalSelection) -> Any:
    """The arrival that `_write` stored, decoded for what the code waits for under that label now."""
    match awaited:
        case SignalAwaited():
            messages = read_messages(scope, location, value, takes)
            return messages[0] if messages else None
        case EventAwaited(hint=hint):
            return read_event(scope, location, value, hint)
        case ChildAwaited():
            return read_outcome(scope, location, value, awaited.hint)
        case TimeAwaited() | None:
            return None
        case _:
            assert_never(awaited)
