"""Webhooks in: signed messages from elsewhere become signals or events, each once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from stepwell.clock import Duration, Instant, span
from stepwell.codec.base import Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import InvalidInputError, InvalidOptionError, SignatureError
from stepwell.http.operations import Call, Operation, Reply
from stepwell.http.problems import Refused
from stepwell.http.roles import Permission
from stepwell.model.locations import check_name
from stepwell.model.signals import Delivery
from stepwell.sinks.signatures import keys_of, verify_signature

_ID_MAX: Final = 200
_NOBODY: Final = "\x00 no hook has this secret"


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


async def take(call: Call) -> Reply:
    """Take a signed message. The signature is checked before anything in the body is looked at."""
    services = call.services
    hook = services.hooks.get(call.path["hook"])
    # One that does not exist is refused like one that is signed wrongly: nobody learns which there are.
    secret, tolerance = (_NOBODY, "5m") if hook is None else (hook.secret, hook.tolerance)
    message_id = verify_signature(secret, call.headers, call.raw, tolerance=tolerance)
    if hook is None or not 0 < len(message_id) <= _ID_MAX or not message_id.isprintable():
        raise SignatureError("the message has no usable id", fix="sign it with an id of 1 to 200 characters")
    payload = _parse(call)
    # Twice the tolerance: a timestamp may lie ahead as well as behind.
    until = Instant(services.engine.now() + 2 * span(hook.tolerance) + 1)
    scope, digest = f"hook {hook.name}", hashlib.sha256(call.raw).hexdigest()
    seen, _ = await services.ledger.reserve(scope, message_id, digest, "", until=until)
    if seen:
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
