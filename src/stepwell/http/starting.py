"""Operations that start runs, and the workflows that can be started."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stepwell.clock import SECOND, Instant
from stepwell.codec.base import Place
from stepwell.codec.plans import plan_for
from stepwell.engine.handles import Handle
from stepwell.engine.starts import StartManyOptions
from stepwell.errors import AlreadyExistsError, NotFoundError, StepwellError, UnknownWorkflowError
from stepwell.http.bodies import RunBody, run_body
from stepwell.http.operations import Call, Operation, Reply, look
from stepwell.http.roles import Permission
from stepwell.ids import RunId, SystemIds
from stepwell.model.ledger import Reservation
from stepwell.nearest import nearest
from stepwell.replay.signals import Signal
from stepwell.replay.workflows import Workflow

Text = Annotated[str, Meta(max_length=1_024)]
KeyText = Annotated[str, Meta(min_length=1, max_length=200)]
DurationText = Annotated[str, Meta(max_length=40, pattern=r"^(\d{1,9}(\.\d{1,6})?(us|ms|s|m|h|d|w))+$")]


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


class StartedBody(msgspec.Struct):
    """The run that was started, or found; then `same_input` says whether it has the same input.

    That is null for a caller that sees no payloads: it could find one out by trying.
    """

    run: RunBody
    is_new: bool
    same_input: bool | None
    replaced: str | None


class SignalType(msgspec.Struct):
    """A signal that a workflow declares."""

    name: str
    payload: dict[str, Any] | None


class WorkflowBody(msgspec.Struct):
    """One version of a workflow. Without schemas if this server knows it only from the store."""

    name: str
    version: int
    is_newest: bool
    is_known_here: bool
    takes_input: bool | None
    input: dict[str, Any] | None
    output: dict[str, Any] | None
    signals: list[SignalType] | None
    summary: str


class WorkflowList(msgspec.Struct):
    """Every workflow that this server or the store knows."""

    workflows: list[WorkflowBody]


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
    }
    key = call.headers.get("idempotency-key")
    handle = await (_begin(call, body, options) if key is None else _start_once(call, body, options, key))
    view = await handle.status()
    call.after = view.status
    location = {"location": f"runs/{view.run_id}"}
    same_input = handle.same_input if handle.is_new or call.caller.sees_payloads else None
    started = StartedBody(run_body(call, view), handle.is_new, same_input, handle.replaced)
    return Reply(started, 201 if handle.is_new else 200, location)


async def _begin(call: Call, body: StartBody, options: StartManyOptions, run_id: str | None = None) -> Handle[Any]:
    engine = call.services.engine
    if any(each.name == body.workflow for each in engine.versions.known):
        return await engine.start(body.workflow, body.input, key=body.key, run_id=run_id, **options)
    version = await _served_version(call, body.workflow)
    return await engine.runs.start_by_name(body.workflow, version, body.input, key=body.key, run_id=run_id, **options)


async def _start_once(call: Call, body: StartBody, options: StartManyOptions, key: str) -> Handle[Any]:
    """The run's id is decided, and kept under the key, before the run is started: a repeated request finds that id
    taken, whatever became of the first one.
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


async def reserve(call: Call, scope: str, key: str, answer: str) -> str:
    """What stands under an idempotency key; see `Ledger.reserve`."""
    services = call.services
    fingerprint = hashlib.sha256(call.raw).hexdigest()
    until = Instant(services.engine.now() + int(services.limits.window_seconds * SECOND))
    return await services.ledger.reserve(Reservation(scope, key, fingerprint, answer, until))


async def _served_version(call: Call, name: str) -> int:
    """The newest version of a workflow that a live worker serves, else that the store knows."""
    engine = call.services.engine
    alive = [each for one in await engine.workers.list() if one.is_alive for each in one.definitions]
    versions = _versions(alive).get(name) or _versions(await engine.versions.list()).get(name)
    if not versions:
        known = sorted({*_versions(alive), *(each.name for each in engine.versions.known)})
        raise UnknownWorkflowError("workflow", name, near=nearest(name, known), fix=f"known: {', '.join(known[:20])}")
    return max(versions)


def _versions(definitions: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in definitions:
        name, _, version = each.rpartition("@")
        found.setdefault(name, []).append(int(version))
    return found


async def list_workflows(call: Call) -> Reply:
    """Every workflow with the schemas of its input, its result and its signals."""
    return Reply(WorkflowList(await _workflows(call)))


async def show_workflow(call: Call) -> Reply:
    """One workflow in all its versions."""
    name = call.path["workflow"]
    everything = await _workflows(call)
    found = [each for each in everything if each.name == name]
    if not found:
        raise NotFoundError("workflow", name, near=nearest(name, [each.name for each in everything]))
    return Reply(WorkflowList(found))


async def _workflows(call: Call) -> list[WorkflowBody]:
    engine = call.services.engine
    known = {each.definition: _known(each) for each in engine.versions.known}
    for definition in await engine.versions.list():
        name, _, version = definition.rpartition("@")
        known.setdefault(definition, WorkflowBody(name, int(version), False, False, None, None, None, None, ""))
    newest = {name: max(found) for name, found in _versions(list(known)).items()}
    for body in known.values():
        body.is_newest = body.version == newest[body.name]
    return sorted(known.values(), key=lambda body: (body.name, -body.version))


def _known(workflow: Workflow[Any, Any]) -> WorkflowBody:
    declared = workflow.mailbox.declared
    signals = None if declared is None else [_signal_type(name, each) for name, each in declared.items()]
    return WorkflowBody(
        workflow.name,
        workflow.version,
        False,
        True,
        workflow.takes_input,
        schema_of(workflow.input_hint) if workflow.takes_input else None,
        schema_of(workflow.output_hint),
        signals,
        (workflow.__doc__ or "").strip().partition("\n")[0],
    )


def _signal_type(name: str, signal: str | Signal[Any]) -> SignalType:
    return SignalType(name, schema_of(signal.hint) if isinstance(signal, Signal) else None)


def schema_of(hint: Any) -> dict[str, Any] | None:
    """The JSON Schema of a type; None if it cannot be told."""
    try:
        plan_for(hint, Place("", "", "the schema"))
        return msgspec.json.schema(hint, schema_hook=lambda _: {})
    except (TypeError, ValueError, StepwellError):
        return None


OPERATIONS = (
    Operation(
        method="POST",
        path="/runs",
        name="start_run",
        permission=Permission.STEER,
        handler=start,
        summary="Start a run, or get the one that has this key",
        answers={201: StartedBody, 200: StartedBody},
        body=StartBody,
        takes_key=True,
    ),
    look("/workflows", "list_workflows", list_workflows, "Every workflow, with its schemas", {200: WorkflowList}),
    look(
        "/workflows/{workflow}",
        "show_workflow",
        show_workflow,
        "One workflow, newest version first",
        {200: WorkflowList},
    ),
)
