"""Conditions and orders for listings of runs, as data that every store interprets in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.attributes import AttributeKind
from stepwell.model.failures import decode_failure
from stepwell.model.runs import Run
from stepwell.model.waits import Wait

Pattern = tuple[str, ...]
"""The literal pieces between stars: `("order",)` is that text, `("order", "")` is any text that begins with it."""

ASCII_LOWER = {ord(letter): ord(letter.lower()) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
"""The only case folding that every database does in the same way."""


class Field(StrEnum):
    """What a condition tests, and the text or number that its values are compared with."""

    ID = "id"
    KEY = "key"
    WORKFLOW = "workflow"
    AT = "at"  # the path of its failure
    TAG = "tag"  # "name=value" of each tag
    WAITING = "waiting"  # "kind:" of each wait, and "kind:name" for each name that it waits for
    ERROR = "error"  # "code type: message" of its failure, letters folded
    WORD = "word"  # any of id, key, workflow, title and error, letters folded
    INPUT = "input"  # the JSON text at `path` in its input, if that is stored as plain JSON
    TITLE = "title"  # letters folded
    STARTED_BY = "started_by"
    ATTRIBUTE = "attr"  # the attribute with the name `path`, as it is stored: see `AttributeTest`
    VERSION = "version"
    CREATED = "created"
    TOOK = "took"  # from its start, or else its creation, to its end


PAYLOAD_FIELDS = frozenset({Field.INPUT})
"""Fields that reveal a part of a payload. A caller who may not see payloads may not use them."""

NUMBERS = frozenset({Field.VERSION, Field.CREATED, Field.TOOK})


class Relation(StrEnum):
    """How a number is compared."""

    BELOW = "<"
    UP_TO = "<="
    IS = "="
    FROM = ">="
    ABOVE = ">"


class Condition(NamedTuple):
    """True if the field has any of the values; without values it is true of no run.

    A value is a `Pattern`; of a field in `NUMBERS`, a `Relation` and the number; of an attribute, see `AttributeTest`.
    Patterns for fields whose letters are folded are in lower case.
    """

    field: Field
    values: tuple[Pattern, ...]
    negated: bool = False
    path: str = ""  # into the input: names with dots between them; of an attribute: its name


class AttributeTest(StrEnum):
    """How an attribute is compared: the first part of each value of its condition."""

    IS = "="  # the second part is an attribute's stored value
    BELOW = "<"  # these four compare only with values of the same kind
    UP_TO = "<="
    FROM = ">="
    ABOVE = ">"
    LIKE = "~"  # a text; the other parts are a pattern for it
    ANY = "*"  # the run has this attribute; there are no other parts


def kind_bounds(value: str) -> tuple[str, str]:
    """The stored values of the same kind as this one are from the first text on, and below the second one."""
    return value[0], chr(ord(value[0]) + 1)


class SortKey(StrEnum):
    """What runs are sorted by; runs with equal values are sorted by id."""

    ID = "id"
    CREATED = "created"
    STARTED = "started"
    ENDED = "ended"
    TOOK = "took"


class Order(NamedTuple):
    """A run without the time comes before all runs that have it; in descending order, after them.

    An order by an attribute contains only runs that have it: booleans, then numbers, texts and times.
    """

    by: SortKey = SortKey.ID
    descending: bool = True
    attribute: str = ""  # its name, if the order is by an attribute; then `by` has no effect


class Placed(Protocol):
    """What decides about the place of a run in an order that is not by an attribute."""

    @property
    def run_id(self) -> RunId: ...
    @property
    def created_at(self) -> Instant: ...
    @property
    def started_at(self) -> Instant | None: ...
    @property
    def ended_at(self) -> Instant | None: ...


R = TypeVar("R", bound=Placed)


def place_of(run: Run, order: Order) -> tuple[int, str, str]:
    """The position of a run in an order."""
    if order.attribute:
        return 0, next((one.value for one in run.attributes if one.name == order.attribute), ""), run.run_id
    return _place_in_time(run, order.by)


def _place_in_time(run: Placed, by: SortKey) -> tuple[int, str, str]:
    number: int | None
    match by:
        case SortKey.ID:
            number = None
        case SortKey.CREATED:
            number = run.created_at
        case SortKey.STARTED:
            number = run.started_at
        case SortKey.ENDED:
            number = run.ended_at
        case SortKey.TOOK:
            number = _took(run)
    return -1 if number is None else number, "", run.run_id


def in_order(runs: list[Run], order: Order) -> list[Run]:
    """Sort runs."""
    return sorted(runs, key=lambda run: place_of(run, order), reverse=order.descending)


def in_time_order(runs: Iterable[R], order: Order) -> list[R]:
    """Sort runs in an order that is not by an attribute."""
    return sorted(runs, key=lambda run: _place_in_time(run, order.by), reverse=order.descending)


def meets(run: Run, waits: tuple[Wait, ...], condition: Condition) -> bool:
    """Whether a run meets a condition. The SQL of each database must agree with this."""
    if condition.field in NUMBERS:
        number = _number(run, condition.field)
        met = number is not None and any(_compare(number, *value) for value in condition.values)
    elif condition.field is Field.ATTRIBUTE:
        found = next((one.value for one in run.attributes if one.name == condition.path), None)
        met = found is not None and any(_passes(found, AttributeTest(test), rest) for test, *rest in condition.values)
    else:
        texts = [*_texts(run, waits, condition)]
        met = any(_expression(value).fullmatch(text) for value in condition.values for text in texts)
    return met is not condition.negated


@lru_cache(maxsize=512)
def _expression(pattern: Pattern) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern)), re.DOTALL)


def _compare(number: int, relation: str, other: str) -> bool:
    match Relation(relation):
        case Relation.BELOW:
            return number < int(other)
        case Relation.UP_TO:
            return number <= int(other)
        case Relation.IS:
            return number == int(other)
        case Relation.FROM:
            return number >= int(other)
        case Relation.ABOVE:
            return number > int(other)


def _passes(value: str, test: AttributeTest, rest: list[str]) -> bool:
    if test is AttributeTest.ANY:
        return True
    if test is AttributeTest.LIKE:
        return value[0] == AttributeKind.TEXT.value and _expression(tuple(rest)).fullmatch(value[1:]) is not None
    (other,) = rest
    if value[0] != other[0]:
        return False
    match test:
        case AttributeTest.IS:
            return value == other
        case AttributeTest.BELOW:
            return value < other
        case AttributeTest.UP_TO:
            return value <= other
        case AttributeTest.FROM:
            return value >= other
        case AttributeTest.ABOVE:
            return value > other


def _number(run: Run, field: Field) -> int | None:
    if field is Field.VERSION:
        return run.version
    return run.created_at if field is Field.CREATED else _took(run)


def _took(run: Placed) -> int | None:
    begun = run.created_at if run.started_at is None else run.started_at
    return None if run.ended_at is None else run.ended_at - begun


def _texts(run: Run, waits: tuple[Wait, ...], condition: Condition) -> Iterator[str]:
    match condition.field:
        case Field.ID:
            yield run.run_id
        case Field.KEY if run.key is not None:
            yield run.key
        case Field.WORKFLOW:
            yield run.workflow
        case Field.TITLE if run.title is not None:
            yield run.title.translate(ASCII_LOWER)
        case Field.STARTED_BY if run.started_by is not None:
            yield run.started_by
        case Field.TAG:
            yield from (f"{name}={value}" for name, value in run.tags)
        case Field.WAITING:
            for wait in waits:
                yield f"{wait.kind.value}:"
                yield from (f"{wait.kind.value}:{name}" for name in wait.names)
        case Field.AT | Field.ERROR:
            yield from _failure_texts(run.failure, condition.field)
        case Field.WORD:
            for text in (run.run_id, run.key or "", run.workflow, run.title or ""):
                yield text.translate(ASCII_LOWER)
            yield from _failure_texts(run.failure, Field.ERROR)
        case Field.INPUT:
            found = _at_path(run.input, condition.path.split("."))
            if found is not None:
                yield found
        case _:
            return


def _failure_texts(stored: bytes | None, field: Field) -> Iterator[str]:
    if stored is None:
        return
    try:
        failure = decode_failure(stored)
    except msgspec.DecodeError:
        return
    if field is Field.AT:
        yield failure.path
    else:
        yield f"{failure.code} {failure.type}: {failure.message}".translate(ASCII_LOWER)


def _at_path(payload: bytes, path: list[str]) -> str | None:
    """The JSON text at a path through the objects of a payload."""
    if payload[:1] != b"j":
        return None
    found = msgspec.Raw(payload[1:])
    try:
        for name in path:
            found = msgspec.json.decode(found, type=dict[str, msgspec.Raw])[name]
        return bytes(found).decode()
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError):
        return None
