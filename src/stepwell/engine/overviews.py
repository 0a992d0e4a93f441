"""Overviews: figures and groups of many runs, for pages that are refreshed often. The cost of each has a limit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from stepwell.clock import SECOND, Duration, Instant, Span, span, to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.error_groups import ErrorGroup, group_errors
from stepwell.engine.filters import parse_filter
from stepwell.engine.reasons import Reason, look_around, reason_of
from stepwell.engine.system_runs import without_system_runs
from stepwell.engine.views import ProgressView, RunView, WaitView, plain, progress_view, run_view, standing_views
from stepwell.errors import InvalidOptionError, NotFoundError
from stepwell.model.locations import format_path
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.nearest import nearest
from stepwell.stores.base.filters import Field, Relation
from stepwell.stores.base.overviews import FAILED, Summary, TopicUse, WaitGroup
from stepwell.stores.base.views import RunFilter

BINS_MAX: Final = 500
COUNTED_MAX: Final = 10_000  # runs of a filter
GROUPED_MAX: Final = 2_000  # failures
JUDGED_MAX: Final = 1_000  # runs of a workflow
_SCANNED_MAX: Final = 200_000  # runs of a histogram
_LISTED_MAX: Final = 20_000  # waits and events
_RELATED_MAX: Final = 100  # signals and children of one run


@dataclass(frozen=True, slots=True)
class BinView:
    """How many runs were created from a moment on, for the width of a bin, and how many of them have failed."""

    at: datetime
    runs: int
    failed: int


@dataclass(frozen=True, slots=True)
class HistogramView:
    """Runs by the time of their creation; bins without runs are there too.

    `counted_since` is later than `since` if there were too many runs to count: earlier bins are too low then.
    `is_whole` is false if there were too many runs that have not ended.
    """

    since: datetime
    until: datetime
    seconds: float  # the width of a bin
    bins: tuple[BinView, ...]
    counted_since: datetime
    is_whole: bool


@dataclass(frozen=True, slots=True)
class CountView:
    """How many runs match; `is_more` if there are more than were counted."""

    runs: int
    is_more: bool


@dataclass(frozen=True, slots=True)
class ErrorsView:
    """Failures in groups. `scanned` failures were looked at, the newest; `is_whole` is false if there are more."""

    groups: tuple[ErrorGroup, ...]
    scanned: int
    is_whole: bool
    since: datetime | None  # the creation of the oldest run that was looked at


@dataclass(frozen=True, slots=True)
class HealthView:
    """How the latest runs of a workflow went. Times are in seconds, of completed runs, and None without one."""

    workflow: str
    runs: int  # that were looked at, the newest
    is_whole: bool  # whether these are all of the last days
    since: datetime  # the beginning of the days, or the creation of the oldest of these runs
    statuses: Mapping[str, int]
    going_on: int
    completed: int
    failed: int
    p50: float | None
    p95: float | None
    p99: float | None
    slowest: float | None
    errors: tuple[ErrorGroup, ...]  # the most frequent first


@dataclass(frozen=True, slots=True)
class PendingSignal:
    """A signal that a run has not received yet."""

    number: int
    name: str
    payload: Any
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class StandingView:
    """Where a run stands: what it waits for, what it has not received, and its newest children."""

    run: RunView
    waits: tuple[WaitView, ...]
    progress: tuple[ProgressView, ...]
    signals: tuple[PendingSignal, ...]
    children: tuple[RunView, ...]
    reason: Reason


class Overviews:
    """`engine.overviews`: figures and groups of many runs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def histogram(
        self, where: RunFilter | str = "", *, bins: int = 60, last: Duration = "1d", include_system: bool = False
    ) -> HistogramView:
        """How many runs of a filter were created when. The range is that of `since:` and `until:` in the filter;
        without them, the `last` day until now.
        """
        if not 1 <= bins <= BINS_MAX:
            raise InvalidOptionError(f"a histogram cannot have {bins} bins", fix=f"1 to {BINS_MAX}")
        now = self._backend.store.now()
        wanted = self._filter(where, include_system)
        until = min((at for at in _bounds(wanted, Relation.UP_TO)), default=now)
        since = max((at for at in _bounds(wanted, Relation.FROM)), default=until - span(last, what="last"))
        width = Span(max(1, math.ceil((until + 1 - since) / bins)))
        found = await self._backend.retrying(
            lambda store: store.overviews.count_created(
                wanted, since=Instant(since), until=Instant(until + 1), width=width, scan_max=_SCANNED_MAX
            )
        )
        counted = {one.number: one for one in found.bins}
        views = []
        for number in range(max(0, math.ceil((until + 1 - since) / width))):
            _, runs, failed = counted.get(number, (number, 0, 0))
            views.append(BinView(to_datetime(Instant(since + number * width)), runs, failed))
        return HistogramView(
            to_datetime(Instant(since)),
            to_datetime(Instant(until)),
            width / SECOND,
            tuple(views),
            to_datetime(found.since),
            found.is_whole,
        )

    async def count(
        self, where: RunFilter | str = "", *, limit: int = COUNTED_MAX, include_system: bool = False
    ) -> CountView:
        """How many runs match a filter; the count stops at a limit."""
        wanted = self._filter(where, include_system)
        found = await self._backend.retrying(lambda store: store.views.count_runs(wanted, limit=limit + 1))
        return CountView(min(found, limit), found > limit)

    async def errors(self, where: RunFilter | str = "", *, limit: int = GROUPED_MAX) -> ErrorsView:
        """The failures of a filter in groups: by workflow, path, type of error and message, without what differs.

        The newest `limit` runs that have failed are looked at.
        """
        summaries = await self._failures(where, limit)
        page = summaries[:limit]
        since = min((one.created_at for one in page), default=None)
        return ErrorsView(
            tuple(group_errors(page)),
            len(page),
            len(summaries) <= limit,
            None if since is None else to_datetime(since),
        )

    async def error_group(
        self, fingerprint: str, where: RunFilter | str = "", *, limit: int = GROUPED_MAX
    ) -> ErrorGroup:
        """One group of failures. Its samples are all of its runs among the newest `limit` that have failed.

        Raises `NotFoundError` if none of them is in such a group.
        """
        summaries = await self._failures(where, limit)
        groups = {one.fingerprint: one for one in group_errors(summaries[:limit], samples_max=None)}
        if fingerprint not in groups:
            fix = "list the groups again: this one has no failed run any more, or only older ones"
            raise NotFoundError("group of failures", fingerprint, near=nearest(fingerprint, list(groups)), fix=fix)
        return groups[fingerprint]

    async def health(self, workflow: str, *, last: Duration = "7d", limit: int = JUDGED_MAX) -> HealthView:
        """How the newest runs of a workflow went, at most `limit` of those created within the `last` days."""
        since = Instant(self._backend.store.now() - span(last, what="last"))
        found = await self._summaries(RunFilter(workflow=workflow), limit)
        recent = [one for one in found[:limit] if one.created_at >= since]
        is_whole = len(recent) < limit or len(found) <= limit
        statuses = Counter(one.status for one in recent)
        took = sorted(_seconds(one) for one in recent if one.status is RunStatus.COMPLETED)
        begin = since if is_whole else min(one.created_at for one in recent)
        return HealthView(
            workflow,
            len(recent),
            is_whole,
            to_datetime(begin),
            {status.value: statuses[status] for status in RunStatus if statuses[status]},
            sum(statuses[status] for status in ACTIVE),
            statuses[RunStatus.COMPLETED],
            sum(statuses[status] for status in FAILED),
            _percentile(took, 0.5),
            _percentile(took, 0.95),
            _percentile(took, 0.99),
            took[-1] if took else None,
            tuple(group_errors(one for one in recent if one.status in FAILED)),
        )

    async def topics(self) -> Sequence[TopicUse]:
        """The topics of waits, of kept events and of the latest events, by name."""
        return await self._backend.retrying(lambda store: store.overviews.list_topics(limit=_LISTED_MAX))

    async def waits(self) -> Sequence[WaitGroup]:
        """Runs that wait for signals and events, grouped by what they wait for, the largest group first."""
        return await self._backend.retrying(lambda store: store.overviews.tally_waits(limit=_LISTED_MAX))

    async def reasons(self, runs: Sequence[RunView]) -> Sequence[Reason]:
        """Where each run is, and why, in one line; empty for a run that needs no explanation."""
        around = await self._backend.retrying(lambda store: look_around(store, runs))
        return [reason_of(run, around) for run in runs]

    async def stand(self, target: str) -> StandingView:
        """Where a run stands, without its history. Raises `NotFoundError`."""
        backend = self._backend
        run = await backend.get(target)
        [standing] = await backend.retrying(
            lambda store: store.overviews.list_standings([run.run_id], limit=_RELATED_MAX)
        )
        below = RunFilter(parent=run.run_id)
        children = await backend.retrying(lambda store: store.views.list_runs(below, limit=_RELATED_MAX))
        view = run_view(run, fetch=backend.fetch)
        [reason] = await self.reasons([view])
        return StandingView(
            view,
            tuple(standing_views(standing)),
            tuple(
                progress_view(format_path(one.location, standing.names), one, backend.fetch)
                for one in standing.progress
            ),
            tuple(
                PendingSignal(one.number, one.name, plain(one.payload, backend.fetch), to_datetime(one.sent_at))
                for one in standing.signals
            ),
            tuple(run_view(child) for child in children),
            reason,
        )

    def _filter(self, where: RunFilter | str, include_system: bool) -> RunFilter:
        wanted = parse_filter(where, self._backend.store.now()) if isinstance(where, str) else where
        return wanted if include_system else without_system_runs(wanted)

    async def _failures(self, where: RunFilter | str, limit: int) -> list[Summary]:
        """The newest failures of a filter, one more than the limit if there are more."""
        wanted = self._filter(where, False)
        statuses = FAILED & frozenset(wanted.statuses) if wanted.statuses else FAILED
        return await self._summaries(wanted._replace(statuses=tuple(sorted(statuses))), limit) if statuses else []

    async def _summaries(self, where: RunFilter, limit: int) -> list[Summary]:
        return await self._backend.retrying(lambda store: store.overviews.list_summaries(where, limit=limit + 1))


def _bounds(where: RunFilter, relation: Relation) -> list[int]:
    """The times that a filter names."""
    return [
        int(number)
        for condition in where.conditions
        if condition.field is Field.CREATED
        for sign, number in condition.values
        if sign == relation
    ]


def _seconds(run: Summary) -> float:
    begun = run.created_at if run.started_at is None else run.started_at
    return 0.0 if run.ended_at is None else (run.ended_at - begun) / SECOND


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that is not below this share of the values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
