"""Messages between runs: sent if and only if they are recorded, effective once, in order, and runs that code starts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sim.checks.shadow import Shadow
from sim.checks.signals import mark_of
from stepwell.clock import SECOND
from stepwell.model.commits import Commit
from stepwell.model.events import NewEvent
from stepwell.model.messages import ASKED_BY_RUN, MESSAGES, CancelMessage, SignalMessage, decode_message
from stepwell.model.outbox import Emit
from stepwell.model.runs import Run
from stepwell.model.signals import Delivered, Delivery, NewSignal
from stepwell.model.states import EntryKind, EntryStatus, RunStatus
from stepwell.replay.headers import unpack

if TYPE_CHECKING:
    from sim.checker import Checker

_SENT = (EntryKind.SIGNAL, EntryKind.CANCEL, EntryKind.PUBLISH)
_TIME_TO_ARRIVE = 20 * SECOND  # before a run that nobody else can end is let go


class RunMessages:
    """What runs have sent to others, and what became of it."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.sent: dict[str, tuple[str, Any]] = {}  # message id -> the sender, and the message
        self.cancels: dict[str, int] = {}  # run -> when its cancel was recorded
        self.started: dict[str, str] = {}  # run -> who started it
        self._stores: Counter[str] = Counter()  # how often a message had an effect

    # --- commits ---

    def committed(self, shadow: Shadow, commit: Commit) -> list[Emit]:
        """The messages of a commit are those of its entries, its questions and its answers; the rest are events."""
        checker, run_id = self._checker, shadow.run_id
        messages = [emit for emit in commit.emits if emit.name.startswith(MESSAGES)]
        recorded = Counter(
            shadow.path(entry.location)
            for entry in commit.entries
            if entry.kind in _SENT and entry.status is EntryStatus.DONE
        )
        asked = {emit.event_id.removeprefix(ASKED_BY_RUN) for emit in messages if _is_question(emit)}
        answers = [emit for emit in messages if not emit.path and not _is_question(emit)]
        found = Counter(emit.path for emit in messages if emit.path and not _is_question(emit))
        if found != recorded:
            checker.violate("I26", run_id, f"a commit sends {dict(found)}, and records {dict(recorded)}")
        if asked - {child.run_id for child in commit.children}:
            checker.violate("I26", run_id, "a question is sent, and nobody waits for its answer")
        owed = [reply for reply in commit.replies if checker.signals.is_asked_by_run(reply.number)]
        if len(owed) != len(answers):
            checker.violate("I26", run_id, f"{len(owed)} runs are answered, and {len(answers)} are told")
        for emit in messages:
            self._note(run_id, emit)
        for entry in commit.entries:
            if entry.kind is EntryKind.START:
                (started,), _ = unpack(entry.value)
                self.started[started] = run_id
                checker.stats["runs started by runs"] += 1
        return [emit for emit in commit.emits if not emit.name.startswith(MESSAGES)]

    def _note(self, run_id: str, emit: Emit) -> None:
        message: Any = decode_message(emit.payload)
        self.sent[emit.event_id] = (run_id, message)
        self._checker.stats["messages between runs"] += 1
        if isinstance(message, CancelMessage):
            self.cancels.setdefault(message.target, emit.at)

    def is_cancel(self, message_id: str) -> bool:
        """Whether a message is the cancel of another run: its effect has no id."""
        return message_id in self.sent and isinstance(self.sent[message_id][1], CancelMessage)

    # --- deliveries ---

    def delivered(self, signals: list[NewSignal], answers: list[Delivered]) -> list[str]:
        """The ids of the messages among signals that were delivered."""
        for new, answer in zip(signals, answers, strict=True):
            known = self.sent.get(new.signal_id)
            if known is None:
                self._check_own(new)
                continue
            sender, message = known
            if answer.delivery in (Delivery.DELIVERED, Delivery.HELD):
                self._had_effect(sender, new.signal_id)
            is_same = isinstance(message, SignalMessage) and (message.target, message.name, message.payload) == (
                new.target,
                new.name,
                new.payload,
            )
            if not is_same:
                self._checker.violate("I3", sender, f"message {new.signal_id} is not what was committed")
        return [new.signal_id for new in signals if new.signal_id in self.sent]

    def _check_own(self, new: NewSignal) -> None:
        """A signal from outside carries no mark of a run."""
        mark = mark_in(new.payload)
        if mark is not None and mark in self._checker.marks_of_runs():
            self._checker.violate("I26", "", f"signal {mark} of a run is delivered as {new.signal_id}, never committed")

    def published(self, events: list[NewEvent], are_new: list[bool]) -> list[str]:
        """The ids of the messages among events that were published."""
        for new, is_new in zip(events, are_new, strict=True):
            if new.event_id in self.sent:
                if is_new:
                    self._had_effect(self.sent[new.event_id][0], new.event_id)
            elif (mark := mark_in(new.payload)) is not None and mark in self._checker.marks_of_runs():
                self._checker.violate("I26", "", f"event {mark} of a run is published as {new.event_id}")
        return [new.event_id for new in events if new.event_id in self.sent]

    def _had_effect(self, sender: str, message_id: str) -> None:
        self._stores[message_id] += 1
        if self._stores[message_id] > 1 and not self._checker.shadow(sender).retries:
            self._checker.violate("I26", sender, f"message {message_id} had its effect twice")

    # --- the end ---

    def may_be_cancelled(self, run_id: str) -> bool:
        """Whether another run has cancelled it, or a run before it in its chain."""
        rows, at = self._checker.rows_now, run_id
        while at not in self.cancels:
            previous = rows[at].previous
            if previous is None:
                return False
            at = previous.run_id
        return True

    def end(self) -> None:
        """Runs that code has started are there, and no others; what was cancelled was cancelled in time."""
        rows, checker = self._checker.rows_now, self._checker
        for run_id, sender in self.started.items():
            if run_id not in rows:
                checker.violate("I31", sender, f"it has started {run_id}, and there is no such run")
            elif rows[run_id].parent is not None:
                checker.violate("I31", sender, f"{run_id} is a child, although it was only started")
        for run_id, row in rows.items():
            is_own = row.workflow == "helper" and row.parent is None and row.generation == 1
            if is_own and run_id not in self.started:
                checker.violate("I31", run_id, "nobody has recorded that it was started")
        for run_id, at in self.cancels.items():
            self._check_cancelled(rows.get(run_id), at)

    def _check_cancelled(self, row: Run | None, at: int) -> None:
        if row is None or row.status is RunStatus.CANCELLED or row.ended_at is None:
            return
        if row.ended_at > at + _TIME_TO_ARRIVE:
            self._checker.violate("I13", row.run_id, f"another run has cancelled it, and it is {row.status}")


def mark_in(payload: bytes) -> str | None:
    """The mark in a payload; None if it has none."""
    try:
        return mark_of(payload)
    except (ValueError, KeyError):
        return None


def _is_question(emit: Emit) -> bool:
    return emit.event_id.startswith(ASKED_BY_RUN)
