"""Why is it not moving? One sentence, the data behind it, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, assert_never

from stepwell.clock import Instant, to_datetime, to_timedelta
from stepwell.engine.views import WaitView, progress_views, wait_views
from stepwell.errors import PoisonError
from stepwell.model.failures import FailureRecord, decode_failure
from stepwell.model.locations import is_undoing, undo
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.model.workers import Worker
from stepwell.stores.base.views import Detail


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run is where it is."""

    run_id: str
    status: str
    sentence: str
    next: str = ""  # the command or act that moves it on, if any is needed
    facts: dict[str, Any] = field(default_factory=dict)


def explain(detail: Detail, workers: Sequence[Worker], now: Instant) -> Explanation:
    """Explain one run from what is stored."""
    run = detail.run
    waits = wait_views(detail)
    sentence, following = _why(detail, waits, workers, now)
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
    return Explanation(run.run_id, run.status.value, f"{run.workflow} run {run.run_id} {sentence}", following, facts)


def _why(detail: Detail, waits: list[WaitView], workers: Sequence[Worker], now: Instant) -> tuple[str, str]:
    run = detail.run
    failure = decode_failure(run.failure) if run.failure else None
    cause = failure.summary if failure else "no cause was recorded"
    resume = f"engine.resume({run.run_id!r})"
    at = f" at {failure.path}" if failure and failure.path else ""
    match run.status:
        case RunStatus.COMPLETED:
            return "has completed.", ""
        case RunStatus.FAILED:
            return f"failed{at}: {cause}.", f"engine.retry({run.run_id!r})"
        case RunStatus.COMPENSATED:
            return f"failed{at}: {cause}; everything was undone.", ""
        case RunStatus.CANCELLED:
            return "was cancelled" + (f": {run.reason}." if run.reason else "."), ""
        case RunStatus.CONTINUED:
            return f"goes on as run {run.successor}.", f"stepwell why {run.successor}"
        case RunStatus.PAUSED:
            if failure is not None and failure.code.startswith(("SW1", "SW20")) and failure.code != PoisonError.code:
                itself = "; it goes on by itself when a worker with code that fits it starts"
                return f"is paused{at}: {cause}{_sides(failure)}{itself}.", f"deploy code that fits, or {resume}"
            return f"is paused{at}: {cause}.", f"mend the cause, then {resume}"
        case RunStatus.COMPENSATION_FAILED:
            left = len(_left(detail))
            return (
                f"could not be undone{at}: {cause}; {left} effects are not undone.",
                f"engine.resume_rollback({run.run_id!r})",
            )
        case RunStatus.PENDING | RunStatus.RUNNING | RunStatus.WAITING | RunStatus.CANCELLING | RunStatus.COMPENSATING:
            return _moving(detail, waits, workers, now)
        case _:
            assert_never(run.status)


def _sides(failure: FailureRecord) -> str:
    """What is recorded and what the code does, if that is why."""
    return f" ({failure.why})" if failure.why.startswith("recorded: ") else ""


def _left(detail: Detail) -> list[Any]:
    done = {entry.location for entry in detail.history.entries}
    return [
        e
        for e in detail.history.entries
        if e.undo is not None
        and e.seq > detail.run.undo_floor
        and undo(e.location) not in done
        and not is_undoing(e.location)
    ]


def _moving(detail: Detail, waits: list[WaitView], workers: Sequence[Worker], now: Instant) -> tuple[str, str]:
    run = detail.run
    doing = {RunStatus.CANCELLING: "is being cancelled", RunStatus.COMPENSATING: "is undoing what it did"}.get(
        run.status, ""
    )
    live = [worker for worker in workers if worker.lease_until > now]
    if run.owner is not None:
        holder = next((worker for worker in live if worker.incarnation == run.owner), None)
        if holder is None:
            return "was held by a worker that died; another takes over as soon as one looks.", "stepwell worker MODULE"
        return f"{doing or 'is running'} on worker {holder.name}{_progress(detail)}.", ""
    if run.wake_at is not None and run.wake_at <= now:
        serving = [worker for worker in live if run.definition in worker.definitions]
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
        return f"begins when the run that has the key {run.key!r} has ended.", f"stepwell why {run.key}"
    if not waits:
        again = ", unless its start is asked for again" if run.debounced_until is not None else ""
        return f"begins {_when(run.wake_at, now)}{again}.", ""
    prefix, limit = f"{doing} and " if doing else "", _limit(run, now)
    reasons = "; or ".join(_words(wait, detail, now) for wait in waits)
    return f"{prefix}waits for {reasons}{limit}.", _advice(run.run_id, waits)


def _limit(run: Run, now: Instant) -> str:
    """Until when, if it is not undoing already."""
    if run.deadline_at is None or run.status is RunStatus.COMPENSATING:
        return ""
    return f"; it fails if it has not ended {_when(run.deadline_at, now)}"


def _progress(detail: Detail) -> str:
    """How far its long steps say they are."""
    lines = [f"{one.path} is at {one.words}" for one in progress_views(detail) if one.done is not None]
    return f"; {', '.join(lines)}" if lines else ""


def _words(wait: WaitView, detail: Detail, now: Instant) -> str:
    by = f", at the latest {_when_time(wait, now)}" if wait.due_at else ""
    match wait.kind:
        case "signal":
            what = " or ".join(repr(name) for name in wait.names) or "any name"
            return f"a signal {what} at {wait.path}{by}"
        case "topic":
            asked = f" with {', '.join(wait.where)}" if wait.where else ""
            return f"an event of {wait.names[0]!r}{asked} at {wait.path}{by}"
        case "child":
            states = ", ".join(child.status.value for child in detail.children if child.ended_at is None)
            return f"its child at {wait.path} ({states or 'ended'})"
        case "retry":
            failed = [a for a in detail.history.attempts if a.failure]
            last = decode_failure(failed[-1].failure).summary if failed and failed[-1].failure else "an error"
            return f"the next attempt at {wait.path} {_when_time(wait, now)} (after {last})"
        case _:
            return f"the timer {wait.path}, due {_when_time(wait, now)}"


def _when_time(wait: WaitView, now: Instant) -> str:
    assert wait.due_at is not None
    left = wait.due_at - to_datetime(now)
    return "now" if left <= timedelta(0) else f"in {_round(left)} ({wait.due_at:%Y-%m-%d %H:%M:%S} UTC)"


def _when(instant: Instant | None, now: Instant) -> str:
    return "when it is woken" if instant is None else f"in {_round(to_timedelta(instant - now))}"  # type: ignore[arg-type]


def _round(left: timedelta) -> str:
    seconds = left.total_seconds()
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{seconds:.1f} s"


def _advice(run_id: str, waits: list[WaitView]) -> str:
    names = [name for wait in waits if wait.kind == "signal" for name in wait.names or ("NAME",)]
    topics = [wait.names[0] for wait in waits if wait.kind == "topic"]
    if names:
        return f"stepwell signal {run_id} {names[0]}"
    return f"stepwell publish {topics[0]}" if topics else ""
