"""Undoing a completed run in a run of its own."""

from __future__ import annotations

import msgspec

from stepwell.http.fields import Text
from stepwell.http.operations import Call, Reply, steer


class CompensateBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason, for the audit."""

    reason: Text = ""


class CompensatedBody(msgspec.Struct):
    """The run that undoes; `is_new` is false if it was started before."""

    run_id: str
    is_new: bool


async def compensate(call: Call) -> Reply:
    """Undo a completed run."""
    engine, target = call.services.engine, call.path["run"]
    handle = await engine.compensate(target, by=call.caller.name, reason=call.body.reason)
    call.before, call.after = "completed", f"undone by {handle.run_id}"
    return Reply(CompensatedBody(handle.run_id, handle.is_new))


OPERATIONS = (
    steer(
        "/runs/{run}/compensate",
        "compensate_run",
        compensate,
        "Undo a completed run, in a run of its own",
        CompensatedBody,
        CompensateBody,
    ),
)
