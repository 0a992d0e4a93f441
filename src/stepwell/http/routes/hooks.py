"""Incoming webhooks: a signed message becomes a signal or an event, once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from stepwell.clock import Instant, span
from stepwell.codec.base import Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import InvalidInputError, NotFoundError, RequestError, SignatureError
from stepwell.http.operations import Call, Operation, Reply
from stepwell.http.problems import Refused
from stepwell.http.roles import Permission
from stepwell.model.ledger import Reservation
from stepwell.model.signals import Delivery
from stepwell.nearest import nearest
from stepwell.sinks.signatures import verify_signature

if TYPE_CHECKING:
    from stepwell.engine.dead_letters import HookTaker
    from stepwell.http.services import Services
    from stepwell.wiring import Engine
from stepwell.http.hooks import STRANGER, TOLERANCE, Hook, secrets_of


class TakenBody(msgspec.Struct):
    """The outcome of a message; a duplicate did nothing."""

    delivery: Delivery
    reached: int


async def take(call: Call) -> Reply:
    """Accept a signed message. The signature is checked before the body is parsed."""
    services = call.services
    hook = services.hooks.get(call.path["hook"])
    # A hook that does not exist is refused like a wrong signature, after the same work, so that callers do not learn
    # which hooks exist. So every hook is checked with as many secrets as the hook with the most.
    secrets = (STRANGER,) if hook is None else secrets_of(hook)
    tolerance = TOLERANCE if hook is None else hook.tolerance
    most = max((len(secrets_of(each)) for each in services.hooks.values()), default=1)
    padded = (*secrets, *[STRANGER] * (most - len(secrets)))
    message_id = verify_signature(padded, call.headers, call.raw, tolerance=tolerance)
    if hook is None:
        raise SignatureError("the signature does not fit the message")
    payload = _parse(call)
    # Twice the tolerance: a timestamp may be ahead or behind.
    until = Instant(services.engine.now() + 2 * span(hook.tolerance) + 1)
    scope, digest = f"hook {hook.name}", hashlib.sha256(call.raw).hexdigest()
    if await services.ledger.reserve(Reservation(scope, message_id, digest, "", until)):
        call.after = Delivery.DUPLICATE.value
        return Reply(TakenBody(Delivery.DUPLICATE, 0))
    own_id = f"hook-{hashlib.sha256(f'{hook.name}.{message_id}'.encode()).hexdigest()}"
    try:
        taken = await _hand_over(services.engine, hook, payload, own_id)
    except RequestError as error:
        # The signature was right, so the message counts as accepted; its sender may never send it again.
        await services.engine.dead_letters.keep_hook(hook.name, own_id, call.raw, error)
        raise
    await services.engine.dead_letters.settle_hook(own_id)
    await services.ledger.settle(scope, message_id, taken.delivery.value)
    call.after = taken.delivery.value
    return Reply(taken)


def taker_of(services: Services) -> HookTaker:
    """How a letter of a hook is handed over again."""

    async def take_again(hook: str, own_id: str, message: bytes) -> None:
        known = services.hooks.get(hook)
        if known is None:
            raise NotFoundError(
                "hook", hook, near=nearest(hook, services.hooks), fix="retry it on a server that has it"
            )
        codec = JsonCodec(payload_bytes_max=services.limits.body_max)
        payload = codec.decode_external(message, Any, place=Place("", "", "the message"))
        await _hand_over(services.engine, known, payload, own_id)

    return take_again


async def _hand_over(engine: Engine, hook: Hook, payload: Any, own_id: str) -> TakenBody:
    """Publish or send the message, as the hook defines. A repetition with the same id does nothing."""
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
            "the message does not name its run",
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
        summary="A signed message from another service",
        answers={200: TakenBody},
    ),
)
