"""decode(encode(x)) == x, or a typed error: for every supported type."""

from __future__ import annotations

import base64
import datetime
import decimal
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.codec.base import ANY
from stepwell.errors import UnserialisableError
from tests.unit.codec.samples import (
    CODEC,
    PLACE,
    Box,
    Cat,
    Colour,
    Dog,
    Level,
    Line,
    Movie,
    Node,
    Order,
    Pair,
    Point,
    round_trip,
)

INTS = st.integers(-(2**63), 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
AWARE = st.datetimes(timezones=st.sampled_from([datetime.UTC, datetime.timezone(datetime.timedelta(hours=-5))]))
SPANS = st.timedeltas(datetime.timedelta(days=-999_999), datetime.timedelta(days=999_999))
PLAIN = st.recursive(
    st.none() | st.booleans() | INTS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
LINES = st.builds(Line, TEXT, INTS)
ORDERS = st.builds(
    Order, st.uuids(), st.lists(LINES), DECIMALS, st.datetimes() | AWARE, st.sampled_from(Colour), st.none() | TEXT
)
NODES = st.recursive(st.builds(Node, INTS), lambda inner: st.builds(Node, INTS, st.lists(inner, max_size=3)))

TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (None, st.none()),
    (bool, st.booleans()),
    (int, INTS),
    (float, FLOATS),
    (str, TEXT),
    (bytes, st.binary()),
    (uuid.UUID, st.uuids()),
    (decimal.Decimal, DECIMALS),
    (datetime.datetime, st.datetimes() | AWARE),
    (datetime.date, st.dates()),
    (datetime.time, st.times()),
    (datetime.timedelta, SPANS),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (list[int], st.lists(INTS)),
    (tuple[int, str], st.tuples(INTS, TEXT)),
    (tuple[int, ...], st.lists(INTS).map(tuple)),
    (set[str], st.sets(TEXT)),
    (frozenset[int], st.frozensets(INTS)),
    (dict[str, float | None], st.dictionaries(TEXT, st.none() | FLOATS)),
    (dict[int, bytes], st.dictionaries(INTS, st.binary())),
    (dict[float, int], st.dictionaries(FLOATS, INTS)),
    (dict[uuid.UUID, Line], st.dictionaries(st.uuids(), LINES)),
    (dict[Colour, int], st.dictionaries(st.sampled_from(Colour), INTS)),
    (Order, ORDERS),
    (list[Order], st.lists(ORDERS, max_size=3)),
    (Box[Line], st.builds(Box, LINES, st.lists(LINES))),
    (Box[float], st.builds(Box, FLOATS)),
    (Node, NODES),
    (Point, st.builds(Point, INTS, FLOATS)),
    (Cat | Dog, st.builds(Cat, INTS) | st.builds(Dog, st.lists(TEXT))),
    (Pair, st.builds(Pair, INTS, TEXT)),
    (Movie, st.fixed_dictionaries({"title": TEXT}, optional={"year": INTS})),
    (int | str | None, st.none() | INTS | TEXT),
    (int | float | list[int], INTS | FLOATS | st.lists(INTS)),
    (Order | None, st.none() | ORDERS),
    (object, PLAIN),
    (ANY, PLAIN),
]


@pytest.mark.parametrize(("hint", "values"), TYPED, ids=[str(hint) for hint, _ in TYPED])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_supported_type_reads_back_as_an_equal_value_of_the_same_type(
    hint: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)

    back = round_trip(value, hint)

    assert back == value
    assert type(back) is type(value)
    assert CODEC.settle(value, hint, place=PLACE) == (CODEC.encode(value, hint, place=PLACE), back)


KEYS = st.text(max_size=3) | st.integers(0, 20) | st.floats() | st.uuids() | st.sampled_from(Colour) | st.none()
ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(st.characters(), max_size=5) | st.decimals() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3) | st.builds(Box, inner),
    max_leaves=8,
)


def as_json(value: Any) -> Any:
    """What JSON makes of a value without a hint, written independently of the codec."""
    if isinstance(value, Box):
        return {"content": as_json(value.content), "more": as_json(value.more)}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else f"{key_text(key)}": as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, decimal.Decimal) else value


def key_text(key: Any) -> str:
    if isinstance(key, Colour):
        return str(key.value)
    return CODEC.encode(key, place=PLACE)[1:].decode().strip('"')


@settings(max_examples=600, deadline=None)
@given(ANYTHING)
def test_whatever_is_given_either_reads_back_faithfully_or_is_refused_with_a_typed_error(value: Any) -> None:
    try:
        payload = CODEC.encode(value, place=PLACE)
    except UnserialisableError:
        return

    assert CODEC.decode(payload, ANY, place=PLACE) == as_json(value)


def test_without_a_hint_a_record_comes_back_as_plain_json() -> None:
    assert round_trip(Line("a", 1)) == {"sku": "a", "amount": 1}
    assert round_trip((1, {2})) == [1, [2]]


def test_subclasses_of_text_and_numbers_are_stored_by_their_plain_value() -> None:
    class Name(str):
        __slots__ = ()

    assert round_trip([Name("ann")]) == ["ann"]


def test_words_that_look_like_trouble_are_stored_all_the_same() -> None:
    innocent = Box({"info": "null", "nan": "NaN\\u0000", "inf": "Infinity", "digits": "1" * 30, "stars": "*" * 12})

    assert round_trip(innocent, Box[dict[str, str]]) == innocent
