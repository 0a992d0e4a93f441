"""The envelope and the bytes in it: what is on disk may never change its meaning."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import pytest

from stepwell.codec.base import Place
from stepwell.errors import CorruptRecordError
from tests.unit.codec.samples import CODEC, PLACE, Colour, Line, Order, Pair, Point

ORDER = Order(
    id=uuid.UUID(int=7),
    lines=[Line("a", 2)],
    total=decimal.Decimal("1.50"),
    at=datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
)
GOLDEN: list[tuple[Any, bytes]] = [
    (None, b"jnull"),
    (True, b"jtrue"),
    (-7, b"j-7"),
    (1.0, b"j1.0"),
    ("é\n", b'j"\xc3\xa9\\n"'),
    ([1, [2]], b"j[1,[2]]"),
    ({"b": 1, "a": 2}, b'j{"b":1,"a":2}'),
    (b"\x00\xff", b'j"AP8="'),
    (decimal.Decimal("1.50"), b'j"1.50"'),
    (Colour.BLUE, b'j"blue"'),
    (Pair(1, "r"), b'j[1,"r"]'),
    (Point(1, 2.5), b'j{"x":1,"y":2.5}'),
    (datetime.timedelta(days=1, microseconds=5), b'j"P1DT0.000005S"'),
    (
        ORDER,
        b'j{"id":"00000000-0000-0000-0000-000000000007","lines":[{"sku":"a","amount":2}],"total":"1.50",'
        b'"at":"2026-01-02T03:04:05.000006Z","colour":"red","note":null}',
    ),
]


@pytest.mark.parametrize(("value", "payload"), GOLDEN, ids=lambda item: type(item).__name__)
def test_a_value_is_always_written_as_the_same_bytes(value: Any, payload: bytes) -> None:
    assert CODEC.encode(value, place=PLACE) == payload


@pytest.mark.parametrize(("value", "payload"), GOLDEN, ids=lambda item: type(item).__name__)
def test_bytes_written_by_this_version_are_read_for_ever(value: Any, payload: bytes) -> None:
    hint = type(value) if value is not None else None

    assert CODEC.decode(payload, hint, place=PLACE) == value


def test_an_unknown_first_byte_is_named_together_with_the_known_ones() -> None:
    with pytest.raises(CorruptRecordError) as caught:
        CODEC.decode(b"y{}", dict, place=PLACE)

    assert caught.value.why == "found first byte b'y'; known: b'j' (JSON version 1)"
    assert caught.value.where == "workflow checkout, path payment/charge"


@pytest.mark.parametrize("payload", [b"", "jnull", None, 5, memoryview(b"jnull")])
def test_what_is_no_payload_at_all_is_a_corrupt_record(payload: Any) -> None:
    with pytest.raises(CorruptRecordError):
        CODEC.decode(payload, dict, place=PLACE)


def test_a_place_is_made_only_when_an_error_has_to_be_worded() -> None:
    made = []

    def place() -> Place:
        made.append(1)
        return PLACE

    CODEC.decode(CODEC.encode({"a": 1}, place=place), dict[str, int], place=place)
    assert made == []

    with pytest.raises(CorruptRecordError):
        CODEC.decode(b"", dict, place=place)
    assert made == [1]
