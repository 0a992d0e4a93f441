"""Bodies about to start: the lease, the fence, the barrier, the count of attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.checks.pauses import check_begins
from sim.checks.progress import check_state
from sim.checks.receipts import check_told, is_promised
from sim.checks.shadow import Shadow
from sim.witness import WITNESSES
from stepwell.clock import Instant
from stepwell.model.messages import ASK
from stepwell.replay.bodies import Body

if TYPE_CHECKING:
    from sim.checker import Checker
    from sim.process import Process


def check_body(checker: Checker, process: Process, body: Body, execution: Any, now: Instant) -> None:
    """A worker starts a body now."""
    run_id, path = body.info.run_id, body.info.path
    fence = execution._claim.fence
    if process.environment.clock.monotonic() >= process.deadlines.get(fence.incarnation, float("-inf")):
        checker.violate("I1b", run_id, f"{process.name} starts {path} after its lease has run out")
    if (run_id, fence.epoch) in checker.lost[process]:
        checker.violate("I6", run_id, f"{process.name} starts {path} after it was told that the run is not its own")
    row = checker.rows_now.get(run_id)
    if row is None or (row.epoch, row.owner) != (fence.epoch, fence.incarnation):
        checker.stats["zombie bodies"] += 1
        return
    if (run_id, fence.epoch) in checker.cancelling[process] and "~undo" not in path:
        checker.violate("I13", run_id, f"{process.name} starts {path} after it was told that the run is cancelled")
    check_begins(checker, process, body, fence.epoch)
    shadow = checker.shadow(run_id)
    if body.location in shadow.ever:
        checker.violate("I1", run_id, f"{process.name} starts {path}, which has a durable result")
    check_told(checker, shadow, body)
    relied = body.args[1] if len(body.args) > 1 and row.workflow != ASK else ()
    missing = [at for at in relied if at not in shadow.paths]
    missing = [at for at in missing if not is_promised(checker, shadow, execution, at)]
    if missing and not path.endswith("~undo") and body.record is None:  # a transaction takes along what is before it
        checker.violate("I29", run_id, f"{path} starts before {missing[-1]} is durable")
    if body.record is None:
        _check_seen(checker, shadow, path, execution)
    check_state(checker, body)
    if path.endswith("~undo"):
        _check_undo(checker, body, run_id, path)
    _check_attempt(checker, body, execution, now)


def _check_seen(checker: Checker, shadow: Shadow, path: str, execution: Any) -> None:
    """What the code has seen before it asked for this body is what it had seen when others began."""
    for at, words in WITNESSES.of_journal(execution._journal).begins(path):
        before = shadow.witnessed.setdefault(at, words)
        if before != words:
            checker.violate("I9", shadow.run_id, f"{at} was {before}, and after a replay it is {words}")


def _check_undo(checker: Checker, body: Body, run_id: str, path: str) -> None:
    shadow = checker.shadow(run_id)
    left = shadow.left_to_undo()
    if not left or shadow.undoable.get(body.location) is not left[0]:
        first = shadow.path(left[0].location) if left else "nothing"
        checker.violate("I30", run_id, f"{path} starts, and it is the turn of {first}")


def _check_attempt(checker: Checker, body: Body, execution: Any, now: Instant) -> None:
    epoch = execution._claim.fence.epoch
    shadow, path, run_id = checker.shadow(body.info.run_id), body.info.path, body.info.run_id
    past = shadow.attempts.get(body.location, [])
    node = checker.node_at(path)
    if node.get("kind") == "once_only":
        started = shadow.started.get((body.location, body.info.attempt))
        if started != epoch:
            checker.violate("I10", run_id, f"at-most-once {path} starts, recorded as started in epoch {started}")
        return
    going_along = execution._commits.sent.attempts if body.record is not None else ()
    failed = len(past) + sum(attempt.location == body.location for attempt in going_along)
    if body.info.attempt != failed + 1:
        checker.violate("I10", run_id, f"attempt {body.info.attempt} of {path} starts after {failed} failed ones")
    if past and past[-1].next_at is not None and past[-1].at > shadow.retried_at and past[-1].next_at > now:
        checker.violate("I10", run_id, f"{path} is tried again {past[-1].next_at - now} µs too early")
