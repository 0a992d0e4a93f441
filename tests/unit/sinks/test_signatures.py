"""Signatures: what fits, what does not, and what is refused before it is looked at."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepwell.errors import InvalidOptionError, SignatureError
from stepwell.sinks import verify_signature
from stepwell.sinks.signatures import keys_of, sign

SECRET = "a long and random text"
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BODY = b'{"id":"e1","payload":"\xc3\xa4"}'


def headers(secret: str | list[str] = SECRET, at: datetime = AT, body: bytes = BODY, **changes: Any) -> dict[str, Any]:
    timestamp = int(at.timestamp())
    signature = sign(keys_of(secret), "e1", timestamp, body)
    given = {"Webhook-Id": "e1", "Webhook-Timestamp": str(timestamp), "WEBHOOK-SIGNATURE": signature}
    return {**given, **changes}


def test_a_signed_message_is_accepted_and_its_id_is_told() -> None:
    assert verify_signature(SECRET, headers(), BODY, now=AT) == "e1"


def test_the_signature_is_the_one_of_the_convention() -> None:
    # Computed with another implementation of the Standard Webhooks convention.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'

    found = sign(keys_of(secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)

    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_either_of_two_secrets_will_do_on_either_side() -> None:
    assert verify_signature(["new", SECRET], headers(), BODY, now=AT) == "e1"
    assert verify_signature(SECRET, headers(["new", SECRET]), BODY, now=AT) == "e1"


@pytest.mark.parametrize("off", [-300, 300])
def test_a_message_may_be_five_minutes_off(off: int) -> None:
    assert verify_signature(SECRET, headers(), BODY, now=AT + timedelta(seconds=off)) == "e1"
    with pytest.raises(SignatureError, match="too old"):
        verify_signature(SECRET, headers(), BODY, now=AT + timedelta(seconds=off * 1.01))


def test_the_clock_of_the_machine_is_used_if_none_is_given() -> None:
    with pytest.raises(SignatureError, match="too old"):
        verify_signature(SECRET, headers(at=datetime(2020, 1, 1, tzinfo=UTC)), BODY)


def test_every_bit_of_the_message_counts() -> None:
    for index in range(len(BODY) * 8):
        flipped = bytearray(BODY)
        flipped[index // 8] ^= 1 << index % 8
        with pytest.raises(SignatureError, match="does not fit"):
            verify_signature(SECRET, headers(), bytes(flipped), now=AT)


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"Webhook-Id": "e2"}, "does not fit"),
        ({"Webhook-Id": ""}, "no header webhook-id"),
        ({"Webhook-Timestamp": ""}, "no header webhook-timestamp"),
        ({"Webhook-Timestamp": "1772366401"}, "does not fit"),
        ({"Webhook-Timestamp": "-1"}, "not a number"),
        ({"Webhook-Timestamp": "١٢"}, "not a number"),
        ({"Webhook-Timestamp": "9" * 30}, "not a number"),
        ({"WEBHOOK-SIGNATURE": ""}, "no header webhook-signature"),
        ({"WEBHOOK-SIGNATURE": "v1,"}, "does not fit"),
        ({"WEBHOOK-SIGNATURE": "ä"}, "does not fit"),
        ({"WEBHOOK-SIGNATURE": "v2," + "A" * 44}, "does not fit"),
    ],
)
def test_a_message_that_is_not_as_it_was_signed_is_refused(changes: dict[str, Any], title: str) -> None:
    with pytest.raises(SignatureError, match=title) as caught:
        verify_signature(SECRET, headers(**changes), BODY, now=AT)
    assert caught.value.code == "SW431"


@pytest.mark.parametrize("secret", ["", "  ", [], [""], "whsec_", "whsec_%%", [SECRET, ""], None, 7])
def test_a_secret_that_is_none_is_refused(secret: Any) -> None:
    with pytest.raises((InvalidOptionError, TypeError)):
        keys_of(secret)


def test_a_secret_in_base64_is_its_key() -> None:
    assert keys_of("whsec_" + base64.b64encode(b"key").decode()) == (b"key",)
