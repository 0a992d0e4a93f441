"""Schedules: every tick is dealt with once, as its catch-up and its overlap say, and every start has its run.

The checker reads each change of a schedule as the store applied it. What must become of the due ticks it works out
from a plain list of them, and not as the engine does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sim.coroutines import at_once
from stepwell.clock import SECOND, Instant, to_instant
from stepwell.codec.json_codec import JsonCodec
from stepwell.engine.records import body_place
from stepwell.engine.schedule_records import Outcome, ScheduleBody, delay_of
from stepwell.engine.schedule_ticks import STARTS_MAX
from stepwell.model.records import Changed, ChangeOutcome, RecordChange, RecordFilter
from stepwell.model.runs import NewRun, Run
from stepwell.model.schedules import ON_TIME, SCHEDULE, CatchUp, Overlap, scheduled_of, tick_key
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.model.ticks import ticks_between
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import RunFilter

_ALL = 1_000_000
_LISTED_MAX = 100_000 * SECOND


class ScheduleChecker:
    """What is known of the schedules of one seed, and what was wrong."""

    def __init__(self, inspector: Store) -> None:
        self._store = inspector
        self._bodies: dict[str, tuple[int, ScheduleBody, str]] = {}  # version, body and state
        self._runs: dict[str, dict[str, Instant]] = {}  # of each schedule: the runs that it started, and their ticks
        self._by_people: set[str] = set()
        self._ended: set[str] = set()
        self._begun: dict[str, Instant] = {}  # when a schedule was created or resumed, or got other times
        self.violations: list[str] = []
        self.stats: Counter[str] = Counter()

    def violate(self, name: str, text: str) -> None:
        """Something is wrong."""
        if len(self.violations) < 20:
            self.violations.append(f"schedule {name}: {text}")

    # --- changes ---

    def changed(self, changes: Iterable[RecordChange], answers: Iterable[Changed]) -> None:
        """The store answered changes."""
        for change, answer in zip(changes, answers, strict=True):
            if change.record.kind != "schedule" or answer.outcome is not ChangeOutcome.CHANGED:
                self.stats["stale changes"] += answer.outcome is ChangeOutcome.STALE
                continue
            self._change(change, answer)

    def _change(self, change: RecordChange, answer: Changed) -> None:
        name = change.record.record_id
        version, before, _ = self._bodies.get(name, (0, None, ""))
        if answer.version <= version:
            return  # it was repeated, and nothing happened
        if answer.version != version + 1:
            self.violate(name, f"version {answer.version} follows version {version}")
        body: ScheduleBody = JsonCodec().decode(change.record.body, ScheduleBody, place=body_place("schedule", name))  # type: ignore[arg-type]
        verb = change.events[0].verb
        self._bodies[name] = (answer.version, body, change.record.state)
        self.stats[verb] += 1
        now = self._store.now()
        if verb in ("created", "resumed") or before is None or before.spec.rule != body.spec.rule:
            self._begun[name] = Instant(body.cursor)
            self._check_begins(name, body)
        elif verb == "ticked":
            self._ticked(name, before, body, change.starts, now)
        elif body.cursor != before.cursor:
            self.violate(name, f"{verb} moved it from {before.cursor} to {body.cursor}")
        if verb in ("triggered", "backfilled"):
            self._by_people |= {run.run_id for run in change.starts}
        started = set(answer.started)
        for run in change.starts:
            if run.run_id not in started and verb == "ticked" and run.run_id not in self._by_people:
                self.violate(name, f"the run {run.key} of a tick was not started: it is there already")

    def _check_begins(self, name: str, body: ScheduleBody) -> None:
        now = self._store.now()
        if body.next_at is not None and body.next_at <= body.cursor:
            self.violate(name, "it begins with a tick that is over")
        if abs(now - body.cursor) > 120_000_000 and body.next_at is not None and body.next_at < now - 120_000_000:
            self.violate(name, f"it begins at {body.cursor}, and it is {now}")

    # --- ticks ---

    def _ticked(
        self, name: str, before: ScheduleBody, body: ScheduleBody, starts: tuple[NewRun, ...], now: Instant
    ) -> None:
        if body.is_blocked:
            if body.cursor != before.cursor or starts:
                self.violate(name, "it cannot fire, and dealt with ticks")
            return
        outcomes = _new(before, body)
        spec = before.spec
        self._check_starts(name, before, body, starts, now)
        self.stats.update(f"ticks {one.kind}" for one in outcomes)
        if body.cursor - before.cursor > _LISTED_MAX:
            return  # the clock has jumped by a year: these are too many ticks to list
        done = [*ticks_between(spec.rule, Instant(before.cursor + 1), Instant(body.cursor + 1))]
        if body.cursor < before.cursor:
            self.violate(name, f"it went back from {before.cursor} to {body.cursor}")
        told: Counter[int] = Counter()
        for one in outcomes:
            covered = (
                [one.tick] if one.until is None else ticks_between(spec.rule, Instant(one.tick), Instant(one.until + 1))
            )
            told.update(covered)
        if body.held is not None and body.held != before.held:
            told[body.held] += 1
        wanted = Counter([*done, *([before.held] if before.held is not None and body.held != before.held else [])])
        if len(outcomes) < 20 and told != wanted:
            self.violate(name, f"ticks {sorted((wanted - told) + (told - wanted))[:5]} are not dealt with exactly once")
        self._check_catch_up(name, before, body, done, outcomes)
        self.stats["ticks"] += len(done)

    def _check_catch_up(
        self, name: str, before: ScheduleBody, body: ScheduleBody, done: list[Instant], outcomes: list[Outcome]
    ) -> None:
        """Which ticks were taken, and which were missed, from the list of all that were due."""
        if not outcomes or not done:
            return
        at, spec = Instant(outcomes[0].at), before.spec
        if any(one.at != at for one in outcomes):
            self.violate(name, "its outcomes have different times")
        due = [
            tick
            for tick in ticks_between(spec.rule, Instant(before.cursor + 1), Instant(at + 1))
            if tick + delay_of(before, tick) <= at
        ]
        missed = {
            tick
            for one in outcomes
            if one.kind == "missed"
            for tick in ticks_between(spec.rule, Instant(one.tick), Instant((one.until or one.tick) + 1))
        }
        taken = [tick for tick in done if tick not in missed]
        match spec.catch_up:
            case CatchUp.ALL:
                # The window is counted from the tick with its delay for the first and the last, else from the tick.
                expected = [tick for tick in due if spec.window is None or at - tick <= spec.window]
                late = [
                    tick
                    for tick in due
                    if tick not in expected
                    and spec.window is not None
                    and at - tick - delay_of(before, tick) <= spec.window
                ]
                expected = sorted({*expected, *(late if late and (late[0] == due[0] or late[-1] == due[-1]) else [])})
                expected = expected[:STARTS_MAX] if len(outcomes) < 20 else taken
            case CatchUp.LATEST:
                expected = due[-1:] if spec.window is None or _age(before, due, at) <= spec.window else []
            case CatchUp.NONE:
                window = ON_TIME if spec.window is None else min(spec.window, ON_TIME)
                expected = due[-1:] if _age(before, due, at) <= window else []
        if len(outcomes) < 20 and taken != expected:
            self.violate(
                name, f"{spec.catch_up.value} took {taken[:3]} of {len(due)} due ticks, and not {expected[:3]}"
            )
        if body.cursor > at:
            self.violate(name, "it dealt with a tick of the future")

    def _check_starts(
        self, name: str, before: ScheduleBody, body: ScheduleBody, starts: tuple[NewRun, ...], now: Instant
    ) -> None:
        known = self._runs.setdefault(name, {})
        ticks = [Instant(one.tick) for one in _new(before, body) if one.kind == "started"]
        keys = {tick_key(name, tick): tick for tick in ticks}
        if len(_new(before, body)) < 20 and sorted(keys) != sorted(str(run.key) for run in starts):
            self.violate(name, "its outcomes and its starts differ")
        active = {run_id for run_id in known if self._is_active(run_id)}
        for run in starts:
            scheduled = scheduled_of(run.attributes)
            tick = Instant(0) if scheduled is None else to_instant(scheduled.fire_time)
            if tick in known.values():
                self.violate(name, f"tick {tick} started two runs")
            if tick and tick <= self._begun[name]:
                self.violate(name, f"tick {tick} is before {self._begun[name]}, when it began")
            if tick and tick + (0 if tick == before.held else delay_of(before, tick)) > now:
                self.violate(name, f"tick {tick} was started too early")
            if before.spec.overlap in (Overlap.SKIP, Overlap.BUFFER_ONE) and active - set(before.cancels):
                self.violate(name, f"{before.spec.overlap.value} started {run.key} beside {sorted(active)[:2]}")
            known[run.run_id] = tick
            active.add(run.run_id) if before.spec.overlap in (Overlap.SKIP, Overlap.BUFFER_ONE) else None
        if before.spec.overlap is Overlap.CANCEL_RUNNING and starts:
            left = {one for one in active if one not in body.cancels and one not in {run.run_id for run in starts}}
            # A run that an earlier tick replaced is being cancelled until its worker, or another one, has seen that.
            left = {one for one in left - set(before.cancels) if not self._is_cancelling(one)}
            if left:
                self.violate(name, f"runs {sorted(left)[:2]} were not cancelled")

    def _is_active(self, run_id: str) -> bool:
        if run_id in self._ended:
            return False
        is_active = self._look(run_id)
        if not is_active:
            self._ended.add(run_id)  # no operator repairs runs here
        return is_active

    def _look(self, run_id: str) -> bool:
        run = self._last_of(run_id)
        return run is not None and run.status not in TERMINAL

    def _is_cancelling(self, run_id: str) -> bool:
        run = self._last_of(run_id)
        return run is not None and run.status is RunStatus.CANCELLING

    def _last_of(self, run_id: str) -> Run | None:
        """The last run of a chain."""
        run = at_once(self._store.views.find(run_id))
        while run is not None and run.status is RunStatus.CONTINUED and run.successor is not None:
            run = at_once(self._store.views.find(run.successor))
        return run

    # --- the end ---

    def end(self) -> None:
        """Nothing happens any more: nothing is due, and every start has its run."""
        now = self._store.now()
        listed = at_once(self._store.records.list_records(RecordFilter("schedule", is_open=True), limit=_ALL))
        for record in listed:
            if record.due_at is not None and record.due_at <= now:
                self.violate(record.record_id, f"it has been due for {(now - record.due_at) / 1e6:.1f} s")
        runs = at_once(self._store.views.list_runs(RunFilter(), limit=_ALL))
        first = {run.run_id: run for run in runs if run.previous is None}
        of_schedules: Counter[str] = Counter()
        for run in first.values():
            name = next((one.value[1:] for one in run.attributes if one.name == SCHEDULE), None)
            if name is None:
                continue
            of_schedules[name] += 1
            if run.run_id not in self._runs.get(name, {}) and run.run_id not in self._by_people:
                self.violate(name, f"run {run.key} was started by no tick")
        for name, known in self._runs.items():
            for run_id, tick in known.items():
                if run_id not in first:
                    self.violate(name, f"the run of tick {tick} is not there")
        self.stats["runs of schedules"] += sum(of_schedules.values())

    def check_complete(self) -> None:
        """A schedule whose every tick starts a run has one for each, once workers were well for a while."""
        before = Instant(self._store.now() - 5 * SECOND)
        for name, (_, body, state) in self._bodies.items():
            self._check_complete(name, body, state, before)

    def _check_complete(self, name: str, body: ScheduleBody, state: str, now: Instant) -> None:
        spec: Any = body.spec
        is_plain = spec.overlap is Overlap.ALLOW and spec.catch_up is CatchUp.ALL and spec.window is None
        if not is_plain or state != "active" or body.edits:
            return
        begun = self._begun[name]
        ticks = {tick for tick in ticks_between(spec.rule, Instant(begun + 1), Instant(now + 1))}
        due = {tick for tick in ticks if tick + delay_of(body, tick) <= now}
        missing = due - set(self._runs.get(name, {}).values())
        if missing:
            self.violate(name, f"{len(missing)} of {len(due)} ticks have no run, such as {min(missing)}")
        self.stats["complete schedules"] += 1


def _new(before: ScheduleBody, body: ScheduleBody) -> list[Outcome]:
    """The outcomes that a change added, newest first."""
    old = len(before.outcomes)
    for count in range(len(body.outcomes) + 1):
        if body.outcomes[count:] == before.outcomes[: len(body.outcomes) - count] and (
            len(body.outcomes) - count == old or len(body.outcomes) == 20
        ):
            return list(body.outcomes[:count])
    return list(body.outcomes)


def _age(body: ScheduleBody, due: list[Instant], at: Instant) -> int:
    return at - due[-1] - delay_of(body, due[-1]) if due else 0
