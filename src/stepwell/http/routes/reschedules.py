"""Operations on what a run waits for: wake it now, or move a deadline."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from stepwell.http.acts import ActedBody, act
from stepwell.http.fields import DurationText, Text
from stepwell.http.operations import Call, Reply, steer

PathText = Annotated[str, Meta(min_length=1, max_length=2_000)]
Moment = Annotated[datetime, Meta(tz=True)]


class WakeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason, for the audit."""

    reason: Text = ""


class RescheduleBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which wait (none: the only one, or the delayed begin of the run), and when: in `delay`, or at `until`."""

    path: PathText | None = None
    delay: DurationText | None = None
    until: Moment | None = None
    reason: Text = ""


class RescheduledBody(msgspec.Struct):
    """What was moved, from when to when; an empty path is the begin of the run."""

    run_id: str
    path: str
    before: datetime | None
    due_at: datetime


async def wake(call: Call) -> Reply:
    """Wake a run."""
    by, reason = call.caller.name, call.body.reason
    return await act(
        call,
        lambda engine, target: engine.runs.wake(target, by=by, reason=reason),
        "be woken",
        "a run that waits, or that has not begun",
    )


async def reschedule(call: Call) -> Reply:
    """Move a deadline of a run."""
    body: RescheduleBody = call.body
    done = await call.services.engine.runs.reschedule(
        call.path["run"],
        body.path,
        delay=body.delay,
        until=body.until,
        by=call.caller.name,
        reason=body.reason,
    )
    call.before = "" if done.before is None else done.before.isoformat()
    call.after = done.due_at.isoformat()
    return Reply(RescheduledBody(done.run_id, done.path, done.before, done.due_at))


OPERATIONS = (
    steer("/runs/{run}/wake", "wake_run", wake, "Let a worker look at a waiting run now", ActedBody, WakeBody),
    steer(
        "/runs/{run}/reschedule",
        "reschedule_run",
        reschedule,
        "Move the deadline of a wait, or the begin of a run",
        RescheduledBody,
        RescheduleBody,
    ),
)
