"""JSON text from outside: strict first, typed then."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.codec.base import ANY, DEPTH_MAX, EXTERNAL_NODES_MAX, Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import InvalidInputError, PayloadTooLargeError
from tests.unit.codec.samples import CODEC, Line, Order

INPUT = Place("checkout", "", "the input")


def violations_of(text: bytes | str, hint: Any = ANY) -> tuple[str, ...]:
    with pytest.raises(InvalidInputError) as caught:
        CODEC.decode_external(text, hint, place=INPUT)
    assert caught.value.title == "the input of `checkout` does not fit its type"
    return caught.value.violations


@pytest.mark.parametrize("text", ['{"sku": "é", "amount": 2}', b' {"sku": "\\u00e9", "amount": 2}\n'])
def test_text_and_bytes_are_read_as_the_type(text: bytes | str) -> None:
    assert CODEC.decode_external(text, Line, place=INPUT) == Line("é", 2)


def test_without_a_hint_plain_json_comes_back() -> None:
    assert CODEC.decode_external("[1, null, 2.5]", ANY, place=INPUT) == [1, None, 2.5]


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        ('{"a": {"b": 1, "b": 2}}', "`a.b`: the key 'b' occurs twice; only one of them could be kept"),
        ("[NaN]", "it contains NaN, which is not JSON"),
        ("-Infinity", "it contains -Infinity, which is not JSON"),
        ("[1e400]", "`input[0]`: it is inf, which JSON cannot hold; use None or leave it out"),
        ('{"a": "\\ud800"}', "`a`: it contains half of a surrogate pair, U+D800, at position 0"),
        ('"\ud800"', "it is not valid UTF-8 at byte 1"),
        (b'"\xff"', "it is not valid UTF-8 at byte 1"),
        ('["\\u0000"]', "`input[0]`: it contains the character U+0000 at position 0"),
        (
            "18446744073709551616",
            "`input`: it is an int outside 64 bits (18446744073709551616); use a str or a Decimal",
        ),
        ("9" * 5000, "it contains a number with thousands of digits"),
        ("[" * 100_000, f"it is nested deeper than {DEPTH_MAX} levels"),
        ("", "it is not JSON: Expecting value at line 1 column 1"),
        ("{'a': 1}", "it is not JSON: Expecting property name enclosed in double quotes at line 1 column 2"),
        ("\ufeff1", "it is not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig) at line 1 column 1"),
    ],
)
def test_what_python_would_let_through_is_refused(text: bytes | str, violation: str) -> None:
    assert violations_of(text) == (violation,)
    assert violations_of(text, dict[str, Any]) == (violation,)


def test_nesting_is_accepted_up_to_the_limit() -> None:
    assert CODEC.decode_external("[" * DEPTH_MAX + "]" * DEPTH_MAX, ANY, place=INPUT)

    (violation,) = violations_of("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))
    assert f"it is nested deeper than {DEPTH_MAX} levels" in violation


def test_too_many_values_are_refused() -> None:
    fits = "[" + ",".join(["1"] * (EXTERNAL_NODES_MAX - 1)) + "]"

    assert len(CODEC.decode_external(fits, ANY, place=INPUT)) == EXTERNAL_NODES_MAX - 1
    assert "at most 100000 are accepted" in violations_of("[1," + fits[1:])[0]


@pytest.mark.parametrize("text", ["[" + " " * 99 + "]", b"x" * 101, '"' + "é" * 50 + '"'])
def test_text_above_the_limit_is_refused_before_it_is_parsed(text: bytes | str) -> None:
    codec = JsonCodec(payload_bytes_max=100)

    with pytest.raises(PayloadTooLargeError, match=r"SW302  the input of `checkout` is too large"):
        codec.decode_external(text, ANY, place=INPUT)


def test_all_type_violations_are_listed() -> None:
    text = '{"id": 5, "lines": [{"sku": "a", "amount": "4O"}], "total": "1"}'

    assert violations_of(text, Order) == (
        "`at`: missing",
        "`id`: expected uuid, got 5",
        "`lines[0].amount`: expected int, got '4O'",
    )
