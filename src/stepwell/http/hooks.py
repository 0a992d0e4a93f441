"""Incoming webhooks: a signed message becomes a signal or an event, once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stepwell.clock import SECOND, Duration, span
from stepwell.errors import InvalidOptionError, SignatureError
from stepwell.ids import random_bytes
from stepwell.model.locations import check_name
from stepwell.sinks.signatures import ID, SIGNATURE, TIMESTAMP, keys_of

if TYPE_CHECKING:
    from stepwell.http.services import Services

_ID_MAX: Final = 200
TOLERANCE: Final = "5m"
_SIGNATURES_MAX: Final = 10  # in one header: each is compared with each secret
_SIGNATURE: Final = re.compile(r"v1[a-z]?,[A-Za-z0-9+/]{40,88}={0,2}")
STRANGER: Final = random_bytes(32).hex()  # of this process: no sender can sign for a hook that does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One incoming webhook.

    With `topic` a message is published as an event; with `signal` it is sent to the run whose id or key is in the
    message at `run` ("data.order_id"). While you rotate secrets, give both. A message is accepted once, and only
    within `tolerance` of its timestamp.
    """

    name: str
    secret: str | tuple[str, ...] = field(repr=False)
    topic: str | None = None
    signal: str | None = None
    run: str | None = None
    tolerance: Duration = "5m"
    retain: Duration | None = None  # how long the topic keeps it for later waits

    def __post_init__(self) -> None:
        check_name(self.name, what="hook name")
        keys_of(self.secret, where=f"hook {self.name}")
        span(self.tolerance, what="tolerance")
        if (self.topic is None) == (self.signal is None) or (self.signal is None) != (self.run is None):
            raise InvalidOptionError(
                f"hook {self.name!r} has neither a topic nor a signal",
                fix='topic="orders"; or signal="paid" with run="data.order_id"',
            )


def hooks_by_name(hooks: Iterable[Hook]) -> dict[str, Hook]:
    """The hooks by name. Raises for a name that two hooks have."""
    found: dict[str, Hook] = {}
    for hook in hooks:
        if hook.name in found:
            raise InvalidOptionError(f"two hooks have the name {hook.name!r}", fix="rename one of them")
        found[hook.name] = hook
    return found


def check_form(headers: Mapping[str, str], services: Services) -> None:
    """Raise `SignatureError` for a message that no hook could accept, whatever its body is.

    The error is the same for every hook, and for a hook that does not exist.
    """
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not headers.get(name)]
    if missing:
        raise SignatureError(f"the message has no header {missing[0]}", fix="sign it as stepwell.sinks.Webhook does")
    message_id, timestamp, signatures = headers[ID], headers[TIMESTAMP], headers[SIGNATURE].split(" ")
    if len(message_id) > _ID_MAX or not message_id.isprintable():
        raise SignatureError("the message has no usable id", fix="sign it with an id of 1 to 200 characters")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
        raise SignatureError(f"the header {TIMESTAMP} is not a number of seconds")
    if len(signatures) > _SIGNATURES_MAX or not any(_SIGNATURE.fullmatch(each) for each in signatures):
        raise SignatureError(
            f"the header {SIGNATURE} is invalid",
            why=f"it has 1 to {_SIGNATURES_MAX} signatures, each `v1,` and base64, apart by blanks",
        )
    widest = max((span(each.tolerance) for each in services.hooks.values()), default=span(TOLERANCE))
    if abs(services.clock.now() - int(timestamp) * SECOND) > max(widest, span(TOLERANCE)):
        raise SignatureError(
            "the message is too old, or from the future",
            fix="correct both clocks; sign a message again when you send it again",
        )


def secrets_of(hook: Hook) -> tuple[str, ...]:
    """Every secret that a message to the hook may be signed with."""
    return (hook.secret,) if isinstance(hook.secret, str) else hook.secret
