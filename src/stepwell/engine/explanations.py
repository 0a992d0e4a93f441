"""Explanations: why a run is where it is, in one sentence made from its status and its causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from stepwell.advice import Advice
from stepwell.clock import to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.causes import (
    CHILDREN_MAX,
    DEPTH_MAX,
    RUNS_MAX,
    STATUS_WORDS,
    Cause,
    ClusterState,
    causes_of,
    waited_children,
    when,
)
from stepwell.engine.views import progress_views, wait_views
from stepwell.ids import RunId
from stepwell.model.schedules import scheduled_of
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail

_NAMED_MAX: Final = 3  # causes in the sentence; the chain has all of them


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run is where it is."""

    run_id: str
    status: str
    headline: str  # the run and its status, without a cause
    sentence: str  # the headline with the causes
    next: tuple[Advice, ...] = ()  # what lets it continue, or shows more, gathered from all causes
    notes: tuple[str, ...] = ()  # sentences about what is not in its way: its deadline, its progress, unread signals
    facts: dict[str, Any] = field(default_factory=dict)
    chain: tuple[Cause, ...] = ()  # its causes, each with those of a child; empty once it has completed


async def explain_run(backend: Backend, target: str) -> Explanation:
    """Explain one run, and the children that it waits for. Raises `NotFoundError`."""
    detail = await backend.detail(target)
    workers = await backend.retrying(lambda store: store.views.list_workers())
    holds = await backend.retrying(lambda store: store.holds.list_holds())
    cluster = ClusterState(workers, holds, backend.store.now())
    return explain(detail, cluster, await _Descent(backend, cluster).look(detail, DEPTH_MAX))


class _Descent:
    """Reads the children that a run waits for, and their children, up to a bounded number."""

    def __init__(self, backend: Backend, cluster: ClusterState) -> None:
        self._backend = backend
        self._cluster = cluster
        self._left = RUNS_MAX

    async def look(self, detail: Detail, depth: int) -> dict[RunId, tuple[Cause, ...]]:
        """The causes of each child that a run waits for."""
        found: dict[RunId, tuple[Cause, ...]] = {}
        for run_id in [one.run_id for one in waited_children(detail)][:CHILDREN_MAX] if depth > 0 else ():
            self._left -= 1
            if self._left < 0:
                break
            child = await self._backend.retrying(partial(_read, run_id))
            if child is not None:
                found[run_id] = causes_of(child, self._cluster, await self.look(child, depth - 1))
        return found


async def _read(run_id: RunId, store: Store) -> Detail | None:
    return await store.views.detail(run_id)


def explain(detail: Detail, cluster: ClusterState, below: Mapping[RunId, tuple[Cause, ...]]) -> Explanation:
    """Explain one run from what is stored."""
    run = detail.run
    causes = causes_of(detail, cluster, below)
    headline = f"{run.workflow} run {run.run_id} {STATUS_WORDS[run.status]}"
    return Explanation(
        run.run_id,
        run.status.value,
        headline,
        _sentence(headline, causes),
        _unique(_advice(causes)),
        tuple(_notes(detail, causes, cluster)),
        _facts(detail),
        causes,
    )


def _sentence(headline: str, causes: tuple[Cause, ...]) -> str:
    if not causes:
        return f"{headline}."
    named = "; ".join(one.sentence for one in causes[:_NAMED_MAX])
    more = len(causes) - _NAMED_MAX
    return f"{headline}: {named}; and {more} more causes." if more > 0 else f"{headline}: {named}."


def _advice(causes: Iterable[Cause]) -> Iterator[Advice]:
    """What to do about the causes; about a child's own causes if they are known."""
    for one in causes:
        yield from _advice(one.causes) if one.causes else one.next


def _unique(advice: Iterable[Advice]) -> tuple[Advice, ...]:
    found: list[Advice] = []
    for one in advice:
        if one not in found:
            found.append(one)
    return tuple(found)


def _notes(detail: Detail, causes: tuple[Cause, ...], cluster: ClusterState) -> Iterator[str]:
    run = detail.run
    if any(one.kind == "code" for one in causes):
        yield "It continues by itself once a worker with code that fits it starts."
    scheduled = scheduled_of(run.attributes)
    if scheduled is not None:
        yield f"Schedule {scheduled.name} started it for {scheduled.fire_time:%Y-%m-%d %H:%M:%S} UTC."
    if run.deadline_at is not None and run.status not in {*TERMINAL, RunStatus.COMPENSATING}:
        yield f"It fails if it has not ended {when(run.deadline_at, cluster.now)}."
    for one in progress_views(detail):
        if one.done is not None:
            yield f"{one.path} is at {one.words}."
    if detail.signals:
        yield f"Signals that it has not asked for yet: {', '.join(signal.name for signal in detail.signals)}."


def _facts(detail: Detail) -> dict[str, Any]:
    run = detail.run
    return {
        "waits": [f"{wait.kind} at {wait.path}" for wait in wait_views(detail)],
        "owner": run.owner,
        "wake_at": to_datetime(run.wake_at) if run.wake_at is not None else None,
        "pending_signals": [signal.name for signal in detail.signals],
        "pending_events": [event.topic for event in detail.events],
        "active_children": [child.run_id for child in detail.children if child.ended_at is None],
        "stalls": run.stalls,
        "deadline_at": to_datetime(run.deadline_at) if run.deadline_at is not None else None,
        "progress": [f"{one.path}: {one.words}" for one in progress_views(detail)],
    }
