"""Operations that start runs."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stepwell.advice import Advice, Verb
from stepwell.engine.handles import Handle
from stepwell.engine.starts import StartManyOptions
from stepwell.engine.views import RunView
from stepwell.errors import AlreadyExistsError, RequestError, UnknownWorkflowError
from stepwell.http.advice import AdviceBody, advice_bodies
from stepwell.http.fields import DurationText, KeyText
from stepwell.http.idempotency import reserve
from stepwell.http.operations import Call, Operation, Reply
from stepwell.http.roles import Permission
from stepwell.http.routes.workflows import versions_of
from stepwell.http.schemas import RunBody, run_body
from stepwell.ids import RunId, SystemIds
from stepwell.model.attributes import TITLE_MAX
from stepwell.model.retries import Retry
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.nearest import nearest


class TypedAttribute(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The value of an attribute that JSON has no form for: `{"time": "2026-12-01T00:00:00Z"}`, or a number with all its
    digits, `{"number": "42.10"}`.
    """

    time: Annotated[datetime, Meta(tz=True)] | None = None
    number: Annotated[str, Meta(max_length=200, pattern=r"^-?[0-9]+(\.[0-9]+)?$")] | None = None

    @property
    def value(self) -> datetime | Decimal:
        """The time or the number, whichever was given. Raises `RequestError` unless exactly one was."""
        if self.number is not None and self.time is None:
            return Decimal(self.number)
        if self.time is None or self.number is not None:
            raise RequestError("an attribute has one type", where="attributes", fix='give {"time": …} or {"number": …}')
        return self.time


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How often the whole run is tried, and how long to wait in between: as `Retry` in Python. `max_attempts: null` is
    without a limit.
    """

    max_attempts: Annotated[int, Meta(ge=1)] | None = 3
    initial: DurationText = "100ms"
    factor: Annotated[float, Meta(ge=1)] = 2.0
    max_delay: DurationText = "30s"
    jitter: Annotated[float, Meta(ge=0)] = 0.1

    @property
    def policy(self) -> Retry:
        """The policy. Raises `InvalidOptionError`."""
        return Retry(**msgspec.structs.asdict(self))


class StartBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to start, and how."""

    workflow: Annotated[str, Meta(min_length=1, max_length=200)]
    input: Any = None
    key: KeyText | None = None
    on_conflict: Literal["get", "raise", "replace"] = "get"
    dedup: DurationText = "24h"
    delay: DurationText = "0s"
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    tags: dict[str, str] = {}
    deadline: DurationText | None = None
    max_suspend: DurationText | None = None
    attributes: dict[str, str | bool | int | float | TypedAttribute] = {}
    title: Annotated[str, Meta(min_length=1, max_length=TITLE_MAX)] | None = None
    headers: dict[str, str] = {}
    retry: RetryBody | None = None


class StartedBody(msgspec.Struct):
    """The run that was started, or found. If it was found, `same_input` tells whether it has the same input; that is
    null for a caller that may not see payloads, because the caller could guess an input.

    `note` and `advice` are for a run that was found and has already ended.
    """

    run: RunBody
    is_new: bool
    same_input: bool | None
    replaced: str | None
    note: str
    advice: list[AdviceBody]


async def start(call: Call) -> Reply:
    """Start a run, once for each `Idempotency-Key`."""
    body: StartBody = call.body
    options: StartManyOptions = {
        "on_conflict": body.on_conflict,
        "dedup": body.dedup,
        "delay": body.delay,
        "priority": body.priority,
        "tags": body.tags,
        "deadline": body.deadline,
        "max_suspend": body.max_suspend,
        "attributes": {
            name: value.value if isinstance(value, TypedAttribute) else value for name, value in body.attributes.items()
        },
        "title": body.title,
        "headers": body.headers,
        "retry": None if body.retry is None else body.retry.policy,
        "by": call.caller.name.strip(),
    }
    key = call.headers.get("idempotency-key")
    handle = await (_begin(call, body, options) if key is None else _start_once(call, body, options, key))
    view = await handle.status()
    call.after = view.status
    location = {"location": f"runs/{view.run_id}"}
    same_input = handle.same_input if handle.is_new or call.caller.sees_payloads else None
    note, advice = _found_words(handle, view)
    started = StartedBody(run_body(call, view), handle.is_new, same_input, handle.replaced, note, advice_bodies(advice))
    return Reply(started, 201 if handle.is_new else 200, location)


def _found_words(handle: Handle[Any], view: RunView) -> tuple[str, tuple[Advice, ...]]:
    if handle.is_new or view.status not in TERMINAL:
        return "", ()
    advice = Advice(Verb.RETRY if view.status == RunStatus.FAILED else Verb.SHOW, view.run_id)
    return f"nothing was started: this run was there already, and is {view.status}", (advice,)


async def _begin(call: Call, body: StartBody, options: StartManyOptions, run_id: str | None = None) -> Handle[Any]:
    engine = call.services.engine
    if any(each.name == body.workflow for each in engine.versions.known):
        return await engine.start(body.workflow, body.input, key=body.key, run_id=run_id, **options)
    version = await _served_version(call, body.workflow)
    return await engine.runs.start_by_name(body.workflow, version, body.input, key=body.key, run_id=run_id, **options)


async def _start_once(call: Call, body: StartBody, options: StartManyOptions, key: str) -> Handle[Any]:
    """The run's id is chosen and stored under the key before the run is started. So a repeated request finds that id,
    whatever the outcome of the first request.
    """
    engine = call.services.engine
    run_id = await reserve(call, f"start by {call.caller.name}", key, SystemIds(call.services.clock).uuid())
    found = await engine.status(run_id)
    if found is None:
        try:
            return await _begin(call, body, options, run_id)
        except AlreadyExistsError:
            found = await engine.status(run_id)
            if found is None:
                raise
    return _found(call, run_id)


def _found(call: Call, run_id: str) -> Handle[Any]:
    engine = call.services.engine
    return Handle(engine.runs, engine.signals, RunId(run_id), is_new=False, same_input=True)


async def _served_version(call: Call, name: str) -> int:
    """The newest version of a workflow that a live worker serves, else that the store knows."""
    engine = call.services.engine
    alive = [each for one in await engine.workers.list() if one.is_alive for each in one.definitions]
    versions = versions_of(alive).get(name) or versions_of(await engine.versions.list()).get(name)
    if not versions:
        known = sorted({*versions_of(alive), *(each.name for each in engine.versions.known)})
        raise UnknownWorkflowError("workflow", name, near=nearest(name, known), fix=f"known: {', '.join(known[:20])}")
    return max(versions)


OPERATIONS = (
    Operation(
        method="POST",
        path="/runs",
        name="start_run",
        permission=Permission.STEER,
        handler=start,
        summary="Start a run, or get the run of this key",
        answers={201: StartedBody, 200: StartedBody},
        body=StartBody,
        takes_key=True,
    ),
)
