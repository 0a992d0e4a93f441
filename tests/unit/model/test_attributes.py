"""Attributes as they are given, stored, ordered and shown; and what is refused, with the line to write instead."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from enum import Enum
from typing import Any

import pytest

from stepwell.errors import InvalidOptionError
from stepwell.model.attributes import (
    Attribute,
    Description,
    check_changes,
    combined,
    merged,
    read_attribute,
    read_attributes,
    read_number,
    read_person,
    read_title,
    read_value,
    show,
    write_number,
)


class Region(str, Enum):  # noqa: UP042  the older form, whose `str` is another text
    EU = "eu"


def numbers() -> list[Decimal]:
    chance = random.Random(7)
    drawn = [Decimal(chance.randint(-(10**9), 10**9)).scaleb(chance.randint(-12, 12)) for _ in range(2_000)]
    small = [Decimal(chance.randint(-50, 50)).scaleb(chance.randint(-2, 2)) for _ in range(1_000)]
    odd = "0 -0 0.00 42.10 1e400 -1e400 1e-400 -1e-400 5e-324 -1.7976931348623157e308 9007199254740993 -0.12 -0.123"
    return [*map(Decimal, odd.split()), Decimal(3**200), Decimal(1 - 3**200), *drawn, *small]


def test_the_stored_spelling_of_numbers_is_exact_and_ordered_like_the_numbers() -> None:
    with localcontext() as context:
        context.prec = 3  # what an author sets for decimals of their own has no effect here
        every = numbers()
        spelled = {number: write_number(number) for number in every}
        assert all(read_number(text[1:]) == number for number, text in spelled.items())
    ordered = sorted(every, key=spelled.__getitem__)

    assert ordered == sorted(every)
    assert len(set(spelled.values())) == len(set(every))


@pytest.mark.parametrize(
    ("given", "value", "words"),
    [
        ("eu", "eu", "eu"),
        (Region.EU, "eu", "eu"),
        ("", "", ""),
        ("größe 🜁", "größe 🜁", "größe 🜁"),
        (True, True, "true"),
        (False, False, "false"),
        (42, 42, "42"),
        (2**70, 2**70, str(2**70)),
        (42.0, 42, "42"),
        (0.1, Decimal("0.1"), "0.1"),
        (-0.0, 0, "0"),
        (1e300, Decimal("1e300"), "1E+300"),
        (Decimal("42.10"), Decimal("42.10"), "42.10"),
        (Decimal("1E+3"), 1000, "1000"),
        (datetime(2026, 12, 1, 9, tzinfo=UTC), datetime(2026, 12, 1, 9, tzinfo=UTC), "2026-12-01T09:00:00Z"),
        (
            datetime(1, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            datetime(1, 1, 1, tzinfo=UTC),
            "0001-01-01T00:00:00Z",
        ),
    ],
)
def test_a_value_is_read_as_it_was_given(given: Any, value: Any, words: str) -> None:
    stored = read_attribute("x", given, "")

    assert (read_value(stored), type(read_value(stored)), show(stored)) == (value, type(value), words)
    assert type(stored.value) is str
    if isinstance(value, Decimal):
        assert str(read_value(stored)) == str(value)


@pytest.mark.parametrize(
    ("given", "title", "fix"),
    [
        ({"n": float("nan")}, "attribute 'n' is nan", "give a finite number, such as n=42, or leave it out"),
        ({"n": Decimal("-Infinity")}, "attribute 'n' is -Infinity", "give a finite number"),
        ({"n": Decimal("sNaN")}, "attribute 'n' is sNaN", "give a finite number"),
        (
            {"n": 10**401},
            "the number of attribute 'n' is too long, too large or too small",
            "give it as text: n=str(…)",
        ),
        ({"n": 3**250}, "the number of attribute 'n' is too long, too large or too small", "round it"),
        ({"t": datetime(2026, 12, 1)}, "attribute 't': datetime.datetime(2026, 12, 1, 0, 0) has no time zone", "UTC"),
        (
            {"x": [1]},
            "attribute 'x' is a list",
            'give x=str(…), or a part of it that is text or a number, such as "eu"',
        ),
        ({"x": None}, "attribute 'x' is a NoneType", "give x=str(…)"),
        ({"x": b"a"}, "attribute 'x' is a bytes", "give x=str(…)"),
        ({"x": "a" * 201}, "the text of attribute 'x' has 201 characters", "shorten it: x=text[:200]"),
        ({"x": "a\nb"}, "the text of attribute 'x' has a control character or a line break", "shorten it"),
        ({"x": "\ud800"}, "the text of attribute 'x' has a control character", "shorten it"),
        ({"": 1}, "'' is not the name of an attribute", 'give a name such as "region" or "order.amount"'),
        ({"order id": 1}, "'order id' is not the name of an attribute", "region"),
        ({"größe": 1}, "'größe' is not the name of an attribute", "region"),
        ({"9": 1}, "'9' is not the name of an attribute", "region"),
        ({"a.": 1}, "'a.' is not the name of an attribute", "region"),
        ({"a" * 61: 1}, "is not the name of an attribute", "region"),
        ({1: 1}, "1 is not the name of an attribute", "region"),
        ({f"a{n}": n for n in range(33)}, "this run would have 33 attributes", "remove others with None"),
        ([("a", 1)], "attributes are a list", 'attributes={"region": "eu", "amount": 42}'),
    ],
)
def test_what_cannot_be_an_attribute_is_refused(given: Any, title: str, fix: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        read_attributes(given, "order")

    assert (caught.value.code, title in caught.value.title, fix in str(caught.value.fix)) == ("SW103", True, True)
    assert len(caught.value.title) < 160


@pytest.mark.parametrize("text", ["", " ", " a", "a" * 201, "two\nlines", "bell\x07", "\ud800", 7, None])
def test_titles_and_persons_are_one_line(text: Any) -> None:
    with pytest.raises(InvalidOptionError, match="one line of 1 to 200 printable characters"):
        read_title(text, "order")
    with pytest.raises(InvalidOptionError, match='by="ann"'):
        read_person(text, "order")


def test_changes_are_merged_and_keep_types() -> None:
    first = read_attributes({"a": 1, "b": "x", "c": True}, "")
    change = read_attributes({"a": 2.5, "b": None, "d": "new"}, "", may_remove=True)
    check_changes(first, change, "")

    after = merged(first, change)
    assert {one.name: read_value(one) for one in after} == {"a": Decimal("2.5"), "c": True, "d": "new"}
    check_changes(after, read_attributes({"b": 7}, ""), "")  # it was removed: it may have another type
    with pytest.raises(InvalidOptionError, match="attribute 'a' is a number in this run, and 'x' is text"):
        check_changes(after, read_attributes({"a": "x"}, ""), "")
    both = combined(Description(change, "one", ()), Description((Attribute("a", ""),), None, (("x", ""),)))
    assert both.title == "one"
    assert both.tags == (("x", ""),)
    assert merged(first, both.attributes) == merged(merged(first, change), (Attribute("a", ""),))


@pytest.mark.parametrize("value", ["", "x1", "n", "n2abcd1", "wnever"])
def test_a_damaged_value_is_an_error_that_listings_survive(value: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        read_value(Attribute("a", value))
    with pytest.raises(ValueError, match="cannot be read"):
        read_value(Attribute("a", "n1", "no number"))
