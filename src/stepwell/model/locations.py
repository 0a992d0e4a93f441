"""Locations: the places of operations in a run, packed small and kept in order.

A path such as `outer/~3/charge#2` is a chain of segments: a name, the use of a repeated name (`#2`), a loop iteration
(`~3`), the undo of the operation before it (`~undo`), its beginning (`~begun`), a child that was there before a rewind
(`~was1`), and, at the beginning, the earlier run of a continue-as-new chain whose steps this run can undo (`~run1`).
Names are numbered per run (`Names`), so a thousand uses of a long name store it once. The packing is order-preserving
and prefix-free: everything below a location is one contiguous range of keys, and so is a range of loop iterations.

The number of a use stands before the name: `charge#2` must not be below `charge`, which is an operation of its own.
In records from the time when every use of a repeated name was numbered, from `charge#0` on, it stands after the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NewType

from stepwell.errors import CorruptRecordError, InvalidNameError

Location = NewType("Location", bytes)

ROOT = Location(b"")
NAME_MAX = 200

_NTH, _NAME, _ITERATION, _USE, _UNDO, _FORMER, _CARRIED, _BEGUN = 0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70
_ROLLBACK = bytes((_UNDO,))  # the undo of the root: where a rollback records its beginning; nothing is below it
_END = b"\xff"  # above every tag: closes the range of a prefix
_FORBIDDEN = frozenset("/#\x00\n\r\t")


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def why_not_text(value: Any) -> str | None:
    """Why a value is not a text that can be stored; None if it is."""
    if not isinstance(value, str):
        return f"it is a {type(value).__name__}, and must be text"
    if not _is_text(value):
        return "it has half of a surrogate pair, which no encoding of text can store"
    return None


def check_name(name: str, *, what: str = "name") -> str:
    """Reject a name that could not be read back from a path."""
    if type(name) is str and _is_name(name):
        return name
    reason = why_not_text(name)
    if reason is not None:
        raise InvalidNameError(f"{what} {name!r:.80} cannot be part of a path", why=reason, fix="give it as plain text")
    if not _is_name(name):
        raise InvalidNameError(
            f"{what} {name!r} cannot be part of a path",
            why=f"a name has 1 to {NAME_MAX} characters, does not contain / # or control characters, does not begin "
            "with ~, and neither begins nor ends with a blank",
        )
    return name


@lru_cache(maxsize=4096)  # called for every step of every run, mostly with the same names
def _is_name(name: str) -> bool:
    is_short = 0 < len(name) <= NAME_MAX
    return is_short and name[0] != "~" and _FORBIDDEN.isdisjoint(name) and name == name.strip() and _is_text(name)


_GATE = " gate"


def gate_name(name: str) -> str:
    """The name of a gate on a path. It differs from the given one, so an operation may have the same name."""
    return check_name(name, what="name of a gate") + _GATE


def shown_gate(path: str) -> str:
    """The path of a gate, as its author named it."""
    return path.removesuffix(_GATE)


def _int(tag: int, number: int) -> bytes:
    size = (number.bit_length() + 7) // 8
    return bytes((tag + size,)) + number.to_bytes(size, "big")


_SMALL_NAMES = tuple(_int(_NAME, n) for n in range(64))
_SMALL_USES = tuple(_int(_USE, n) for n in range(256))
_SMALL_NTHS = tuple(_int(_NTH, n) for n in range(256))
_FIRST_USE = _SMALL_USES[0]  # of a name whose uses count from 0


def named(scope: Location, index: int) -> Location:
    """The location of name number `index` in a scope."""
    return Location(scope + (_SMALL_NAMES[index] if index < 64 else _int(_NAME, index)))


def nth(scope: Location, name: bytes, number: int) -> Location:
    """The second or a later use of a name in a scope: `charge#2`. `name` is the location of the name below the root."""
    return scope + (_SMALL_NTHS[number] if number < 256 else _int(_NTH, number)) + name  # type: ignore[return-value]


def beside(location: Location, scope: Location, number: int) -> Location:
    """The location of another name in the same scope, with the same use if the name is repeated."""
    at, end = _name_of(location, scope)
    return Location(location[:at] + named(ROOT, number) + location[end:])


def first_name(location: Location, scope: Location) -> int:
    """The number of the name that a location has in its scope."""
    at, end = _name_of(location, scope)
    return int.from_bytes(location[at + 1 : end], "big")


def _name_of(location: Location, scope: Location) -> tuple[int, int]:
    """Where the name that a location has in its scope begins and ends."""
    at = len(scope)
    if location[at] & 0xF0 == _NTH:
        at += 1 + (location[at] & 0x0F)
    return at, at + 1 + (location[at] & 0x0F)


def use(location: Location, number: int) -> Location:
    """The n-th use of a name whose uses count from 0: `charge#0`, or of a name that belongs to another operation."""
    return Location(location + (_SMALL_USES[number] if number < 256 else _int(_USE, number)))


def numbered_use(location: Location, scope: Location, first: Location) -> Location | None:
    """The second or later use of a name that is, or holds, a location; None if none does. `first` is the first use."""
    at, name = len(scope), first[len(scope) :]
    if not location.startswith(scope) or at == len(location) or location[at] & 0xF0 != _NTH:
        return None
    at += 1 + (location[at] & 0x0F)
    return Location(location[: at + len(name)]) if location.startswith(name, at) else None


def counting_from_zero(locations: Iterable[Location]) -> frozenset[Location]:
    """The names, each in its scope, of which some location has use 0."""
    found: set[Location] = set()
    for location in locations:
        if bytes(_FIRST_USE) in bytes(location):
            found.update(Location(location[:at]) for at, _ in _segments(location) if location[at] == _USE)
    return frozenset(found)


def iteration(location: Location, number: int) -> Location:
    """The scope of a loop's n-th iteration."""
    return Location(location + _int(_ITERATION, number))


def undo(location: Location) -> Location:
    """The undo of the operation at a location."""
    return Location(location + bytes((_UNDO,)))


def begun(location: Location) -> Location:
    """The beginning of the operation at a location, recorded before it has any effect."""
    return Location(location + bytes((_BEGUN,)))


def begun_at(location: Location) -> Location:
    """The location of the operation whose beginning this is."""
    return Location(location[:-1])


def former(location: Location, number: int) -> Location:
    """The place of the n-th child of a location, from 1, after a rewind has removed its call from the history."""
    return Location(location + _int(_FORMER, number))


def is_undoing(location: Location) -> bool:
    """Whether a location is an undo, or below one."""
    return any(location[at] & 0xF0 == _UNDO for at, _ in _segments(location))


def is_within(location: Location, scope: Location) -> bool:
    """Whether a location is the scope itself, one of its uses, its undo, or below one of these.

    A child that was there before a rewind is not.
    """
    if not location.startswith(scope) or len(location) == len(scope):
        return location == scope
    return location[len(scope)] & 0xF0 != _FORMER


def is_former(location: Location) -> bool:
    """Whether it is the place of a child whose call a rewind has removed from the history."""
    return any(location[at] & 0xF0 == _FORMER for at, _ in _segments(location))


def former_number(location: Location, base: Location) -> int:
    """Which of the former children of `base` a location is; 0 if it is none of them."""
    rest = location[len(base) :]
    is_former = location.startswith(base) and rest and rest[0] & 0xF0 == _FORMER
    return int.from_bytes(rest[1:], "big") if is_former else 0


def carry(location: Location, number: int, renumber: Callable[[int], int]) -> Location:
    """The place in a run of an entry that an earlier run of its chain recorded at a location.

    It is below the number of the earlier run in the chain. `renumber` translates the numbers of names.
    """
    parts = [] if carried_from(location) else [_int(_CARRIED, number)]
    for at, end in _segments(location):
        if location[at] & 0xF0 == _NAME:
            parts.append(_int(_NAME, renumber(int.from_bytes(location[at + 1 : end], "big"))))
        else:
            parts.append(location[at:end])
    return Location(b"".join(parts))


def carried_from(location: Location) -> int:
    """The number in the chain of the run that recorded this location; 0 for this run itself."""
    if not location or location[0] & 0xF0 != _CARRIED:
        return 0
    return int.from_bytes(location[1 : 1 + (location[0] & 0x0F)], "big")


def _uncarried(location: Location) -> Location:
    """Its location in the run that recorded it."""
    return Location(location[1 + (location[0] & 0x0F) :]) if carried_from(location) else location


def prefixes(location: Location) -> Iterator[Location]:
    """The location itself and every location above it, the longest first; without the root."""
    for at, end in reversed(list(_segments(location))):
        if location[at] & 0xF0 != _NTH:
            yield Location(location[:end])


def scope_of(location: Location) -> Location:
    """The scope of an operation."""
    segments = list(_segments(location))
    at, _ = segments.pop()
    if location[at] & 0xF0 == _USE:
        at, _ = segments.pop()
    if segments and location[segments[-1][0]] & 0xF0 == _NTH:
        at, _ = segments.pop()
    return Location(location[:at])


def loops_around(location: Location) -> list[Location]:
    """The loops and maps around a location, the outermost first."""
    return [Location(location[:at]) for at, _ in _segments(location) if location[at] & 0xF0 == _ITERATION]


def _segments(location: Location) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(location):
        end = at + 1 + (location[at] & 0x0F)
        yield at, end
        at = end


def is_below(location: Location, scope: Location) -> bool:
    """Whether a location is the scope itself or below it."""
    return location.startswith(scope)


def subtree(scope: Location) -> tuple[Location, Location]:
    """The half-open range of keys of a location and everything below it."""
    return scope, Location(scope + _END)


def iterations(loop: Location, first: int, end: int) -> tuple[Location, Location]:
    """The half-open range of keys of a loop's iterations `first` to `end - 1`."""
    return iteration(loop, first), iteration(loop, end)


class Names:
    """The numbered names of one run. Numbers are given in order and never change."""

    __slots__ = ("_numbers", "_texts", "origins", "stored")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.origins: dict[int, str] = {}  # the runs whose entries were carried here, by their number in the chain
        self._texts = list(texts)
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        self.stored = len(self._texts)

    def number(self, name: str) -> int:
        """The number of a name; a new name gets the next number."""
        found = self._numbers.get(name)
        if found is None:
            check_name(name)
            found = self._numbers[name] = len(self._texts)
            self._texts.append(name)
        return found

    def find(self, name: str) -> int | None:
        """The number of a name, or None if this run has never used it."""
        return self._numbers.get(name)

    @property
    def texts(self) -> tuple[str, ...]:
        """All names, by number."""
        return tuple(self._texts)

    def take_new(self) -> tuple[str, ...]:
        """The names that no commit has carried yet; they count as carried from now on."""
        if self.stored == len(self._texts):
            return ()
        fresh = tuple(self._texts[self.stored :])
        self.stored = len(self._texts)
        return fresh

    def text(self, location: Location) -> str:
        """The path of a location, as people read it."""
        return format_path(location, self._texts)

    def key(self, location: Location) -> str:
        """The path of a location in a form that no other location has. Ids and idempotency keys are made of it.

        A name may hold ~ but not begin with it: the step `charge~undo` is not the undo of `charge`, `charge/~undo`.
        """
        return format_path(location, self._texts, is_key=True)

    def idempotency_key(self, run_id: str, location: Location) -> str:
        """The key of a body at a location: run and place. For a carried entry, those of the run that recorded it."""
        origin = self.origins.get(carried_from(location), run_id) if self.origins else run_id
        return f"{origin}:{format_path(_uncarried(location), self._texts, is_key=True)}"


def format_path(location: Location, names: list[str] | tuple[str, ...], *, is_key: bool = False) -> str:
    """Spell a packed location: `outer/~3/charge#2`. In a key, every part that is not a name is separate."""
    parts: list[str] = []
    at, use_of_next = 0, ""
    while at < len(location):
        tag, size = location[at] & 0xF0, location[at] & 0x0F
        number = int.from_bytes(location[at + 1 : at + 1 + size], "big")
        at += 1 + size
        if tag == _NAME and number < len(names):
            parts.append(names[number] + use_of_next)
            use_of_next = ""
        elif tag == _NTH and not use_of_next:
            use_of_next = f"#{number}"
        elif tag == _ITERATION:
            parts.append(f"~{number}")
        elif tag == _USE and parts:
            parts[-1] += f"#{number}"
        elif tag == _UNDO and parts and not is_key:
            parts[-1] += "~undo"
        elif tag == _UNDO and (parts or location == _ROLLBACK):
            parts.append("~undo")
        elif tag == _BEGUN and parts and not is_key:
            parts[-1] += "~begun"
        elif tag == _BEGUN and parts:
            parts.append("~begun")
        elif tag == _FORMER and parts:
            parts[-1] += f"~was{number}"
        elif tag == _CARRIED:
            parts.append(f"~run{number}")
        else:
            raise CorruptRecordError(f"location {location.hex()} cannot be read", why="unknown segment or name number")
    if use_of_next:
        raise CorruptRecordError(f"location {location.hex()} cannot be read", why="a number without its name")
    return "/".join(parts)
