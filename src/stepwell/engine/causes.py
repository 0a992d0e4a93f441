"""Causes: why a run is where it is. Each cause names what a person can do about it, and the causes below a child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple, assert_never

from stepwell.advice import Advice, Verb
from stepwell.clock import Instant, to_datetime, to_timedelta
from stepwell.engine.views import WaitView, wait_views
from stepwell.errors import PoisonError
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model import undos
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure
from stepwell.model.holds import Hold, WorkflowHold, workflow_of
from stepwell.model.records import awaited_record
from stepwell.model.run_retries import retry_of
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.model.workers import Worker
from stepwell.stores.base.views import Detail

DEPTH_MAX = 8  # generations of children
CHILDREN_MAX = 5  # of one run
RUNS_MAX = 50  # in all

STATUS_WORDS: Final[Mapping[RunStatus, str]] = {
    RunStatus.PENDING: "is pending",
    RunStatus.RUNNING: "is running",
    RunStatus.WAITING: "is waiting",
    RunStatus.CANCELLING: "is being cancelled",
    RunStatus.COMPENSATING: "is rolling back",
    RunStatus.PAUSED: "is paused",
    RunStatus.COMPENSATION_FAILED: "has an incomplete rollback",
    RunStatus.COMPLETED: "has completed",
    RunStatus.FAILED: "has failed",
    RunStatus.COMPENSATED: "has failed and is compensated",
    RunStatus.CANCELLED: "was cancelled",
    RunStatus.CONTINUED: "has ended",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a run is where it is. `kind` is a word for programs; `causes` are the reasons of a child."""

    kind: str
    run_id: str
    sentence: str
    next: tuple[Advice, ...]  # what removes the cause, or shows more of it
    causes: tuple[Cause, ...] = ()


class ClusterState(NamedTuple):
    """What decides whether a run can be executed: the workers, the paused workflows, and the time."""

    workers: Sequence[Worker]
    holds: Sequence[WorkflowHold]
    now: Instant

    @property
    def live(self) -> list[Worker]:
        """Workers whose lease has not expired."""
        return [worker for worker in self.workers if worker.lease_until > self.now]

    def owner_of(self, run: Run) -> Worker | None:
        """The live worker that owns a run."""
        return next((worker for worker in self.live if worker.incarnation == run.owner), None)

    def serving(self, run: Run) -> list[Worker]:
        """The live workers that can claim a run."""
        return [worker for worker in self.live if run.definition in worker.definitions]

    def holds_of(self, run: Run) -> list[Cause]:
        """The pauses that keep every worker from claiming a run."""
        return [
            Cause(
                "workflow paused" if workflow else "all paused",
                run.run_id,
                hold_words(hold, f"workflow {workflow}" if workflow else "every workflow"),
                (Advice(Verb.RESUME_WORKFLOW, workflow) if workflow else Advice(Verb.RESUME_ALL),),
            )
            for workflow, hold in self.holds
            if workflow in (None, run.workflow)
        ]

    def lack_of(self, run: Run) -> Cause | None:
        """Which worker is missing, if no live worker can claim a run."""
        if self.serving(run):
            return None
        name, what = run.workflow, f"no worker for {run.workflow} version {run.version} is alive"
        others = sorted({one for worker in self.live for one in worker.definitions if workflow_of(one) == name})
        if others:
            start = Advice(Verb.WORKER, note=f"with the code of {run.workflow} version {run.version}")
            return Cause("version", run.run_id, f"{what}, only for {', '.join(others)}", (start,))
        sentence = what if self.live else f"{what}, and no other worker is alive either"
        return Cause("worker", run.run_id, sentence, (Advice(Verb.WORKER),))


def causes_of(detail: Detail, cluster: ClusterState, below: Mapping[RunId, tuple[Cause, ...]]) -> tuple[Cause, ...]:
    """Why a run is where it is, the nearest cause first; empty only if it has completed, or was cancelled without a
    reason. `below` has the causes of its children.
    """
    run = detail.run
    failure = decode_failure(run.failure) if run.failure else None
    match run.status:
        case RunStatus.COMPLETED:
            return ()
        case RunStatus.FAILED:
            return (Cause("failed", run.run_id, _failure_words(failure), (Advice(Verb.RETRY, run.run_id),)),)
        case RunStatus.COMPENSATED:
            return (Cause("failed", run.run_id, _failure_words(failure), (Advice(Verb.SHOW, run.run_id),)),)
        case RunStatus.CANCELLED:
            show = Advice(Verb.SHOW, run.run_id)
            return (Cause("cancelled", run.run_id, run.reason, (show,)),) if run.reason else ()
        case RunStatus.CONTINUED:
            successor = str(run.successor)
            words = f"it continues as run {successor}"
            if failure is not None:
                words = f"it failed, and its next attempt is run {successor}: {_failure_words(failure)}"
            return (Cause("continued", run.run_id, words, (Advice(Verb.WHY, successor),)),)
        case RunStatus.PAUSED:
            return tuple(_pauses(run, failure))
        case RunStatus.COMPENSATION_FAILED:
            left = len(left_to_undo(detail))
            words = f"{left} effects are not undone" if left != 1 else "1 effect is not undone"
            resume = Advice(Verb.RESUME_ROLLBACK, run.run_id, note="fix the cause, then")
            own = failure.causes.get("run") if failure is not None else None
            began = f"; the rollback began after {_failure_words(own)}" if own is not None else ""
            return (Cause("rollback", run.run_id, f"{words}; {_failure_words(failure)}{began}", (resume,)),)
        case RunStatus.PENDING | RunStatus.RUNNING | RunStatus.WAITING | RunStatus.CANCELLING | RunStatus.COMPENSATING:
            return _moving(detail, cluster, below)
        case _:
            assert_never(run.status)


def waited_children(detail: Detail) -> list[Run]:
    """The active children that a run waits for."""
    waited = {wait.location for wait in detail.history.waits if wait.kind is WaitKind.CHILD}
    return [
        one
        for one in detail.children
        if one.parent is not None and one.parent.location in waited and one.status not in TERMINAL
    ]


def _failure_words(failure: FailureRecord | None) -> str:
    """What a run failed with, and where."""
    if failure is None:
        return "no cause was recorded"
    details = [f"at {failure.path}"] if failure.path else []
    details += [f"recorded: {failure.recorded} · now: {failure.now}"] if failure.recorded else []
    return f"{failure.summary} ({'; '.join(details)})" if details else failure.summary


def _pauses(run: Run, failure: FailureRecord | None) -> list[Cause]:
    """Why it is paused: a person, its own failure, or both."""
    is_code = failure is not None and is_fixed_by_code(failure)
    advice: tuple[Advice, ...] = (Advice(Verb.RESUME, run.run_id),)
    if is_code:
        advice = (Advice(Verb.DEPLOY, run.run_id), Advice(Verb.RESUME, run.run_id, note="or"))
    elif failure is not None or run.hold is None:
        advice = (Advice(Verb.RESUME, run.run_id, note="fix the cause, then"),)
    causes: list[Cause] = []
    if run.hold is not None:
        causes.append(Cause("paused", run.run_id, hold_words(run.hold, "it"), advice))
    if failure is not None or run.hold is None:
        causes.append(Cause("code" if is_code else "failure", run.run_id, _failure_words(failure), advice))
    return causes


def _moving(detail: Detail, cluster: ClusterState, below: Mapping[RunId, tuple[Cause, ...]]) -> tuple[Cause, ...]:
    run = detail.run
    if run.owner is not None:
        return tuple(_owned(run, cluster))
    is_due = run.wake_at is not None and run.wake_at <= cluster.now
    held, lack = cluster.holds_of(run), cluster.lack_of(run)
    waits = _waits(detail, cluster, below) if not is_due else [] if held or lack else [_ready(run, cluster)]
    return (*held, *([lack] if lack else []), *waits)


def _owned(run: Run, cluster: ClusterState) -> list[Cause]:
    owner = cluster.owner_of(run)
    if owner is None:
        found = [_lost(run, cluster)]
        found += [lack] if (lack := cluster.lack_of(run)) else []
    else:
        watch = Advice(Verb.WATCH, run.run_id)
        found = [Cause("running", run.run_id, f"worker {owner.name} executes it", (watch,))]
    if run.hold is not None:
        sentence = f"{hold_words(run.hold, 'it')}, and it stops after the steps under way"
        found.append(Cause("paused", run.run_id, sentence, (Advice(Verb.RESUME, run.run_id),)))
    return found + cluster.holds_of(run)


def _lost(run: Run, cluster: ClusterState) -> Cause:
    """Its worker died, and no other one has noticed yet."""
    gone = next((worker for worker in cluster.workers if worker.incarnation == run.owner), None)
    if gone is None:
        what = "its worker died"
    else:
        since = f": its lease expired at {_second(gone.lease_until)}" if gone.lease_until else ""
        what = f"its worker {gone.name} died{since}"
    return Cause("dead worker", run.run_id, f"{what}; the next worker to look takes it over", (Advice(Verb.WORKER),))


def _ready(run: Run, cluster: ClusterState) -> Cause:
    """It could continue, and no worker has claimed it yet."""
    serving = cluster.serving(run)
    names = ", ".join(one.name for one in serving[:5])
    those = f"worker {names}" if len(serving) == 1 else f"one of {len(serving)} workers ({names})"
    sentence = f"it is due, and waits for a free slot on {those}"
    return Cause("slot", run.run_id, sentence, (Advice(Verb.WORKER, note="to add a worker"),))


def _waits(detail: Detail, cluster: ClusterState, below: Mapping[RunId, tuple[Cause, ...]]) -> list[Cause]:
    run, now = detail.run, cluster.now
    watch = (Advice(Verb.WATCH, run.run_id),)
    if run.debounced_until is not None and run.wake_at is not None and run.wake_at > run.debounced_until:
        sentence = f"the key {run.key!r} belongs to another run, which has not ended"
        return [Cause("key", run.run_id, sentence, (Advice(Verb.WHY, str(run.key)),))]
    waits = list(zip(detail.history.waits, wait_views(detail), strict=True))
    if not waits:
        if (tried := retry_of(run)).attempt > 1:
            limit = f" of {tried.limit}" if tried.limit is not None else ""
            sentence = (
                f"attempt {tried.attempt}{limit} begins {when(run.wake_at, now)}, "
                f"because run {tried.failed} failed: {tried.error}"
            )
            advice = (Advice(Verb.WAKE, run.run_id, note="to begin it now"), Advice(Verb.SHOW, tried.failed))
            return [Cause("attempt", run.run_id, sentence, advice)]
        again = ", unless another start postpones it" if run.debounced_until is not None else ""
        return [Cause("delay", run.run_id, f"it begins {when(run.wake_at, now)}{again}", watch)]
    causes: list[Cause] = []
    for wait, view in waits:
        if wait.kind is not WaitKind.CHILD:
            causes.append(Cause(view.kind, run.run_id, _wait_words(view, now), _wait_advice(run.run_id, view)))
            continue
        active = [one for one in waited_children(detail) if one.parent and one.parent.location == wait.location]
        causes += [
            Cause(
                "child",
                run.run_id,
                f"its child {one.run_id} ({one.workflow}) at {view.path} {STATUS_WORDS[one.status]}",
                (Advice(Verb.WHY, one.run_id),),
                below.get(one.run_id, ()),
            )
            for one in active[:CHILDREN_MAX]
        ]
        if not active:
            causes.append(Cause("child", run.run_id, _wait_words(view, now), watch))
    return causes


def _wait_advice(run_id: str, wait: WaitView) -> tuple[Advice, ...]:
    if wait.kind == WaitKind.SIGNAL and awaited_record(wait.names) is None:
        return tuple(Advice(Verb.SIGNAL, run_id, {"name": name}) for name in wait.names) or (
            Advice(Verb.SIGNAL, run_id),
        )
    if wait.kind == WaitKind.TOPIC:
        fields = [condition.partition("=") for condition in wait.where]  # a concealed one has no "="
        return (Advice(Verb.PUBLISH, wait.names[0], {name: value for name, is_shown, value in fields if is_shown}),)
    return (Advice(Verb.WHY, wait.names[0]) if wait.kind == WaitKind.RUN else Advice(Verb.WATCH, run_id),)


def is_fixed_by_code(failure: FailureRecord) -> bool:
    """Whether other code may let the run continue."""
    return failure.code.startswith(("SW1", "SW20")) and failure.code != PoisonError.code


def hold_words(hold: Hold, what: str) -> str:
    """Who paused something, when, and why."""
    why = f" (reason: {hold.reason})" if hold.reason else ""
    return f"{hold.by or 'a person'} paused {what} at {_second(hold.at)}{why}"


def left_to_undo(detail: Detail) -> list[Entry]:
    """What a rollback has not undone yet."""
    return sorted(undos.left_to_undo(detail.history.entries, detail.run.undo_floor))


def _wait_words(wait: WaitView, now: Instant) -> str:
    """What a run waits for."""
    by = f"; it gives up {_when_due(wait, now)}" if wait.due_at else ""
    match WaitKind(wait.kind):
        case WaitKind.SIGNAL if (record_id := awaited_record(wait.names)) is not None:
            return f"it waits at {wait.path} until record {record_id} is closed"
        case WaitKind.SIGNAL:
            named = " or ".join(repr(name) for name in wait.names)
            return f"it needs a signal {named or 'of any name'} at {wait.path}{by}"
        case WaitKind.TOPIC:
            asked = f" with {', '.join(wait.where)}" if wait.where else ""
            return f"it needs an event of {wait.names[0]!r}{asked} at {wait.path}{by}"
        case WaitKind.RUN:
            return f"it waits at {wait.path} until run {wait.names[0]} has ended"
        case WaitKind.CHILD:
            return f"its child at {wait.path} has ended"
        case WaitKind.RETRY:
            last = wait.failed_attempts[-1].error if wait.failed_attempts else "an error"
            return f"it retries {wait.path} {_when_due(wait, now)}, after {last}"
        case WaitKind.TIMER:
            return f"its timer {wait.path} fires {_when_due(wait, now)}"
        case _ as kind:
            assert_never(kind)


def _when_due(wait: WaitView, now: Instant) -> str:
    assert wait.due_at is not None
    left = wait.due_at - to_datetime(now)
    return "now" if left <= timedelta(0) else f"in {_round(left)} ({wait.due_at:%Y-%m-%d %H:%M:%S} UTC)"


def _second(instant: Instant) -> str:
    return f"{to_datetime(instant):%Y-%m-%d %H:%M:%S} UTC"


def when(instant: Instant | None, now: Instant) -> str:
    """How long it is until then."""
    return "when it is woken" if instant is None else f"in {_round(to_timedelta(instant - now))}"  # type: ignore[arg-type]


def _round(left: timedelta) -> str:
    seconds = left.total_seconds()
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{seconds:.1f} s"
