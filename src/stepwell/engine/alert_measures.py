"""What the rules of alerts find in the store."""

from __future__ import annotations

from collections import deque
from typing import Final

from stepwell.clock import SECOND, Instant, Span
from stepwell.engine.backend import Backend
from stepwell.ids import RunId
from stepwell.model.alerts import (
    NAMED_MAX,
    EndedRun,
    Measured,
    Rule,
    RuleKind,
    measure_failures,
    measure_row,
)
from stepwell.model.retention import Ended
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.stores.base.filters import Order, SortKey
from stepwell.stores.base.views import Detail, RunFilter

_PAGE: Final = 500
_KEPT_MAX: Final = 200_000  # ended runs that it remembers
_LATE: Final = Span(60 * SECOND)  # a run may be committed so much later than it ended, by the clock of its transaction
_LOOKED_AT_MAX: Final = 100  # runs whose history is read for one rule
_MOVING: Final = (
    RunStatus.PENDING,
    RunStatus.RUNNING,
    RunStatus.WAITING,
    RunStatus.CANCELLING,
    RunStatus.COMPENSATING,
)
_ENDS: Final = tuple(sorted(TERMINAL - {RunStatus.CONTINUED}))
_NEWEST: Final = Order(SortKey.ENDED)
_OLDEST: Final = Order(SortKey.CREATED, descending=False)


class Measures:
    """Looks at the store for rules. It remembers the runs that ended lately, and reads each once."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lately = Lately(backend)

    async def measure(self, rule: Rule) -> Measured:
        """Look at the store for a rule."""
        now = self._backend.store.now()
        match rule.kind:
            case RuleKind.FAILED | RuleKind.COUNT:
                await self._lately.catch_up(now, rule.within)
                return measure_failures(rule, self._lately.runs, now)
            case RuleKind.CONSECUTIVE:
                where = RunFilter(statuses=_ENDS, workflow=rule.workflow, order=_NEWEST)
                limit = rule.least * 2 + NAMED_MAX
                runs = await self._backend.retrying(lambda store: store.views.list_runs(where, limit=limit))
                return measure_row(rule, ((run.run_id, run.status) for run in runs))
            case RuleKind.ROLLBACK_INCOMPLETE:
                where = RunFilter(statuses=(RunStatus.COMPENSATION_FAILED,), workflow=rule.workflow)
                runs = await self._backend.retrying(lambda store: store.views.list_runs(where, limit=_PAGE))
                return Measured(bool(runs), len(runs), tuple(run.run_id for run in runs[:NAMED_MAX]))
            case RuleKind.OLDEST_READY:
                return await self._oldest_ready(rule, now)
            case RuleKind.STALLED:
                return await self._stalled(rule, now)

    async def _oldest_ready(self, rule: Rule, now: Instant) -> Measured:
        if rule.workflow is None:
            since = (await self._backend.retrying(lambda store: store.views.count_unfinished())).due_since
        else:
            known = await self._backend.retrying(lambda store: store.views.list_definitions())
            of = [one for one in known if one.rpartition("@")[0] == rule.workflow]
            since = await self._backend.retrying(lambda store: store.views.next_wake(of)) if of else None
        late = 0 if since is None else max(0, now - since)
        return Measured(late >= rule.within, late / SECOND)

    async def _stalled(self, rule: Rule, now: Instant) -> Measured:
        """The oldest runs that could move, and their last progress. Paused runs, and runs that will wake by themselves
        or by a child, are left out.
        """
        where = RunFilter(statuses=_MOVING, workflow=rule.workflow, order=_OLDEST)
        runs = await self._backend.retrying(lambda store: store.views.list_runs(where, limit=_PAGE))
        before = Instant(now - rule.within)
        old = [run for run in runs if run.created_at <= before and not (run.wake_at is not None and run.wake_at > now)]
        found: list[str] = []
        longest = 0
        for run in old[:_LOOKED_AT_MAX]:
            detail = await self._backend.retrying(lambda store, run=run: store.views.detail(run.run_id))  # type: ignore[misc]
            if detail is None or _has_active_child(detail):
                continue
            still = now - _last_progress(detail)
            if still >= rule.within and detail.run.ended_at is None:
                found.append(run.run_id)
                longest = max(longest, still)
        return Measured(bool(found), longest / SECOND, tuple(found[:NAMED_MAX]))


class Lately:
    """The runs that ended lately, read once each."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.runs: deque[EndedRun] = deque(maxlen=_KEPT_MAX)
        self._known: set[str] = set()
        self._since: Instant | None = None  # what is known begins here
        self._read_at = Instant(0)

    async def catch_up(self, now: Instant, span: Span) -> None:
        """Know every run that ended within this time."""
        since = Instant(now - span)
        if self._since is None or since < self._since:
            self.runs.clear()
            self._known.clear()
            self._since, begin = since, since
        else:
            begin = Instant(max(self._read_at - _LATE, since))
        after: Ended | None = Ended(RunId(""), Instant(begin - 1))
        new: list[EndedRun] = []
        while after is not None:
            last = after
            found = await self._backend.retrying(
                lambda store, last=last: store.retention.list_ended(  # type: ignore[misc]
                    before=Instant(now + 1), limit=_PAGE, after=last
                )
            )
            for one in found:
                if one.ended_at is not None and one.run_id not in self._known:
                    new.append(EndedRun(one.ended_at, one.run_id, one.workflow, one.status))
            ended_at = found[-1].ended_at if found else None
            after = Ended(found[-1].run_id, ended_at) if len(found) == _PAGE and ended_at is not None else None
        self.runs.extend(new)
        self._known |= {one.run_id for one in new}
        self._read_at = now
        while self.runs and self.runs[0].ended_at <= self._since:
            self._known.discard(self.runs.popleft().run_id)


def _has_active_child(detail: Detail) -> bool:
    awaited = {wait.location for wait in detail.history.waits if wait.kind is WaitKind.CHILD}
    return any(
        child.parent is not None and child.parent.location in awaited and child.ended_at is None
        for child in detail.children
    )


def _last_progress(detail: Detail) -> Instant:
    run, history = detail.run, detail.history
    times = [run.created_at, run.started_at, run.wake_at, run.retried_at]
    times += [max((entry.at for entry in history.entries), default=run.created_at)]
    times += [attempt.at for attempt in history.attempts]
    times += [one.at for one in history.progress]
    return max(at for at in times if at is not None)
