"""Reading stored payloads: damage and misfits give typed errors, and every violation is listed."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.codec.base import ANY
from stepwell.errors import CorruptRecordError, InvalidInputError
from tests.unit.codec.samples import CODEC, PLACE, Box, Cat, Dog, Line, Movie, Node, Order, Pair, Point


def violations_of(body: bytes, hint: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidInputError) as caught:
        CODEC.decode(b"j" + body, hint, place=PLACE)
    return caught.value.violations


@pytest.mark.parametrize("body", [b"", b"{", b"[1,", b"NaN", b"'a'", b'"\xff"', b'"\\ud800"', b"1 2", b"[" * 100_000])
@pytest.mark.parametrize("hint", [ANY, Line, list[int]])
def test_bytes_that_do_not_parse_are_a_corrupt_record(body: bytes, hint: Any) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        CODEC.decode(b"j" + body, hint, place=PLACE)

    assert caught.value.title == "the result of `payment/charge` cannot be read back: it is damaged"


def test_all_violations_of_a_nested_record_are_listed_with_path_expectation_and_value() -> None:
    body = b'{"id":"no","lines":[{"sku":"a","amount":1},{"sku":5,"amount":"4O"},{}],"at":"today","colour":"green"}'

    assert violations_of(body, Order) == (
        "`total`: missing",
        "`id`: invalid UUID, got 'no'",
        "`lines[1].sku`: expected str, got 5",
        "`lines[1].amount`: expected int, got '4O'",
        "`lines[2].sku`: missing",
        "`lines[2].amount`: missing",
        "`at`: invalid RFC3339 encoded datetime, got 'today'",
        "`colour`: invalid enum value 'green', got 'green'",
    )


@pytest.mark.parametrize(
    ("hint", "body", "expected"),
    [
        (int, b'"x"', ("`result`: expected int, got 'x'",)),
        (None, b"1", ("`result`: expected null, got 1",)),
        (Point, b'{"x":"a","y":[]}', ("`x`: expected int, got 'a'", "`y`: expected float, got an array of 0")),
        (Movie, b'{"year":"x"}', ("`title`: missing", "`year`: expected int, got 'x'")),
        (Pair, b'["a",1]', ("`result[0]`: expected int, got 'a'", "`result[1]`: expected str, got 1")),
        (tuple[int, int], b'["a","b"]', ("`result[0]`: expected int, got 'a'", "`result[1]`: expected int, got 'b'")),
        (
            dict[str, int],
            b'{"a":"x","b c":"y"}',
            ("`a`: expected int, got 'x'", "`result['b c']`: expected int, got 'y'"),
        ),
        (dict[int, int], b'{"a":1}', ("`result`: expected a key of type int, got `str`",)),
        (
            Box[int],
            b'{"content":"x","more":[1,"y"]}',
            ("`content`: expected int, got 'x'", "`more[1]`: expected int, got 'y'"),
        ),
        (Node, b'{"value":1,"children":[{"value":null}]}', ("`children[0].value`: expected int, got None",)),
        (Line | None, b'{"sku":1}', ("`amount`: missing", "`sku`: expected str, got 1")),
        (list[int] | str, b'[1,"a","b"]', ("`result[1]`: expected int, got 'a'", "`result[2]`: expected int, got 'b'")),
        (Cat | Dog, b'{"type":"Cow"}', ("`type`: invalid value 'Cow'",)),
        (set[int], b'["a"]', ("`result[0]`: expected int, got 'a'",)),
        (Annotated[int, msgspec.Meta(ge=0)], b"-1", ("`result`: expected `int` >= 0, got -1",)),
    ],
)
def test_each_kind_of_hint_lists_its_violations(hint: Any, body: bytes, expected: tuple[str, ...]) -> None:
    assert violations_of(body, hint) == expected


def test_the_refusal_of_a_class_itself_is_a_violation() -> None:
    assert violations_of(b'[{"low":1,"high":2},{"low":2,"high":1}]', list[Range]) == (
        "`result[1]`: low is above high, got an object with 2 fields",
    )


@dataclasses.dataclass
class Range:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


@dataclasses.dataclass
class Careless:
    name: str

    def __post_init__(self) -> None:
        raise KeyError("anything")


def test_any_exception_of_a_class_is_a_typed_error() -> None:
    assert violations_of(b'{"name":"x"}', Careless) == ("`result`: KeyError('anything'), got an object with 1 fields",)


def test_a_very_long_list_of_violations_is_cut() -> None:
    found = violations_of(b"[" + b",".join([b'"x"'] * 500) + b"]", list[int])

    assert len(found) == 101
    assert found[-1] == "… and more"


class Canary:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


POISON = [
    b'{"py/object":"os.system","py/reduce":[{"py/function":"os.system"},["id"]]}',
    b'{"__class__":"subprocess.Popen","args":["id"]}',
    b'{"$type":"System.Diagnostics.Process","__reduce__":["os.system","id"]}',
    b'"!!python/object/apply:os.system [id]"',
    b"\"__import__('os').system('id')\"",
    b'["os","system",["id"]]',
]
HINTS = [ANY, int, Line, Order, list[Line], dict[str, Any], Box[int], Cat | Dog, Movie]


@pytest.mark.parametrize("hint", HINTS, ids=str)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_never_loaded(hint: Any, protocol: int, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    poison = pickle.dumps(Canary(canary), protocol)

    for payload in (poison, b"j" + poison):
        with pytest.raises(CorruptRecordError):
            CODEC.decode(payload, hint, place=PLACE)

    assert not canary.exists()


@pytest.mark.parametrize("hint", HINTS, ids=str)
@pytest.mark.parametrize("body", POISON)
def test_class_paths_in_stored_data_stay_data(hint: Any, body: bytes) -> None:
    try:
        value = CODEC.decode(b"j" + body, hint, place=PLACE)
    except InvalidInputError:
        return

    assert value == msgspec.json.decode(body)


@given(st.binary(max_size=40), st.sampled_from(HINTS))
def test_random_bytes_give_a_value_or_a_typed_error(noise: bytes, hint: Any) -> None:
    for payload in (noise, b"j" + noise):
        try:
            CODEC.decode(payload, hint, place=PLACE)
        except (CorruptRecordError, InvalidInputError):
            continue
