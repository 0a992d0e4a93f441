"""Signed messages: with a shared secret, a sender proves that a message is its own, unchanged and recent.

The signature is HMAC-SHA256 over `id.timestamp.body`, in the headers and the form of the Standard Webhooks convention:
`webhook-id`, `webhook-timestamp` (seconds), `webhook-signature` (`v1,` and base64; several are separated by blanks). A
secret that begins with `whsec_` is the base64 of the key; any other secret is the key itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from stepwell.clock import SECOND, Clock, Duration, SystemClock, span, to_instant
from stepwell.errors import InvalidOptionError, SignatureError

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"

_VERSION: Final = "v1,"
_PREFIX: Final = "whsec_"
_CLOCK: Clock = SystemClock()


def keys_of(secret: str | Iterable[str], *, where: str = "") -> tuple[bytes, ...]:
    """The keys of one secret, or of several during a rotation. Raises `InvalidOptionError`."""
    secrets = (secret,) if isinstance(secret, str) else tuple(secret)
    keys = tuple(_key(each, where) for each in secrets)
    if not keys:
        raise _refused("there is no secret", where)
    return keys


def _key(secret: Any, where: str) -> bytes:
    if not isinstance(secret, str) or not secret.strip():
        raise _refused("the secret is empty", where)
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise _refused(f"the secret begins with {_PREFIX} and is not base64 after that", where) from None
    if not key:
        raise _refused("the secret is empty", where)
    return key


def _refused(title: str, where: str) -> InvalidOptionError:
    return InvalidOptionError(
        title,
        where=where,
        why="sender and receiver share a secret key, which must not be empty",
        fix='give both sides the same long random text: secret=os.environ["WEBHOOK_SECRET"], for example',
    )


def sign(keys: Iterable[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The signatures of a message, one for each key."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return " ".join(_VERSION + base64.b64encode(digest).decode() for digest in digests)


def verify_signature(
    secret: str | Iterable[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: Duration = "5m",
    now: datetime | None = None,
) -> str:
    """Check that a message comes from a `Webhook` with this secret; returns its event id.

    For receivers, before they parse the body. With several secrets, during a rotation, any of them is accepted. A
    message may arrive more than once, also from an attacker who repeats it: remember its id for twice the tolerance,
    because the timestamp may be ahead as well as behind. Raises `SignatureError`.
    """
    keys = keys_of(secret)
    given = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]
    if missing:
        raise SignatureError(f"the message has no header {missing[0]}", why="it is not signed", fix="reject it")
    message_id, timestamp = given[ID], given[TIMESTAMP]
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
        raise SignatureError(f"the header {TIMESTAMP} is not a number of seconds", fix="reject the message")
    expected = sign(keys, message_id, int(timestamp), body).split(" ")
    found = given[SIGNATURE].split(" ")
    # All pairs are compared, each in constant time.
    matches = [hmac.compare_digest(one.encode(), two.encode()) for one in expected for two in found]
    if not any(matches):
        raise SignatureError(
            "the signature does not fit the message",
            why="it was made with another secret, or the message was changed in transit",
            fix="check that both sides have the same secret, and pass the raw body",
        )
    instant = _CLOCK.now() if now is None else to_instant(now, what="now")
    if abs(instant - int(timestamp) * SECOND) > span(tolerance, what="tolerance"):
        raise SignatureError(
            "the timestamp of the message is too old, or in the future",
            why=f"it differs from the receiver's clock by more than {tolerance}",
            fix="correct both clocks; a message that is sent again gets a new timestamp",
        )
    return message_id
