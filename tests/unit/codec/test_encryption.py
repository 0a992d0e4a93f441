"""Encryption: only with the key, and only in its own row."""

from __future__ import annotations

import builtins
import itertools
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pydantic
import pytest

from stepwell.codec.addressed import encode_signal, rebind_signal, split
from stepwell.codec.base import ANY, Place
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.envelopes import read_plainly, show_payload
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import CorruptRecordError, InvalidInputError, InvalidOptionError
from tests.unit.codec.layered import NEW, OLD, at, encrypted
from tests.unit.codec.samples import Line

ROWS = [
    at(),
    at(run="run-2"),
    at(path="payment/refund"),
    at(field="undo"),
    at(run="run-1payment/", path="charge"),  # the same letters, divided otherwise
]


def test_nothing_of_the_value_is_in_the_payload_and_no_two_are_alike() -> None:
    codec = encrypted()

    payloads = {codec.encode("a canary", place=at()) for _ in range(100)}
    assert len(payloads) == 100
    assert not any(b"canary" in payload for payload in payloads)
    assert {payload[:4] for payload in payloads} == {b"e\x02k2"}


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(ROWS, 2)))
def test_a_payload_in_another_row_is_refused(one: Place, other: Place) -> None:
    codec = encrypted()

    with pytest.raises(CorruptRecordError) as caught:
        codec.decode(codec.encode(1, place=one), int, place=other)
    assert caught.value.title.startswith(f"the result of `{other.path}` cannot be read back")
    assert "authentication failed (key 'k2')" in caught.value.why
    assert f"path {other.path}" in caught.value.where


def test_a_payload_of_another_namespace_is_refused() -> None:
    test, live = (Encrypted(JsonCodec(), keys=Keys("k", {"k": OLD}), namespace=name) for name in ("test", "live"))

    assert live.decode(live.encode(1, place=at()), int, place=at()) == 1
    with pytest.raises(CorruptRecordError, match="another row or namespace"):
        live.decode(test.encode(1, place=at()), int, place=at())


def test_the_words_of_a_place_are_not_part_of_the_binding() -> None:
    codec = encrypted()
    payload = codec.encode(1, place=at())

    assert codec.decode(payload, int, place=at()._replace(workflow="renamed", what="the recorded value")) == 1


def test_a_payload_is_never_bound_to_nothing() -> None:
    with pytest.raises(AssertionError, match="names no row"):
        encrypted().encode(1, place=Place("checkout", "path"))


def test_rotation_reads_the_old_and_writes_the_new() -> None:
    before, during = encrypted(Keys("k1", {"k1": OLD})), encrypted(Keys("k1", {"k1": OLD, "k2": NEW}))
    after, late = encrypted(Keys("k2", {"k1": OLD, "k2": NEW})), encrypted(Keys("k2", {"k2": NEW}))
    old, new = before.encode("old", place=at()), after.encode("new", place=at())

    assert [codec.decode(old, str, place=at()) for codec in (before, during, after)] == ["old"] * 3
    assert [codec.decode(new, str, place=at()) for codec in (during, after, late)] == ["new"] * 3
    for codec, payload, lost in [(before, new, "k2"), (late, old, "k1")]:
        with pytest.raises(CorruptRecordError, match=f"encrypted with key '{lost}', which this engine does not have"):
            codec.decode(payload, str, place=at())
    moved = after.rebind(old, place=at(), to=at("run-2"))
    assert late.decode(moved, str, place=at("run-2")) == "old"


def test_a_key_of_the_same_id_but_other_bytes_is_refused() -> None:
    payload = encrypted(Keys("k", {"k": OLD})).encode(1, place=at())

    with pytest.raises(CorruptRecordError, match="it was not encrypted for this place"):
        encrypted(Keys("k", {"k": NEW})).decode(payload, int, place=at())


def test_plain_values_are_refused_unless_asked_for() -> None:
    keys = Keys("k", {"k": OLD})
    strict, lenient = encrypted(keys), Encrypted(JsonCodec(), keys=keys, reads_plain=True)

    with pytest.raises(CorruptRecordError, match="not encrypted, and this engine reads only encrypted payloads"):
        strict.decode(b"j1", int, place=at())
    assert lenient.decode(b"j1", int, place=at()) == 1
    assert lenient.encode(1, place=at())[:1] == b"e"
    assert lenient.rebind(b"j1", place=at(), to=at("run-2"))[:1] == b"e"


def test_what_does_not_fit_is_named_and_not_quoted() -> None:
    codec = encrypted()
    payload = codec.encode({"sku": 1, "amount": "a canary"}, place=at())

    with pytest.raises(InvalidInputError) as caught:
        codec.decode(payload, Line, place=at())
    assert caught.value.violations == ("`sku`: expected str", "`amount`: expected int")
    assert caught.value.__cause__ is None
    assert "canary" not in str(caught.value)


class _Colour(StrEnum):
    RED = "red"


class _Model(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def check(cls, name: str) -> str:
        raise ValueError(f"no: {name}")


@dataclass
class _Checked:
    name: str

    def __post_init__(self) -> None:
        raise ValueError(f"no: {self.name}")


@pytest.mark.parametrize(
    ("value", "hint", "violation"),
    [
        ({"name": "a canary"}, _Model, "`name`: value error"),
        ({"name": "a canary"}, _Checked, f"`result`: expected {__name__}._Checked"),
        ("a canary", _Colour, f"`result`: expected {__name__}._Colour"),
        ("a canary", datetime, "`result`: expected datetime.datetime"),
    ],
)
def test_the_message_of_a_validator_is_not_quoted(value: Any, hint: Any, violation: str) -> None:
    codec = encrypted()
    payload = codec.encode(value, place=at())

    with pytest.raises(InvalidInputError) as caught:
        codec.decode(payload, hint, place=at())
    assert "canary" not in str(caught.value)
    assert caught.value.violations == (violation,)


@pytest.mark.parametrize(
    ("current", "keys", "words"),
    [
        ("k", {}, "is not among the keys"),
        ("k", {"j": OLD}, "is not among the keys"),
        ("k", {"k": OLD[:31]}, "is not 32 bytes"),
        ("k", {"k": "x" * 32}, "is not 32 bytes"),
        ("a b", {"a b": OLD}, "is not valid"),
        ("", {"": OLD}, "is not valid"),
        ("k" * 129, {"k" * 129: OLD}, "is not valid"),
    ],
)
def test_keys_that_cannot_work_are_refused(current: str, keys: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        Keys(current, keys)


def test_keys_do_not_show_themselves() -> None:
    assert repr(Keys("k1", {"k1": OLD})) == "Keys(current='k1', known=['k1'])"


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidOptionError, match=r"stepwell\[encryption\]"):
        encrypted()


# --- signals ---


def test_a_signal_is_read_by_whom_it_was_sent_to() -> None:
    codec = encrypted()
    sent = encode_signal(codec, "yes", target="order-42", name="approve")

    assert b"yes" not in sent
    kept = rebind_signal(codec, sent, name="approve", targets={"order-42"}.__contains__, to=at(field="signal 0"))
    assert codec.decode(kept, ANY, place=at(field="signal 0")) == "yes"


@pytest.mark.parametrize(
    ("name", "mine", "words"),
    [("approve", "order-43", "it was sent to 'order-42'"), ("reject", "order-42", "authentication failed")],
)
def test_a_signal_to_another_or_of_another_name_is_refused(name: str, mine: str, words: str) -> None:
    codec = encrypted()
    sent = encode_signal(codec, "yes", target="order-42", name="approve")

    with pytest.raises(CorruptRecordError, match=words):
        rebind_signal(codec, sent, name=name, targets={mine}.__contains__, to=at())


def test_a_forged_target_is_refused() -> None:
    codec = encrypted()
    _, sealed = split(encode_signal(codec, "yes", target="order-42", name="approve")) or ("", b"")
    forged = b"t\x00\x08order-43" + sealed

    with pytest.raises(CorruptRecordError, match="authentication failed"):
        rebind_signal(codec, forged, name="approve", targets={"order-43"}.__contains__, to=at())


def test_a_signal_without_encryption_is_plain() -> None:
    assert encode_signal(JsonCodec(), "yes", target="order-42", name="approve") == b'j"yes"'


# --- shown without a codec ---


def test_what_cannot_be_shown_is_marked() -> None:
    codec = encrypted()
    reference = b"r" + b"0a" * 32 + b":123456"

    assert read_plainly(codec.encode("x", place=at())) == {"encrypted": "k2"}
    assert read_plainly(encode_signal(codec, "x", target="t", name="n")) == {"encrypted": "k2"}
    assert read_plainly(reference) == {"offloaded": "0a" * 32, "size": 123456}
    assert read_plainly(b'j{"a":1}') == {"a": 1}
    assert (read_plainly(b"e"), read_plainly(b"rest"), read_plainly(b"text")) == ("e", "rest", "text")
    assert show_payload(codec.encode("x", place=at())) == "{'encrypted': 'k2'}"
    assert show_payload(b'j"x"') == "b'j\"x\"'"
