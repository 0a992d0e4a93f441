"""Signals: stored before they are acknowledged, consumed once, in order, with the result that used them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from sim.checks.shadow import Shadow
from sim.coroutines import at_once
from stepwell.ids import SignalId
from stepwell.model.amendments import Amendment
from stepwell.model.commits import Commit
from stepwell.model.entries import Entry
from stepwell.model.locations import format_path
from stepwell.model.messages import ASKED_BY_RUN
from stepwell.model.runs import Run
from stepwell.model.signals import Delivered, Delivery, NewSignal, ReplyStatus, Signal
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.headers import unpack

if TYPE_CHECKING:
    from sim.checker import Checker


class Signals:
    """Every signal by the unique mark in its payload."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.numbers: dict[int, str] = {}  # mark of each number
        self.stores: Counter[str] = Counter()  # how often each mark was stored
        self.used: defaultdict[str, list[str]] = defaultdict(list)  # mark -> the runs that consumed it
        self._consumed: set[int] = set()
        self._last: dict[tuple[str, str], int] = {}  # (run, name) -> highest number consumed
        self._dedup: set[tuple[str, str, str]] = set()
        self._names: dict[int, str] = {}  # of each number
        self._looked: defaultdict[str, set[str]] = defaultdict(set)  # run -> names that it has seen something of
        self._seen_at_root: defaultdict[str, set[int]] = defaultdict(set)  # run -> numbers seen outside of any branch
        self._replied: dict[int, tuple[str, ReplyStatus]] = {}  # number -> run and status of the first answer
        self._open_again: set[int] = set()  # refused by code that failed and was retried
        self.refused: dict[int, str] = {}  # number -> run; of such as did not fit
        self._asks: dict[int, SignalId] = {}

    def seen(self, signals: tuple[Signal, ...]) -> None:
        """Pending signals as the store shows them; a consumed one must never come back."""
        for signal in signals:
            self._names[signal.number] = signal.name
            if signal.ask_id is not None:
                self._asks[signal.number] = signal.ask_id
            mark = self.numbers.setdefault(signal.number, mark_of(signal.payload))
            if mark != mark_of(signal.payload):
                self._checker.violate("I3", "", f"signal {signal.number} changed from {mark}")
            if signal.number in self._consumed or signal.number in self.refused:
                self._checker.violate("I22", "", f"signal {mark} is pending again after it was consumed")

    def delivered(self, signals: list[NewSignal], answers: list[Delivered]) -> None:
        """What became of a delivery."""
        for new, answer in zip(signals, answers, strict=True):
            if answer.delivery in (Delivery.DELIVERED, Delivery.HELD):
                mark = mark_of(new.payload)
                self.stores[mark] += 1
                if new.dedup_key is not None and answer.run_id is not None:
                    key = (answer.run_id, new.name, new.dedup_key)
                    if key in self._dedup:
                        self._checker.violate("I23", answer.run_id, f"dedup key {new.dedup_key} was stored twice")
                    self._dedup.add(key)

    def consumed(self, shadow: Shadow, commit: Commit) -> None:
        """A commit consumes signals: those that its entries carry, and such as the run has looked at."""
        carried = [mark for entry in commit.entries for mark in _marks(entry)]
        self._looks(shadow, commit)
        for refusal in commit.refused:
            if refusal.number in self._consumed or refusal.number in self.refused:
                self._checker.violate(
                    "I21", shadow.run_id, f"signal {self.numbers.get(refusal.number)} was refused late"
                )
            self.refused[refusal.number] = shadow.run_id
        for number in commit.consumed:
            if number in self._consumed:
                self._checker.violate("I21", shadow.run_id, f"signal {self.numbers.get(number)} was consumed twice")
            self._consumed.add(number)
        self._used_by_work(shadow, commit)
        marks = {mark for _, mark in carried}
        received = [number for number in commit.consumed if self.numbers.get(number) in marks]
        if len(carried) != len(received):
            self._checker.violate(
                "I22", shadow.run_id, f"{len(received)} signals consumed by a commit that uses {len(carried)}"
            )
        for number in commit.consumed:
            if number not in received:
                self._used_by_look(shadow, number)
        if len(commit.consumed) > len(received) and not any(_is_work(entry) for entry in commit.entries):
            self._checker.violate("I22", shadow.run_id, "signals that were only looked at are consumed")
        self._answers(shadow, commit)
        for (name, mark), number in zip(carried, received, strict=False):
            if shadow.run_id in self.used[mark] or len(self.used[mark]) >= self.stores[mark]:
                self._checker.violate("I21", shadow.run_id, f"signal {mark} was delivered twice")
            self.used[mark].append(shadow.run_id)
            if self.numbers.setdefault(number, mark) != mark:
                self._checker.violate("I22", shadow.run_id, f"consumed {self.numbers[number]}, and used {mark}")
            key = (shadow.run_id, name)
            if self._last.get(key, 0) > number:
                self._checker.violate("I23", shadow.run_id, f"signal {mark} ({name}) came out of order")
            self._last[key] = number

    def _looks(self, shadow: Shadow, commit: Commit) -> None:
        """What the code saw was there to be seen."""
        for entry in commit.entries:
            if entry.kind is not EntryKind.OBSERVE:
                continue
            for number, name in unpack(entry.value)[0]:
                if number in self._consumed:
                    self._checker.violate("I22", shadow.run_id, f"signal {self.numbers.get(number)} was seen when gone")
                self._looked[shadow.run_id].add(name)

    def _used_by_work(self, shadow: Shadow, commit: Commit) -> None:
        """What the code itself has seen is used by the work that it completes next. A step may be a transactional one,
        which uses nothing.
        """
        seen = self._seen_at_root[shadow.run_id]
        names = (*shadow.names,)
        for entry in commit.entries:
            if "/" in format_path(entry.location, names):
                continue
            if entry.kind is EntryKind.OBSERVE:
                seen.update(number for number, _ in unpack(entry.value)[0])
            elif _is_work(entry):
                if entry.kind is EntryKind.ONCE and seen - self._consumed:
                    self._checker.violate("I22", shadow.run_id, "it has seen signals, and completed work without them")
                seen.clear()

    def used_by_repair(self, shadow: Shadow, amendment: Amendment) -> None:
        """A supplied result has used what its scope had seen."""
        self._seen_at_root[shadow.run_id].clear()
        for number in amendment.consumed:
            if number in self._consumed:
                self._checker.violate("I21", shadow.run_id, f"signal {self.numbers.get(number)} was consumed twice")
            self._consumed.add(number)
            self._used_by_look(shadow, number)

    def _used_by_look(self, shadow: Shadow, number: int) -> None:
        mark = self.numbers.get(number, "")
        if self._names.get(number) not in self._looked[shadow.run_id]:
            self._checker.violate("I22", shadow.run_id, f"signal {mark} was consumed, and nobody has looked at it")
        self.used[mark].append(shadow.run_id)

    def _answers(self, shadow: Shadow, commit: Commit) -> None:
        """A question is answered once, by the run that has read it, in the commit that records the answer."""
        recorded = sum(entry.kind is EntryKind.REPLY for entry in commit.entries)
        # A branch that failed or lost refuses what it has not answered, and records nothing any more.
        given = sum(reply.status is ReplyStatus.GIVEN for reply in commit.replies)
        is_even = given <= recorded <= len(commit.replies)
        if not is_even or not all(self._is_given(reply.number) for reply in commit.replies):
            self._checker.violate("I21", shadow.run_id, f"{recorded} answers were recorded, and not all were given")
        for reply in commit.replies:
            is_read = reply.number in self._consumed or reply.number in self.refused
            is_again = reply.number in self._replied
            if not is_read or (is_again and reply.number not in self._open_again):
                self._checker.violate("I21", shadow.run_id, f"question {reply.number} was answered out of turn")
            self._open_again.discard(reply.number)
            _, first = self._replied.setdefault(reply.number, (shadow.run_id, reply.status))
            if is_again and self._status_of_reply(reply.number) is not first:
                self._checker.violate("I21", shadow.run_id, f"the first answer to question {reply.number} was replaced")

    def retried(self, run_id: str) -> None:
        """What the run refused because its code failed, the code may answer now. The sender keeps the refusal."""
        self._open_again |= {
            number
            for number, (by, status) in self._replied.items()
            if by == run_id and status is ReplyStatus.REFUSED and number in self._consumed
        }

    def is_asked_by_run(self, number: int) -> bool:
        """Whether a run, and not a client, has asked this question."""
        return self._asks.get(number, "").startswith(ASKED_BY_RUN)

    def _is_given(self, number: int) -> bool:
        return self._status_of_reply(number) is not None

    def _status_of_reply(self, number: int) -> ReplyStatus | None:
        question = at_once(self._checker.inspector.views.find_question(self._asks[number]))
        return None if question is None or question.reply is None else question.reply.status

    def continued(self, commit: Commit, following: Run) -> None:
        """Everything unread moves along a chain, in the same transaction."""
        checker = self._checker
        if following.successor is None or following.successor not in checker.rows_now:
            checker.violate("I16", commit.run_id, "continued, and there is no successor")
            return
        left = checker.pending(commit.run_id)
        if left:
            checker.violate("I16", commit.run_id, f"{len(left)} signals stayed behind")
        moved = {signal.number for signal in checker.pending(following.successor)}
        refused = {refusal.number for refusal in commit.refused}
        expected = checker.pending_before.get(commit.run_id, set()) - set(commit.consumed) - refused
        if expected - moved:
            checker.violate("I16", commit.run_id, f"{len(expected - moved)} signals were lost on the way")


_WORK = (
    EntryKind.STEP,
    EntryKind.ONCE,
    EntryKind.CHILD,
    EntryKind.SPAWN,
    EntryKind.JOIN,
    EntryKind.RACE,
    EntryKind.MAP,
    EntryKind.LOOP,
)


def _is_work(entry: Entry) -> bool:
    return entry.kind in _WORK and entry.status is EntryStatus.DONE


_CONSUMERS = (EntryKind.RECEIVE, EntryKind.RECEIVE_MANY, EntryKind.WAIT_ANY, EntryKind.RECORD)


def _marks(entry: Any) -> list[tuple[str, str]]:
    if entry.kind not in _CONSUMERS or entry.status is not EntryStatus.DONE:
        return []
    value = unpack(entry.value)[1] if entry.kind is EntryKind.WAIT_ANY else entry.value
    header, payloads = unpack(value)
    marks, at = [], 0
    if header and not isinstance(header[0], list):
        return []  # an event, or a child
    for name, _, *_, size in header:
        marks.append((name, mark_of(payloads[at : at + size])))
        at += size
    return marks


def mark_of(payload: bytes) -> str:
    """The mark in the payload of a signal. What tells an asking run where its question is has none."""
    value = msgspec.json.decode(payload[1:])
    if not isinstance(value, dict):
        return str(value)
    return str(value.get("mark") or value.get("run_id") or value["reason"])
