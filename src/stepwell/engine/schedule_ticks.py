"""What becomes of the ticks of a schedule that are due: one pure function of the schedule, the time and its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, assert_never

import msgspec

from stepwell.clock import Instant, Span
from stepwell.engine.records import Document, Draft, NewLine
from stepwell.engine.schedule_records import (
    LOOK_FIRST,
    LOOK_MAX,
    TICKED,
    Outcome,
    Problem,
    ScheduleBody,
    delay_of,
    draft,
    with_outcomes,
)
from stepwell.errors import InvalidInputError, StepwellError
from stepwell.model.runs import NewRun
from stepwell.model.schedules import ON_TIME, CatchUp, Overlap
from stepwell.model.states import ScheduleState
from stepwell.model.ticks import after, before

STARTS_MAX: Final = 100  # of one schedule in one change; the rest follows at once
ACTIVE_MAX: Final = 20
_TEXT_MAX: Final = 500

MakeRun = Callable[[Instant, "Instant | None"], NewRun]
"""Makes the run of a tick, from the tick and the one before it. Raises `StepwellError` if that is impossible."""


class DueTicks(NamedTuple):
    """The ticks that are due: ticks to start, oldest first, and missed ticks."""

    starts: tuple[Instant, ...] = ()
    missed: tuple[Instant, Instant] | None = None  # the first and the last of them
    cursor: Instant | None = None  # all ticks up to here are dealt with; None: no tick is due
    next_at: Instant | None = None


def due_ticks(body: ScheduleBody, now: Instant) -> DueTicks:
    """What the catch-up of a schedule makes of the ticks that are due. Each of them is in `starts` or `missed`."""
    if body.next_at is None:
        return DueTicks()
    first, rule = Instant(body.next_at), body.spec.rule
    if not _is_due(body, first, now):
        return DueTicks()
    following = after(rule, first)
    last = first if following is None or not _is_due(body, following, now) else _last_due(body, now, first)
    begin = _first_start(body, first, last, now)
    if begin is None:
        return DueTicks((), (first, last), last, following if last == first else after(rule, last))
    missed = None if begin == first else (first, before(rule, begin) or first)
    starts, tick = [begin], after(rule, begin)
    while tick is not None and tick <= last and len(starts) < STARTS_MAX:
        starts.append(tick)
        tick = after(rule, tick)
    return DueTicks(tuple(starts), missed, starts[-1], tick)


def _is_due(body: ScheduleBody, tick: Instant, now: Instant) -> bool:
    return tick <= now and tick + delay_of(body, tick) <= now


def _last_due(body: ScheduleBody, now: Instant, first: Instant) -> Instant:
    """The last tick that is due. A delay ends before the next tick, so only the last one can still be delayed."""
    rule = body.spec.rule
    last = before(rule, Instant(now + 1))
    if last is not None and not _is_due(body, last, now):
        last = before(rule, last)
    return first if last is None else max(first, last)


def _first_start(body: ScheduleBody, first: Instant, last: Instant, now: Instant) -> Instant | None:
    """The first tick to start; None if all of them were missed."""
    spec = body.spec
    window = spec.window
    if spec.catch_up is CatchUp.NONE:
        window = ON_TIME if window is None else min(window, ON_TIME)
    if window is not None and now - (last + delay_of(body, last)) > window:
        return None
    match spec.catch_up:
        case CatchUp.LATEST | CatchUp.NONE:
            return last
        case CatchUp.ALL:
            if window is None or now - (first + delay_of(body, first)) <= window:
                return first
            begin = after(spec.rule, Instant(now - window - 1))
            return last if begin is None else min(max(first, begin), last)
        case _:
            assert_never(spec.catch_up)


class _Pass:
    """One pass over the due ticks of a schedule: it collects what happens."""

    def __init__(self, body: ScheduleBody, now: Instant, running: tuple[str, ...], make: MakeRun) -> None:
        self.body = body
        self.now = now
        self.running = list(running)
        self.make = make
        self.outcomes: list[Outcome] = []
        self.starts: list[NewRun] = []
        self.cancels: list[str] = []
        self.held = None if body.held is None else Instant(body.held)
        self.last_fired = body.last_fired
        self.problem = body.problem

    def start(self, tick: Instant, kind: str = "started") -> None:
        """Start the run of a tick."""
        try:
            run = self.make(tick, previous_of(self.body, self.last_fired, tick))
        except StepwellError as error:
            self.problem = problem_of(error, self.now, self.problem)
            self._note(tick, "failed", note=self.problem.message)
            return
        self.starts.append(run)
        self.running.append(run.run_id)
        self.last_fired, self.problem = tick, None
        self._note(tick, kind, run.run_id)

    def skip(self, tick: Instant, run_id: str, note: str) -> None:
        """Start nothing for a tick."""
        self._note(tick, "skipped", run_id, note)

    def take(self, tick: Instant, overlap: Overlap, kind: str = "started") -> None:
        """Do with a tick what the overlap says."""
        match overlap:
            case Overlap.ALLOW:
                self.start(tick, kind)
            case Overlap.SKIP:
                if self.running:
                    self.skip(tick, self.running[0], "a run was active")
                else:
                    self.start(tick, kind)
            case Overlap.CANCEL_RUNNING:
                before, self.running = self.running, []
                self.start(tick, kind)
                if self.running:
                    self.cancels += before
                else:  # it could not be started, so the earlier runs continue
                    self.running = before
            case Overlap.BUFFER_ONE:
                if not self.running:
                    self.start(tick, kind)
                    return
                if self.held is not None:
                    self.skip(self.held, self.running[0], "a later tick took its place")
                self.held = tick
            case _:
                assert_never(overlap)

    def release(self) -> None:
        """Start the held tick, if no run is in its way any more."""
        if self.held is not None and not self.running:
            tick, self.held = self.held, None
            self.start(tick)

    def _note(self, tick: Instant, kind: str, run_id: str = "", note: str = "") -> None:
        self.outcomes.append(Outcome(tick, kind, self.now, run_id, note))

    def result(self, **changes: object) -> ScheduleBody:
        """The schedule after it."""
        body = with_outcomes(self.body, self.outcomes)
        looks = body.looks + 1 if self.held is not None and self.held == body.held else 0
        look_at = None if self.held is None else self.now + min(LOOK_FIRST << min(looks, 10), LOOK_MAX)
        found: dict[str, object] = {
            "last_fired": self.last_fired,
            "active": tuple(self.running)[-ACTIVE_MAX:],
            "held": self.held,
            "looks": looks,
            "look_at": look_at,
            "cancels": tuple(self.cancels),
            "problem": self.problem,
            "is_blocked": False,
        }
        return msgspec.structs.replace(body, **{**found, **changes})


def ticked(it: Document[ScheduleBody], now: Instant, running: tuple[str, ...], make: MakeRun) -> Draft[ScheduleBody]:
    """What is due of a schedule happens. `running` are its runs that have not ended; its cancels are done."""
    body, state = it.body, ScheduleState(it.record.state)
    found = due_ticks(body, now) if state is ScheduleState.ACTIVE else DueTicks()
    passed = _Pass(body, now, running, make)
    if state is ScheduleState.ACTIVE:
        passed.release()
    if found.missed is not None:
        first, last = found.missed
        note = "no worker started it in time"
        passed.outcomes.append(Outcome(first, "missed", now, note=note, until=None if first == last else last))
    for tick in _without_overtaken(found.starts, passed):
        passed.take(tick, body.spec.overlap)
    after_it = passed.result() if found.cursor is None else passed.result(cursor=found.cursor, next_at=found.next_at)
    return draft(after_it, state, *_lines(body, after_it), starts=tuple(passed.starts))


def _without_overtaken(ticks: tuple[Instant, ...], passed: _Pass) -> Iterator[Instant]:
    """With "cancel_running", a tick that the next one would cancel at once starts nothing."""
    if passed.body.spec.overlap is Overlap.CANCEL_RUNNING:
        for tick in ticks[:-1]:
            passed.skip(tick, "", "a later tick took its place")
        ticks = ticks[-1:]
    yield from ticks


def triggered(
    it: Document[ScheduleBody], now: Instant, running: tuple[str, ...], make: MakeRun, overlap: Overlap, by: str
) -> Draft[ScheduleBody]:
    """A person starts a run now. Its ticks stay due."""
    body, state = it.body, ScheduleState(it.record.state)
    passed = _Pass(body, now, running, make)
    passed.cancels = list(body.cancels)
    before_it = passed.problem
    if overlap is Overlap.BUFFER_ONE:
        overlap = Overlap.SKIP  # a person is told, and decides
    passed.take(now, overlap, "triggered")
    passed.last_fired = body.last_fired
    after_it = passed.result(is_blocked=body.is_blocked, look_at=body.look_at, looks=body.looks, problem=before_it)
    run_id = passed.starts[0].run_id if passed.starts else ""
    return draft(after_it, state, NewLine("triggered", by, {"run": run_id}), starts=tuple(passed.starts))


def blocked(it: Document[ScheduleBody], error: StepwellError, now: Instant, pause: Span) -> Draft[ScheduleBody]:
    """Its ticks cannot be dealt with now: they stay due, and it is tried again after a pause."""
    body, state = it.body, ScheduleState(it.record.state)
    problem = problem_of(error, now, body.problem)
    after_it = msgspec.structs.replace(body, problem=problem, is_blocked=True, look_at=now + pause, cancels=())
    return draft(after_it, state, *_lines(body, after_it))


def unreadable(it: Document[ScheduleBody], now: Instant, pause: Span) -> Draft[ScheduleBody]:
    """This worker cannot read it. Another one may, so it stays as it is, and is tried again after a pause."""
    return Draft(
        state=ScheduleState(it.record.state),
        lines=(NewLine("unreadable", replaces=True),),
        due_at=Instant(now + pause),
    )


def previous_of(body: ScheduleBody, last_fired: int | None, tick: Instant) -> Instant | None:
    """The tick before one: the last that started a run, or at first the one before in its rule."""
    if last_fired is not None and last_fired < tick:
        return Instant(last_fired)
    return before(body.spec.rule, tick)


def problem_of(error: StepwellError, now: Instant, known: Problem | None) -> Problem:
    """Why a schedule cannot start runs; since when, if that is known already."""
    said = error.conceal() if isinstance(error, InvalidInputError) else error
    message = ": ".join(part for part in (said.title, said.why) if part)[:_TEXT_MAX]
    is_same = known is not None and (known.code, known.message) == (said.code, message)
    return Problem(known.since if known is not None and is_same else now, said.code, message)


def _lines(was: ScheduleBody, now: ScheduleBody) -> tuple[NewLine, ...]:
    """One line stands for all ticks, because the outcomes are in the body. A new problem has a line of its own."""
    problem = now.problem
    lines = [NewLine(TICKED, replaces=True)]
    if problem is not None and (was.problem is None or was.problem.message != problem.message):
        lines.append(NewLine("failed", data={"code": problem.code, "message": problem.message}, replaces=True))
    return tuple(lines)
