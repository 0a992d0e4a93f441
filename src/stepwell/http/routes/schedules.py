"""Operations on schedules: create, change, pause, trigger, backfill, preview and delete them, and what they did."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stepwell.engine.facts import facts_of
from stepwell.engine.schedule_views import (
    BackfilledTickView,
    BackfillView,
    PreviewedTickView,
    ScheduleActView,
    ScheduleDifferenceView,
    ScheduleOutcomeView,
    ScheduleProblemView,
    ScheduleView,
    TickView,
    TriggeredView,
)
from stepwell.engine.schedules import TICKS_MAX, ScheduleChanges, ScheduleOptions, ScheduleTimes
from stepwell.http.fields import DurationText, Limit, Name, Text
from stepwell.http.operations import Call, Operation, Reply, look, steer
from stepwell.http.roles import Permission
from stepwell.http.schemas import audience_of, fields_of
from stepwell.model.schedules import NAME_MAX, CatchUp, Overlap
from stepwell.model.states import ScheduleState
from stepwell.model.ticks import CRON_MAX, ZONE_MAX

_ACTS_MAX = 20

ScheduleName = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
CronText = Annotated[str, Meta(min_length=1, max_length=CRON_MAX)]
ZoneText = Annotated[str, Meta(max_length=ZONE_MAX)]
MomentText = Annotated[str, Meta(min_length=1, max_length=40)]
Moment = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=1, le=100)]
TickLimit = Annotated[int, Meta(ge=1, le=TICKS_MAX)]


class ScheduleProblemBody(fields_of(ScheduleProblemView)):  # type: ignore[misc]
    """Why a schedule cannot start runs."""


class ScheduleOutcomeBody(fields_of(ScheduleOutcomeView)):  # type: ignore[misc]
    """What became of a tick, or of missed ticks up to `until`."""


class ScheduleDifferenceBody(fields_of(ScheduleDifferenceView)):  # type: ignore[misc]
    """A part that a person changed, so that it differs from the code. Its values may be payloads."""


_ScheduleFields: Any = fields_of(
    ScheduleView,
    state=ScheduleState,
    differences=list[ScheduleDifferenceBody],
    outcomes=list[ScheduleOutcomeBody],
    problem=ScheduleProblemBody | None,
)


class ScheduleBody(_ScheduleFields):  # type: ignore[misc]
    """A workflow that is started at certain times. `input` is a payload. `unreadable` is why its content cannot be
    read, if so.
    """


class ScheduleActBody(fields_of(ScheduleActView)):  # type: ignore[misc]
    """A line of a schedule's history."""


class TickBody(fields_of(TickView)):  # type: ignore[misc]
    """A time at which a schedule is due."""


class PreviewedTickBody(fields_of(PreviewedTickView)):  # type: ignore[misc]
    """A tick: what became of it or what will, and why."""


class BackfilledTickBody(fields_of(BackfilledTickView)):  # type: ignore[misc]
    """A tick of a backfill, and its run."""


class BackfillBody(fields_of(BackfillView, ticks=list[BackfilledTickBody])):  # type: ignore[misc]
    """What a backfill did, or would do."""


class TriggeredBody(fields_of(TriggeredView)):  # type: ignore[misc]
    """The run that was started now, or why none was."""


class SchedulePage(msgspec.Struct):
    """Schedules, newest first; `next` is the `after` of the next page, if there is one."""

    schedules: list[ScheduleBody]
    next: str | None


class ShownSchedule(msgspec.Struct):
    """One schedule, its next ticks, and what happened to it, newest first."""

    schedule: ScheduleBody
    next: list[TickBody]
    acts: list[ScheduleActBody]


class TickList(msgspec.Struct):
    """Ticks, the earliest first."""

    ticks: list[TickBody]


class TimesBody(msgspec.Struct):
    """Times in words, and their ticks, the earliest first."""

    when: str
    ticks: list[TickBody]


class PreviewList(msgspec.Struct):
    """Ticks, the earliest first."""

    ticks: list[PreviewedTickBody]


class ScheduleActedBody(msgspec.Struct):
    """Whether an act changed a schedule."""

    name: str
    changed: bool


class SchedulesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Schedules in one state, of one workflow, or that cannot start runs, after a schedule."""

    state: ScheduleState | None = None
    workflow: Name | None = None
    cannot_fire: bool = False
    limit: Limit = 50
    after: ScheduleName | None = None


class NextTicksQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many ticks."""

    count: Count = 10


class TimesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Times that are no schedule yet, and how many ticks of them."""

    cron: CronText | None = None
    timezone: ZoneText | None = None
    every: DurationText | None = None
    offset: DurationText | None = None
    at: MomentText | None = None
    count: Count = 10


class RangeQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The ticks from a time on and before another."""

    since: Moment
    until: Moment
    limit: TickLimit = 1_000


class ScheduleIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a schedule starts, and when: one of `cron`, `every` and `at`."""

    workflow: Annotated[str, Meta(min_length=1, max_length=200)]
    name: ScheduleName
    cron: CronText | None = None
    timezone: ZoneText | None = None
    every: DurationText | None = None
    offset: DurationText | None = None
    at: MomentText | None = None
    input: Any = None
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    window: DurationText | None = None
    jitter: DurationText = "0s"
    paused: bool = False


class ScheduleChangesBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The parts to change. What is left out stays as it is."""

    workflow: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    cron: CronText | UnsetType = UNSET
    timezone: ZoneText | UnsetType | None = UNSET
    every: DurationText | UnsetType = UNSET
    offset: DurationText | UnsetType = UNSET
    at: MomentText | UnsetType = UNSET
    input: Any = UNSET
    overlap: Overlap | UnsetType = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    window: DurationText | UnsetType | None = UNSET
    jitter: DurationText | UnsetType = UNSET


class SchedulePauseBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason, which is shown with the schedule."""

    reason: Text = ""


class TriggerNowBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to do if a run of the schedule is active; null: as the schedule says."""

    overlap: Overlap | None = None


class BackfillIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The ticks from a time on and before another, and at most how many."""

    since: Moment
    until: Moment
    limit: TickLimit = 1_000
    dry_run: bool = False


async def list_schedules(call: Call) -> Reply:
    """Schedules, newest first."""
    query: SchedulesQuery = call.query
    found = await call.services.engine.schedules.list(
        state=query.state,
        workflow=query.workflow,
        cannot_fire=query.cannot_fire,
        limit=query.limit + 1,
        after=query.after,
    )
    page = found[: query.limit]
    return Reply(SchedulePage([_body(call, one) for one in page], page[-1].name if len(found) > len(page) else None))


async def show(call: Call) -> Reply:
    """One schedule with its next five ticks and its history."""
    schedules, name, audience = call.services.engine.schedules, call.path["schedule"], audience_of(call)
    found = await schedules.get(name)
    ticks = [] if found.unreadable else await schedules.next(name, 5)
    acts = await schedules.history(name, limit=_ACTS_MAX)
    return Reply(
        ShownSchedule(
            _body(call, found),
            [TickBody(**facts_of(tick, audience)) for tick in ticks],
            [ScheduleActBody(**facts_of(act, audience)) for act in acts],
        )
    )


async def create(call: Call) -> Reply:
    """Create a schedule."""
    body: ScheduleIn = call.body
    options: ScheduleOptions = {
        **_times(body),
        "input": body.input,
        "overlap": body.overlap.value,
        "catch_up": body.catch_up.value,
        "window": body.window,
        "jitter": body.jitter,
    }
    made = await call.services.engine.schedules.create(
        body.name, workflow=body.workflow, is_paused=body.paused, by=call.caller.name, **options
    )
    call.after = made.state
    return Reply(_body(call, made), 201, {"location": f"schedules/{made.name}"})


async def update(call: Call) -> Reply:
    """Change parts of a schedule."""
    given = msgspec.structs.asdict(call.body)
    changes: Any = {name: value for name, value in given.items() if value is not UNSET}
    said: ScheduleChanges = changes
    return await _act(call, call.services.engine.schedules.update(call.path["schedule"], by=call.caller.name, **said))


async def use_code(call: Call) -> Reply:
    """Give up what people changed of a schedule in code."""
    return await _act(call, call.services.engine.schedules.use_code(call.path["schedule"], by=call.caller.name))


async def pause(call: Call) -> Reply:
    """Pause a schedule."""
    schedules = call.services.engine.schedules
    return await _act(call, schedules.pause(call.path["schedule"], by=call.caller.name, reason=call.body.reason))


async def resume(call: Call) -> Reply:
    """Resume a schedule."""
    return await _act(call, call.services.engine.schedules.resume(call.path["schedule"], by=call.caller.name))


async def delete(call: Call) -> Reply:
    """Delete a schedule."""
    return await _act(call, call.services.engine.schedules.delete(call.path["schedule"], by=call.caller.name))


async def trigger(call: Call) -> Reply:
    """Start a run of a schedule now."""
    overlap: Overlap | None = call.body.overlap
    found = await call.services.engine.schedules.trigger(
        call.path["schedule"], overlap=None if overlap is None else overlap.value, by=call.caller.name
    )
    call.after = "started" if found.run_id is not None else "not started"
    return Reply(TriggeredBody(**facts_of(found, audience_of(call))))


async def backfill(call: Call) -> Reply:
    """Start the runs of ticks in the past."""
    body: BackfillIn = call.body
    found = await call.services.engine.schedules.backfill(
        call.path["schedule"], body.since, body.until, dry_run=body.dry_run, limit=body.limit, by=call.caller.name
    )
    call.after = "dry run" if body.dry_run else f"{found.new} runs"
    return Reply(BackfillBody(**facts_of(found, audience_of(call))))


async def list_next(call: Call) -> Reply:
    """The next ticks of a schedule."""
    found = await call.services.engine.schedules.next(call.path["schedule"], call.query.count)
    return Reply(TickList([TickBody(**facts_of(one, audience_of(call))) for one in found]))


async def list_next_of(call: Call) -> Reply:
    """The next ticks of times that are no schedule yet."""
    schedules, times = call.services.engine.schedules, _times(call.query)
    found = await schedules.next_of(call.query.count, **times)
    ticks = [TickBody(**facts_of(one, audience_of(call))) for one in found]
    return Reply(TimesBody(schedules.words_of(**times), ticks))


async def preview(call: Call) -> Reply:
    """Each tick of a range: what became of it or what will, and why."""
    query: RangeQuery = call.query
    found = await call.services.engine.schedules.preview(
        call.path["schedule"], query.since, query.until, limit=query.limit
    )
    return Reply(PreviewList([PreviewedTickBody(**facts_of(one, audience_of(call))) for one in found]))


async def _act(call: Call, act: Any) -> Reply:
    changed = await act
    call.after = "changed" if changed else "unchanged"
    return Reply(ScheduleActedBody(call.path["schedule"], changed))


def _times(given: ScheduleIn | TimesQuery) -> ScheduleTimes:
    found: ScheduleTimes = {"cron": given.cron, "timezone": given.timezone, "every": given.every, "at": given.at}
    if given.offset is not None:
        found["offset"] = given.offset
    return found


def _body(call: Call, schedule: ScheduleView) -> ScheduleBody:
    return ScheduleBody(**facts_of(schedule, audience_of(call)))


OPERATIONS = (
    look(
        "/schedules",
        "list_schedules",
        list_schedules,
        "Workflows that are started at certain times",
        {200: SchedulePage},
        query=SchedulesQuery,
    ),
    Operation(
        method="POST",
        path="/schedules",
        name="create_schedule",
        permission=Permission.STEER,
        handler=create,
        summary="Create a schedule",
        answers={201: ScheduleBody},
        body=ScheduleIn,
    ),
    look("/schedules/{schedule}", "show_schedule", show, "One schedule", {200: ShownSchedule}),
    Operation(
        method="PATCH",
        path="/schedules/{schedule}",
        name="update_schedule",
        permission=Permission.STEER,
        handler=update,
        summary="Change parts of a schedule",
        answers={200: ScheduleActedBody},
        body=ScheduleChangesBody,
    ),
    Operation(
        method="DELETE",
        path="/schedules/{schedule}",
        name="delete_schedule",
        permission=Permission.STEER,
        handler=delete,
        summary="Delete a schedule",
        answers={200: ScheduleActedBody},
    ),
    steer(
        "/schedules/{schedule}/use-code", "use_code_of_schedule", use_code, "Use what its code says", ScheduleActedBody
    ),
    steer(
        "/schedules/{schedule}/pause", "pause_schedule", pause, "Pause a schedule", ScheduleActedBody, SchedulePauseBody
    ),
    steer("/schedules/{schedule}/resume", "resume_schedule", resume, "Resume a schedule", ScheduleActedBody),
    steer(
        "/schedules/{schedule}/trigger", "trigger_schedule", trigger, "Start a run now", TriggeredBody, TriggerNowBody
    ),
    steer(
        "/schedules/{schedule}/backfill",
        "backfill_schedule",
        backfill,
        "Start the runs of ticks in the past",
        BackfillBody,
        BackfillIn,
    ),
    look(
        "/schedules/{schedule}/next",
        "list_next_ticks",
        list_next,
        "Its next ticks",
        {200: TickList},
        query=NextTicksQuery,
    ),
    look(
        "/schedules/{schedule}/preview",
        "preview_schedule",
        preview,
        "What became of its ticks, or what will",
        {200: PreviewList},
        query=RangeQuery,
    ),
    look(
        "/schedule-times",
        "list_next_ticks_of_times",
        list_next_of,
        "The next ticks of times that are no schedule yet",
        {200: TimesBody},
        query=TimesQuery,
    ),
)
