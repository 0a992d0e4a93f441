"""What the code of a turn waits for, and what has come for it."""

from __future__ import annotations

import asyncio
import heapq

from stepwell.clock import Instant
from stepwell.model.events import IncomingEvent, is_answered
from stepwell.model.locations import Location
from stepwell.model.runs import ChildOutcome, Inbox, Run
from stepwell.model.signals import Signal
from stepwell.model.states import WaitKind
from stepwell.model.waits import Wait
from stepwell.replay.journal import Journal
from stepwell.replay.observations import Observations

Arrival = Signal | ChildOutcome | IncomingEvent | None  # None: the deadline passed


class Armed:
    """A wait of the code, and the future that it awaits."""

    __slots__ = ("future", "wait")

    def __init__(self, wait: Wait, future: asyncio.Future[Arrival]) -> None:
        self.wait = wait
        self.future = future


class Arrivals:
    """Waits, and what is on its way to them: signals, events, outcomes of children, deadlines."""

    __slots__ = (
        "_armed",
        "_deadlines",
        "_events",
        "_outcomes",
        "_seen_event",
        "_seen_signal",
        "_shared_events",
        "_signals",
        "journal",
        "now",
        "observations",
        "run",
    )

    def __init__(self, run: Run, journal: Journal) -> None:
        self.run = run
        self.journal = journal
        self.now = Instant(0)
        self.observations: Observations | None = None  # since the code first looked into its mailbox
        self._armed: dict[Location, Armed] = {}
        self._deadlines: list[tuple[Instant, int, Armed]] = []
        self._signals: list[Signal] = []
        self._seen_signal = 0
        self._outcomes: dict[Location, ChildOutcome] = {}
        self._events: dict[int, IncomingEvent] = {}  # by number, which is the order of delivery
        self._seen_event = 0
        self._shared_events: set[int] = set()  # a wait has it, and others that it was delivered to may come

    def receive(self, inbox: Inbox) -> None:
        """What reached the run from outside; what is known already is passed over."""
        for signal in inbox.signals:
            if signal.number > self._seen_signal:
                self._seen_signal = signal.number
                self._signals.append(signal)
        for outcome in inbox.children:
            self._outcomes[outcome.location] = outcome
        for event in inbox.events:
            # One that is here still may be for another wait now.
            if event.number > self._seen_event or event.number in self._events:
                self._seen_event = max(self._seen_event, event.number)
                self._events[event.number] = event

    @property
    def mail(self) -> Inbox:
        """What has come and is not taken: another turn of the same claim begins with it."""
        return Inbox(tuple(self._signals), tuple(self._outcomes.values()), tuple(self._events.values()))

    @property
    def next_deadline(self) -> Instant | None:
        """The earliest deadline among the waits, and among the limits of how long they may take."""
        due = self._next_due()
        if self.run.max_suspend is None:
            return due
        limits = [limit for armed in self._armed.values() if (limit := armed.wait.limit_at) is not None]
        return min(limits if due is None else [due, *limits], default=None)

    @property
    def has_deadlines(self) -> bool:
        """Whether there may be one."""
        return bool(self._deadlines) or self.run.max_suspend is not None

    @property
    def waits_for_time_only(self) -> bool:
        """Whether no message can wake the run: a short wait may then be sat out in memory.

        Code that looks into its mailbox is given up even so. It must see what came, also if no hint of it was heard.
        """
        return self.observations is None and all(
            armed.wait.kind in (WaitKind.TIMER, WaitKind.RETRY) for armed in self._armed.values()
        )

    @property
    def overdue(self) -> Wait | None:
        """A wait that has lasted longer than the run's `max_suspend`."""
        if self.run.max_suspend is None:
            return None
        waits = [armed.wait for armed in self._armed.values()]
        return next((wait for wait in waits if wait.limit_at is not None and wait.limit_at <= self.now), None)

    @property
    def waits(self) -> list[Wait]:
        """What the code waits for now."""
        return [armed.wait for armed in self._armed.values()]

    def is_waiting_at(self, location: Location) -> bool:
        """Whether the code waits here already."""
        return location in self._armed

    def disarm(self, location: Location | None) -> None:
        """Nobody waits here any more: something else may, before the task that did has heard of it. That is a wait of
        its own then, whether or not this one was stored.
        """
        if location is not None:
            self._armed.pop(location, None)
            self.journal.waits.pop(location, None)

    def _next_due(self) -> Instant | None:
        while self._deadlines and self._deadlines[0][2].future.done():
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _arrive_next(self) -> bool:
        return (
            (bool(self._outcomes) and self._child_next())
            or (bool(self._signals or self._events) and self._message_next())
            or (bool(self._deadlines) and self._deadline_next())
        )

    def _come_next(self) -> bool:
        """As `_arrive_next`, but that no deadline passes."""
        return (bool(self._outcomes) and self._child_next()) or (
            bool(self._signals or self._events) and self._message_next()
        )

    def _message_next(self) -> bool:
        """Hand over the signal or event that came first, of those that somebody waits for."""
        found = self._find_signal() if self._signals else None
        event = self._find_event() if self._events else None
        if found is not None and (event is None or found[1].sent_at <= event[1].published_at):
            armed, signal = found
            self._signals.remove(signal)
            armed.future.set_result(signal)
            return True
        if event is not None:
            event[0].future.set_result(event[1])
            return True
        return False

    def _find_signal(self) -> tuple[Armed, Signal] | None:
        for armed in self._armed.values():
            if armed.wait.kind is not WaitKind.SIGNAL or armed.future.done():
                continue
            for signal in self._signals:
                if self._may_have(signal, armed.wait.names, armed.wait.location):
                    return armed, signal
        return None

    def _find_event(self) -> tuple[Armed, IncomingEvent] | None:
        """An event, and the next wait that it was delivered to; if none of those is left, any that asks for it.

        One at a time, like all results: the others it was delivered to get it before this turn's next commit.
        """
        waiting = [armed for armed in self._armed.values() if armed.wait.kind is WaitKind.TOPIC]
        for number, event in tuple(self._events.items()):
            asking = [
                armed
                for armed in waiting
                if not armed.future.done() and is_answered(armed.wait, event.topic, event.facets)
            ]
            meant = next((armed for armed in asking if armed.wait.location in event.locations), None)
            if meant is not None:
                return meant, event
            if number in self._shared_events:
                self._shared_events.discard(number)
                del self._events[number]
            elif asking:
                return asking[0], event
        return None

    def _may_have(self, signal: Signal, names: tuple[str, ...], at: Location) -> bool:
        is_named = not names or signal.name in names
        return is_named and (self.observations is None or self.observations.may_see(signal, at))

    @property
    def pending_signals(self) -> tuple[Signal, ...]:
        """What is in the mailbox and not taken, oldest first."""
        return tuple(self._signals)

    def take_signals(self, names: tuple[str, ...], limit: int, at: Location) -> list[Signal]:
        """Further pending signals of these names, oldest first."""
        taken = [signal for signal in self._signals if self._may_have(signal, names, at)][:limit]
        self._signals = [signal for signal in self._signals if signal not in taken]
        return taken

    def look(self, names: tuple[str, ...], at: Location) -> list[Signal]:
        """The pending signals of these names that code at a location may see; they stay where they are."""
        return [signal for signal in self._signals if signal.ask_id is None and self._may_have(signal, names, at)]

    def drop_signal(self, signal: Signal) -> None:
        """It is used, or does not fit: no longer in the mailbox, as far as this turn is concerned."""
        if signal in self._signals:
            self._signals.remove(signal)

    def received(self, event: IncomingEvent) -> None:
        """An event is recorded by a wait: only those that it was delivered to as well get it now."""
        self._shared_events.add(event.number)
        self.journal.receive_event(event.number)

    def _child_next(self) -> bool:
        for location in tuple(self._outcomes):
            armed = self._armed.get(location)
            if armed is not None and not armed.future.done():
                armed.future.set_result(self._outcomes.pop(location))
                return True
        return False

    def _deadline_next(self) -> bool:
        deadline = self._next_due()
        if deadline is None or deadline > self.now:
            return False
        _, _, armed = heapq.heappop(self._deadlines)
        armed.future.set_result(None)
        return True
