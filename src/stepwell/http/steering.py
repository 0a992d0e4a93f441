"""Operations that steer runs: cancel, retry, resume, signals and events."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stepwell.errors import InvalidMoveError, NotFoundError
from stepwell.http.bodies import SignalPage, signal_body
from stepwell.http.operations import Call, Operation, Reply, look, steer
from stepwell.http.roles import Permission
from stepwell.http.runs import Limit
from stepwell.http.starting import DurationText, KeyText, Text, reserve
from stepwell.model.signals import Delivery
from stepwell.model.states import RunStatus
from stepwell.wiring import Engine

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class CancelBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Why, and whether what was done is undone."""

    reason: Text = ""
    compensate: bool = True


class PauseBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Why; shown to whoever asks."""

    reason: Text = ""


class ActedBody(msgspec.Struct):
    """What a run is now; `changed` is false if it was so before."""

    run_id: str
    status: RunStatus
    changed: bool


class SignalIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A signal to one run."""

    name: Name
    payload: Any = None
    if_missing: Literal["raise", "hold", "drop"] = "raise"


class DeliveryBody(msgspec.Struct):
    """What became of a signal."""

    delivery: Delivery


class EventIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An event on a topic."""

    topic: Name
    payload: Any = None
    deliver: Literal["all", "one"] = "all"
    retain: DurationText | None = None


class EmittedBody(msgspec.Struct):
    """How many runs got an event."""

    event_id: str
    reached: int


class KeptEventBody(msgspec.Struct):
    """An event that a topic keeps."""

    event_id: str
    topic: str
    payload: Any
    deliver: str
    published_at: datetime
    kept_until: datetime


class KeptEventPage(msgspec.Struct):
    """Events that topics keep for waits to come, oldest first."""

    events: list[KeptEventBody]


class HeldQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Of which key."""

    key: KeyText | None = None
    limit: Limit = 100


class UnreadQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Of which run."""

    run: KeyText | None = None
    limit: Limit = 100


class KeptQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Of which topic."""

    topic: Name | None = None
    limit: Limit = 100


async def _act(
    call: Call,
    do: Callable[[Engine, str], Awaitable[bool]],
    impossible: str,
    needs: str,
    had_before: tuple[RunStatus, ...] = (),
    *,
    pauses: bool = False,
) -> Reply:
    engine, target = call.services.engine, call.path["run"]
    before = await engine.status(target)
    call.before = "" if before is None else before.status
    is_done = await do(engine, target)
    view = await engine.status(target)
    while view is not None and view.successor is not None:
        view = await engine.status(view.successor)
    if view is None:
        raise NotFoundError("run", target)
    call.after = view.status
    was_so = view.status in had_before or (pauses and view.hold is not None)
    if not is_done and not was_so:
        raise InvalidMoveError(
            f"run {view.run_id} is {view.status} and cannot {impossible}",
            where=f"run {view.run_id}",
            why=f"it takes {needs}",
            fix=f"GET /runs/{view.run_id}/why",
        )
    return Reply(ActedBody(view.run_id, RunStatus(view.status), is_done))


async def cancel(call: Call) -> Reply:
    """Cancel a run and its children."""
    body: CancelBody = call.body
    return await _act(
        call,
        lambda engine, target: engine.cancel(target, body.reason, compensate=body.compensate, by=call.caller.name),
        "be cancelled",
        "a run that has not ended",
        (RunStatus.CANCELLED, RunStatus.CANCELLING, RunStatus.COMPENSATING),
    )


async def retry(call: Call) -> Reply:
    """Let a failed run go on from the step that failed."""
    by = call.caller.name
    needs = "a failed run whose key no other active run has"
    return await _act(call, lambda engine, target: engine.repairs.retry(target, by=by), "be retried", needs)


async def pause(call: Call) -> Reply:
    """Have a run stand still until it is resumed."""
    by, reason = call.caller.name, call.body.reason
    return await _act(
        call,
        lambda engine, target: engine.holds.pause(target, by=by, reason=reason),
        "be paused",
        "a run that has not ended and is not being cancelled or undone",
        (RunStatus.PAUSED,),
        pauses=True,
    )


async def resume(call: Call) -> Reply:
    """Let a paused run go on."""
    by = call.caller.name
    return await _act(call, lambda engine, target: engine.holds.resume(target, by=by), "be resumed", "a paused run")


async def resume_rollback(call: Call) -> Reply:
    """Go on with a rollback that stalled."""
    by, needs = call.caller.name, "a run whose rollback is incomplete"
    return await _act(
        call,
        lambda engine, target: engine.repairs.resume_rollback(target, by=by),
        "have its rollback resumed",
        needs,
        (RunStatus.COMPENSATING,),
    )


async def signal(call: Call) -> Reply:
    """Send a signal, once for each `Idempotency-Key`."""
    body: SignalIn = call.body
    target, key = call.path["run"], call.headers.get("idempotency-key")
    scope, dedup_key = f"signal {target} by {call.caller.name}", None
    if key is not None:
        dedup_key = f"http-{hashlib.sha256(f'{scope} {key}'.encode()).hexdigest()}"
        # Once the run has ended it knows no dedup keys any more, so what became of the signal is kept here.
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


async def emit(call: Call) -> Reply:
    """Publish an event, once for each `Idempotency-Key`."""
    body: EventIn = call.body
    key = call.headers.get("idempotency-key")
    event_id = call.request_id
    if key is not None:
        event_id = await reserve(call, f"emit by {call.caller.name}", key, event_id)
    engine = call.services.engine
    reached = await engine.publish(
        body.topic, body.payload, deliver=body.deliver, retain=body.retain, event_id=event_id
    )
    call.after = f"reached {reached}"
    return Reply(EmittedBody(event_id, reached), 202)


async def list_held(call: Call) -> Reply:
    """Signals that wait for a run to come."""
    found = await call.services.engine.signals.list_held(call.query.key, limit=call.query.limit)
    return Reply(SignalPage([signal_body(call, one) for one in found]))


async def list_unread(call: Call) -> Reply:
    """Signals that nobody read."""
    found = await call.services.engine.signals.list_unread(call.query.run, limit=call.query.limit)
    return Reply(SignalPage([signal_body(call, one) for one in found]))


async def list_kept(call: Call) -> Reply:
    """Events that topics keep."""
    found = await call.services.engine.events.list(call.query.topic, limit=call.query.limit)
    return Reply(
        KeptEventPage(
            [
                KeptEventBody(
                    one.event_id, one.topic, call.show(one.payload), one.deliver, one.published_at, one.kept_until
                )
                for one in found
            ]
        )
    )


OPERATIONS = (
    steer("/runs/{run}/cancel", "cancel_run", cancel, "Cancel a run and its children", ActedBody, CancelBody),
    steer("/runs/{run}/retry", "retry_run", retry, "Let a failed run go on", ActedBody),
    steer("/runs/{run}/pause", "pause_run", pause, "Have a run stand still", ActedBody, PauseBody),
    steer("/runs/{run}/resume", "resume_run", resume, "Let a paused run go on", ActedBody),
    steer(
        "/runs/{run}/resume-rollback", "resume_rollback", resume_rollback, "Go on with a stalled rollback", ActedBody
    ),
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
    Operation(
        method="POST",
        path="/events",
        name="emit_event",
        permission=Permission.STEER,
        handler=emit,
        summary="Publish an event on a topic",
        answers={202: EmittedBody},
        body=EventIn,
        takes_key=True,
    ),
    look("/events", "list_kept_events", list_kept, "Events that topics keep", {200: KeptEventPage}, query=KeptQuery),
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
)
