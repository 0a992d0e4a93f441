"""Signals: stored before they are acknowledged, consumed once, in order, with the result that used them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from sim.checks.shadow import Shadow
from stepwell.model.commits import Commit
from stepwell.model.runs import Run
from stepwell.model.signals import Delivered, Delivery, NewSignal, Signal
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.packing import unpack

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

    def seen(self, signals: tuple[Signal, ...]) -> None:
        """Pending signals as the store shows them; a consumed one must never come back."""
        for signal in signals:
            mark = self.numbers.setdefault(signal.number, _mark(signal.payload))
            if mark != _mark(signal.payload):
                self._checker.violate("I3", "", f"signal {signal.number} changed from {mark}")
            if signal.number in self._consumed:
                self._checker.violate("I22", "", f"signal {mark} is pending again after it was consumed")

    def delivered(self, signals: list[NewSignal], answers: list[Delivered]) -> None:
        """What became of a delivery."""
        for new, answer in zip(signals, answers, strict=True):
            if answer.delivery in (Delivery.DELIVERED, Delivery.HELD):
                mark = _mark(new.payload)
                self.stores[mark] += 1
                if new.dedup_key is not None and answer.run_id is not None:
                    key = (answer.run_id, new.name, new.dedup_key)
                    if key in self._dedup:
                        self._checker.violate("I23", answer.run_id, f"dedup key {new.dedup_key} was stored twice")
                    self._dedup.add(key)

    def consumed(self, shadow: Shadow, commit: Commit) -> None:
        """A commit consumes signals: exactly those that its entries carry."""
        carried = [mark for entry in commit.entries for mark in _marks(entry)]
        for number in commit.consumed:
            if number in self._consumed:
                self._checker.violate("I21", shadow.run_id, f"signal {self.numbers.get(number)} was consumed twice")
            self._consumed.add(number)
        if len(carried) != len(commit.consumed):
            self._checker.violate(
                "I22", shadow.run_id, f"{len(commit.consumed)} signals consumed by a commit that uses {len(carried)}"
            )
        for (name, mark), number in zip(carried, commit.consumed, strict=False):
            if shadow.run_id in self.used[mark] or len(self.used[mark]) >= self.stores[mark]:
                self._checker.violate("I21", shadow.run_id, f"signal {mark} was delivered twice")
            self.used[mark].append(shadow.run_id)
            if self.numbers.setdefault(number, mark) != mark:
                self._checker.violate("I22", shadow.run_id, f"consumed {self.numbers[number]}, and used {mark}")
            key = (shadow.run_id, name)
            if self._last.get(key, 0) > number:
                self._checker.violate("I23", shadow.run_id, f"signal {mark} ({name}) came out of order")
            self._last[key] = number

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
        expected = checker.pending_before.get(commit.run_id, set()) - set(commit.consumed)
        if expected - moved:
            checker.violate("I16", commit.run_id, f"{len(expected - moved)} signals were lost on the way")


_CONSUMERS = (EntryKind.RECEIVE, EntryKind.RECEIVE_MANY, EntryKind.WAIT_ANY)


def _marks(entry: Any) -> list[tuple[str, str]]:
    if entry.kind not in _CONSUMERS or entry.status is not EntryStatus.DONE:
        return []
    value = unpack(entry.value)[1] if entry.kind is EntryKind.WAIT_ANY else entry.value
    header, payloads = unpack(value)
    marks, at = [], 0
    if header and not isinstance(header[0], list):
        return []  # an event, or a child
    for name, _, size in header:
        marks.append((name, _mark(payloads[at : at + size])))
        at += size
    return marks


def _mark(payload: bytes) -> str:
    value = msgspec.json.decode(payload[1:])
    return value["mark"] if isinstance(value, dict) else str(value)
