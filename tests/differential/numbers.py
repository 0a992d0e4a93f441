"""Numbers that stores assign to signals, events, events in inboxes, open waits, rows of the outbox and records.

A store promises only their order: it may leave gaps. So everything here uses *ranks*, which count the
numbers that a store has ever shown: 1 is the smallest. Answers of a store are compared by ranks. Requests
are written with ranks, which are replaced by the store's own numbers at the last moment.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from stepwell.model.amendments import Amendment
from stepwell.model.commits import Commit
from stepwell.model.events import IncomingEvent
from stepwell.model.outbox import Owed, Settled, Unsent
from stepwell.model.records import Record
from stepwell.model.runs import Inbox
from stepwell.model.signals import Redelivery, Refusal, Reply, Signal
from stepwell.model.workers import Renewed
from stepwell.stores.base.packed_items import (
    OpenWait,
    PackedEvent,
    PackedReceipt,
    PackedRecordEvent,
    PackedSignal,
)
from stepwell.stores.base.views import Detail

Kind = Literal["signal", "event", "outbox", "publication", "wait", "record"]
Change = Callable[[Kind, int], int]

_NUMBERS: dict[type, dict[str, Kind]] = {
    Signal: {"number": "signal"},
    Reply: {"number": "signal"},
    Refusal: {"number": "signal"},
    Redelivery: {"number": "signal"},
    Commit: {"consumed": "signal", "received": "event"},
    Amendment: {"consumed": "signal"},
    IncomingEvent: {"number": "event"},
    Owed: {"number": "outbox"},
    Settled: {"first": "outbox", "sent": "outbox"},
    Unsent: {"number": "outbox"},
    PackedSignal: {"number": "signal"},
    PackedReceipt: {"number": "event"},
    PackedEvent: {"number": "publication"},
    OpenWait: {"number": "wait"},
    Record: {"number": "record"},
    PackedRecordEvent: {"record": "record"},
}
_UNORDERED: dict[type, frozenset[str]] = {
    Inbox: frozenset({"children"}),
    Detail: frozenset({"children"}),
    Renewed: frozenset({"cancelling", "held"}),
}
_WITHOUT: set[type] = set()  # classes known to contain no numbers: a snapshot has many instances of them
_NEVER_GIVEN = 1_000_000  # far above all numbers that a store assigns in a few hundred operations


class Ranks:
    """The numbers of one kind that one store has shown."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._ranks: dict[int, int] = {}

    def see(self, numbers: Iterable[int]) -> None:
        """Note that the store shows these numbers."""
        fresh = sorted({number for number in numbers if number not in self._ranks})
        if not fresh:
            return
        if self._numbers and fresh[0] < self._numbers[-1]:
            self._numbers = sorted([*self._numbers, *fresh])
        else:
            self._numbers += fresh
        self._ranks = {number: rank for rank, number in enumerate(self._numbers, 1)}

    @property
    def is_plain(self) -> bool:
        """Whether every number is its own rank."""
        return not self._numbers or self._numbers[-1] == len(self._numbers)

    def rank(self, number: int) -> int:
        """The rank of a number that was shown."""
        return self._ranks[number] if number else 0

    def number(self, rank: int) -> int:
        """The number of a rank; an unused number if the rank does not exist. 0 is before the first one."""
        if rank <= len(self._numbers):
            return self._numbers[rank - 1] if rank else 0
        return _NEVER_GIVEN + rank


class Numbers:
    """The numbers of one store."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, Ranks] = {kind: Ranks() for kind in get_args(Kind)}

    def see(self, value: Any) -> None:
        """Note every number in an answer of the store."""
        found: dict[Kind, list[int]] = {kind: [] for kind in get_args(Kind)}
        _collect((value,), found)
        for kind, numbers in found.items():
            if numbers:
                self._kinds[kind].see(numbers)

    @property
    def is_plain(self) -> bool:
        """Whether this store has left no gap so far, so that ranks and numbers are the same."""
        return all(ranks.is_plain for ranks in self._kinds.values())

    def to_ranks(self, value: Any) -> Any:
        """An answer of the store, with ranks for numbers, and sorted where no order is promised."""
        return _rewrite(value, lambda kind, number: self._kinds[kind].rank(number))

    def to_own(self, value: Any) -> Any:
        """A request to the store, with its own numbers for ranks."""
        return _rewrite(value, lambda kind, rank: self._kinds[kind].number(rank))

    def own(self, kind: Kind, rank: int) -> int:
        """The store's own number for one rank."""
        return self._kinds[kind].number(rank)


def _collect(values: Iterable[Any], found: dict[Kind, list[int]]) -> None:
    for value in values:
        cls: Any = type(value)
        if cls in _WITHOUT:
            continue
        if cls is dict:
            _collect(value.values(), found)
        elif cls is list or cls is tuple:
            _collect(value, found)
        elif not (plan := _plan(cls)):
            _WITHOUT.add(cls)
        else:
            for index, _, kind in plan:
                if kind is None:
                    _collect((value[index],), found)
                else:
                    found[kind] += (value[index],) if isinstance(value[index], int) else value[index]


def _rewrite(value: Any, change: Change) -> Any:
    cls: Any = type(value)
    if cls is dict:
        return {name: _rewrite(one, change) for name, one in value.items()}
    if cls is list or cls is tuple:
        return cls(_rewrite(one, change) for one in value)
    parts = {name: _rewrite_part(value[index], kind, change) for index, name, kind in _plan(cls)}
    for name in _UNORDERED.get(cls, ()):
        parts[name] = tuple(sorted(parts.get(name, getattr(value, name))))
    return value._replace(**parts) if parts else value


def _rewrite_part(part: Any, kind: Kind | None, change: Change) -> Any:
    if kind is None:
        return _rewrite(part, change)
    return change(kind, part) if isinstance(part, int) else tuple(change(kind, number) for number in part)


@cache
def _plan(cls: Any) -> tuple[tuple[int, str, Kind | None], ...]:
    """Which fields of a class are numbers, and which may contain some (with None for the kind)."""
    names: tuple[str, ...] = getattr(cls, "_fields", ())
    if not names:
        return ()
    own, hints = _NUMBERS.get(cls, {}), get_type_hints(cls)
    return tuple(
        (index, name, own.get(name))
        for index, name in enumerate(names)
        if name in own or _may_hold_numbers(hints[name])
    )


def _may_hold_numbers(hint: Any) -> bool:
    if get_origin(hint) in (tuple, list, dict, Union, types.UnionType):
        return any(_may_hold_numbers(one) for one in get_args(hint))
    return isinstance(hint, type) and bool(_plan(hint))
