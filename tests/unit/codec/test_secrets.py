"""Secrets: shown to nobody, stored only encrypted, and taken out of what is written about failures."""

from __future__ import annotations

import copy
import dataclasses
import gc
import logging
import pickle
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.codec.base import ANY, Codec
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.secret import Secret
from stepwell.errors import Failure, InvalidInputError, UnserialisableError, UnsupportedTypeError
from stepwell.model.failures import encode_failure, record_failure
from stepwell.redaction import RETIRED_MAX, redact, redact_json
from tests.style.tree import source_files
from tests.unit.codec.layered import at, encrypted, layered
from tests.unit.codec.samples import Line, Session
from tests.unit.codec.test_round_trips import ORDERS, TEXT

CANARY = "kanarienvogel-7781"


@dataclasses.dataclass
class Login:
    user: str
    password: Secret[str]
    more: list[Secret[Line]] = dataclasses.field(default_factory=list)
    pin: Secret[int] | None = None
    key: Secret[bytes] | None = None
    anything: Secret[Any] = dataclasses.field(default_factory=lambda: Secret(None))


LOGIN = Login("me", Secret(CANARY), [Secret(Line("a", 1))], Secret(90210), Secret(b"\x00key"), Secret({"a": [1]}))


def test_a_secret_does_not_show_itself() -> None:
    shown = [repr(LOGIN), str(LOGIN.password), f"{LOGIN.password}", f"{LOGIN.password!r:>20}", format(LOGIN.password)]

    assert not any(CANARY in text or "90210" in text for text in shown)
    assert LOGIN.password.reveal() == CANARY


def test_secrets_are_equal_by_value_and_are_not_copied_or_pickled() -> None:
    secret = Secret(CANARY)

    assert (secret == Secret(CANARY), secret == Secret("other"), secret == CANARY) == (True, False, False)
    assert hash(secret) == hash(Secret(CANARY))
    assert copy.copy(secret) is copy.deepcopy(secret) is secret
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)


# --- storing ---


@pytest.mark.parametrize("value", [Secret("x"), {"a": [Secret("x")]}, LOGIN])
@pytest.mark.parametrize("codec", [JsonCodec(), layered()["offloaded"]])
def test_it_is_refused_by_what_does_not_encrypt(codec: Codec, value: Any) -> None:
    for hint in (ANY, type(value)):
        with pytest.raises(UnserialisableError, match="it is a Secret, which only an engine with"):
            codec.encode(value, hint, place=at())


@pytest.mark.parametrize("name", ["encrypted", "both"])
def test_it_comes_back_through_what_encrypts(name: str) -> None:
    codec = layered()[name]

    payload, settled = codec.settle(LOGIN, Login, place=at())
    assert settled == codec.decode(payload, Login, place=at()) == LOGIN
    assert CANARY.encode() not in payload
    assert codec.decode(codec.encode(Secret("x"), Secret[str], place=at()), Secret[str], place=at()) == Secret("x")
    assert codec.decode(codec.encode(Secret("x"), place=at()), Secret, place=at()) == Secret("x")
    assert codec.validate(LOGIN, Login, place=at()) == LOGIN
    assert codec.validate({"user": "me", "password": "x"}, Login, place=at()) == Login("me", Secret("x"))


@given(value=ORDERS | TEXT | st.dictionaries(TEXT, st.none() | TEXT))
@settings(max_examples=50)
def test_any_value_may_be_secret(value: Any) -> None:
    codec, hint = encrypted(), Secret[type(value)]  # type: ignore[misc]

    assert codec.decode(codec.encode(Secret(value), hint, place=at()), hint, place=at()) == Secret(value)


@pytest.mark.parametrize("value", [Secret(float("nan")), [Secret({1: "a", "1": "b"})], Secret("\0"), Secret(Session())])
def test_what_cannot_be_stored_cannot_be_stored_as_a_secret(value: Any) -> None:
    with pytest.raises(UnserialisableError):
        encrypted().encode(value, place=at())


def test_a_secret_of_something_unreadable_is_refused_by_its_hint() -> None:
    with pytest.raises(UnsupportedTypeError, match="Session"):
        encrypted().prepare(Secret[Session], place=at())


def test_the_wrong_type_of_a_secret_is_not_quoted() -> None:
    with pytest.raises(InvalidInputError) as caught:
        JsonCodec().decode_external(f'{{"user":"me","password":"x","pin":"{CANARY}"}}', Login, place=at())

    assert CANARY not in str(caught.value)
    assert len(caught.value.violations) == 1
    assert "pin" in caught.value.violations[0]


def test_in_what_anybody_may_read_it_is_asterisks() -> None:
    for codec in (JsonCodec(), encrypted()):
        assert codec.encode_readable({"login": Secret(CANARY), "n": None}, place=at()) == b'{"login":"***","n":null}'
    with pytest.raises(UnserialisableError):
        JsonCodec().encode_readable(Session(), place=at())


# --- redaction ---


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (CANARY, f"wrong password {CANARY}!"),
        ('quo"te\nd-secret', "KeyError: {!r}".format('quo"te\nd-secret')),
        ('quo"te\nd-secret', r'{"a": "quo\"te\nd-secret"}'),
        ("zürich-straße", r"{'a': 'z\u00fcrich-stra\u00dfe'}"),
        (b"byte-secret", "b'byte-secret'"),
        (b"byte-secret", "Ynl0ZS1zZWNyZXQ="),
        (902108, "pin 902108"),
        (Line("nested-secret", 1), "no nested-secret here"),
        ({"a": ["nested-secret"]}, "no nested-secret here"),
    ],
)
def test_it_is_taken_out_of_texts(value: Any, text: str) -> None:
    secret = Secret(value)

    assert "***" in redact(text)
    assert redact(redact(text)) == redact(text)
    assert secret.reveal() == value


def test_a_secret_within_a_longer_one_leaves_no_rest() -> None:
    both = Secret("verysecret"), Secret("verysecret-and-more")

    assert redact("it is verysecret-and-more, or verysecret") == "it is ***, or ***"
    assert len(both) == 2


def test_short_secrets_and_other_texts_are_left() -> None:
    kept = Secret("abc"), Secret(True), Secret(None), Secret("")

    assert redact("abc True None") == "abc True None"
    assert len(kept) == 4


def test_a_secret_that_is_gone_stays_known_for_a_while_and_not_for_ever() -> None:
    Secret("gone-but-known")
    gc.collect()
    assert redact("gone-but-known") == "***"

    for number in range(RETIRED_MAX):
        Secret(f"another-{number}")
    gc.collect()
    assert redact("gone-but-known") == "gone-but-known"


def test_failures_are_recorded_without_it() -> None:
    secret = Secret(CANARY)
    errors: list[Exception] = [ValueError(f"no {CANARY}"), Failure(f"no {CANARY}"), UnserialisableError(CANARY)]

    for error in errors:
        stored = encode_failure(record_failure(error, data=f'{{"{CANARY}":[1,"{CANARY}"]}}'.encode()))
        assert CANARY.encode() not in stored
        assert b"***" in stored
    assert secret.reveal() == CANARY


def test_json_without_it_is_still_json() -> None:
    secrets = Secret(902108), Secret('quo"te')

    assert redact_json(rb'{"a":902108,"b":["quo\"te",1.5,null,true]}') == b'{"a":"***","b":["***",1.5,null,true]}'
    assert redact_json(b'{"a": 1}') == b'{"a": 1}'
    assert len(secrets) == 2


def own_loggers() -> list[str]:
    """The names of all loggers that stepwell writes to."""
    texts = [file.read_text(encoding="utf-8") for file in source_files()]
    return sorted({name for text in texts for name in re.findall(r'getLogger\("(stepwell[\w.]*)"\)', text)})


@pytest.mark.parametrize("name", own_loggers())
def test_log_lines_of_stepwell_do_not_have_it(name: str, caplog: pytest.LogCaptureFixture) -> None:
    secret, log = Secret(CANARY), logging.getLogger(name)

    log.warning("it is %s", CANARY)
    try:
        raise ValueError(f"no {CANARY}")
    except ValueError:
        log.exception("failed with %s", "something")
    log.warning("nothing %d", 7)
    assert CANARY not in caplog.text
    assert [record.getMessage() for record in caplog.records] == ["it is ***", "failed with something", "nothing 7"]
    assert "ValueError: no ***" in caplog.text
    assert secret.reveal() == CANARY
