"""Signals that code has seen in its mailbox without taking them: which scope reserves them, and when they are consumed.

A look at a signal is recorded, so a replay sees the same. The look consumes nothing. The next operation that completes
work in the same scope (a step, a once, a child, a join, …) consumes every pending signal of a name that was seen there,
in the commit that records the operation.

Waiting, sleeping, receiving, the end of the scope, and a step that fails or is retried consume nothing: signals that
were only seen stay in the mailbox, move to the successor with continue-as-new, or are unread at the end of the run.
While a scope has seen a signal, no other branch sees or receives it; a wait releases that claim, and so does the end of
the scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stepwell.model.entries import Entry
from stepwell.model.locations import Location, is_below, scope_of
from stepwell.model.signals import Signal
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.headers import unpack

if TYPE_CHECKING:
    from stepwell.replay.journal import Journal
    from stepwell.replay.mailbox import Mailbox

_K = EntryKind
_COMPLETES = frozenset({_K.STEP, _K.ONCE, _K.CHILD, _K.SPAWN, _K.JOIN, _K.RACE, _K.MAP, _K.LOOP})
_WAITS = frozenset({_K.SLEEP, _K.RECEIVE, _K.RECEIVE_MANY, _K.WAIT_ANY, _K.CHILD, _K.RECORD})


class _Seen:
    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: set[str] = set()


def used_by(supplied: Entry, entries: Iterable[Entry]) -> set[int]:
    """The signals that an operator's supplied result consumes: the signals that its scope had seen."""
    seen: set[int] = set()
    scope = scope_of(supplied.location)
    if supplied.kind not in _COMPLETES:
        return seen
    for entry in entries:
        if scope_of(entry.location) == scope:
            if entry.kind is EntryKind.OBSERVE:
                seen.update(number for number, _ in unpack(entry.value)[0])
            elif entry.status is EntryStatus.DONE and entry.kind in _COMPLETES:
                seen.clear()
    return seen


class Observations:
    """The looks of one turn, by the scope that took them."""

    def __init__(self, mailbox: Mailbox, journal: Journal) -> None:
        self._mailbox = mailbox
        self._journal = journal
        self._seen: dict[Location, _Seen] = {}
        self._claims: dict[int, Location] = {}  # signal number -> the scope that has seen it

    def note(self, scope: Location, signals: dict[int, str]) -> None:
        """A scope has seen these signals, and claims the pending ones."""
        if not signals:
            return
        seen = self._seen.setdefault(scope, _Seen())
        seen.names.update(signals.values())
        pending = {signal.number for signal in self._mailbox.signals}
        self._claims.update((number, scope) for number in signals if number in pending)

    def may_see(self, signal: Signal, at: Location) -> bool:
        """Whether code at a location may see a signal: no scope claims it except the scopes around that location."""
        claimant = self._claims.get(signal.number)
        return claimant is None or is_below(at, claimant)

    def passed(self, scope: Location, entry: Entry, *, is_new: bool) -> None:
        """An operation of a scope has ended: it consumes the signals seen there, or it was a wait."""
        if entry.status is EntryStatus.DONE and entry.kind in _COMPLETES:
            seen = self._seen.pop(scope, None)
            if seen is not None and is_new:
                self._consume(
                    signal
                    for signal in self._mailbox.signals
                    if signal.name in seen.names and signal.ask_id is None and self.may_see(signal, scope)
                )
            self._claims = {number: at for number, at in self._claims.items() if at != scope}
        if entry.kind in _WAITS or entry.attempts > 1:
            self.release(scope)

    def release(self, at: Location) -> None:
        """Code at a location waits: the scopes around it release their claims."""
        if self._claims:
            self._claims = {number: scope for number, scope in self._claims.items() if not is_below(at, scope)}

    def release_all(self) -> bool:
        """Release every claim, because everything waits; whether there was one."""
        had_any = bool(self._claims)
        self._claims.clear()
        return had_any

    def left(self, scope: Location) -> None:
        """A scope has ended, lost or failed: signals that were only seen in it are not consumed."""
        self._seen = {at: seen for at, seen in self._seen.items() if not is_below(at, scope)}
        self._claims = {number: at for number, at in self._claims.items() if not is_below(at, scope)}

    def _consume(self, signals: Iterable[Signal]) -> None:
        for signal in tuple(signals):
            self._claims.pop(signal.number, None)
            self._mailbox.drop_signal(signal)
            self._journal.consume(signal.number)
