"""One owned run: drives its code, commits the results, and runs bodies when everything before them is durable."""

from __future__ import annotations

import logging
from typing import Any, Protocol, assert_never

from stepwell.clock import Instant
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release, Verdict
from stepwell.model.deadlines import waited_too_long
from stepwell.model.runs import Claimed, History, Inbox, Run
from stepwell.model.states import RunStatus
from stepwell.replay.bodies import Attempted, Body
from stepwell.replay.driver import read_on
from stepwell.replay.journal import Journal, Pending
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow
from stepwell.worker.bodies import Bodies
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.code import Code
from stepwell.worker.commits import Commits
from stepwell.worker.deadline_timer import DeadlineTimer
from stepwell.worker.defects import Defect, contained
from stepwell.worker.history_limits import check_history, first_look
from stepwell.worker.moves import ClaimFacts, NextMove, decide_next, is_due_soon, is_interrupted
from stepwell.worker.resources import Resources
from stepwell.worker.run_logs import fields_of
from stepwell.worker.stops import Stop
from stepwell.worker.transactions import Transactions

_LOG = logging.getLogger("stepwell.worker")

_APPLIED = Verdict.APPLIED


class Host(Protocol):
    """What an execution needs from the set of all executions."""

    @property
    def active(self) -> int: ...
    @property
    def is_torn_down(self) -> bool: ...
    def parked(self, execution: Execution, revision: int, *, is_awake: bool) -> None: ...
    def left(self, execution: Execution, *, is_paused: bool = False) -> None: ...
    def adopt(self, claimed: tuple[Claimed, ...]) -> None: ...


class Execution:
    """The life of one claim. Everything happens in callbacks of the event loop, one at a time.

    It advances the code and decides what comes next. Its parts do the rest: the claim's state, the code, commits,
    bodies, transactional steps, the timer, and the stop. They get the execution as an argument where they need it. A
    part that kept a reference would make a cycle, and a run that has ended could not be freed at once.
    """

    __slots__ = (
        "_bodies",
        "_claim",
        "_code",
        "_commits",
        "_defect",
        "_entries_checked",
        "_host",
        "_journal",
        "_resources",
        "_stop",
        "_timer",
        "_transactions",
    )

    def __init__(
        self, resources: Resources, host: Host, workflow: Workflow[Any, Any], claimed: Claimed, history: History
    ) -> None:
        self._resources = resources
        self._host = host
        self._claim = claim = ClaimState(claimed, resources.lease.incarnation)
        self._journal = journal = Journal(claimed.run.run_id, history, claimed.run.last_seq)
        self._code = code = Code(workflow, journal, claimed.inbox, resources)
        self._commits = commits = Commits(claim, journal, resources.committer, resources.routes)
        self._bodies = bodies = Bodies(claim, journal, code, resources, host)
        self._transactions = transactions = Transactions(claim, journal, commits, bodies, resources)
        self._stop = Stop(claim, journal, code, commits, bodies, transactions)
        self._timer = DeadlineTimer(claim, resources)
        self._defect: Defect | None = None
        self._entries_checked = first_look(resources.settings.entries_max)  # entries, from which on to look again

    @property
    def run(self) -> Run:
        """The run as it was claimed."""
        return self._claim.run

    @property
    def is_leaving(self) -> bool:
        """Whether its code must not be kept."""
        return self._claim.is_leaving

    @property
    def is_over(self) -> bool:
        """Whether this claim has ended."""
        return self._claim.is_over

    # --- driven by the worker ---

    @contained
    def begin(self, *, is_leaving: bool = False) -> None:
        """Start or resume the code under a new claim. If it is leaving already, no body begins."""
        claim, code = self._claim, self._code
        claim.is_leaving, run = is_leaving, claim.run
        if self._resources.notices.wants_claims:
            self._resources.notices.claimed(run, [*self._journal.waits.values()], code.inbox)
        if claim.is_stopping:
            self._stop.finish(self)
            return
        if run.deadline_at is not None and claim.is_past_deadline(self._resources.now()):
            self._stop.begin(self, code.expire(run))
            return
        if code.turn is None:
            code.begin(run)
        self._pump()

    @contained
    def reclaim(self, claimed: Claimed, *, is_leaving: bool = False) -> None:
        """The waiting run was claimed again here, and no other worker had it in between: continue in place."""
        self._claim.renew(claimed, self._resources.lease.incarnation)
        # A deadline may have passed while the park was in flight, and the code requested bodies: numbers restart.
        self._bodies.renumber()
        self._stop.forget()
        self._code.resume(claimed.run, claimed.inbox)
        self.begin(is_leaving=is_leaving)

    @contained
    def receive(self, inbox: Inbox, epoch: int) -> None:
        """Messages arrived while this claim owns the run."""
        claim, code = self._claim, self._code
        if epoch != claim.run.epoch or claim.is_over:
            return
        if code.turn is None or claim.is_stopping:
            code.keep(inbox)
            return
        code.turn.mailbox.receive(inbox)
        self.pump()

    @contained
    def cancel(self) -> None:
        """A cancel was recorded: stop the code, let running bodies end, then roll back."""
        claim = self._claim
        if claim.is_over or claim.is_stopping or claim.run.status is RunStatus.COMPENSATING:
            return
        self._stop.begin(self)

    @contained
    def renewed(self) -> None:
        """The lease was renewed: held bodies may start."""
        if self._claim.is_over:
            return
        self._bodies.start(self)
        if self._transactions.due and self._commits.sent is None:
            self._commit_or_start()

    @contained
    def leave(self) -> None:
        """Release the run as soon as none of its bodies runs. Nothing is lost."""
        claim = self._claim
        claim.is_leaving = True
        if not claim.is_over and not claim.is_stopping and self._commits.sent is None:
            self._commit_or_start()

    def drop(self) -> None:
        """Stop at once. Uncommitted work is lost, and another worker does it again."""
        claim = self._claim
        was_over, claim.is_over = claim.is_over, True
        self._resources.notices.dropped(claim.run, was_over=was_over)
        self.abandon()

    def lose(self) -> None:
        """This worker no longer owns the run, or will soon lose it: drop it."""
        self.drop()
        self._host.left(self)

    def close(self) -> None:
        """Tear the code down."""
        self._code.close()

    # --- the turn ---

    def pump(self) -> None:
        """Run the code as far as it gets, then commit or start what it requested."""
        try:
            self._pump()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  as `contained`, without its overhead
            self.break_off(error)

    def _pump(self) -> None:
        claim, turn = self._claim, self._code.turn
        if claim.is_over or claim.is_stopping or turn is None or self._transactions.running is not None:
            return
        is_late = claim.run.deadline_at is not None and claim.is_past_deadline(self._resources.now())
        late = self._code.expire(claim.run) if is_late else None
        self._advance(turn)  # also when it is late: completed steps must be recorded, so that they can be undone
        if late is not None:
            self._stop.begin(self, late)
            return
        bodies = self._bodies
        if turn.bodies.yielded and (bodies.running or bodies.held or not turn.bodies.are_idle):
            # The run keeps its slot while another of its bodies needs it.
            turn.bodies.resume_yielded()
            self._advance(turn)
        if turn.problem is None and not turn.is_ended:
            overdue = None if claim.run.max_suspend is None else turn.waits.find_overdue(turn.now)
            if overdue is not None:
                self._stop.begin(self, waited_too_long(overdue, self._journal.names.text(overdue.location)))
                return
            if turn.bodies.asked:
                barrier = claim.number + int(self._journal.pending.is_urgent)
                for body in turn.bodies.take():
                    bodies.held.append((barrier, body))
            if turn.bodies.transactions:
                self._transactions.due += turn.bodies.transactions
                turn.bodies.transactions.clear()
        if self._commits.sent is None:
            self._commit_or_start()

    def _advance(self, turn: Turn) -> None:
        try:
            turn.advance(self._resources.now())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  a defect affects only this run
            self._code.diverge(turn, error)
        if len(turn.journal.entries) > self._entries_checked:
            self._entries_checked = check_history(turn, self._resources.settings.entries_max)
        if turn.bodies.unwanted:
            self._bodies.cancel_unwanted(turn.bodies.unwanted, self.body_ended)
            turn.bodies.unwanted.clear()

    def _commit_or_start(self) -> None:
        turn = self._code.turn
        if turn is None:
            return
        claim, bodies, timer, due = self._claim, self._bodies, self._timer, self._transactions.due
        is_special = due or claim.is_leaving or timer.handle is not None or claim.run.deadline_at is not None
        if bodies.held and not is_special and turn.is_stepping:
            # The code waits only for bodies.
            if self._journal.pending.is_urgent:
                self._commits.submit(self.answered, None, turn.take_waits())
            bodies.start(self)
            return
        move = self._next_move(turn)
        if due and move is None and self._transactions.begin(turn, self):
            pass  # its commit carries everything that is not committed yet
        elif move is not None or self._journal.pending.is_urgent or turn.waits.has_new:
            self._commits.submit(self.answered, move, turn.take_waits())
        if bodies.held:
            bodies.start(self)
        if timer.handle is not None or turn.waits.has_deadlines or claim.run.deadline_at is not None:
            # Code that was stopped passes no deadline of its own.
            timer.set(turn.waits.next_deadline if turn.problem is None else None, self)

    def _next_move(self, turn: Turn) -> Move | None:
        claim, bodies, settings = self._claim, self._bodies, self._resources.settings
        has_ended = turn.problem is not None or turn.is_ended
        if has_ended:
            bodies.give_back(but_announced=False)
            self._transactions.due.clear()
        elif claim.is_leaving and not bodies.running:
            bodies.give_back(but_announced=True)
        is_waiting = not (has_ended or bodies.running or bodies.held)
        now, deadline = (self._resources.now(), turn.waits.next_deadline) if is_waiting else (Instant(0), None)
        facts = ClaimFacts(
            has_ended=has_ended,
            is_pausing=turn.problem is not None,
            is_interrupted=is_interrupted(turn.problem),
            is_leaving=claim.is_leaving,
            is_running=bool(bodies.running),
            is_holding=bool(bodies.held),
            is_idle=turn.bodies.are_idle,
            has_yielded=bool(turn.bodies.yielded),
            is_due_soon=is_waiting
            and is_due_soon(
                deadline,
                claim.end_at,
                now,
                waits_for_time_only=turn.waits_for_time_only,
                hold_span=settings.hold_span,
                ahead_span=settings.ahead_span,
            ),
        )
        following = decide_next(facts)
        match following:
            case NextMove.STAY:
                return None
            case NextMove.STOP_BODIES:
                bodies.stop(self.body_ended, but=self._transactions.running)
                return None
            case NextMove.CONCLUDE:
                return self._code.conclude(turn)
            case NextMove.RELEASE:
                return Release()
            case NextMove.YIELD:
                return Park(now if deadline is None else min(now, deadline))
            case NextMove.PARK:
                return Park(deadline)
            case _:
                assert_never(following)

    # --- answers of the store ---

    def answered(self, applied: Applied) -> None:
        """The store has answered the commit in flight."""
        try:
            commits, claim = self._commits, self._claim
            commit, commits.sent = commits.sent, None
            verdict, is_cancelling, _, _, claimed, is_held = applied
            if claimed:
                # Also if this claim has ended meanwhile: this worker owns the children, so no other will run them.
                self._host.adopt(claimed)
            if claim.is_over or commit is None:
                return
            claim.is_leaving |= is_held
            if verdict is _APPLIED and commit.move is None and not (is_cancelling or claim.is_stopping):
                claim.acknowledged = claim.number
                if self._bodies.progress is not None:
                    self._bodies.progress.acknowledge(claim.number)
                self._commit_or_start()
            elif self._defect is not None and self._defect.pause is not None and verdict is not Verdict.FENCED:
                self._defect.answered(commit, applied, self)
            else:
                self._judged(commit, applied)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  as `contained`, without its overhead
            self.break_off(error)

    def _judged(self, commit: Commit, applied: Applied) -> None:
        verdict = applied.verdict
        match verdict:
            case Verdict.FENCED:
                words = "run %s is no longer owned by this worker: its work since the last commit is lost"
                _LOG.warning(words, self.run.run_id, extra=fields_of(self.run))
                self.lose()
                # A later claim of this worker may exist, if its answer was lost while this claim was active.
                self._resources.requests.suspect_lost_claims()
            case Verdict.UNREAD:
                turn = self._code.turn
                assert turn is not None
                self._commits.send_again(commit, read_on(turn, self._code.workflow), self.answered)
            case Verdict.CANCELLING | Verdict.EXPIRED:
                self._stop.send_again(commit, verdict, self)
            case Verdict.APPLIED:
                self._bodies.acknowledge()
                self._moved(commit.move, applied)
            case _:
                assert_never(verdict)

    def _moved(self, move: Move | None, applied: Applied) -> None:
        match move:
            case None if self._claim.is_stopping:
                if not self._bodies.running:
                    self._stop.finish(self)
                elif self._journal.pending.is_urgent:
                    self._commits.submit(self.answered, None)
            case None if applied.cancelling:
                self.cancel()
            case None:
                self._commit_or_start()
            case Park():
                self._give_up(move, is_held=applied.held)
                turn = self._code.turn
                if turn is not None and turn.threads.functions:
                    turn.threads.release()
                self._host.parked(self, applied.revision, is_awake=applied.is_awake)
            case BeginRollback():
                self._begin_rollback(move)
            case End() | Pause() | Release():
                self.end(move, is_held=applied.held)
            case _:
                assert_never(move)

    def _begin_rollback(self, move: BeginRollback) -> None:
        claim = self._claim
        self._code.close()
        self._stop.forget()
        claim.is_stopping = False
        claim.run = claim.run._replace(
            status=RunStatus.COMPENSATING,
            cause=move.cause,
            undo_floor=move.undo_floor,
            failure=move.failure if move.failure is not None else claim.run.failure,
        )
        self._code.begin_rollback(claim.run)
        self.pump()

    # --- ends ---

    def end(self, move: Move, *, is_held: bool = False) -> None:
        """The claim ended with this move, and the run is not continued here. `is_held`: a person has paused it."""
        self._give_up(move, is_held=is_held)
        self._code.close()
        self._host.left(self, is_paused=isinstance(move, Pause))

    def _give_up(self, move: Move, *, is_held: bool) -> None:
        claim = self._claim
        claim.is_over = True
        if self._timer.handle is not None:
            self._timer.stop()
        if self._bodies.progress is not None:
            self._bodies.release()
        self._resources.notices.over(claim.run, move, is_leaving=claim.is_leaving, is_held=is_held)

    def abandon(self) -> None:
        """End the timer, the bodies and the code at once."""
        self._timer.stop()
        self._bodies.abandon()
        self._transactions.abandon()
        self._code.close()

    def break_off(self, error: BaseException) -> None:
        """Pause the run after an internal error, with the reason. Other runs continue."""
        if self._claim.is_over:
            words = "run %s: internal error after its claim had ended: %s"
            _LOG.error(words, self.run.run_id, type(error).__name__, extra=fields_of(self.run))
            return
        if self._defect is None:
            self._defect = Defect(self._claim, self._commits, self._stop)
        if not self._defect.pause_run(error, self):
            self._host.left(self)
            self._resources.requests.suspect_lost_claims()

    # --- for its bodies ---

    def body_ended(self, body: Body, attempted: Attempted | None) -> None:
        """A body has ended, or was cancelled without a result."""
        try:
            running, turn, claim = self._bodies.running, self._code.turn, self._claim
            if running.pop(body, None) is None or claim.is_over or turn is None:
                return
            if attempted is not None:
                turn.bodies.settle(body, attempted)
            elif body.is_stopping:
                self._bodies.retract(body)
            if self._transactions.running is not None:
                return
            if not claim.is_stopping:
                self._pump()
                return
            self._advance(turn)
            if not running:
                self._stop.finish(self)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  as `contained`, without its overhead
            self.break_off(error)

    @contained
    def commit_kept(self) -> None:
        """Commit the state of a running body: now, or with the next commit if one is in flight."""
        if self._commits.sent is None:
            if self._claim.is_stopping:
                self._commits.submit(self.answered, None)
            else:
                self._commit_or_start()

    @contained
    def record_receipts(self, pending: Pending) -> None:
        """Commit receipts that have waited long enough for another commit."""
        claim = self._claim
        if self._journal.pending is pending and not claim.is_over:
            pending.is_urgent = True
            if self._commits.sent is None and self._transactions.running is None and not claim.is_stopping:
                self._commit_or_start()
