"""Webhooks in: signed messages from elsewhere become signals or events, each once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepwell.clock import SECOND, Duration, Instant, span
from stepwell.codec.base import Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import InvalidInputError, InvalidOptionError, SignatureError
from stepwell.http.operations import Call, Operation, Reply
from stepwell.http.problems import Refused
from stepwell.http.roles import Permission
from stepwell.ids import random_bytes
from stepwell.model.ledger import Reservation
from stepwell.model.locations import check_name
from stepwell.model.signals import Delivery
from stepwell.sinks.signatures import ID, SIGNATURE, TIMESTAMP, keys_of, verify_signature

if TYPE_CHECKING:
    from stepwell.http.services import Services

_ID_MAX: Final = 200
_TOLERANCE: Final = "5m"
_SIGNATURES_MAX: Final = 10  # in one header: each is compared with each secret
_SIGNATURE: Final = re.compile(r"v1[a-z]?,[A-Za-z0-9+/]{40,88}={0,2}")
_NOBODY: Final = random_bytes(32).hex()  # of this process: nobody can sign for a hook that does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A way in for signed messages.

    With `topic` a message is published as an event; with `signal` it is sent to the run whose id or key stands in the
    message at `run` ("data.order_id"). While secrets are being changed, give both. A message is taken within
    `tolerance` of its timestamp, once.
    """

    name: str
    secret: str | tuple[str, ...] = field(repr=False)
    topic: str | None = None
    signal: str | None = None
    run: str | None = None
    tolerance: Duration = "5m"
    retain: Duration | None = None  # how long the topic keeps it for waits to come

    def __post_init__(self) -> None:
        check_name(self.name, what="hook name")
        keys_of(self.secret, where=f"hook {self.name}")
        span(self.tolerance, what="tolerance")
        if (self.topic is None) == (self.signal is None) or (self.signal is None) != (self.run is None):
            raise InvalidOptionError(
                f"hook {self.name!r} does not say what becomes of its messages",
                fix='topic="orders"; or signal="paid" with run="data.order_id"',
            )


def hooks_by_name(hooks: Iterable[Hook]) -> dict[str, Hook]:
    """The hooks by their names, each of which stands for one."""
    found: dict[str, Hook] = {}
    for hook in hooks:
        if hook.name in found:
            raise InvalidOptionError(f"two hooks are called {hook.name!r}", fix="give one another name")
        found[hook.name] = hook
    return found


class TakenBody(msgspec.Struct):
    """What became of a message; a duplicate did nothing."""

    delivery: Delivery
    reached: int


def check_form(headers: Mapping[str, str], services: Services) -> None:
    """Raise `SignatureError` for a message that no hook could take, whatever its body is.

    What it says is the same for every hook and for none.
    """
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not headers.get(name)]
    if missing:
        raise SignatureError(f"the message has no header {missing[0]}", fix="sign it as stepwell.Webhook does")
    message_id, timestamp, signatures = headers[ID], headers[TIMESTAMP], headers[SIGNATURE].split(" ")
    if len(message_id) > _ID_MAX or not message_id.isprintable():
        raise SignatureError("the message has no usable id", fix="sign it with an id of 1 to 200 characters")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
        raise SignatureError(f"the header {TIMESTAMP} is not a number of seconds")
    if len(signatures) > _SIGNATURES_MAX or not any(_SIGNATURE.fullmatch(each) for each in signatures):
        raise SignatureError(
            f"the header {SIGNATURE} is not one",
            why=f"it has 1 to {_SIGNATURES_MAX} signatures, each `v1,` and base64, apart by blanks",
        )
    widest = max((span(each.tolerance) for each in services.hooks.values()), default=span(_TOLERANCE))
    if abs(services.clock.now() - int(timestamp) * SECOND) > max(widest, span(_TOLERANCE)):
        raise SignatureError(
            "the message is too old, or from the future",
            fix="set both clocks right; a message that is sent again is signed again",
        )


def _secrets(hook: Hook) -> tuple[str, ...]:
    return (hook.secret,) if isinstance(hook.secret, str) else hook.secret


async def take(call: Call) -> Reply:
    """Take a signed message. The signature is checked before anything in the body is looked at."""
    services = call.services
    hook = services.hooks.get(call.path["hook"])
    # One that does not exist is refused like one that is signed wrongly, after the same work: nobody learns which
    # there are. So every hook is checked with as many secrets as the one that has most.
    secrets = (_NOBODY,) if hook is None else _secrets(hook)
    tolerance = _TOLERANCE if hook is None else hook.tolerance
    most = max((len(_secrets(each)) for each in services.hooks.values()), default=1)
    padded = (*secrets, *[_NOBODY] * (most - len(secrets)))
    message_id = verify_signature(padded, call.headers, call.raw, tolerance=tolerance)
    if hook is None:
        raise SignatureError("the signature does not fit the message")
    payload = _parse(call)
    # Twice the tolerance: a timestamp may lie ahead as well as behind.
    until = Instant(services.engine.now() + 2 * span(hook.tolerance) + 1)
    scope, digest = f"hook {hook.name}", hashlib.sha256(call.raw).hexdigest()
    if await services.ledger.reserve(Reservation(scope, message_id, digest, "", until)):
        call.after = Delivery.DUPLICATE.value
        return Reply(TakenBody(Delivery.DUPLICATE, 0))
    own_id = f"hook-{hashlib.sha256(f'{hook.name}.{message_id}'.encode()).hexdigest()}"
    taken = await _hand_over(call, hook, payload, own_id)
    await services.ledger.settle(scope, message_id, taken.delivery.value)
    call.after = taken.delivery.value
    return Reply(taken)


async def _hand_over(call: Call, hook: Hook, payload: Any, own_id: str) -> TakenBody:
    """Make the message what the hook says. Doing it again with the same id does nothing."""
    engine = call.services.engine
    if hook.topic is not None:
        return TakenBody(
            Delivery.DELIVERED, await engine.publish(hook.topic, payload, event_id=own_id, retain=hook.retain)
        )
    assert hook.signal is not None
    assert hook.run is not None
    target = _target(payload, hook.run)
    delivery = await engine.signal(target, hook.signal, payload, dedup_key=own_id, if_missing="hold")
    return TakenBody(delivery, int(delivery is Delivery.DELIVERED))


def _parse(call: Call) -> Any:
    try:
        codec = JsonCodec(payload_bytes_max=call.services.limits.body_max)
        return codec.decode_external(call.raw, Any, place=Place("", "", "the message"))
    except InvalidInputError as error:
        raise Refused(400, error) from None


def _target(payload: Any, path: str) -> str:
    found = payload
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise InvalidInputError(
            "the message does not say which run it is for",
            [f"`{path}`: expected a text or a number"],
            where=path,
            fix="send the run's id or key there",
        )
    return str(found)


OPERATIONS = (
    Operation(
        method="POST",
        path="/hooks/{hook}",
        name="take_message",
        permission=Permission.SIGNED,
        handler=take,
        summary="A signed message from elsewhere",
        answers={200: TakenBody},
    ),
)
