"""Operations on signals: send one to a run, list the signals that no run has read."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

from stepwell.errors import RequestError
from stepwell.http.fields import KeyText, Limit, Name
from stepwell.http.idempotency import reserve
from stepwell.http.operations import Call, Operation, Reply, look, steer
from stepwell.http.roles import Permission
from stepwell.http.schemas import SignalPage, signal_body
from stepwell.model.signals import Delivery


class SignalIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A signal to one run."""

    name: Name
    payload: Any = None
    if_missing: Literal["raise", "hold", "drop"] = "raise"


class DeliveryBody(msgspec.Struct):
    """The outcome of a signal."""

    delivery: Delivery


class HeldQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Signals of one key, or of all."""

    key: KeyText | None = None
    limit: Limit = 100


class UnreadQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Signals of one run, or of all."""

    run: KeyText | None = None
    limit: Limit = 100


class RedeliverBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """To which run, by id or key; to its own target, if that is left out."""

    to: KeyText | None = None


async def signal(call: Call) -> Reply:
    """Send a signal, once for each `Idempotency-Key`."""
    body: SignalIn = call.body
    target, key = call.path["run"], call.headers.get("idempotency-key")
    scope, dedup_key = f"signal {target} by {call.caller.name}", None
    if key is not None:
        dedup_key = f"http-{hashlib.sha256(f'{scope} {key}'.encode()).hexdigest()}"
        # An ended run has no dedup keys, so the outcome of the signal is kept here.
        if await reserve(call, scope, key, ""):
            call.after = Delivery.DUPLICATE.value
            return Reply(DeliveryBody(Delivery.DUPLICATE), 200)
    delivery = await call.services.engine.signal(
        target, body.name, body.payload, dedup_key=dedup_key, if_missing=body.if_missing
    )
    if key is not None and delivery is not Delivery.MISSING:
        await call.services.ledger.settle(scope, key, delivery.value)
    call.after = delivery.value
    return Reply(DeliveryBody(delivery), 200 if delivery in (Delivery.DUPLICATE, Delivery.MISSING) else 202)


async def list_held(call: Call) -> Reply:
    """Signals that wait for the next run of their key."""
    found = await call.services.engine.signals.list_held(call.query.key, limit=call.query.limit)
    return Reply(SignalPage([signal_body(call, one) for one in found]))


async def list_unread(call: Call) -> Reply:
    """Signals that runs left unread."""
    found = await call.services.engine.signals.list_unread(call.query.run, limit=call.query.limit)
    return Reply(SignalPage([signal_body(call, one) for one in found]))


async def redeliver(call: Call) -> Reply:
    """Deliver a held or unread signal, to its own target or to another run."""
    text = call.path["number"]
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise RequestError("this is not the number of a signal", where="number", fix="give its number, such as 7")
    signals = call.services.engine.signals
    found = await signals.find_undelivered(int(text))
    [delivery] = await signals.redeliver(found, to=call.body.to)
    call.after = delivery.value
    return Reply(DeliveryBody(delivery))


OPERATIONS = (
    Operation(
        method="POST",
        path="/runs/{run}/signals",
        name="send_signal",
        permission=Permission.STEER,
        handler=signal,
        summary="Send a signal to a run, by id or key",
        answers={202: DeliveryBody, 200: DeliveryBody},
        body=SignalIn,
        takes_key=True,
    ),
    look(
        "/signals/held",
        "list_held",
        list_held,
        "Signals held for a key without a run",
        {200: SignalPage},
        query=HeldQuery,
    ),
    look(
        "/signals/unread",
        "list_unread",
        list_unread,
        "Signals that runs left unread",
        {200: SignalPage},
        query=UnreadQuery,
    ),
    steer(
        "/signals/{number}/redeliver",
        "redeliver_signal",
        redeliver,
        "Deliver a signal that no run has read; `missing` if its target has no active run",
        DeliveryBody,
        RedeliverBody,
    ),
)
