"""Schedules as people see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stepwell.clock import SECOND, Instant, to_datetime
from stepwell.engine.facts import PAYLOAD
from stepwell.engine.records import Document, Line
from stepwell.engine.schedule_records import Outcome, ScheduleBody, delay_of, differing, part_of
from stepwell.errors import InvalidOptionError
from stepwell.model.schedules import Spec
from stepwell.model.states import ScheduleState
from stepwell.model.ticks import AtRule, CronRule, EveryRule, Rule, clock_change, in_words, local, zone_of


@dataclass(frozen=True, slots=True)
class ScheduleProblemView:
    """Why a schedule cannot start runs."""

    since: datetime
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ScheduleOutcomeView:
    """What became of a tick: "started", "triggered", "skipped", "missed" or "failed". Missed ticks up to `until` are
    one outcome. `run_status` is that of the run now: None if it was pruned.
    """

    fire_time: datetime
    kind: str
    at: datetime
    run_id: str | None
    run_status: str | None
    note: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class ScheduleDifferenceView:
    """A part of a schedule that a person changed, so that it differs from the code."""

    part: str
    in_code: Any = field(metadata=PAYLOAD)
    now: Any = field(metadata=PAYLOAD)
    by: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule. `when` is its rule in words. `unreadable` is why its content cannot be read, if so: then only name,
    state and times are known.
    """

    name: str
    state: str
    workflow: str
    when: str
    cron: str | None
    every_seconds: float | None
    offset_seconds: float | None
    fires_at: datetime | None  # of a schedule that is due once
    timezone: str
    input: Any = field(metadata=PAYLOAD)
    overlap: str
    catch_up: str
    window_seconds: float | None
    jitter_seconds: float
    is_in_code: bool
    differences: tuple[ScheduleDifferenceView, ...]
    next_at: datetime | None  # its next tick
    due_at: datetime | None  # when a worker looks at it next
    held: datetime | None  # a tick that waits for the end of a run
    outcomes: tuple[ScheduleOutcomeView, ...]  # the newest first, at most 20
    problem: ScheduleProblemView | None
    by: str  # who paused it
    reason: str
    created_at: datetime
    updated_at: datetime
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleActView:
    """A line of a schedule's history. One line, the last, stands for all of its ticks."""

    at: datetime
    verb: str
    by: str
    details: Any


@dataclass(frozen=True, slots=True)
class TickView:
    """A time at which a schedule is due. `local_time` is by the clocks of its zone, and `note` says what a change of
    the clocks does to it.
    """

    fire_time: datetime
    local_time: str
    starts_at: datetime  # with the delay of its jitter
    note: str


@dataclass(frozen=True, slots=True)
class PreviewedTickView:
    """A tick between two times: what became of it, or what will, and why."""

    fire_time: datetime
    local_time: str
    fate: str  # an outcome, or "held", "did not start", "will start", "will not start"
    reason: str
    run_id: str | None
    run_status: str | None


@dataclass(frozen=True, slots=True)
class BackfilledTickView:
    """A tick of a backfill, its run, and whether the backfill started it. In a dry run: whether it would."""

    fire_time: datetime
    local_time: str
    run_id: str
    is_new: bool
    note: str


@dataclass(frozen=True, slots=True)
class BackfillView:
    """What a backfill did, or would do."""

    name: str
    is_dry_run: bool
    new: int
    existing: int
    ticks: tuple[BackfilledTickView, ...]


@dataclass(frozen=True, slots=True)
class TriggeredView:
    """The run that a person started now. Without one, `note` says why none was started, and `in_the_way` is the run."""

    name: str
    run_id: str | None
    key: str | None
    in_the_way: str | None
    note: str


Statuses = Mapping[str, str]
"""The status of runs by id. Runs that are not there were pruned."""


def schedule_view(document: Document[ScheduleBody], statuses: Statuses) -> ScheduleView:
    """A schedule as people see it."""
    record, body = document.record, document.content
    spec = None if body is None else body.spec
    rule = None if spec is None else spec.rule
    is_active = record.state == ScheduleState.ACTIVE
    problem = None if body is None else body.problem
    return ScheduleView(
        name=record.record_id,
        state=record.state,
        workflow="" if spec is None else spec.workflow,
        when="" if rule is None else in_words(rule),
        cron=rule.cron if isinstance(rule, CronRule) else None,
        every_seconds=rule.every / SECOND if isinstance(rule, EveryRule) else None,
        offset_seconds=rule.offset / SECOND if isinstance(rule, EveryRule) else None,
        fires_at=to_datetime(Instant(rule.at)) if isinstance(rule, AtRule) else None,
        timezone="" if rule is None else zone_of(rule),
        input=None if spec is None else spec.input,
        overlap="" if spec is None else spec.overlap.value,
        catch_up="" if spec is None else spec.catch_up.value,
        window_seconds=None if spec is None or spec.window is None else spec.window / SECOND,
        jitter_seconds=0.0 if spec is None else spec.jitter / SECOND,
        is_in_code=body is not None and body.declared is not None and not body.is_removed,
        differences=() if body is None else _differences(body),
        next_at=_moment(body.next_at) if body is not None and is_active else None,
        due_at=_moment(record.due_at),
        held=None if body is None else _moment(body.held),
        outcomes=() if body is None else tuple(_outcome(one, statuses) for one in body.outcomes),
        problem=None
        if problem is None
        else ScheduleProblemView(to_datetime(Instant(problem.since)), problem.code, problem.message),
        by="" if body is None else body.by,
        reason="" if body is None else body.reason,
        created_at=to_datetime(record.created_at),
        updated_at=to_datetime(record.updated_at),
        unreadable="" if document.problem is None else document.problem.title,
    )


def act_view(line: Line) -> ScheduleActView:
    """A line of its history."""
    return ScheduleActView(to_datetime(line.at), line.verb, line.by, line.data)


def tick_view(body: ScheduleBody, tick: Instant) -> TickView:
    """A future tick."""
    starts_at = to_datetime(Instant(tick + delay_of(body, tick)))
    return TickView(to_datetime(tick), local_time(body.spec, tick), starts_at, clock_change(body.spec.rule, tick))


def rule_tick_view(rule: Rule, tick: Instant) -> TickView:
    """A tick of a rule without a schedule."""
    shown = local(tick, zone_of(rule)).isoformat()
    return TickView(to_datetime(tick), shown, to_datetime(tick), clock_change(rule, tick))


def local_time(spec: Spec, tick: Instant) -> str:
    """A tick by the clocks of the schedule's zone, with their offset."""
    return local(tick, zone_of(spec.rule)).isoformat()


def runs_of(documents: Iterable[Document[ScheduleBody]]) -> list[str]:
    """The runs that the outcomes of schedules name."""
    return sorted(
        {one.run_id for each in documents if each.content is not None for one in each.content.outcomes if one.run_id}
    )


def _differences(body: ScheduleBody) -> tuple[ScheduleDifferenceView, ...]:
    assert body.declared is not None or not differing(body)
    found: list[ScheduleDifferenceView] = []
    for part in differing(body):
        assert body.declared is not None
        edit = body.edits.get(part)
        said, now = (_shown(part, part_of(spec, part)) for spec in (body.declared, body.spec))
        at = None if edit is None else to_datetime(Instant(edit.at))
        found.append(ScheduleDifferenceView(part, said, now, "" if edit is None else edit.by, at))
    return tuple(found)


def _shown(part: str, value: Any) -> Any:
    if part == "when":
        return in_words(value)
    if part in ("window", "jitter"):
        return None if value is None else value / SECOND
    return value


def _outcome(one: Outcome, statuses: Statuses) -> ScheduleOutcomeView:
    return ScheduleOutcomeView(
        to_datetime(Instant(one.tick)),
        one.kind,
        to_datetime(Instant(one.at)),
        one.run_id or None,
        statuses.get(one.run_id),
        one.note,
        _moment(one.until),
    )


def _moment(instant: int | None) -> datetime | None:
    return None if instant is None else to_datetime(Instant(instant))


def read_state(state: str) -> ScheduleState:
    """A state by its name. Raises `InvalidOptionError`."""
    try:
        return ScheduleState(state)
    except ValueError:
        raise InvalidOptionError(
            f"a schedule is never {state!r:.40}", fix=f"one of {', '.join(ScheduleState)}"
        ) from None
