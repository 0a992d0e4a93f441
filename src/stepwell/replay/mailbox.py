"""What reached a run from outside and is not taken yet: signals, events, and outcomes of children."""

from __future__ import annotations

from stepwell.model.events import IncomingEvent, is_answered
from stepwell.model.locations import Location
from stepwell.model.runs import ChildOutcome, Inbox
from stepwell.model.signals import Signal, is_accepted
from stepwell.model.states import WaitKind
from stepwell.replay.observations import Observations
from stepwell.replay.waits import Armed, Waits


class Mailbox:
    """The messages of a turn, handed to its waits one at a time."""

    __slots__ = ("_seen_event", "_seen_signal", "_shared_events", "events", "observations", "outcomes", "signals")

    def __init__(self, inbox: Inbox) -> None:
        self.signals: list[Signal] = []  # oldest first
        self.events: dict[int, IncomingEvent] = {}  # by number, which is the order of delivery
        self.outcomes: dict[Location, ChildOutcome] = {}
        self.observations: Observations | None = None  # from the first time the code looks at its signals
        self._seen_signal = 0
        self._seen_event = 0
        self._shared_events: set[int] = set()  # received by one wait, and delivered to others too
        self.receive(inbox)

    def receive(self, inbox: Inbox) -> None:
        """Add messages that reached the run; known messages are skipped."""
        for signal in inbox.signals:
            if signal.number > self._seen_signal:
                self._seen_signal = signal.number
                self.signals.append(signal)
        for outcome in inbox.children:
            self.outcomes[outcome.location] = outcome
        for event in inbox.events:
            # A known event that is not taken yet may be for another wait now.
            if event.number > self._seen_event or event.number in self.events:
                self._seen_event = max(self._seen_event, event.number)
                self.events[event.number] = event

    @property
    def seen(self) -> int:
        """The greatest number of a signal that has arrived."""
        return self._seen_signal

    @property
    def inbox(self) -> Inbox:
        """The messages that are not taken; another turn of the same claim begins with them."""
        untaken = [event for number, event in self.events.items() if number not in self._shared_events]
        return Inbox(tuple(self.signals), tuple(self.outcomes.values()), tuple(untaken))

    # --- taking signals ---

    def take_signals(self, names: tuple[str, ...], limit: int, at: Location) -> list[Signal]:
        """Take further pending signals of these names, oldest first."""
        taken = self._visible(names, at)[:limit]
        self.signals = [signal for signal in self.signals if signal not in taken]
        return taken

    def look(self, names: tuple[str, ...], at: Location) -> list[Signal]:
        """The pending signals of these names that code at a location may see; they stay."""
        return [signal for signal in self._visible(names, at) if signal.ask_id is None]

    def drop_signal(self, signal: Signal) -> None:
        """Remove a signal that was used or does not fit."""
        if signal in self.signals:
            self.signals.remove(signal)

    def share(self, event: IncomingEvent) -> None:
        """A wait has recorded an event: now only the other waits that it was delivered to get it."""
        self._shared_events.add(event.number)

    def _visible(self, names: tuple[str, ...], at: Location) -> list[Signal]:
        return [signal for signal in self.signals if self._is_visible(signal, names, at)]

    def _is_visible(self, signal: Signal, names: tuple[str, ...], at: Location) -> bool:
        return is_accepted(signal.name, names) and (self.observations is None or self.observations.may_see(signal, at))

    # --- handing over ---

    def hand_over(self, waits: Waits) -> bool:
        """Hand the next message to its wait; whether there was one."""
        return (bool(self.outcomes) and self._hand_outcome(waits)) or (
            bool(self.signals or self.events) and self._hand_message(waits)
        )

    def _hand_outcome(self, waits: Waits) -> bool:
        for location in tuple(self.outcomes):
            armed = waits.armed.get(location)
            if armed is not None and not armed.future.done():
                armed.future.set_result(self.outcomes.pop(location))
                return True
        return False

    def _hand_message(self, waits: Waits) -> bool:
        """Hand over the oldest signal or event that satisfies a wait."""
        found = self._find_signal(waits) if self.signals else None
        event = self._find_event(waits) if self.events else None
        if found is not None and (event is None or found[1].sent_at <= event[1].published_at):
            armed, signal = found
            self.signals.remove(signal)
            armed.future.set_result(signal)
            return True
        if event is not None:
            event[0].future.set_result(event[1])
            return True
        return False

    def _find_signal(self, waits: Waits) -> tuple[Armed, Signal] | None:
        for armed in waits.armed.values():
            if armed.wait.kind is not WaitKind.SIGNAL or armed.future.done():
                continue
            for signal in self.signals:
                if self._is_visible(signal, armed.wait.names, armed.wait.location):
                    return armed, signal
        return None

    def _find_event(self, waits: Waits) -> tuple[Armed, IncomingEvent] | None:
        """An event, and the next wait that it was delivered to; if none of these is left, any wait that it satisfies.

        One at a time, like all results: the other waits get it before this turn's next commit.
        """
        waiting = [armed for armed in waits.armed.values() if armed.wait.kind is WaitKind.TOPIC]
        for number, event in tuple(self.events.items()):
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
                del self.events[number]
            elif asking:
                return asking[0], event
        return None
