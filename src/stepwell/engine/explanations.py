"""Explanations: why a run is not moving, in one sentence, with the data behind it and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from shlex import quote
from typing import Any, assert_never

from stepwell.clock import Instant, to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.causes import (
    CHILDREN_MAX,
    DEPTH_MAX,
    RUNS_MAX,
    Cause,
    ClusterState,
    causes_of,
    hold_words,
    is_fixed_by_code,
    left_to_undo,
    wait_words,
    waited_children,
    when,
)
from stepwell.engine.views import WaitView, progress_views, wait_views
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model.failures import decode_failure
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run is where it is."""

    run_id: str
    status: str
    sentence: str
    next: str = ""  # the command or act that moves it on, if any is needed
    facts: dict[str, Any] = field(default_factory=dict)
    chain: tuple[Cause, ...] = ()  # what is in its way, and in the way of that; empty once it has ended


async def explain_run(backend: Backend, target: str) -> Explanation:
    """Explain one run, and the children that it waits for. Raises `NotFoundError`."""
    detail = await backend.detail(target)
    workers = await backend.retrying(lambda store: store.views.list_workers())
    holds = await backend.retrying(lambda store: store.holds.list_holds())
    cluster = ClusterState(workers, holds, backend.store.now())
    return explain(detail, cluster, await _Descent(backend, cluster).look(detail, DEPTH_MAX))


class _Descent:
    """Looks at the children that runs wait for, and at theirs, but never at very many."""

    def __init__(self, backend: Backend, cluster: ClusterState) -> None:
        self._backend = backend
        self._cluster = cluster
        self._left = RUNS_MAX

    async def look(self, detail: Detail, depth: int) -> dict[RunId, tuple[Cause, ...]]:
        """What is in the way of each child that a run waits for."""
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
    waits = wait_views(detail)
    sentence, following = _why(detail, waits, cluster)
    facts: dict[str, Any] = {
        "waits": [f"{wait.kind} at {wait.path}" for wait in waits],
        "owner": run.owner,
        "wake_at": to_datetime(run.wake_at) if run.wake_at is not None else None,
        "pending_signals": [signal.name for signal in detail.signals],
        "pending_events": [event.topic for event in detail.events],
        "active_children": [child.run_id for child in detail.children if child.ended_at is None],
        "stalls": run.stalls,
        "deadline_at": to_datetime(run.deadline_at) if run.deadline_at is not None else None,
        "progress": [f"{one.path}: {one.words}" for one in progress_views(detail)],
    }
    sentence = f"{run.workflow} run {run.run_id} {sentence}"
    return Explanation(run.run_id, run.status.value, sentence, following, facts, causes_of(detail, cluster, below))


def _why(detail: Detail, waits: list[WaitView], cluster: ClusterState) -> tuple[str, str]:
    run = detail.run
    failure = decode_failure(run.failure) if run.failure else None
    cause = failure.summary if failure else "no cause was recorded"
    resume = f"engine.holds.resume({run.run_id!r})"
    at = f" at {failure.path}" if failure and failure.path else ""
    match run.status:
        case RunStatus.COMPLETED:
            return "has completed.", ""
        case RunStatus.FAILED:
            return f"failed{at}: {cause}.", f"engine.repairs.retry({run.run_id!r})"
        case RunStatus.COMPENSATED:
            return f"failed{at}: {cause}; everything was undone.", ""
        case RunStatus.CANCELLED:
            return "was cancelled" + (f": {run.reason}." if run.reason else "."), ""
        case RunStatus.CONTINUED:
            return f"goes on as run {run.successor}.", f"stepwell why {run.successor}"
        case RunStatus.PAUSED if run.hold is not None:
            besides = f"; before that it stopped{at}: {cause}" if failure else ""
            return f"is {hold_words(run.hold)}{besides}.", resume
        case RunStatus.PAUSED:
            if failure is not None and is_fixed_by_code(failure):
                itself = "; it goes on by itself when a worker with code that fits it starts"
                return f"is paused{at}: {cause}{_sides(failure)}{itself}.", f"deploy code that fits, or {resume}"
            return f"is paused{at}: {cause}.", f"fix the cause, then {resume}"
        case RunStatus.COMPENSATION_FAILED:
            left = len(left_to_undo(detail))
            return (
                f"could not be undone{at}: {cause}; {left} effects are not undone.",
                f"engine.repairs.resume_rollback({run.run_id!r})",
            )
        case RunStatus.PENDING | RunStatus.RUNNING | RunStatus.WAITING | RunStatus.CANCELLING | RunStatus.COMPENSATING:
            return _moving(detail, waits, cluster)
        case _:
            assert_never(run.status)


def _sides(failure: FailureRecord) -> str:
    """What is recorded and what the code does, if that is why."""
    return f" ({failure.why})" if failure.why.startswith("recorded: ") else ""


def _moving(detail: Detail, waits: list[WaitView], cluster: ClusterState) -> tuple[str, str]:
    run, now = detail.run, cluster.now
    doing = {RunStatus.CANCELLING: "is being cancelled", RunStatus.COMPENSATING: "is undoing what it did"}.get(
        run.status, ""
    )
    if run.owner is not None:
        holder = cluster.owner_of(run)
        if holder is None:
            gone = f"was held by {cluster.left_by(run)}"
            return f"{gone}; another takes over as soon as one looks.", "stepwell worker MODULE"
        asked = "" if run.hold is None else f"; it is {hold_words(run.hold)}, as soon as the steps under way have ended"
        return f"{doing or 'is running'} on worker {holder.name}{_progress(detail)}{asked}.", ""
    held = cluster.holds_of(run)
    if run.wake_at is not None and run.wake_at <= now:
        serving = cluster.serving(run)
        if held:
            return f"is ready, and waits: {held[0].sentence}.", held[0].next
        if serving:
            return (
                f"{doing + ' and ' if doing else ''}is ready, and waits for one of {len(serving)} workers to take it"
                f"{_progress(detail)}.",
                "",
            )
        return (
            f"is ready, and waits: no worker for {run.workflow} version {run.version} is alive.",
            "stepwell worker MODULE",
        )
    if run.debounced_until is not None and run.wake_at is not None and run.wake_at > run.debounced_until:
        return f"begins when the run that has the key {run.key!r} has ended.", f"stepwell why {quote(run.key or '')}"
    if not waits:
        again = ", unless its start is asked for again" if run.debounced_until is not None else ""
        return f"begins {when(run.wake_at, now)}{again}.", ""
    prefix, limit = f"{doing} and " if doing else "", _limit(run, now) + (f"; {held[0].sentence}" if held else "")
    reasons = "; or ".join(wait_words(wait, detail, now) for wait in waits)
    return f"{prefix}waits for {reasons}{limit}.", _advice(run.run_id, waits)


def _limit(run: Run, now: Instant) -> str:
    """Until when, if it is not undoing already."""
    if run.deadline_at is None or run.status is RunStatus.COMPENSATING:
        return ""
    return f"; it fails if it has not ended {when(run.deadline_at, now)}"


def _progress(detail: Detail) -> str:
    """How far its long steps say they are."""
    lines = [f"{one.path} is at {one.words}" for one in progress_views(detail) if one.done is not None]
    return f"; {', '.join(lines)}" if lines else ""


def _advice(run_id: str, waits: list[WaitView]) -> str:
    names = [name for wait in waits if wait.kind == "signal" for name in wait.names or ("NAME",)]
    topics = [wait.names[0] for wait in waits if wait.kind == "topic"]
    if names:
        return f"stepwell signal {run_id} {quote(names[0])}"
    return f"stepwell publish {quote(topics[0])}" if topics else ""
