"""Operations on holds: pause and resume a run, a workflow, or all of them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.http.acts import ActedBody, act
from stepwell.http.fields import Limit, Text
from stepwell.http.operations import Call, Reply, look, steer
from stepwell.model.states import RunStatus


class PauseBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason, which is shown with the run."""

    reason: Text = ""


class WorkflowHoldBody(msgspec.Struct):
    """A workflow that is paused, or all of them (`workflow` is null): who, why, and when."""

    workflow: str | None
    by: str
    reason: str
    at: datetime


class HoldList(msgspec.Struct):
    """What is paused: all workflows first, then by name."""

    holds: list[WorkflowHoldBody]


class HoldActBody(msgspec.Struct):
    """A workflow, or all of them (`workflow` is null), was paused or resumed."""

    at: datetime
    workflow: str | None
    verb: str
    by: str
    reason: str


class HoldActList(msgspec.Struct):
    """Who paused and resumed workflows, newest first."""

    acts: list[HoldActBody]


class HoldActsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many acts."""

    limit: Limit = 100


class HeldBody(msgspec.Struct):
    """Whether a workflow, or all of them (null), is paused now; `changed` is false if nothing changed."""

    workflow: str | None
    is_paused: bool
    changed: bool


async def list_holds(call: Call) -> Reply:
    """The workflows that are paused."""
    found = await call.services.engine.holds.list()
    return Reply(HoldList([WorkflowHoldBody(one.workflow, one.by, one.reason, one.at) for one in found]))


async def list_acts(call: Call) -> Reply:
    """Who paused and resumed workflows, through this API or not."""
    found = await call.services.engine.holds.list_acts(limit=call.query.limit)
    return Reply(HoldActList([HoldActBody(one.at, one.workflow, one.verb, one.by, one.reason) for one in found]))


async def pause_run(call: Call) -> Reply:
    """Pause a run until it is resumed."""
    by, reason = call.caller.name, call.body.reason
    return await act(
        call,
        lambda engine, target: engine.holds.pause(target, by=by, reason=reason),
        "be paused",
        "a run that has not ended and is not being cancelled or rolled back",
        (RunStatus.PAUSED,),
        pauses=True,
    )


async def resume_run(call: Call) -> Reply:
    """Resume a paused run."""
    by = call.caller.name
    return await act(call, lambda engine, target: engine.holds.resume(target, by=by), "be resumed", "a paused run")


async def pause(call: Call) -> Reply:
    """Pause a workflow, or every workflow."""
    name = call.path.get("workflow")
    changed = await call.services.engine.holds.pause_workflow(name, by=call.caller.name, reason=call.body.reason)
    call.before, call.after = "" if changed else "paused", "paused"
    return Reply(HeldBody(name, True, changed))


async def resume(call: Call) -> Reply:
    """Resume a workflow, or every workflow."""
    name = call.path.get("workflow")
    changed = await call.services.engine.holds.resume_workflow(name, by=call.caller.name)
    call.before = "paused" if changed else ""
    return Reply(HeldBody(name, False, changed))


OPERATIONS = (
    steer("/runs/{run}/pause", "pause_run", pause_run, "Pause a run", ActedBody, PauseBody),
    steer("/runs/{run}/resume", "resume_run", resume_run, "Resume a paused run", ActedBody),
    look("/holds", "list_holds", list_holds, "Workflows that are paused", {200: HoldList}),
    look(
        "/holds/acts",
        "list_hold_acts",
        list_acts,
        "Who paused and resumed workflows",
        {200: HoldActList},
        query=HoldActsQuery,
    ),
    steer("/holds/pause", "pause_all", pause, "Pause every workflow", HeldBody, PauseBody),
    steer("/holds/resume", "resume_all", resume, "Resume what that paused", HeldBody),
    steer("/workflows/{workflow}/pause", "pause_workflow", pause, "Pause a workflow", HeldBody, PauseBody),
    steer("/workflows/{workflow}/resume", "resume_workflow", resume, "Resume a paused workflow", HeldBody),
)
