"""Types that an author describes, parts that are not stored, compression, and values without an annotation."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pydantic
import pytest

from stepwell import codec
from stepwell.codec import Compressed, Encrypted, FolderBlobs, JsonCodec, Keys, NotStored, Offloaded
from stepwell.codec.base import ANY, Place, Row
from stepwell.codec.envelopes import read_plainly
from stepwell.errors import (
    CorruptRecordError,
    DuplicateNameError,
    InvalidInputError,
    InvalidOptionError,
    UnserialisableError,
    UnsupportedTypeError,
)

PLACE = Place("checkout", "pay", row=Row("r", "pay", "value"))
CODEC = JsonCodec()


class Share:
    def __init__(self, value: Fraction) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Share) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


def _read(text: str) -> Share:
    return Share(Fraction(text))


def _write(share: Share) -> str:
    return str(share.value)


class Half(Share):
    pass


class Unknown: ...


@dataclass
class Split:
    shares: list[Share]
    by: dict[str, Share]
    rest: Share | None = None


codec.register(Share, encode=_write, decode=_read)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (Share(Fraction(1, 3)), Share),
        ([Share(Fraction(1, 3))], list[Share]),
        (Split([Share(Fraction(1, 3))], {"a": Share(Fraction(2, 3))}), Split),
    ],
)
def test_a_registered_type_comes_back(value: Any, hint: Any) -> None:
    stored, settled = CODEC.settle(value, hint, place=PLACE)

    assert settled == value
    assert CODEC.decode(stored, hint, place=PLACE) == value
    assert CODEC.validate(value, hint, place=PLACE) == value


def test_text_from_outside_becomes_a_registered_type() -> None:
    assert CODEC.decode_external(b'{"shares": ["1/3"], "by": {}}', Split, place=PLACE).shares[0].value == Fraction(1, 3)
    with pytest.raises(InvalidInputError):
        CODEC.decode_external(b'{"shares": ["a third"], "by": {}}', Split, place=PLACE)


def test_a_registration_is_checked() -> None:
    codec.register(Share, encode=_write, decode=_read)  # the same again
    with pytest.raises(DuplicateNameError):
        codec.register(Share, encode=repr, decode=_read)
    for wrong in (int, datetime, Split):
        with pytest.raises(InvalidOptionError, match="without being registered"):
            codec.register(wrong, encode=repr, decode=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="is not a class"):
        codec.register("Share", encode=repr, decode=repr)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="cannot be registered"):
        codec.register(Unknown, encode=repr, decode=None)  # type: ignore[arg-type]


def test_an_unknown_type_is_refused_with_the_line_to_write() -> None:
    with pytest.raises(UnserialisableError) as stored:
        CODEC.encode(Unknown(), ANY, place=PLACE)
    with pytest.raises(UnsupportedTypeError) as annotated:
        CODEC.prepare(Unknown, place=PLACE)
    assert "codec.register(" in stored.value.why
    assert "codec.register(" in annotated.value.fix


@dataclass
class Order:
    number: str
    cache: NotStored[dict[str, str]] = field(default_factory=NotStored)


def test_what_is_not_stored_is_made_again() -> None:
    order = Order("1")
    order.cache.set({"a": "b"})

    stored, settled = CODEC.settle(order, Order, place=PLACE)

    assert stored == b'j{"number":"1","cache":null}'
    assert settled == order
    assert (order.cache.is_there, settled.cache.is_there) == (True, False)
    assert CODEC.validate(order, Order, place=PLACE) == order
    with pytest.raises(InvalidOptionError, match="was not stored"):
        settled.cache.get()
    assert settled.cache.get(lambda: {"made": "again"}) == {"made": "again"}
    assert settled.cache.get() == {"made": "again"}


LONG = {"text": "stepwell " * 2_000}


def test_a_large_payload_is_compressed_and_a_small_one_is_not() -> None:
    packed = Compressed(JsonCodec())

    stored, settled = packed.settle(LONG, ANY, place=PLACE)

    assert stored[:1] == b"z"
    assert len(stored) < 1_000
    assert settled == LONG == packed.decode(stored, ANY, place=PLACE)
    assert read_plainly(stored) == LONG
    assert packed.encode([1], place=PLACE) == b"j[1]"
    assert packed.decode(CODEC.encode(LONG, place=PLACE), ANY, place=PLACE) == LONG


def test_compression_is_inside_of_encryption_and_offloading(tmp_path: Any) -> None:
    keys = Keys("k", {"k": bytes(range(32))})
    whole = Offloaded(Encrypted(Compressed(JsonCodec()), keys=keys), FolderBlobs(tmp_path), above=300)
    stored = whole.encode(LONG, place=PLACE)

    assert len(stored) < 500
    assert whole.decode(stored, ANY, place=PLACE) == LONG
    for outer in (Encrypted(JsonCodec(), keys=keys), Offloaded(JsonCodec(), FolderBlobs(tmp_path))):
        with pytest.raises(InvalidOptionError, match="cannot be compressed"):
            Compressed(outer)
    with pytest.raises(InvalidOptionError):
        Compressed(JsonCodec(), level=10)


def test_a_codec_without_compression_names_the_layer_and_damage_is_found() -> None:
    packed = Compressed(JsonCodec())
    stored = packed.encode(LONG, place=PLACE)

    with pytest.raises(CorruptRecordError) as missing:
        CODEC.decode(stored, ANY, place=PLACE)
    assert "Compressed" in missing.value.fix
    for damaged in (stored[:-5], b"zgarbage", stored + b"x"):
        with pytest.raises(CorruptRecordError):
            packed.decode(damaged, ANY, place=PLACE)


@dataclass(frozen=True)
class Base:
    name: str


@dataclass(frozen=True)
class Derived(Base):
    extra: int


class Model(pydantic.BaseModel):
    name: str
    hidden: str = pydantic.Field(default="", exclude=True)


@pytest.mark.parametrize(
    ("value", "hint", "words"),
    [
        (Decimal("1.5"), ANY, "has the type decimal.Decimal"),
        ((1, 2), ANY, "-> tuple"),
        ({"at": [datetime(2026, 1, 1, tzinfo=UTC)]}, ANY, "`result.at[0]` has the type datetime.datetime"),
        (Base("a"), ANY, "Base"),
        ({1: "a"}, ANY, "has the type int"),
        (Derived("a", 1), Base, "the fields that only"),
        (Model(name="a", hidden="x"), Model, "excludes this field"),
    ],
)
def test_a_value_that_comes_back_as_another_type_is_reported(
    value: Any, hint: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = PLACE._replace(path=f"pay {words}"[:60])
    with pytest.raises(UnserialisableError) as refused:
        JsonCodec().refusing_untyped().settle(value, hint, place=place)
    with caplog.at_level(logging.WARNING, "stepwell.codec"):
        for _ in range(3):
            JsonCodec().settle(value, hint, place=place)

    assert words in refused.value.why + refused.value.fix
    assert len(caplog.records) == 1
    assert words in caplog.text


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, ANY),
        (Decimal("1.5"), Decimal),
        ((1, 2), tuple[int, int]),
        (Base("a"), Base),
        (Model(name="a"), Model),
        ([Base("a")], list[Base]),
    ],
)
def test_a_value_that_comes_back_as_it_was_is_not_reported(value: Any, hint: Any) -> None:
    _, settled = JsonCodec().refusing_untyped().settle(value, hint, place=PLACE)

    assert settled == value
