"""Commits: fences, numbers, history, back-off, deadlines, order of undoing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.bodies import ATTEMPTS_MAX
from sim.checks import progress, receipts, transactions
from sim.checks.shadow import Shadow
from sim.coroutines import at_once
from sim.reach import REACH
from stepwell.clock import Instant
from stepwell.errors import CheckpointMissingError
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Park, Verdict
from stepwell.model.entries import Attempt, Entry
from stepwell.model.failures import decode_failure
from stepwell.model.locations import ROOT, undo
from stepwell.model.messages import ASK
from stepwell.model.runs import Run
from stepwell.model.signals import is_accepted
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.replay.headers import unpack

if TYPE_CHECKING:
    from sim.checker import Checker

Rows = dict[str, Run]
_FORWARD = (RunStatus.RUNNING, RunStatus.CANCELLING)
BACKOFF_FIRST = 50_000  # microseconds, as the programs' policy says


def check_apply(
    checker: Checker, commits: list[Commit], answers: list[Applied], before: Rows, after: Rows, now: Instant
) -> None:
    """One batch, as it went in and came out."""
    for commit, applied in zip(commits, answers, strict=True):
        row, following = before.get(commit.run_id), after.get(commit.run_id)
        if row is None or following is None:
            checker.violate("I4", commit.run_id, "a commit for a run that does not exist")
            continue
        shadow = checker.shadow(commit.run_id)
        REACH.committed(commit.run_id)
        if applied.verdict is Verdict.APPLIED:
            _applied(checker, shadow, commit, row, following, now)
        else:
            checker.stats["fenced" if applied.verdict is Verdict.FENCED else "too late for a move"] += 1
            _refused(checker, shadow, commit, applied, row, following, is_alone=len(commits) == 1)


def _refused(
    checker: Checker, shadow: Shadow, commit: Commit, applied: Applied, row: Run, following: Run, *, is_alone: bool
) -> None:
    if (following.revision, following.last_seq) != (row.revision, row.last_seq) and is_alone:
        checker.violate("I4", commit.run_id, f"a commit answered {applied.verdict} left a trace")
    is_ours = (row.epoch, row.owner) == (commit.fence.epoch, commit.fence.incarnation)
    is_next = commit.number == shadow.applied.get(commit.fence.epoch, 0) + 1
    if applied.verdict is Verdict.FENCED and is_alone and is_ours and is_next:
        checker.violate("I4", commit.run_id, f"commit {commit.number} was fenced although its fence was right")


def _applied(checker: Checker, shadow: Shadow, commit: Commit, row: Run, following: Run, now: Instant) -> None:
    epoch, last = commit.fence.epoch, shadow.applied.get(commit.fence.epoch, 0)
    if row.epoch != epoch:
        checker.violate("I4", commit.run_id, f"a commit of epoch {epoch} was applied in epoch {row.epoch}")
    if commit.number == last:
        checker.stats["commits repeated"] += 1
        if following.revision != row.revision or following.last_seq != row.last_seq:
            checker.violate("I5", commit.run_id, f"commit {commit.number} was applied twice")
        return
    if row.owner != commit.fence.incarnation:
        checker.violate("I4", commit.run_id, f"a commit of {commit.fence.incarnation} was applied, owner {row.owner}")
    if commit.number != last + 1:
        checker.violate("I5", commit.run_id, f"commit {commit.number} was applied after commit {last}")
    shadow.applied[epoch] = commit.number
    checker.stats["commits"] += 1
    _integrate(checker, shadow, commit, row, following, now)


def _integrate(checker: Checker, shadow: Shadow, commit: Commit, row: Run, following: Run, now: Instant) -> None:
    shadow.names += commit.names
    is_further = bool(commit.progress or shadow.progress) and progress.integrate(checker, shadow, commit)
    has_tried = not all(attempt.is_beginning for attempt in commit.attempts)
    if commit.entries or has_tried or commit.cursors or is_further or commit.move is not None:
        shadow.stalls = 0
    checker.signals.consumed(shadow, commit)
    checker.events.received(shadow, commit)
    for entry in commit.entries:
        _check_entry(checker, shadow, entry, row, now)
        receipts.check_kept(checker, shadow, entry)
        shadow.add(entry)
        transactions.count(checker, shadow, entry)
        checker.kinds[entry.kind.word] += 1
    checker.outbox.committed(shadow, commit)
    for attempt in commit.attempts:
        _check_attempt(checker, shadow, attempt, commit.fence.epoch)
    shadow.loops.update(cursor.location for cursor in commit.cursors)
    shadow.loops.difference_update(commit.ended_cursors)
    for low, high in commit.trims:
        shadow.trim(low, high)
    for wait in commit.waits or ():
        key = (wait.location, wait.kind)
        if wait.kind is not WaitKind.RETRY and shadow.deadlines.setdefault(key, wait.due_at) != wait.due_at:
            checker.violate("I24", shadow.run_id, f"the deadline of {shadow.path(wait.location)} was changed")
        # A child may be waited for in one place and then in another: that is a wait of its own.
        limited = (wait.location, wait.token if wait.kind is WaitKind.CHILD else wait.kind)
        if wait.kind is not WaitKind.RETRY and shadow.limits.setdefault(limited, wait.limit_at) != wait.limit_at:
            checker.violate("I24", shadow.run_id, f"the limit of {shadow.path(wait.location)} was changed")
    _check_move(checker, shadow, commit, following, now)


def _check_entry(checker: Checker, shadow: Shadow, entry: Entry, row: Run, now: Instant) -> None:
    path = shadow.path(entry.location)
    if entry.seq != shadow.last_seq + 1:
        checker.violate("I8", shadow.run_id, f"entry {entry.seq} at {path} follows entry {shadow.last_seq}")
    if entry.location in shadow.ever:
        checker.violate("I2", shadow.run_id, f"a second result at {path}")
    if row.status in _FORWARD:
        for closed in shadow.closed:
            is_block = checker.node_at(path).get("op") == "cleanup"  # of a lost branch
            if entry.location.startswith(closed) and not path.endswith("~undo") and not is_block:
                checker.violate("I33", shadow.run_id, f"{path} was recorded after {shadow.path(closed)} had ended")
    if entry.at > now:
        checker.violate("I24", shadow.run_id, f"{path} ended in the future")
    match entry.kind:
        case EntryKind.SLEEP:
            _check_sleep(checker, shadow, entry, path, now)
        case EntryKind.UNDO:
            _check_undo(checker, shadow, entry, path)
        case EntryKind.RECORD:
            checker.records.received(shadow, entry)
        case EntryKind.STEP if row.workflow != ASK and ("~undo" not in path or checker.node_at(path)):
            _check_step(checker, shadow, entry, path)
        case EntryKind.RECEIVE | EntryKind.RECEIVE_MANY | EntryKind.TOPIC:
            kind = WaitKind.TOPIC if entry.kind is EntryKind.TOPIC else WaitKind.SIGNAL
            due = shadow.deadlines.get((entry.location, kind))
            is_timeout = entry.status is EntryStatus.FAILED or entry.value.startswith(b"[]")
            if is_timeout and due is not None and now < due:
                checker.violate("I24", shadow.run_id, f"{path} timed out {due - now} µs early")
            if is_timeout and due is not None and checker.timers is not None:
                checker.timers.check(shadow.run_id, path, due, entry.at)
        case _:
            pass


def _check_sleep(checker: Checker, shadow: Shadow, entry: Entry, path: str, now: Instant) -> None:
    due = unpack(entry.value)[0][0]
    if min(entry.at, now) < due:
        checker.violate("I24", shadow.run_id, f"timer {path} fired {due - min(entry.at, now)} µs early")
    if checker.timers is not None:
        checker.timers.check(shadow.run_id, path, Instant(due), entry.at)
    armed = shadow.deadlines.get((entry.location, WaitKind.TIMER), due)
    if armed != due:
        checker.violate("I24", shadow.run_id, f"timer {path} was armed for {armed} and ended for {due}")


def _check_step(checker: Checker, shadow: Shadow, entry: Entry, path: str) -> None:
    node = checker.node_at(path)
    if not node:
        checker.violate("I9", shadow.run_id, f"a step at {path} that is in no program")
        return
    has_undo = node["kind"].startswith("undoable") and entry.status is EntryStatus.DONE
    if has_undo != (entry.undo is not None):
        checker.violate("I29", shadow.run_id, f"{path} was committed with{'out' if has_undo else ''} a compensation")
    if entry.attempts > ATTEMPTS_MAX * (1 + shadow.retries):
        checker.violate("I10", shadow.run_id, f"{path} was attempted {entry.attempts} times")
    fails = {"flaky": node["fails"], "retry_after": 1}.get(node["kind"], 0)
    if node["kind"] == "sync_timed" and entry.status is EntryStatus.FAILED:
        failure = decode_failure(entry.value)
        if failure.message.startswith("it ran longer"):
            checker.violate("I10", shadow.run_id, f"{path} takes no time, and timed out: {failure.message}")
    if entry.status is EntryStatus.DONE and fails and entry.attempts <= fails:
        checker.violate("I10", shadow.run_id, f"{path} succeeded at attempt {entry.attempts}, its count was reset")


def _check_undo(checker: Checker, shadow: Shadow, entry: Entry, path: str) -> None:
    forward = shadow.undoable.get(entry.location)
    if forward is None and entry.location == undo(ROOT):
        return  # when the rollback began
    if forward is None:
        checker.violate("I29", shadow.run_id, f"{path} undoes what was never done")
        return
    later = [e for e in shadow.left_to_undo() if e.seq > forward.seq]
    if later:
        checker.violate("I30", shadow.run_id, f"{path} was undone before {shadow.path(later[0].location)}")


def _check_carried(checker: Checker, shadow: Shadow, move: End) -> None:
    """The successor begins with all that is left to undo."""
    assert move.successor is not None
    heir = checker.shadow(move.successor.run_id)
    heir.names = list(move.names)
    for entry in move.entries:
        heir.add(entry)
    left = [(entry.value, entry.at) for entry in reversed(shadow.left_to_undo())]
    if left != [(entry.value, entry.at) for entry in move.entries]:
        checker.violate("I30", shadow.run_id, f"of {len(left)} steps to undo, {len(move.entries)} go along")


def _check_attempt(checker: Checker, shadow: Shadow, attempt: Attempt, epoch: int) -> None:
    path = shadow.path(attempt.location)
    past = shadow.attempts.setdefault(attempt.location, [])
    if attempt.is_beginning:
        if attempt.number != len(past) + 1:
            checker.violate("I10", shadow.run_id, f"attempt {attempt.number} of {path} begins after {len(past)} others")
        return
    if attempt.number != (past[-1].number if past else 0) + 1:
        checker.violate("I10", shadow.run_id, f"attempt {attempt.number} of {path} after {len(past)} others")
    recent = [one for one in past if one.at > shadow.retried_at and one.failure is not None]
    if attempt.failure is not None and len(recent) + 1 > ATTEMPTS_MAX:
        checker.violate("I10", shadow.run_id, f"{path} failed {len(recent) + 1} times, more than its policy allows")
    if attempt.next_at is not None and attempt.next_at - attempt.at < BACKOFF_FIRST * 2 ** len(recent):
        kind = decode_failure(attempt.failure).type if attempt.failure else ""
        if kind != "RetryAfter":
            checker.violate("I10", shadow.run_id, f"the wait after attempt {attempt.number} of {path} is too short")
    progress.check_failure(checker, shadow, attempt)
    past.append(attempt)
    if attempt.failure is None:
        shadow.started[attempt.location, attempt.number] = epoch


def _check_move(checker: Checker, shadow: Shadow, commit: Commit, following: Run, now: Instant) -> None:
    match commit.move:
        case Park() if following.hold is None:
            _check_park(checker, commit, following, now)
        case BeginRollback(failure=failure, undo_floor=floor):
            shadow.floor = floor
            _check_line(checker, shadow, failure)
        case End(status=status, output=output):
            if status is RunStatus.FAILED:
                _check_line(checker, shadow, commit.move.failure)
            if status is RunStatus.COMPLETED and following.output != output:
                checker.violate("I11", shadow.run_id, "the stored output is not the returned value")
            if status is RunStatus.COMPENSATED and shadow.left_to_undo():
                checker.violate("I30", shadow.run_id, "compensated, with something left to undo")
            if status is RunStatus.CONTINUED:
                checker.signals.continued(commit, following)
                _check_carried(checker, shadow, commit.move)
        case _:
            pass


def _check_line(checker: Checker, shadow: Shadow, failure: bytes | None) -> None:
    """A rollback to a line that the run has passed finds it, also if it passed it in an iteration that was trimmed."""
    missing = decode_failure(failure) if failure is not None else None
    if missing is None or missing.type != CheckpointMissingError.__name__:
        return
    passed = (shadow.path(at) for at, entry in shadow.ever.items() if entry.kind is EntryKind.CHECKPOINT)
    known = [path for path in passed if repr(path.rpartition("/")[2]) in missing.message]
    if known:
        checker.violate("I30", shadow.run_id, f"a rollback does not find the line {known[0]}, which the run has passed")


def _check_park(checker: Checker, commit: Commit, following: Run, now: Instant) -> None:
    """Parking looks once more: what is there already wakes the run at once."""
    inbox = at_once(checker.inspector.runs.inbox(commit.run_id))
    detail = checker.detail(commit.run_id)
    waits = detail.history.waits if detail is not None else ()
    taken = [wait.names for wait in waits if wait.kind is WaitKind.SIGNAL]
    is_there = bool(inbox.children) or any(
        is_accepted(signal.name, names) for signal in inbox.signals for names in taken
    )
    if is_there and (following.wake_at is None or following.wake_at > now):
        checker.violate("I21", commit.run_id, "parked, although what it waits for is there")
    due = min((at for wait in waits for at in (wait.due_at, wait.limit_at) if at is not None), default=None)
    if due is not None and (following.wake_at is None or following.wake_at > due):
        checker.violate("I15", commit.run_id, f"parked until {following.wake_at}, with a deadline at {due}")


def check_row(checker: Checker, row: Run, _: Any = None) -> None:
    """A row that cannot be."""
    if row.owner is not None and row.wake_at is not None:
        checker.violate("I17", row.run_id, "owned, and claimable at the same time")
