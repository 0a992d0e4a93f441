"""Events out (I26): owed if and only if committed, received at least once, in the order of each run, with one id."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from sim.checks.shadow import Shadow
from sim.coroutines import at_once
from sim.sinks import ALL, sinks_of
from stepwell.clock import Instant
from stepwell.model.commits import Commit
from stepwell.model.entries import Entry
from stepwell.model.messages import MESSAGES, TO_RUNS
from stepwell.model.outbox import ANNOUNCED, ended_event_id
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, EntryKind, EntryStatus
from stepwell.replay.headers import unpack
from stepwell.sinks.base import EmittedEvent

if TYPE_CHECKING:
    from sim.checker import Checker

METHODS = frozenset({"take", "settle", "replay", "drop"})
Rows = dict[str, Run]
Queue = tuple[str, str]  # run and sink


class Outbox:
    """What was committed, who has it, and what was received."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.is_on = False  # whether there are sinks
        self._owed: defaultdict[Queue, list[str]] = defaultdict(list)  # event ids, in the order of their commits
        self._received: Counter[tuple[str, str]] = Counter()  # sink and event id
        self._given_up: set[tuple[str, str]] = set()
        self._numbers: dict[int, tuple[str, str]] = {}  # sink and event id
        self._holders: dict[Queue, str] = {}

    # --- commits ---

    def committed(self, shadow: Shadow, commit: Commit) -> None:
        """The events of a commit are those of its entries."""
        for emit in commit.emits:
            if emit.name.startswith(MESSAGES):
                self._owe(shadow, TO_RUNS, emit.event_id)
        emits = self._checker.run_messages.committed(shadow, commit)
        expected: Counter[str] = Counter()
        for entry in commit.entries:
            path = shadow.path(entry.location)
            expected[path] += self._count(entry, path)
        found = Counter(emit.path for emit in emits)
        if +expected != found:
            text = f"a commit carries the events of {dict(found)}, its entries those of {dict(+expected)}"
            self._checker.violate("I26", shadow.run_id, text)
        ids = [emit.event_id for emit in emits]
        for entry in commit.entries:
            if entry.kind is EntryKind.EMIT and unpack(entry.value)[0][1] not in ids:
                path = shadow.path(entry.location)
                self._checker.violate("I26", shadow.run_id, f"{path} was told another id than its event has")
        for emit in emits:
            sinks = sinks_of(emit.name) if self.is_on else ()
            if emit.sinks != sinks:
                self._checker.violate("I26", shadow.run_id, f"{emit.name} goes to {emit.sinks} instead of {sinks}")
            for sink in sinks:
                self._owe(shadow, sink, emit.event_id)

    def _count(self, entry: Entry, path: str) -> int:
        if entry.status is not EntryStatus.DONE:
            return 0
        node = self._checker.node_at(path.removesuffix("~undo"))
        match entry.kind:
            case EntryKind.EMIT:
                return 1
            case EntryKind.STEP:
                return int(node.get("events", 0)) + bool(node.get("emits"))
            case EntryKind.UNDO:
                return int(
                    bool(node.get("events")) and node["kind"] == "undoable" and node.get("undo_form") != "lambda"
                )
            case _:
                return 0

    def _owe(self, shadow: Shadow, sink: str, event_id: str) -> None:
        queue = self._owed[shadow.run_id, sink]
        # A retried race begins anew, with the branches that had lost.
        if event_id in queue and not shadow.retries:
            self._checker.violate("I26", shadow.run_id, f"event {event_id} was committed twice")
        queue.append(event_id)
        self._checker.stats["events owed"] += 1

    def ended(self, before: Rows, after: Rows) -> None:
        """Whatever has ended, and is not continued, owes one event more."""
        if not self.is_on:
            return
        for row in after.values():
            was = before.get(row.run_id)
            if row.status in ANNOUNCED and (was is None or was.status not in TERMINAL):
                event_id = ended_event_id(row.run_id, row.created_at, row.epoch)
                self._owe(self._checker.shadow(row.run_id), ALL, event_id)

    # --- the store ---

    def after(self, method: str, args: tuple[Any, ...], answer: Any, now: Instant) -> None:
        """A transition of the outbox."""
        match method:
            case "take":
                for batch in answer:
                    self._taken(args[0], batch, now)
            case "settle":
                for settled, counts in zip(args[1], answer, strict=True):
                    if counts:
                        self._settled(settled)
            case _:
                pass

    def _taken(self, incarnation: str, batch: Any, now: Instant) -> None:
        queue = (batch[0].run_id, batch[0].sink)
        holder = self._holders.get(queue)
        if holder is not None and holder != incarnation and self._checker.leases.get(holder, 0) > now:
            text = f"its events for {queue[1]} are with {holder} and {incarnation} at once"
            self._checker.violate("I26", queue[0], text)
        self._holders[queue] = incarnation
        for owed in batch:
            self._numbers[owed.number] = (owed.sink, owed.event_id)
            if owed.event_id not in self._owed[queue]:
                self._checker.violate("I26", queue[0], f"{owed.event_id} is handed out, and was never committed")

    def _settled(self, settled: Any) -> None:
        self._holders = {
            queue: holder
            for queue, holder in self._holders.items()
            if self._numbers[settled.first][1] not in self._owed[queue] or queue[1] != self._numbers[settled.first][0]
        }
        for number in settled.sent:
            sink, event_id = self._numbers[number]
            if self._checker.run_messages.is_cancel(event_id):
                self._received[sink, event_id] += 1
            elif not self._received[sink, event_id]:
                self._checker.violate("I26", "", f"{event_id} counts as sent, and {sink} has not received it")
        if settled.unsent is not None and settled.unsent.retry_in is None:
            self._given_up.add(self._numbers[settled.unsent.number])

    # --- the receivers ---

    def received(self, sink: str, event: EmittedEvent) -> None:
        """A receiver got an event."""
        self._arrived(event.run_id, sink, event.id)

    def delivered(self, message_ids: list[str]) -> None:
        """Messages between runs have reached the store."""
        for message_id in message_ids:
            sender, _ = self._checker.run_messages.sent[message_id]
            self._arrived(sender, TO_RUNS, message_id)

    def _arrived(self, run_id: str, sink: str, event_id: str) -> None:
        queue = self._owed[run_id, sink]
        if event_id not in queue:
            self._checker.violate("I26", run_id, f"{sink} received {event_id}, never committed")
            return
        if not self._received[sink, event_id]:
            early = [e for e in queue[: queue.index(event_id)] if not self._is_past(sink, e)]
            if early and (sink, event_id) not in self._given_up:
                text = f"{sink} received {event_id} before {early[0]}, which was emitted earlier"
                self._checker.violate("I26", run_id, text)
        self._received[sink, event_id] += 1

    def _is_past(self, sink: str, event_id: str) -> bool:
        is_unseen = self._checker.run_messages.is_cancel(event_id)  # until its sender has settled it
        return is_unseen or bool(self._received[sink, event_id]) or (sink, event_id) in self._given_up

    # --- the end ---

    def finish(self) -> None:
        """Everything that was committed was received, and nothing is left."""
        for (run_id, sink), queue in self._owed.items():
            lost = [event_id for event_id in queue if not self._received[sink, event_id]]
            if sink == TO_RUNS:  # to a run that has ended, or never was; operators drop it in the end
                lost = [event_id for event_id in lost if (sink, event_id) not in self._given_up]
            if lost:
                self._checker.violate("I26", run_id, f"{sink} never received {lost[0]}")
        for is_dead in (False, True):
            left = at_once(self._checker.inspector.outbox.list_owed(is_dead=is_dead, limit=1))
            if left:
                self._checker.violate("I26", left[0].run_id, f"{left[0].event_id} is still in the outbox")
        repeated = sum(count - 1 for count in self._received.values())
        self._checker.stats["events repeated"] += repeated
