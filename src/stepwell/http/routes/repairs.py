"""Operations that repair runs: retry, rewind, skip, redrive, fork, and resume a rollback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stepwell.engine.repair_plans import RepairPlan
from stepwell.engine.repairs import UNCHANGED
from stepwell.engine.skips import NO_RESULT
from stepwell.http.acts import ActedBody, act
from stepwell.http.fields import KeyText, Text
from stepwell.http.operations import Call, Reply, look, steer
from stepwell.model.states import RunStatus
from stepwell.wiring import Engine

_LISTED_MAX: Final = 500  # paths in one list

PathText = Annotated[str, Meta(min_length=1, max_length=2_000)]
VersionField = Literal["same", "new"] | Annotated[int, Meta(ge=1, le=2**31 - 1)]


class RewindBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The step to rewind to."""

    path: PathText
    reason: Text = ""
    dry_run: bool = False


class SkipBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The step or wait to skip, and its result."""

    path: PathText
    result: Any | UnsetType = UNSET
    reason: Text = ""
    dry_run: bool = False


class RedriveBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where to continue, on which version, and with which input; every field is optional."""

    from_: PathText | None = msgspec.field(default=None, name="from")
    version: VersionField = "same"
    input: Any | UnsetType = UNSET
    skip: PathText | None = None
    result: Any | UnsetType = UNSET
    reason: Text = ""
    dry_run: bool = False


class ForkBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where to fork, and the key, version and input of the new run."""

    from_: PathText = msgspec.field(name="from")
    key: KeyText | None = None
    version: VersionField = "same"
    input: Any | UnsetType = UNSET
    reason: Text = ""
    dry_run: bool = False


class MarkUndoneBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The step whose effect a person has undone, and how."""

    path: PathText
    reason: Annotated[Text, Meta(min_length=1)]


class RepairBody(msgspec.Struct):
    """What a repair does, or would do, and the status of the run now.

    Of `kept` and `dropped`, the last and the first 500 paths are listed; `kept_count` and `dropped_count` are all. If
    this server knows the code, `is_rehearsed` is true, and a dry replay has shown the steps that run first
    (`following`) and the places where the run waits (`waits`).
    """

    run_id: str
    verb: str
    status: RunStatus
    is_applied: bool
    version: int
    new_version: int | None
    has_new_input: bool
    fork_id: str | None
    kept: list[str]
    dropped: list[str]
    undone: list[str]
    not_undone: list[str]
    supplied: list[str]
    cancelled: list[str]
    left: list[str]
    retried: list[str]
    warnings: list[str]
    kept_count: int
    dropped_count: int
    is_rehearsed: bool
    following: list[str]
    waits: list[str]


class SkippableBody(msgspec.Struct):
    """A step or wait that can be given a result. `schema` is the JSON Schema of that, if it is known here."""

    path: str
    kind: str
    takes_result: bool
    schema: dict[str, Any] | None
    names: list[str]


class SkippableList(msgspec.Struct):
    """What can be skipped in a run now; `why_not` tells why there is nothing."""

    run_id: str
    places: list[SkippableBody]
    why_not: str


async def _repair(call: Call, do: Callable[[Engine, str], Awaitable[RepairPlan]]) -> Reply:
    engine = call.services.engine
    plan = await do(engine, call.path["run"])
    view = await engine.status(plan.run_id)
    status = plan.before if view is None else view.status
    call.before, call.after = plan.before, status if plan.is_applied else "planned"
    return Reply(
        RepairBody(
            plan.run_id,
            plan.verb,
            RunStatus(status),
            plan.is_applied,
            plan.version,
            plan.new_version,
            plan.has_new_input,
            plan.fork_id if plan.is_applied else None,
            list(plan.kept[-_LISTED_MAX:]),
            list(plan.dropped[:_LISTED_MAX]),
            list(plan.undone),
            list(plan.not_undone),
            list(plan.supplied),
            list(plan.cancelled),
            list(plan.left),
            list(plan.retried),
            list(plan.warnings),
            len(plan.kept),
            len(plan.dropped),
            plan.is_rehearsed,
            list(plan.following[:_LISTED_MAX]),
            list(plan.waits[:_LISTED_MAX]),
        )
    )


def _given(value: Any, otherwise: Any) -> Any:
    return otherwise if value is UNSET else value


async def rewind(call: Call) -> Reply:
    """Rewind a run to a step."""
    body: RewindBody = call.body
    how: dict[str, Any] = {"by": call.caller.name, "reason": body.reason, "dry_run": body.dry_run}
    return await _repair(call, lambda engine, target: engine.repairs.rewind(target, body.path, **how))


async def skip(call: Call) -> Reply:
    """Record a result for a step or wait."""
    body: SkipBody = call.body
    how: dict[str, Any] = {"by": call.caller.name, "reason": body.reason, "dry_run": body.dry_run}
    result = _given(body.result, NO_RESULT)
    return await _repair(call, lambda engine, target: engine.repairs.skip(target, body.path, result, **how))


async def redrive(call: Call) -> Reply:
    """Continue a failed run, from its failure or from another place."""
    body: RedriveBody = call.body
    how: dict[str, Any] = {
        "from_path": body.from_,
        "version": body.version,
        "input": _given(body.input, UNCHANGED),
        "skip": body.skip,
        "result": _given(body.result, NO_RESULT),
        "by": call.caller.name,
        "reason": body.reason,
        "dry_run": body.dry_run,
    }
    return await _repair(call, lambda engine, target: engine.repairs.redrive(target, **how))


async def fork(call: Call) -> Reply:
    """Start a run from a part of the record of another run."""
    body: ForkBody = call.body
    how: dict[str, Any] = {
        "key": body.key,
        "version": body.version,
        "input": _given(body.input, UNCHANGED),
        "by": call.caller.name,
        "reason": body.reason,
        "dry_run": body.dry_run,
    }
    return await _repair(call, lambda engine, target: engine.repairs.fork(target, body.from_, **how))


async def retry(call: Call) -> Reply:
    """Continue a failed run from the step that failed, or run at once what waits for its next attempt."""
    by = call.caller.name
    needs = "a failed run whose key no other active run has, or a run that waits for the next attempt at a step"
    return await act(call, lambda engine, target: engine.repairs.retry(target, by=by), "be retried", needs)


async def resume_rollback(call: Call) -> Reply:
    """Resume an incomplete rollback."""
    by, needs = call.caller.name, "a run whose rollback is incomplete"
    return await act(
        call,
        lambda engine, target: engine.repairs.resume_rollback(target, by=by),
        "have its rollback resumed",
        needs,
        (RunStatus.COMPENSATING,),
    )


async def list_skippable(call: Call) -> Reply:
    """The steps and waits of a run that can be skipped now."""
    found = await call.services.engine.repairs.list_skippable(call.path["run"])
    places = [
        SkippableBody(
            one.path, one.kind, one.takes_result, None if one.schema is None else dict(one.schema), list(one.names)
        )
        for one in found.places
    ]
    return Reply(SkippableList(found.run_id, places, found.why_not))


async def mark_undone(call: Call) -> Reply:
    """Record that the effect of a step was undone by a person, and resume the rollback."""
    body: MarkUndoneBody = call.body
    how: dict[str, Any] = {"by": call.caller.name, "reason": body.reason}
    return await act(
        call,
        lambda engine, target: engine.repairs.mark_undone(target, body.path, **how),
        "have an effect marked as undone",
        "a run whose rollback is incomplete",
    )


OPERATIONS = (
    look(
        "/runs/{run}/skippable",
        "list_skippable",
        list_skippable,
        "What can be skipped in a run, and the type of its result",
        {200: SkippableList},
    ),
    steer("/runs/{run}/retry", "retry_run", retry, "Continue a failed run", ActedBody),
    steer(
        "/runs/{run}/resume-rollback", "resume_rollback", resume_rollback, "Resume an incomplete rollback", ActedBody
    ),
    steer(
        "/runs/{run}/mark-undone",
        "mark_undone",
        mark_undone,
        "Record that a person has undone a step, and resume the rollback",
        ActedBody,
        MarkUndoneBody,
    ),
    steer("/runs/{run}/rewind", "rewind_run", rewind, "Rewind a run to a step", RepairBody, RewindBody),
    steer("/runs/{run}/skip", "skip_run", skip, "Supply the result of a step or wait", RepairBody, SkipBody),
    steer(
        "/runs/{run}/redrive",
        "redrive_run",
        redrive,
        "Continue a failed run, also from another place or on another version",
        RepairBody,
        RedriveBody,
    ),
    steer("/runs/{run}/fork", "fork_run", fork, "Start a run from the record of another run", RepairBody, ForkBody),
)
