"""What code has seen of its mailbox without taking it: who has a claim on it, and when it counts as used.

A look at a signal is recorded, so a replay sees the same. It consumes nothing. What was looked at is consumed by the
next operation that completes work in the same scope (a step, a once, a child, a join, …): every pending signal of a
name that was seen there, in the commit that records the operation.

Waiting, sleeping, receiving, the end of the scope, and a step that fails or is to be tried again consume nothing: what
was only looked at stays in the mailbox, moves along with continue-as-new, or is unread at the end of the run. While a
scope has seen a signal, no other branch sees or receives it; a wait gives that claim up, and so does the end.
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
_WAITS = frozenset({_K.SLEEP, _K.RECEIVE, _K.RECEIVE_MANY, _K.WAIT_ANY, _K.CHILD})


class _Seen:
    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: set[str] = set()


def used_by(supplied: Entry, entries: Iterable[Entry]) -> set[int]:
    """The signals that its scope had seen, and that a result which people supply counts as having used."""
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
        """A scope has seen these signals; it has a claim on those that are still pending."""
        if not signals:
            return
        seen = self._seen.setdefault(scope, _Seen())
        seen.names.update(signals.values())
        pending = {signal.number for signal in self._mailbox.signals}
        self._claims.update((number, scope) for number in signals if number in pending)

    def may_see(self, signal: Signal, at: Location) -> bool:
        """Whether code at a location may have a signal: nobody has a claim on it but the scopes that it stands in."""
        claimant = self._claims.get(signal.number)
        return claimant is None or is_below(at, claimant)

    def passed(self, scope: Location, entry: Entry, *, is_new: bool) -> None:
        """An operation of a scope has ended: it may have used what was seen, or have waited."""
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
        """Code at a location waits: the scopes that it stands in give up their claims."""
        if self._claims:
            self._claims = {number: scope for number, scope in self._claims.items() if not is_below(at, scope)}

    def release_all(self) -> bool:
        """Everything waits; whether anybody had a claim."""
        had_any = bool(self._claims)
        self._claims.clear()
        return had_any

    def left(self, scope: Location) -> None:
        """A scope has ended, lost or failed: what was only looked at in it is not used."""
        self._seen = {at: seen for at, seen in self._seen.items() if not is_below(at, scope)}
        self._claims = {number: at for number, at in self._claims.items() if not is_below(at, scope)}

    def _consume(self, signals: Iterable[Signal]) -> None:
        for signal in tuple(signals):
            self._claims.pop(signal.number, None)
            self._mailbox.drop_signal(signal)
            self._journal.consume(signal.number)
