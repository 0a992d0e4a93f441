"""Layers around the codec: what goes in comes out, through each and through all of them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.codec.base import ANY, Codec
from stepwell.codec.encryption import Encrypted
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.codec.signatures import decode_call, encode_call
from stepwell.errors import (
    CorruptRecordError,
    InvalidInputError,
    InvalidOptionError,
    PayloadTooLargeError,
    UnserialisableError,
)
from tests.unit.codec.layered import KEYS, DictBlobs, at, encrypted, layered
from tests.unit.codec.samples import Line, Order, Session
from tests.unit.codec.test_round_trips import ORDERS, PLAIN, TEXT

CODECS = layered()


@pytest.fixture(params=list(CODECS))
def codec(request: pytest.FixtureRequest) -> Codec:
    return CODECS[request.param]


@pytest.mark.parametrize("name", CODECS)
@given(value=PLAIN)
@settings(max_examples=100)
def test_plain_values_come_back_equal(name: str, value: Any) -> None:
    codec = CODECS[name]

    payload, settled = codec.settle(value, ANY, place=at())
    assert settled == value
    assert codec.decode(payload, ANY, place=at()) == value
    assert codec.decode(codec.encode(value, place=at()), ANY, place=at()) == value


@pytest.mark.parametrize("name", CODECS)
@given(value=ORDERS)
@settings(max_examples=50)
def test_typed_values_come_back_equal(name: str, value: Order) -> None:
    codec = CODECS[name]

    payload, settled = codec.settle(value, Order, place=at())
    assert settled == codec.decode(payload, Order, place=at()) == value


@pytest.mark.parametrize("name", CODECS)
@given(text=TEXT, lines=st.lists(st.builds(Line, TEXT, st.integers(0, 9)), max_size=9))
@settings(max_examples=50)
def test_calls_come_back_equal(name: str, text: str, lines: list[Line]) -> None:
    codec = CODECS[name]

    def step(note: str, *, lines: list[Line]) -> None: ...

    payload = encode_call((text,), {"lines": lines}, step, codec=codec, place=at(field="undo"))
    assert payload[:1] != b"j" or name == "offloaded"
    assert decode_call(payload, step, codec=codec, place=at(field="undo")) == ((text,), {"lines": lines})


@pytest.mark.parametrize("name", CODECS)
@given(value=PLAIN)
@settings(max_examples=50)
def test_a_payload_that_moves_is_read_where_it_went(name: str, value: Any) -> None:
    codec, there = CODECS[name], at("run-2", "child", "value")

    moved = codec.rebind(codec.encode(value, place=at(field="output")), place=at(field="output"), to=there)
    assert codec.decode(moved, ANY, place=there) == value


@pytest.mark.parametrize("name", CODECS)
@given(value=PLAIN, cut=st.integers(0, 300), flips=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 255))))
@settings(max_examples=150)
def test_damaged_payloads_raise_typed_errors_only(
    name: str, value: Any, cut: int, flips: list[tuple[int, int]]
) -> None:
    codec = CODECS[name]
    damaged = bytearray(codec.encode(value, place=at()))
    for index, bits in flips:
        if index < len(damaged):
            damaged[index] ^= bits
    del damaged[len(damaged) - cut :]

    with contextlib.suppress(CorruptRecordError):
        codec.decode(bytes(damaged), ANY, place=at())


@pytest.mark.parametrize("name", CODECS)
@given(payload=st.sampled_from([b"j", b"e", b"r", b"t", b"e\x02k2"]).flatmap(lambda tag: st.binary().map(tag.__add__)))
@settings(max_examples=200)
def test_poisoned_payloads_raise_typed_errors_only(name: str, payload: bytes) -> None:
    with contextlib.suppress(CorruptRecordError, InvalidInputError):
        CODECS[name].decode(payload, dict, place=at())


@pytest.mark.parametrize("payload", [None, "j1", 7, bytearray(b"j1"), b""])
def test_what_is_not_bytes_is_refused(codec: Codec, payload: Any) -> None:
    with pytest.raises(CorruptRecordError, match="not in a known format"):
        codec.decode(payload, ANY, place=at())


def test_refusals_of_the_codec_within_pass_through(codec: Codec) -> None:
    with pytest.raises(UnserialisableError, match="cannot be stored"):
        codec.encode({"a": Session()}, place=at())
    with pytest.raises(InvalidInputError) as caught:
        codec.validate({"sku": 1}, Line, place=at())
    assert len(caught.value.violations) == 2
    with pytest.raises(InvalidInputError):
        codec.decode(codec.encode({"sku": "a"}, place=at()), Line, place=at())
    assert codec.decode_external('{"sku":"a","amount":1}', Line, place=at()) == Line("a", 1)
    codec.prepare(Line, place=at())


def test_a_codec_without_the_layer_says_which_one_is_missing() -> None:
    for payload, layer in [(encrypted().encode(1, place=at()), "Encrypted"), (b"r" + b"0" * 64 + b":1", "Offloaded")]:
        with pytest.raises(CorruptRecordError, match=f"which has a layer `{layer}"):
            JsonCodec().decode(payload, ANY, place=at())


def test_the_limit_is_raised_for_what_is_offloaded() -> None:
    small = JsonCodec(payload_bytes_max=50)
    codec = Offloaded(small, DictBlobs(), above=100, payload_bytes_max=5_000)

    assert (small.payload_bytes_max, codec.payload_bytes_max) == (50, 5_000)
    assert codec.decode(codec.encode("x" * 4_000, place=at()), str, place=at()) == "x" * 4_000
    with pytest.raises(PayloadTooLargeError):
        codec.encode("x" * 5_000, place=at())
    with pytest.raises(PayloadTooLargeError):
        small.encode("x" * 51, place=at())


def test_encryption_cannot_be_put_around_offloading() -> None:
    with pytest.raises(InvalidOptionError, match="Encrypted is around Offloaded"):
        Encrypted(Offloaded(JsonCodec(), DictBlobs()), keys=KEYS)


def test_blobs_of_encrypted_payloads_are_encrypted() -> None:
    blobs = DictBlobs()
    codec = Offloaded(encrypted(), blobs, above=100)

    codec.encode("a canary in a very long song " * 50, place=at())
    assert [content[:1] for content in blobs.kept.values()] == [b"e"]
    assert not any(b"canary" in content for content in blobs.kept.values())
