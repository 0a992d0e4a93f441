"""Causes: what is in the way of a run, and in the way of that, each with the act that removes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote
from typing import NamedTuple

from stepwell.clock import Instant, to_datetime, to_timedelta
from stepwell.engine.views import WaitView, wait_views
from stepwell.errors import PoisonError
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure
from stepwell.model.holds import Hold, WorkflowHold, workflow_of
from stepwell.model.locations import is_undoing, undo
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.model.workers import Worker
from stepwell.stores.base.views import Detail

DEPTH_MAX = 8  # generations of children
CHILDREN_MAX = 5  # of one run
RUNS_MAX = 50  # in all


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing in the way of a run. `kind` is a word for programs; `causes` is what is in the way of a child."""

    kind: str
    run_id: str
    sentence: str
    next: str  # the command that removes it, or says more
    causes: tuple[Cause, ...] = ()


class ClusterState(NamedTuple):
    """What decides whether a run can be executed: the workers, the paused workflows, and the time."""

    workers: Sequence[Worker]
    holds: Sequence[WorkflowHold]
    now: Instant

    @property
    def live(self) -> list[Worker]:
        """Workers whose lease is not over."""
        return [worker for worker in self.workers if worker.lease_until > self.now]

    def owner_of(self, run: Run) -> Worker | None:
        """The live worker that owns a run."""
        return next((worker for worker in self.live if worker.incarnation == run.owner), None)

    def left_by(self, run: Run) -> str:
        """Who had a run and is gone, and since when; to stand behind "held by"."""
        gone = next((worker for worker in self.workers if worker.incarnation == run.owner), None)
        if gone is None:
            return "a worker that died"
        return f"worker {gone.name}" + (
            f", whose lease ended at {_second(gone.lease_until)}" if gone.lease_until else ""
        )

    def serving(self, run: Run) -> list[Worker]:
        """The live workers that could take a run."""
        return [worker for worker in self.live if run.definition in worker.definitions]

    def holds_of(self, run: Run) -> list[Cause]:
        """The pauses that keep every worker from taking a run."""
        return [
            Cause(
                "workflow paused" if workflow else "all paused",
                run.run_id,
                f"workflow {workflow} is {hold_words(hold)}" if workflow else f"every workflow is {hold_words(hold)}",
                f"stepwell workflow resume {workflow}" if workflow else "stepwell resume --all",
            )
            for workflow, hold in self.holds
            if workflow in (None, run.workflow)
        ]

    def lack_of(self, run: Run) -> Cause | None:
        """Which worker is missing, if no live one can take a run."""
        if self.serving(run):
            return None
        name, what = run.workflow, f"no worker for {run.workflow} version {run.version} is alive"
        others = sorted({one for worker in self.live for one in worker.definitions if workflow_of(one) == name})
        if others:
            sentence = f"{what}, only for {', '.join(others)}"
            return Cause("version", run.run_id, sentence, f"start a worker with the code of version {run.version}")
        said = what if self.live else f"{what}, nor any other worker"
        return Cause("worker", run.run_id, said, "stepwell worker MODULE")


def causes_of(detail: Detail, cluster: ClusterState, below: Mapping[RunId, tuple[Cause, ...]]) -> tuple[Cause, ...]:
    """What is in the way of a run, nearest first; nothing once it has ended. `below` has that of its children."""
    run = detail.run
    if run.status in TERMINAL:
        return ()
    if run.status is RunStatus.PAUSED:
        return tuple(_pauses(run))
    if run.status is RunStatus.COMPENSATION_FAILED:
        failure = decode_failure(run.failure) if run.failure else None
        at = f" at {failure.path}" if failure and failure.path else ""
        why = failure.summary if failure else "no cause was recorded"
        sentence = f"its rollback stopped{at}: {why}; {len(left_to_undo(detail))} effects are not undone"
        return (Cause("rollback", run.run_id, sentence, f"stepwell rollback resume {run.run_id}"),)
    if run.owner is not None:
        return tuple(_owned(run, cluster))
    is_due = run.wake_at is not None and run.wake_at <= cluster.now
    held, lack = cluster.holds_of(run), cluster.lack_of(run)
    waits = _waits(detail, cluster, below) if not is_due else [] if held or lack else [_ready(run, cluster)]
    return (*held, *([lack] if lack else []), *waits)


def waited_children(detail: Detail) -> list[Run]:
    """The active children that a run waits for."""
    waited = {wait.location for wait in detail.history.waits if wait.kind is WaitKind.CHILD}
    return [
        one
        for one in detail.children
        if one.parent is not None and one.parent.location in waited and one.status not in TERMINAL
    ]


def _pauses(run: Run) -> list[Cause]:
    """Why it stands still: a person, its own failure, or both."""
    causes: list[Cause] = []
    resume = f"stepwell resume {run.run_id}"
    if run.hold is not None:
        causes.append(Cause("paused", run.run_id, f"it is {hold_words(run.hold)}", resume))
    failure = decode_failure(run.failure) if run.failure else None
    if failure is not None or not causes:
        at = f" at {failure.path}" if failure and failure.path else ""
        what = failure.summary if failure else "no cause was recorded"
        is_code = failure is not None and is_fixed_by_code(failure)
        following = f"deploy code that fits, or {resume}" if is_code else f"fix the cause, then {resume}"
        causes.append(Cause("code" if is_code else "failure", run.run_id, f"it stopped{at}: {what}", following))
    return causes


def _owned(run: Run, cluster: ClusterState) -> list[Cause]:
    owner = cluster.owner_of(run)
    if owner is None:
        sentence = f"it was held by {cluster.left_by(run)}; another takes over as soon as one looks"
        found = [Cause("dead worker", run.run_id, sentence, "stepwell worker MODULE")]
        found += [lack] if (lack := cluster.lack_of(run)) else []
    else:
        found = [Cause("running", run.run_id, f"worker {owner.name} executes it", f"stepwell watch {run.run_id}")]
    if run.hold is not None:
        sentence = f"it is {hold_words(run.hold)}, as soon as the steps under way have ended"
        found.append(Cause("paused", run.run_id, sentence, f"stepwell resume {run.run_id}"))
    return found + cluster.holds_of(run)


def _ready(run: Run, cluster: ClusterState) -> Cause:
    """It could continue, and no worker has taken it yet."""
    serving = cluster.serving(run)
    sentence = f"it waits for room at one of {len(serving)} workers: {', '.join(one.name for one in serving[:5])}"
    return Cause("slot", run.run_id, sentence, "stepwell worker MODULE adds one")


def _waits(detail: Detail, cluster: ClusterState, below: Mapping[RunId, tuple[Cause, ...]]) -> list[Cause]:
    run, now = detail.run, cluster.now
    if run.debounced_until is not None and run.wake_at is not None and run.wake_at > run.debounced_until:
        sentence = f"the key {run.key!r} belongs to another run until that has ended"
        return [Cause("key", run.run_id, sentence, f"stepwell why {quote(run.key or '')}")]
    waits = list(zip(detail.history.waits, wait_views(detail), strict=True))
    if not waits:
        return [Cause("delay", run.run_id, f"it begins {when(run.wake_at, now)}", f"stepwell watch {run.run_id}")]
    causes: list[Cause] = []
    for wait, view in waits:
        if wait.kind is not WaitKind.CHILD:
            causes.append(Cause(view.kind, run.run_id, wait_words(view, detail, now), _advice(run.run_id, view)))
            continue
        active = [one for one in waited_children(detail) if one.parent and one.parent.location == wait.location]
        causes += [
            Cause(
                "child",
                run.run_id,
                f"its child {one.run_id} ({one.workflow}) at {view.path} is {one.status.value}",
                f"stepwell why {one.run_id}",
                below.get(one.run_id, ()),
            )
            for one in active[:CHILDREN_MAX]
        ]
        if not active:
            causes.append(Cause("child", run.run_id, wait_words(view, detail, now), f"stepwell watch {run.run_id}"))
    return causes


def _advice(run_id: str, wait: WaitView) -> str:
    if wait.kind == "signal":
        return f"stepwell signal {run_id} {quote((wait.names or ('NAME',))[0])}"
    if wait.kind == "topic":
        return f"stepwell publish {quote(wait.names[0])}"
    return f"stepwell watch {run_id}"


def is_fixed_by_code(failure: FailureRecord) -> bool:
    """Whether other code may let the run go on."""
    return failure.code.startswith(("SW1", "SW20")) and failure.code != PoisonError.code


def hold_words(hold: Hold) -> str:
    """Who paused something, why, and since when."""
    who = f" by {hold.by}" if hold.by else ""
    why = f": {hold.reason}" if hold.reason else ""
    return f"paused{who}{why} (since {to_datetime(hold.at):%Y-%m-%d %H:%M:%S} UTC)"


def left_to_undo(detail: Detail) -> list[Entry]:
    """What a rollback has not undone yet."""
    done = {entry.location for entry in detail.history.entries}
    return [
        e
        for e in detail.history.entries
        if e.undo is not None
        and e.seq > detail.run.undo_floor
        and undo(e.location) not in done
        and not is_undoing(e.location)
    ]


def wait_words(wait: WaitView, detail: Detail, now: Instant) -> str:
    """What a run waits for, to stand behind "waits for"."""
    by = f", at the latest {_when_due(wait, now)}" if wait.due_at else ""
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
            last = wait.failed_attempts[-1].error if wait.failed_attempts else "an error"
            return f"the next attempt at {wait.path} {_when_due(wait, now)} (after {last})"
        case _:
            return f"the timer {wait.path}, due {_when_due(wait, now)}"


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
