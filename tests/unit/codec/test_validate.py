"""Python values that are given to `engine.start`."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import pytest

from stepwell.codec.base import ANY, Place
from stepwell.errors import InvalidInputError, UnserialisableError
from tests.unit.codec.samples import CODEC, Box, Colour, Line, Order, Point, Session

INPUT = Place("checkout", "", "the input")
NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
ORDER = Order(uuid.UUID(int=1), [Line("a", 1)], decimal.Decimal("1.5"), NOW)
WRONG = Line(sku=5, amount="4O")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (ORDER, Order, ORDER),
        ([ORDER], list[Order], [ORDER]),
        (
            {"id": uuid.UUID(int=1), "lines": [Line("a", 1)], "total": decimal.Decimal("1.5"), "at": NOW.isoformat()},
            Order,
            ORDER,
        ),
        ({"content": {"sku": "a", "amount": 1}}, Box[Line], Box(Line("a", 1))),
        ({"x": 1}, Point, Point(1)),
        ((1, 2), list[int], [1, 2]),
        ("red", Colour, Colour.RED),
        (Colour.RED, Colour, Colour.RED),
        (1, float, 1.0),
        (None, None, None),
        (Session, ANY, Session),
        (b"x", bytes, b"x"),
    ],
)
def test_an_instance_or_plain_data_becomes_the_type(value: Any, hint: Any, expected: Any) -> None:
    result = CODEC.validate(value, hint, place=INPUT)

    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ("1", int, ("`input`: expected int, got '1'",)),
        (True, int, ("`input`: expected int, got True",)),
        (b"x", str, ("`input`: expected str, got b'x'",)),
        (uuid.UUID(int=1), str, ("`input`: expected str, got a `uuid.UUID`",)),
        ({1: "a"}, dict[str, str], ("`input`: expected a key of type str, got `int`",)),
        (
            [WRONG],
            list[Line],
            ("`input[0].sku`: expected str, got 5", "`input[0].amount`: expected int, got '4O'"),
        ),
        ({"sku": 1}, Line, ("`amount`: missing", "`sku`: expected str, got 1")),
    ],
)
def test_what_does_not_fit_is_refused_with_all_violations(value: Any, hint: Any, expected: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        CODEC.validate(value, hint, place=INPUT)

    assert caught.value.violations == expected


def test_a_value_that_cannot_be_stored_at_all_is_refused_by_field() -> None:
    with pytest.raises(UnserialisableError) as caught:
        CODEC.validate({"content": Session()}, Box[int], place=INPUT)

    assert caught.value.why.startswith("`input.content`: it is a `tests.unit.codec.samples.Session`")
