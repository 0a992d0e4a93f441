"""Schedules: workflows that time starts. Code declares them, or people create them; the store keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from stepwell.clock import Duration, Instant, to_datetime, to_instant
from stepwell.engine.backend import PAUSE, Backend
from stepwell.engine.records import TRIES_MAX, Document, Draft, NewLine, RecordKind, Records
from stepwell.engine.schedule_declarations import plain_input, sample
from stepwell.engine.schedule_records import (
    PROBLEM_LABEL,
    Outcome,
    ScheduleBody,
    as_in_code,
    check_rule_ahead,
    created,
    deleted,
    draft,
    paused,
    resumed,
    updated,
    workflow_label,
)
from stepwell.engine.schedule_starts import Target, Targets, check_spec_input, find_active, new_run
from stepwell.engine.schedule_ticks import due_ticks, previous_of, triggered
from stepwell.engine.schedule_views import (
    BackfilledTickView,
    BackfillView,
    PreviewedTickView,
    ScheduleActView,
    ScheduleView,
    Statuses,
    TickView,
    TriggeredView,
    act_view,
    local_time,
    read_state,
    rule_tick_view,
    runs_of,
    schedule_view,
    tick_view,
)
from stepwell.errors import InvalidOptionError, StoreUnavailableError
from stepwell.model.records import ChangeOutcome
from stepwell.model.runs import NewRun
from stepwell.model.schedules import (
    ON_TIME,
    Spec,
    check_name,
    following,
    read_catch_up,
    read_jitter,
    read_overlap,
    read_window,
    tick_key,
    tick_run_id,
)
from stepwell.model.states import ScheduleState
from stepwell.model.ticks import CronRule, Rule, at_rule, clock_change, cron_rule, every_rule, in_words, ticks_between
from stepwell.redaction import redact
from stepwell.replay.workflows import Workflow

_FIX: Final = "stepwell schedule ls"
NEXT_MAX: Final = 1_000
TICKS_MAX: Final = 10_000  # of a backfill or a preview
_BATCH: Final = 100
_OPTIONS: Final = ("overlap", "catch_up", "window", "jitter")


class ScheduleTimes(TypedDict, total=False):
    """When a schedule is due: one of `cron`, `every` and `at`."""

    cron: str | None
    timezone: str | None
    every: Duration | None
    offset: Duration
    at: datetime | str | None


class ScheduleOptions(ScheduleTimes, total=False):
    """The options of a schedule; see `stepwell.cron`."""

    input: Any
    overlap: str
    catch_up: str
    window: Duration | None
    jitter: Duration


class ScheduleChanges(ScheduleOptions, total=False):
    """What can be changed of a schedule. What is not given stays as it is."""

    workflow: Workflow[Any, Any] | str


class Schedules:
    """`engine.schedules`: workflows that are started at certain times."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.SCHEDULE, ScheduleBody)

    # --- what people do ---

    async def create(
        self,
        name: str,
        *,
        workflow: Workflow[Any, Any] | str,
        is_paused: bool = False,
        by: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleView:
        """Create a schedule: `create("nightly", workflow=report, cron="0 6 * * 1-5", timezone="Europe/Berlin")`.

        Nothing is due for the time before. The workflow may be a name that a live worker serves. Raises
        `AlreadyExistsError` for a name that is taken, `InvalidOptionError` for times that are never due,
        `UnknownWorkflowError`, and `InvalidInputError` if the input does not fit the workflow.
        """
        name, now = check_name(name), self._backend.opened.now()
        parts = self._parts(name, options)
        if "when" not in parts:
            raise InvalidOptionError("a schedule needs its times", fix='cron="0 6 * * 1-5", every="5m" or at=...')
        spec = Spec(parts.pop("when"), _name_of(workflow), **parts)
        check_rule_ahead(spec, now)
        await self._check_target(name, spec, workflow)
        await self._records.change(
            name, lambda it: created(name, spec, it, by, self._backend.opened.now(), is_paused=is_paused)
        )
        return await self.get(name)

    async def update(self, name: str, *, by: str = "", **changes: Unpack[ScheduleChanges]) -> bool:
        """Change parts of a schedule; false if they are so already. With other times, nothing is due for the time
        before. What is changed of a schedule in code differs from the code from then on, also after a deploy.
        """
        it = await self._get(name)
        parts = self._parts(it.record.record_id, changes, it.body.spec)
        if "workflow" in changes:
            parts["workflow"] = _name_of(changes["workflow"])
        spec = Spec(**{**_fields(it.body.spec), **_renamed(parts)})
        if "when" in parts:
            check_rule_ahead(spec, self._backend.opened.now())
        await self._check_target(it.record.record_id, spec, changes.get("workflow", spec.workflow))
        return await self._records.change(
            it.record.record_id, lambda it: updated(parts, it, by, self._backend.opened.now())
        )

    async def use_code(self, name: str, *, by: str = "") -> bool:
        """Give up what people changed of a schedule in code; false if nothing differs."""
        it = await self._get(name)
        return await self._records.change(
            it.record.record_id, lambda it: as_in_code(it, by, self._backend.opened.now())
        )

    async def pause(self, name: str, *, by: str = "", reason: str = "") -> bool:
        """Pause a schedule: it starts nothing until it is resumed. False if it was paused."""
        it, said = await self._get(name), redact(reason)
        return await self._records.change(
            it.record.record_id, lambda it: paused(it, by, said, self._backend.opened.now())
        )

    async def resume(self, name: str, *, by: str = "") -> bool:
        """Resume a schedule. Nothing is due for the time before. False if it was not paused."""
        it = await self._get(name)
        return await self._records.change(it.record.record_id, lambda it: resumed(it, by, self._backend.opened.now()))

    async def delete(self, name: str, *, by: str = "") -> bool:
        """Delete a schedule. Its runs stay. Raises `InvalidMoveError` if it is in the code of a workflow."""
        it = await self._get(name)
        return await self._records.change(it.record.record_id, lambda it: deleted(it, by))

    async def trigger(self, name: str, *, overlap: str | None = None, by: str = "") -> TriggeredView:
        """Start a run of a schedule now, also if it is paused. Its ticks stay due.

        While a run of the schedule is active, its overlap decides ("buffer_one" starts nothing then); `overlap` says
        otherwise, as in `overlap="allow"`.
        """
        chosen, name = None if overlap is None else read_overlap(overlap), check_name(name)
        done: list[TriggeredView] = []

        async def decide(it: Document[ScheduleBody]) -> Draft[ScheduleBody]:
            body, now = it.body, Instant(self._backend.opened.now() | 1)  # no rule has such a tick
            target = await self._target(body.spec.workflow)
            active = await find_active(self._backend, body.active)

            def make(tick: Instant, previous: Instant | None) -> NewRun:
                return new_run(self._backend, name, body.spec, target, tick, previous, by=by)

            make(now, now)  # an input that does not fit is the caller's to know
            running = tuple(one for one in body.active if one in active)
            found = triggered(it, now, running, make, chosen or body.spec.overlap, by)
            done[:] = [_triggered_view(name, now, found, running)]
            return found

        await self._decided(name, decide)
        return done[0]

    async def backfill(
        self, name: str, since: datetime, until: datetime, *, dry_run: bool = False, limit: int = 1_000, by: str = ""
    ) -> BackfillView:
        """Start the runs of all ticks from `since` on and before `until`, at once and whatever the overlap is. A tick
        whose run is there, or was, starts none. Future ticks are left out.

        Raises `InvalidOptionError` if there are more than `limit` ticks; nothing is started then. With `dry_run`, it
        only says what it would do.
        """
        it = await self._get(name)
        name, body, now = it.record.record_id, it.body, self._backend.opened.now()
        ticks = _bounded(body.spec.rule, since, until, now, limit)
        target = await self._target(body.spec.workflow)
        runs = [
            new_run(self._backend, name, body.spec, target, tick, previous_of(body, None, tick), by=by)
            for tick in ticks
        ]
        known = await self._statuses([run.run_id for run in runs])
        if not dry_run:
            for at in range(0, len(runs), _BATCH):
                await self._start(name, runs[at : at + _BATCH], ticks[at : at + _BATCH], by)
        found = tuple(
            BackfilledTickView(
                to_datetime(tick),
                local_time(body.spec, tick),
                run.run_id,
                run.run_id not in known,
                f"its run is {known[run.run_id]}" if run.run_id in known else clock_change(body.spec.rule, tick),
            )
            for tick, run in zip(ticks, runs, strict=True)
        )
        new = sum(one.is_new for one in found)
        return BackfillView(name, dry_run, new, len(found) - new, found)

    # --- what people look at ---

    async def get(self, name: str) -> ScheduleView:
        """One schedule, with its last 20 outcomes. Raises `NotFoundError`."""
        it = await self._get(name)
        return schedule_view(it, await self._statuses(runs_of([it])))

    async def history(self, name: str, *, limit: int = 20) -> list[ScheduleActView]:
        """What people and deploys did to a schedule, newest first. All of its ticks are one line, the last."""
        return [act_view(line) for line in await self._records.history(check_name(name), limit=limit)]

    async def next(self, name: str, limit: int = 10) -> list[TickView]:
        """The next ticks of a schedule, whether it is paused or not."""
        it = await self._get(name)
        now = self._backend.opened.now()
        return [tick_view(it.body, tick) for tick in following(it.body.spec.rule, now, _counted(limit))]

    async def next_of(self, limit: int = 10, **times: Unpack[ScheduleTimes]) -> list[TickView]:
        """The next ticks of times that are no schedule yet: `next_of(5, cron="0 6 * * *")`."""
        rule, now = self._rule(times), self._backend.opened.now()
        return [rule_tick_view(rule, tick) for tick in following(rule, now, _counted(limit))]

    def words_of(self, **times: Unpack[ScheduleTimes]) -> str:
        """Times that are no schedule yet, in words: "weekdays at 06:00, Europe/Berlin"."""
        return in_words(self._rule(times))

    async def preview(
        self, name: str, since: datetime, until: datetime, *, limit: int = 1_000
    ) -> list[PreviewedTickView]:
        """Each tick from `since` on and before `until`: what became of it, or what will, and why. Changes nothing.

        Raises `InvalidOptionError` if there are more than `limit` ticks.
        """
        it = await self._get(name)
        ticks = _bounded(it.body.spec.rule, since, until, None, limit)
        statuses = await self._statuses([tick_run_id(it.record.record_id, tick) for tick in ticks])
        now = self._backend.opened.now()
        return [_previewed(it, tick, statuses, now) for tick in ticks]

    async def list_late(self, *, limit: int = 100) -> list[ScheduleView]:
        """Schedules that have been due for more than a minute: no worker has looked at them."""
        now = self._backend.opened.now()
        late = [one for one in await self._records.due(limit) if (one.record.due_at or now) < now - ON_TIME]
        return [schedule_view(one, {}) for one in late]

    # --- inside ---

    def _rule(self, times: ScheduleTimes) -> Rule:
        rule: Rule | None = self._parts("new", times).get("when")
        if rule is None:
            raise InvalidOptionError("there are no times", fix='cron="0 6 * * 1-5", every="5m" or at=...')
        return rule

    async def _get(self, name: str) -> Document[ScheduleBody]:
        return await self._records.get(check_name(name), fix=_FIX)

    async def _statuses(self, run_ids: Sequence[str]) -> Statuses:
        if not run_ids:
            return {}
        found = await self._backend.retrying(lambda store: store.views.find_many(list(run_ids)))
        return {run.run_id: run.status.value for run in found if run is not None}

    async def _target(self, workflow: str) -> Target:
        return await Targets(self._backend).find(workflow)

    async def _check_target(self, name: str, spec: Spec, workflow: Workflow[Any, Any] | str) -> None:
        if isinstance(workflow, Workflow):
            target = Target(workflow.name, workflow.version, workflow)
        else:
            target = await self._target(workflow)
        check_spec_input(self._backend, name, spec, target, sample(spec, self._backend.opened.now()))

    def _parts(self, name: str, given: Mapping[str, Any], spec: Spec | None = None) -> dict[str, Any]:
        """The parts that were given, as they are stored. Raises `InvalidOptionError`."""
        parts: dict[str, Any] = {}
        rule = _read_rule(given, None if spec is None else spec.rule)
        if rule is not None:
            parts["when"] = rule
        if "input" in given:
            parts["input"] = plain_input(self._backend, name, given["input"])
        readers: dict[str, Callable[[Any], Any]] = {
            "overlap": read_overlap,
            "catch_up": read_catch_up,
            "window": read_window,
            "jitter": read_jitter,
        }
        parts |= {option: readers[option](given[option]) for option in _OPTIONS if option in given}
        return parts

    async def _decided(
        self, name: str, decide: Callable[[Document[ScheduleBody]], Awaitable[Draft[ScheduleBody]]]
    ) -> None:
        """Change a schedule by a decision that has to look at other things, too."""
        for tries in range(TRIES_MAX):
            if tries > 1:
                await asyncio.sleep(PAUSE * tries)
            it = await self._get(name)
            [changed] = await self._records.apply([(it, await decide(it))])
            if changed.outcome is ChangeOutcome.CHANGED:
                return
        raise StoreUnavailableError(
            f"schedule {name!r} could not be changed",
            why=f"other processes changed it {TRIES_MAX} times meanwhile",
            fix="try again",
        )

    async def _start(self, name: str, runs: Sequence[NewRun], ticks: Sequence[Instant], by: str) -> None:
        """Start some runs of a backfill. Those whose ids or keys are taken are left out."""

        async def decide(it: Document[ScheduleBody]) -> Draft[ScheduleBody]:
            said = {"from": to_datetime(ticks[0]).isoformat(), "to": to_datetime(ticks[-1]).isoformat()}
            line = NewLine("backfilled", by, {**said, "runs": len(runs)})
            return draft(it.body, ScheduleState(it.record.state), line, starts=tuple(runs))

        await self._decided(name, decide)

    # Last, because below it `list` is this method.
    async def list(
        self,
        *,
        state: str | None = None,
        workflow: str | None = None,
        cannot_fire: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[ScheduleView]:
        """Schedules, newest first: all, or only schedules in one state, of one workflow, or that cannot start runs.
        The next page is behind `after`, the name of the last schedule of this one.
        """
        labels = ([PROBLEM_LABEL] if cannot_fire else []) + ([] if workflow is None else [workflow_label(workflow)])
        states = () if state is None else (read_state(state),)
        last = None if after is None else check_name(after)
        found = await self._records.list(states=states, labels=labels, limit=limit, after=last)
        statuses = await self._statuses(runs_of(found))
        return [schedule_view(one, statuses) for one in found]


def _name_of(workflow: Workflow[Any, Any] | str) -> str:
    return workflow.name if isinstance(workflow, Workflow) else workflow


def _fields(spec: Spec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in Spec.__struct_fields__}


def _renamed(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {("rule" if name == "when" else name): value for name, value in parts.items()}


def _read_rule(given: Mapping[str, Any], known: Rule | None) -> Rule | None:
    """The rule of the given times; None if none are given. Raises `InvalidOptionError`."""
    cron, every, at = given.get("cron"), given.get("every"), given.get("at")
    zone, offset = given.get("timezone"), given.get("offset", 0)
    named = [name for name, one in (("cron", cron), ("every", every), ("at", at)) if one is not None]
    if len(named) > 1:
        raise InvalidOptionError(f"a schedule has {' and '.join(named)}", fix="give one of them, or make two schedules")
    if every is not None and zone is not None:
        raise InvalidOptionError(
            "every has a time zone", why="intervals are counted in UTC", fix='leave it out, or use cron="0 * * * *"'
        )
    if offset and every is None:
        raise InvalidOptionError("offset needs every", fix='every="1h", offset="10m"')
    if cron is not None:
        keeps = zone is None and "timezone" not in given and isinstance(known, CronRule)
        return cron_rule(cron, known.zone if keeps and isinstance(known, CronRule) else zone)
    if every is not None:
        return every_rule(every, offset)
    if at is not None:
        return at_rule(at, zone)
    if "timezone" in given and known is not None:
        if not isinstance(known, CronRule):
            raise InvalidOptionError("only the times of cron have a time zone", fix='cron="0 6 * * *"')
        return cron_rule(known.cron, zone)
    return None


def _counted(count: int) -> int:
    if not 0 < count <= NEXT_MAX:
        raise InvalidOptionError(f"{count} ticks cannot be listed", fix=f"1 to {NEXT_MAX}")
    return count


def _bounded(rule: Rule, since: datetime, until: datetime, now: Instant | None, limit: int) -> list[Instant]:
    """The ticks of a range. Raises `InvalidOptionError` if there are more than the limit."""
    begin, end = to_instant(since, what="since"), to_instant(until, what="until")
    if end <= begin:
        raise InvalidOptionError("the range is empty", why=f"{until} is not after {since}", fix="since before until")
    if begin < 0:
        raise InvalidOptionError(f"since is {since}", fix="a time after 1970")
    if not 0 < limit <= TICKS_MAX:
        raise InvalidOptionError(f"limit is {limit}", fix=f"1 to {TICKS_MAX}")
    found: list[Instant] = []
    for tick in ticks_between(rule, begin, end if now is None else min(end, now)):
        if len(found) == limit:
            raise InvalidOptionError(
                f"the range has more than {limit:,} ticks",
                why=f"tick {limit + 1:,} is {to_datetime(tick).isoformat()}; nothing was started",
                fix=f"a shorter range, or a limit of up to {TICKS_MAX:,}",
            )
        found.append(tick)
    return found


def _triggered_view(name: str, tick: Instant, found: Draft[ScheduleBody], running: Sequence[str]) -> TriggeredView:
    if found.starts:
        return TriggeredView(name, found.starts[0].run_id, tick_key(name, tick), None, "")
    return TriggeredView(name, None, None, running[0] if running else None, "nothing was started: a run is active")


def _previewed(it: Document[ScheduleBody], tick: Instant, statuses: Statuses, now: Instant) -> PreviewedTickView:
    body = it.body
    run_id = tick_run_id(it.record.record_id, tick)
    known = _outcome_of(body, tick)
    status: str | None = None
    if run_id in statuses:
        fate, reason, status = "started", clock_change(body.spec.rule, tick), statuses[run_id]
    elif known is not None:
        fate, reason = known.kind, known.note
    elif tick == body.held:
        fate, reason = "held", "it starts when the active run has ended"
    else:
        fate, reason = _fate(it, tick, now)
    return PreviewedTickView(
        to_datetime(tick),
        local_time(body.spec, tick),
        fate,
        reason,
        run_id if status is not None else known.run_id or None if known is not None else None,
        status,
    )


def _outcome_of(body: ScheduleBody, tick: Instant) -> Outcome | None:
    return next((one for one in body.outcomes if one.tick <= tick <= (one.until or one.tick)), None)


def _fate(it: Document[ScheduleBody], tick: Instant, now: Instant) -> tuple[str, str]:
    """What became of a tick without a run and without a known outcome, or what will."""
    body, state = it.body, it.record.state
    if tick < it.record.created_at:
        return "did not start", "the schedule did not exist yet"
    if tick <= body.cursor:
        return "did not start", "it was paused or had other times then, or this is too long ago to be known"
    if state == ScheduleState.PAUSED:
        fate = "did not start" if tick <= now else "will not start"
        return fate, f"it is paused: {body.reason}" if body.reason else "it is paused"
    if state == ScheduleState.ENDED:
        return "will not start", "it has ended"
    if body.problem is not None:
        return "will not start", body.problem.message
    if tick <= now:
        due = due_ticks(body, now)
        if due.missed is not None and due.missed[0] <= tick <= due.missed[1]:
            return "will not start", f"no worker started it in time, and its catch-up is {body.spec.catch_up.value}"
        return "will start", "it is due now"
    return "will start", clock_change(body.spec.rule, tick)
