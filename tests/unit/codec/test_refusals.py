"""Everything that is refused when a value is written, each by name, place and field."""

from __future__ import annotations

import decimal
import math
from typing import Any

import msgspec
import pytest

from stepwell.codec.base import DEPTH_MAX, Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import PayloadTooLargeError, UnserialisableError, UnsupportedTypeError
from tests.unit.codec.samples import CODEC, PLACE, Box, Colour, Line, Session, round_trip


def refusal_of(value: Any) -> str:
    with pytest.raises(UnserialisableError) as caught:
        CODEC.encode(value, place=PLACE)
    return caught.value.why


def nested(depth: int, leaf: Any = 1) -> Any:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def test_the_error_names_what_where_why_and_a_fix() -> None:
    with pytest.raises(UnserialisableError) as caught:
        CODEC.encode({"session": [1, 2, 3, Box(Session())]}, place=PLACE)

    assert str(caught.value).splitlines() == [
        "SW301  the result of `payment/charge` cannot be stored",
        "  where   workflow checkout, path payment/charge",
        "  why     `result.session[3].content`: it is a `tests.unit.codec.samples.Session`; stored values are "
        "JSON-like, dataclass, msgspec.Struct, TypedDict, NamedTuple, pydantic model, Enum, UUID, datetime, "
        "Decimal or bytes; for a class of your own write stepwell.codec.register(tests.unit.codec.samples.Session, "
        "encode=..., decode=...)",
        "  fix     return or pass plain data instead of `result.session[3].content`, or leave it out",
    ]


@pytest.mark.parametrize(
    "number", [math.nan, math.inf, -math.inf, decimal.Decimal("NaN"), decimal.Decimal("-Infinity")]
)
def test_numbers_that_are_not_finite_are_refused_wherever_they_are(number: Any) -> None:
    reason = f"it is {number}, which JSON cannot hold; use None or leave it out"

    assert refusal_of(number) == f"`result`: {reason}"
    assert refusal_of({"a": [None, number]}) == f"`result.a[1]`: {reason}"
    assert refusal_of(Box(None, [number])) == f"`result.more[0]`: {reason}"
    assert refusal_of((None, {"x y": number})) == f"`result[1]['x y']`: {reason}"


def test_a_nan_with_a_payload_is_refused() -> None:
    assert refusal_of([decimal.Decimal("sNaN12")]).startswith("`result[0]`: it is sNaN12")


@pytest.mark.parametrize("key", [math.nan, math.inf, decimal.Decimal("Infinity")])
def test_keys_that_are_not_finite_are_refused(key: Any) -> None:
    assert (
        refusal_of({"m": {key: 1}}) == f"`result.m`: a key is {key}, which JSON cannot hold; use None or leave it out"
    )


def test_half_a_surrogate_pair_is_refused() -> None:
    assert refusal_of("a\ud800") == "`result`: it contains half of a surrogate pair, U+D800, at position 1"
    assert refusal_of(Line("\udfff", 1)) == "`result.sku`: it contains half of a surrogate pair, U+DFFF, at position 0"
    assert refusal_of({"\ud800": 1}).startswith("`result`: its key '\\ud800' contains half of a surrogate pair")


def test_the_character_u_0000_is_refused() -> None:
    assert refusal_of("ab\0") == "`result`: it contains the character U+0000 at position 2"
    assert refusal_of([{"k": "\0"}]) == "`result[0].k`: it contains the character U+0000 at position 0"
    assert refusal_of({"a\0": 1}) == "`result`: its key 'a\\x00' contains the character U+0000 at position 1"


@pytest.mark.parametrize(
    ("keys", "text"),
    [({1: "a", "1": "b"}, "'1' (int and str)"), ({Colour.RED: 1, "red": 2}, "'red' (Colour and str)")],
)
def test_keys_that_are_written_alike_are_refused(keys: Any, text: str) -> None:
    assert refusal_of(keys) == f"`result`: two of its keys are both written as {text}"
    assert refusal_of(Box([keys])) == f"`result.content[0]`: two of its keys are both written as {text}"
    assert refusal_of((None, keys)) == f"`result[1]`: two of its keys are both written as {text}"


def test_duplicate_keys_that_only_the_text_shows_are_refused() -> None:
    assert refusal_of([msgspec.Raw(b'{"a":1,"a":2}')]) == (
        "`result[0].a`: the key 'a' occurs twice; only one of them could be kept"
    )


def test_keys_of_a_type_that_json_has_no_text_for_are_refused() -> None:
    assert refusal_of({"m": {(1, 2): 3}}) == "`result.m`: a key is a `tuple`; keys are text, numbers, dates or UUIDs"
    assert refusal_of({None: 3}).startswith("`result`: a key is a `NoneType`")


def test_nesting_is_accepted_up_to_the_limit_and_refused_one_level_deeper() -> None:
    deepest = nested(DEPTH_MAX)

    assert round_trip(deepest) == deepest
    for value in (nested(DEPTH_MAX + 1), nested(DEPTH_MAX, Line("a", 1)), nested(500), nested(100_000)):
        assert refusal_of(value).endswith(f"it is nested deeper than {DEPTH_MAX} levels, or contains itself")


def test_a_deep_branch_is_found_among_much_that_is_shallow_and_full_of_brackets() -> None:
    shallow = [{"text": "]}]}]}", "n": [i]} for i in range(200)]

    assert round_trip(shallow) == shallow
    assert "nested deeper" in refusal_of([*shallow, nested(DEPTH_MAX)])


def test_a_value_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append({"again": ring})

    assert refusal_of(ring).endswith("or contains itself")


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**5000], ids=["over", "under", "huge"])
def test_ints_outside_64_bits_are_refused(number: int) -> None:
    assert "is an int outside 64 bits" in refusal_of(number)
    assert refusal_of({"a": [number]}).startswith("`result.a[0]`: it is an int outside 64 bits")
    assert refusal_of([{number: 1}]).startswith("`result[0]`: a key is an int outside 64 bits")


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 2**53 + 1])
def test_ints_of_64_bits_are_kept_exactly(number: int) -> None:
    assert round_trip([number], list[int]) == [number]


@pytest.mark.parametrize("value", [Session(), object(), 1j, range(3), ValueError("x"), Session, print, ...])
def test_types_without_a_codec_are_refused_by_name(value: Any) -> None:
    assert refusal_of([value]).startswith("`result[0]`: it is a `")


def test_a_payload_of_exactly_the_limit_is_stored_and_one_byte_more_is_refused_with_both_sizes() -> None:
    codec = JsonCodec(payload_bytes_max=100)

    assert len(codec.encode("x" * 98, place=PLACE)) == 101
    for value in ("x" * 99, ["x" * 97]):
        with pytest.raises(PayloadTooLargeError) as caught:
            codec.encode(value, place=PLACE)
        assert caught.value.why.startswith("it has 101 bytes, the limit is 100 bytes")


def test_the_default_limit_is_two_mebibytes() -> None:
    CODEC.encode("x" * (2 * 1024 * 1024 - 2), place=PLACE)

    with pytest.raises(PayloadTooLargeError, match=r"2097153 bytes, the limit is 2097152 bytes"):
        CODEC.encode("x" * (2 * 1024 * 1024 - 1), place=PLACE)


def test_a_place_without_a_path_is_called_by_its_workflow() -> None:
    with pytest.raises(UnserialisableError) as caught:
        CODEC.encode({"a": Session()}, place=Place("checkout", "", "the input"))

    assert caught.value.title == "the input of `checkout` cannot be stored"
    assert caught.value.why.startswith("`input.a`: ")


@pytest.mark.parametrize("hint", [Session, list[Session], Box[Session], Line | Box[int], str | bytes, "Nowhere", 5])
def test_annotations_that_cannot_be_read_back_are_refused_by_name(hint: Any) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        CODEC.prepare(hint, place=PLACE)

    assert caught.value.title.startswith("the result of `payment/charge` is annotated with a type that cannot be read")
    assert caught.value.why


class Nobody:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [one], lambda one: {"who": one}, Box])
def test_a_value_whose_own_code_raises_is_refused_as_any_other(wrap: Any) -> None:
    assert refusal_of(wrap(Nobody())) == "`result`: its own code raises RuntimeError"
