"""Ended runs: replayed over their own history (I9, I11), and held against the model (T7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sim.checks.starts import why_late
from sim.interpreter import PLAIN_WORKFLOWS, WORKFLOWS
from sim.model import FAIL, OK, outcomes_of_program, refuse_program
from sim.programs import walk
from sim.witness import WITNESSES
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import LostChangeError
from stepwell.errors.records import FailureRecord
from stepwell.model.amendments import REWOUND
from stepwell.model.cancels import PARENT_CLOSED
from stepwell.model.commits import BeginRollback, End
from stepwell.model.failures import decode_failure
from stepwell.model.run_retries import retry_of
from stepwell.model.runs import Inbox, Run
from stepwell.model.states import KEEPS_CURSORS, RunStatus
from stepwell.replay.driver import begin_forward, conclude
from stepwell.replay.journal import Journal
from stepwell.stores.base.views import Detail

if TYPE_CHECKING:
    from sim.world import World

_CODEC = JsonCodec()


def check_replay(world: World, detail: Detail) -> None:
    """Replaying an ended run asks for no body, and comes to the same end."""
    run, checker = detail.run, world.checker
    if checker.shadow(run.run_id).loops and run.status not in KEEPS_CURSORS:
        return  # a loop was left by an error: what it had trimmed is gone, and its cursor went with the run
    known = PLAIN_WORKFLOWS if world.code == "plain" else WORKFLOWS
    workflow = next(each for each in known if each.name == run.workflow)
    shadow = checker.shadow(run.run_id)
    forward = tuple(entry for entry in detail.history.entries if "~undo" not in shadow.path(entry.location))
    journal = Journal(run.run_id, detail.history._replace(entries=forward), run.last_seq)
    turn = begin_forward(workflow, run._replace(status=RunStatus.RUNNING), journal, Inbox(), _CODEC)
    turn.advance(checker.inspector.now())
    try:
        if isinstance(turn.problem, LostChangeError) and _is_cut_short(run):
            return  # its code was yet to be stopped for that
        if turn.problem is not None:
            checker.violate("I9", run.run_id, f"{run.status}, and its replay diverges: {turn.problem.title}")
        elif not _is_cut_short(run):
            if turn.bodies.asked:
                checker.violate("I9", run.run_id, f"{run.status}, and its replay runs {turn.bodies.asked[0].info.path}")
            elif not turn.is_ended:
                checker.violate("I9", run.run_id, f"{run.status}, and its replay waits")
            else:
                _compare(world, run, conclude(turn, workflow))
                _check_seen(world, run, journal)
    finally:
        turn.close()


def _is_cut_short(run: Run) -> bool:
    """Whether somebody or a deadline ended a run before its code did."""
    return run.status is RunStatus.CANCELLED or why_late(run) is not None


def _compare(world: World, run: Run, move: Any) -> None:
    checker = world.checker
    match move:
        case End(status=RunStatus.COMPLETED, output=output) if run.status is RunStatus.COMPLETED:
            if output != run.output:
                checker.violate("I11", run.run_id, f"its replay returns {output!r}, and {run.output!r} is stored")
        case End(status=RunStatus.CONTINUED, successor=successor) if run.status is RunStatus.CONTINUED:
            assert successor is not None
            stored = checker.rows_now[run.successor or ""]
            if (successor.run_id, successor.input) != (stored.run_id, stored.input):
                checker.violate("I16", run.run_id, "its replay continues in another way")
        case End(failure=bytes(failure)) | BeginRollback(failure=bytes(failure)) if run.failure is not None:
            again, stored_failure = decode_failure(failure), decode_failure(run.failure)
            if _words(again) != _words(stored_failure):
                checker.violate("I11", run.run_id, f"fails with {_words(again)}, recorded {_words(stored_failure)}")
        case _:
            checker.violate("I11", run.run_id, f"{run.status}, and its replay comes to {type(move).__name__}")


def _check_seen(world: World, run: Run, journal: Journal) -> None:
    """What the code has seen is what effects have relied on."""
    witnessed = world.checker.shadow(run.run_id).witnessed
    for path, words in WITNESSES.of_journal(journal).seen.items():
        before = witnessed.get(path, words)
        if before != words:
            world.checker.violate("I9", run.run_id, f"{path} was {before}, and its replay says {words}")


def _words(failure: FailureRecord) -> tuple[str, str, str]:
    return failure.type, failure.message, failure.path


def check_model(world: World, run: Run) -> None:
    """The end of a run is one that its program can come to."""
    checker = world.checker
    program = msgspec.json.decode(run.input[1:])
    are_cancels = bool(world.clients.touched) or world.clients.has_limits
    possible = outcomes_of_program(program, are_cancels=are_cancels)
    match run.status:
        case RunStatus.COMPLETED:
            problem = refuse_program(
                program, msgspec.json.decode((run.output or b"?null")[1:]), are_cancels=are_cancels
            )
            if OK not in possible or program["continues"] or problem is not None:
                checker.violate("T7", run.run_id, f"completed, which it cannot: {problem or program['ending']}")
        case RunStatus.CONTINUED if run.failure is not None:
            tried = retry_of(run)
            is_tried = tried.policy is not None and not tried.policy.retry.is_last(tried.attempt)
            if not is_tried or FAIL not in possible:
                checker.violate("T7", run.run_id, f"tried again after attempt {tried.attempt}, which it cannot")
        case RunStatus.CONTINUED:
            may_continue = OK in possible or any(node["op"] == "continue" for node in walk(program["body"]))
            if not may_continue or not program["continues"]:
                checker.violate("T7", run.run_id, "continued, which it cannot")
        case RunStatus.FAILED | RunStatus.COMPENSATED:
            failure = decode_failure(run.failure).summary if run.failure else ""
            if FAIL not in possible and why_late(run) is None:
                checker.violate("T7", run.run_id, f"{run.status}, which it cannot: {failure}")
            _check_undone(world, run, program)
        case RunStatus.CANCELLED:
            is_known = run.reason in ("its parent no longer needs it", PARENT_CLOSED, REWOUND)
            if not are_cancels and not is_known and not checker.run_messages.may_be_cancelled(run.run_id):
                checker.violate("T7", run.run_id, f"cancelled by nobody ({run.reason!r})")
        case _:
            checker.violate("L1", run.run_id, f"ended as {run.status}")


def _check_undone(world: World, run: Run, program: dict[str, Any]) -> None:
    """Failed with nothing to undo, or compensated with everything undone."""
    shadow = world.checker.shadow(run.run_id)
    is_partial = program["ending"] is not None and program["ending"]["op"] == "rollback_to"
    if run.status is RunStatus.FAILED and not is_partial and shadow.left_to_undo():
        path = shadow.path(shadow.left_to_undo()[0].location)
        world.checker.violate("I30", run.run_id, f"failed, and {path} was not undone")
