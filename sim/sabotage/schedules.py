"""Switches that break schedules: `sim.schedules` must notice each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from sim.sabotage.patches import Patches, Switches, switches
from stepwell.clock import Instant, Span
from stepwell.engine import schedule_records, schedule_starts, schedule_ticker, schedule_ticks
from stepwell.engine.records import Draft
from stepwell.engine.schedule_records import ScheduleBody
from stepwell.model import schedules
from stepwell.model.ticks import after, before
from stepwell.stores.sqlite.transitions import changes, records


def tick_dealt_with_twice() -> Patches:
    """The last tick of a change stays due."""
    original, again = schedule_ticks.due_ticks, set[tuple[str, int]]()

    def due_ticks(body: ScheduleBody, now: Instant) -> Any:
        found = original(body, now)
        if found.cursor is None or (body.name, found.cursor) in again:
            return found
        again.add((body.name, found.cursor))
        return found._replace(cursor=Instant(found.cursor - 1), next_at=found.cursor)

    return [(schedule_ticks, "due_ticks", due_ticks)]


def tick_left_out() -> Patches:
    """The tick after a tick is never dealt with."""
    original = schedule_ticks.due_ticks

    def due_ticks(body: ScheduleBody, now: Instant) -> Any:
        found = original(body, now)
        if found.cursor is None or found.next_at is None or found.cursor // 5_000_000 % 5:
            return found
        return found._replace(cursor=found.next_at, next_at=after(body.spec.rule, found.next_at))

    return [(schedule_ticks, "due_ticks", due_ticks)]


def change_of_a_schedule_whatever_it_is_now() -> Patches:
    """A worker does not notice that another one was first."""
    original = changes._change_one

    def change_one(tx: Any, change: Any, quota: Any, claimant: Any) -> Any:
        known = records.find_known(tx, change.record)
        if change.events[0].verb == "ticked" and known is not None:
            change = change._replace(expected=known[1])
        return original(tx, change, quota, claimant)

    return [(changes, "_change_one", change_one)]


def run_of_a_tick_with_another_id() -> Patches:
    """The run of a tick has an id that depends on who starts it."""
    return [(schedule_starts, "tick_key", lambda name, tick: f"{schedules.tick_key(name, tick)}-{tick % 3}")]


def every_missed_tick_started() -> Patches:
    """Catch-up `latest` and `none` start what `all` starts."""

    def first_start(body: ScheduleBody, first: Instant, last: Instant, now: Instant) -> Instant:
        return first

    return [(schedule_ticks, "_first_start", first_start)]


def window_forgotten() -> Patches:
    """Ticks are started however long ago they were."""
    original = schedule_ticks._first_start

    def first_start(body: ScheduleBody, first: Instant, last: Instant, now: Instant) -> Instant | None:
        spec = msgspec.structs.replace(body.spec, window=None)
        return original(msgspec.structs.replace(body, spec=spec), first, last, now)

    return [(schedule_ticks, "_first_start", first_start)]


def active_run_overlooked() -> Patches:
    """Runs of a schedule count as ended."""

    async def find_active(backend: Any, run_ids: Any) -> set[str]:
        return set()

    return [(schedule_ticker, "find_active", find_active)]


def continued_run_counts_as_ended() -> Patches:
    """A run that continued as new is not in the way any more."""

    async def find_active(backend: Any, run_ids: Any) -> set[str]:
        found = await schedule_starts._find(backend, sorted(set(run_ids)))
        return {run.run_id for run in found if run.ended_at is None}

    return [(schedule_ticker, "find_active", find_active)]


def replaced_runs_go_on() -> Patches:
    """With `cancel_running`, the runs that were active are not noted."""
    original = schedule_ticks._Pass.result

    def result(self: Any, **parts: Any) -> ScheduleBody:
        return original(self, **{**parts, "cancels": ()})

    return [(schedule_ticks._Pass, "result", result)]


def held_tick_lost() -> Patches:
    """A tick that waits for the end of a run is forgotten."""
    original = schedule_ticks._Pass.result

    def result(self: Any, **parts: Any) -> ScheduleBody:
        return original(self, **{**parts, "held": None, "look_at": None})

    return [(schedule_ticks._Pass, "result", result)]


def resumed_with_the_ticks_of_its_pause() -> Patches:
    """A schedule that is resumed starts what was due while it was paused."""

    def begun(body: ScheduleBody, now: Instant) -> ScheduleBody:
        at = before(body.spec.rule, Instant(now - 100_000_000)) or now
        return msgspec.structs.replace(body, cursor=at, next_at=after(body.spec.rule, at), held=None)

    return [(schedule_records, "_begun", begun)]


def delay_left_out() -> Patches:
    """Ticks are started without the delay of their jitter."""

    def delay_of(body: ScheduleBody, tick: Instant) -> Span:
        return Span(0)

    return [(schedule_ticks, "delay_of", delay_of), (schedule_records, "delay_of", delay_of)]


def unknown_workflow_loses_its_ticks() -> Patches:
    """A worker that does not know the workflow deals with the ticks all the same."""
    original = schedule_ticks.blocked

    def blocked(it: Any, error: Any, now: Instant, pause: Span) -> Draft[ScheduleBody]:
        found = original(it, error, now, pause)
        assert found.body is not None
        following = after(found.body.spec.rule, now)
        body = msgspec.structs.replace(found.body, cursor=now, next_at=following)
        return Draft(state=found.state, body=body, lines=found.lines, labels=found.labels, due_at=found.due_at)

    return [(schedule_ticker, "blocked", blocked)]


SCHEDULE_SWITCHES: Switches = switches(
    tick_dealt_with_twice,
    tick_left_out,
    change_of_a_schedule_whatever_it_is_now,
    run_of_a_tick_with_another_id,
    every_missed_tick_started,
    window_forgotten,
    active_run_overlooked,
    continued_run_counts_as_ended,
    replaced_runs_go_on,
    held_tick_lost,
    resumed_with_the_ticks_of_its_pause,
    delay_left_out,
    unknown_workflow_loses_its_ticks,
)


@contextmanager
def broken(make: Callable[[], Patches]) -> Iterator[None]:
    """Schedules with one switch thrown."""
    with ExitStack() as stack:
        for owner, name, value in make():
            stack.enter_context(patch.object(owner, name, value))
        yield
