"""One owned run: drives its code, commits what it did, runs its bodies once what is before them is durable."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, assert_never

from stepwell.clock import SECOND, Instant, Span
from stepwell.errors.records import FailureRecord
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release, Verdict
from stepwell.model.deadlines import deadline_exceeded, waited_too_long
from stepwell.model.failures import encode_failure, record_failure, words_of
from stepwell.model.runs import Claimed, History, Inbox, Run
from stepwell.model.states import RunStatus
from stepwell.replay.bodies import Attempted, Body, Raised, Recorded
from stepwell.replay.driver import begin_forward, begin_rollback, conclude
from stepwell.replay.journal import Journal, Pending
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.transactions import Performed
from stepwell.worker.attempts import AttemptLink
from stepwell.worker.bodies import Bodies
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.commits import Commits
from stepwell.worker.mailbox import Mailbox
from stepwell.worker.moves import Next, Standing, decide_next, defect_of, is_due_soon, is_interrupted, stop_move
from stepwell.worker.observers import Observers, outcome_of, woken_at
from stepwell.worker.progress import RunProgress
from stepwell.worker.resources import Resources
from stepwell.worker.transactions import Transactions

_LOG = logging.getLogger("stepwell.worker")

_APPLIED = Verdict.APPLIED

P = ParamSpec("P")


class Host(Protocol):
    """What an execution needs of the set that it is in."""

    @property
    def active(self) -> int: ...
    @property
    def is_torn_down(self) -> bool: ...
    def parked(self, execution: Execution, revision: int, *, is_awake: bool) -> None: ...
    def left(self, execution: Execution, *, is_parked: bool = False) -> None: ...
    def adopt(self, claimed: tuple[Claimed, ...]) -> None: ...


def contained(
    method: Callable[Concatenate[Execution, P], None],
) -> Callable[Concatenate[Execution, P], None]:
    """For every way into an execution: what one run raises stays with that run, and ends no loop of the worker."""

    @functools.wraps(method)
    def call(self: Execution, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  see above
            self.break_off(error)

    return call


class Execution:
    """The life of one claim. Everything happens in callbacks of the event loop, one at a time.

    It drives the turn and decides what comes next; its parts know the claim, the commits, the bodies.
    """

    __slots__ = (
        "_awaited",
        "_bodies",
        "_broken",
        "_claim",
        "_commits",
        "_host",
        "_journal",
        "_late",
        "_mailbox",
        "_progress",
        "_resources",
        "_timer",
        "_transactions",
        "turn",
        "workflow",
    )

    def __init__(
        self, resources: Resources, host: Host, workflow: Workflow[Any, Any], claimed: Claimed, history: History
    ) -> None:
        self._resources = resources
        self._host = host
        self.workflow = workflow
        self._claim = claim = ClaimState(claimed, resources.lease.incarnation)
        self._journal = journal = Journal(claimed.run.run_id, history, claimed.run.last_seq)
        self._mailbox = Mailbox(claimed.inbox)
        self._commits = Commits(claim, journal, resources.committer, resources.routes)
        self._bodies = Bodies(claim, journal, resources, host)
        self._transactions = Transactions(resources)
        self._progress: RunProgress | None = None
        self.turn: Turn | None = None
        self._awaited: Pending | None = None  # what is sent before long, even if no other commit takes it along
        self._timer: asyncio.TimerHandle | None = None
        self._late: FailureRecord | None = None  # why it stops, if its time is over
        self._broken: Pause | None = None  # what is committed next and last: the run met a defect

    @property
    def run(self) -> Run:
        """The run as it was claimed."""
        return self._claim.run

    @property
    def is_leaving(self) -> bool:
        """Whether its code is not to be kept."""
        return self._claim.is_leaving

    @property
    def is_over(self) -> bool:
        """Whether this claim is given up."""
        return self._claim.is_over

    # --- driven by the worker ---

    @contained
    def begin(self, *, is_leaving: bool = False) -> None:
        """Start or resume the code under a new claim; if it is leaving already, begin no body."""
        self._claim.is_leaving = is_leaving
        if self._resources.observers is not None:
            self._observe_claim(self._resources.observers)
        claim = self._claim
        if claim.is_stopping:
            self._finish_stopped()
            return
        if claim.run.deadline_at is not None and claim.is_past_deadline(self._resources.now()):
            self._stop_late(self._deadline_exceeded())
            return
        if self.turn is None:
            self.turn = self._new_turn(self._mailbox.claimed)
        self.pump()

    @contained
    def reclaim(self, claimed: Claimed, *, is_leaving: bool = False) -> None:
        """The parked run was claimed again here, and nothing happened to it in between: go on in place."""
        self._claim.renew(claimed, self._resources.lease.incarnation)
        # A deadline may have passed while the park was on its way, and the code asked for bodies: numbers begin anew.
        self._bodies.renumber()
        self._late = None
        self._mailbox.renew(claimed.inbox)
        if self.turn is not None:
            self.turn.resume(claimed.run, claimed.inbox)
        self.begin(is_leaving=is_leaving)

    @contained
    def receive(self, inbox: Inbox, epoch: int) -> None:
        """Messages came while the run is owned, by this very claim."""
        claim = self._claim
        if epoch != claim.run.epoch or claim.is_over:
            return
        if self.turn is None or claim.is_stopping:
            self._mailbox.keep(inbox)
            return
        self.turn.mailbox.receive(inbox)
        self.pump()

    @contained
    def cancel(self) -> None:
        """A cancel was recorded: stop the code, let running bodies end, then undo."""
        claim = self._claim
        if claim.is_over or claim.is_stopping or claim.run.status is RunStatus.COMPENSATING:
            return
        self._stop()

    @contained
    def renewed(self) -> None:
        """The lease lasts longer now: bodies that were held back may start."""
        if self._claim.is_over:
            return
        self._bodies.start(self)
        if self._transactions.due and self._commits.sent is None:
            self._commit_or_start()

    @contained
    def leave(self) -> None:
        """Give the run back, without losing anything, as soon as no body of it is running."""
        claim = self._claim
        claim.is_leaving = True
        if not claim.is_over and not claim.is_stopping and self._commits.sent is None:
            self._commit_or_start()

    def drop(self) -> None:
        """Stop at once; whatever is not committed is lost, and another worker will do it again."""
        observers = self._resources.observers
        if observers is not None and not self._claim.is_over:
            observers.left(self.run, "lost")
        self._claim.is_over = True
        self._stop_timer()
        self._tell_over(None)
        self._abandon_bodies()
        self.close()

    def close(self) -> None:
        """Tear the code down."""
        turn, self.turn = self.turn, None
        if turn is not None:
            self._mailbox.leave(turn)
            try:
                turn.close()
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001  the code's own clean-up failed, and nothing depends on it
                _LOG.warning("the code of run %s raised while it was torn down", self.run.run_id, exc_info=True)

    # --- the heart ---

    def pump(self) -> None:
        """Let the code go as far as it can, and commit or start what that asks for."""
        try:
            self._pump()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  as `contained`, without what that costs
            self.break_off(error)

    def _pump(self) -> None:
        claim, turn = self._claim, self.turn
        if claim.is_over or claim.is_stopping or turn is None or self._transactions.running is not None:
            return
        is_late = claim.run.deadline_at is not None and claim.is_past_deadline(self._resources.now())
        late = self._deadline_exceeded() if is_late else None
        self._advance(turn)  # also when it is late: what has ended is recorded, so that it can be undone
        if late is not None:
            self._stop_late(late)
            return
        bodies = self._bodies
        if turn.bodies.yielded and (bodies.running or bodies.held or not turn.bodies.are_idle):
            # The slot cannot be given back while another body of the run needs it.
            turn.bodies.resume_yielded()
            self._advance(turn)
        if turn.problem is None and not turn.is_ended:
            overdue = None if claim.run.max_suspend is None else turn.waits.find_overdue(turn.now)
            if overdue is not None:
                self._stop_late(waited_too_long(overdue, self._journal.names.text(overdue.location)))
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
        except BaseException as error:  # noqa: BLE001  a defect stops this run and no other
            _LOG.exception("run %s stopped by a defect", self.run.run_id)
            turn.diverge(defect_of(error))
        if turn.bodies.unwanted:
            self._bodies.cancel_unwanted(turn.bodies.unwanted, self.body_ended)
            turn.bodies.unwanted.clear()

    def _commit_or_start(self) -> None:
        turn = self.turn
        if turn is None:
            return
        claim, bodies, due = self._claim, self._bodies, self._transactions.due
        is_special = due or claim.is_leaving or self._timer is not None or claim.run.deadline_at is not None
        if bodies.held and not is_special and turn.is_stepping:
            # Its code waits for bodies, and needs nothing else.
            if self._journal.pending.is_urgent:
                self._commits.submit(self.answered, None, turn.take_waits())
            bodies.start(self)
            return
        move = self._next_move(turn)
        if due and move is None and self._begin_transaction(turn):
            pass  # it takes along what there is to commit
        elif move is not None or self._journal.pending.is_urgent or turn.waits.has_new:
            self._commits.submit(self.answered, move, turn.take_waits())
        if bodies.held:
            bodies.start(self)
        if self._timer is not None or turn.waits.has_deadlines or claim.run.deadline_at is not None:
            self._set_timer()

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
        standing = Standing(
            has_ended=has_ended,
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
        following = decide_next(standing)
        match following:
            case Next.STAY:
                return None
            case Next.STOP_BODIES:
                bodies.stop(self.body_ended, but=self._transactions.running)
                return None
            case Next.CONCLUDE:
                return self._conclude(turn)
            case Next.RELEASE:
                return Release()
            case Next.YIELD:
                return Park(now if deadline is None else min(now, deadline))
            case Next.PARK:
                return Park(deadline)
            case _:
                assert_never(following)

    def _conclude(self, turn: Turn) -> Move:
        try:
            return conclude(turn, self.workflow)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  what the code returned or raised cannot be recorded
            _LOG.exception("run %s stopped by a defect", self.run.run_id)
            turn.diverge(defect_of(error))
            return conclude(turn, self.workflow)

    # --- answers of the store ---

    def answered(self, applied: Applied) -> None:
        """The store has answered the commit in flight."""
        try:
            commits, claim = self._commits, self._claim
            commit, commits.sent = commits.sent, None
            verdict, is_cancelling, _, _, claimed, is_held = applied
            if claimed:
                # Also when this run is given up meanwhile: the children are ours, and nobody else will run them.
                self._host.adopt(claimed)
            if claim.is_over or commit is None:
                return
            claim.is_leaving |= is_held
            if verdict is _APPLIED and commit.move is None and not (is_cancelling or claim.is_stopping):
                claim.acknowledged = claim.number
                if self._progress is not None:
                    self._progress.acknowledge(claim.number)
                self._commit_or_start()
            elif self._broken is not None and verdict is not Verdict.FENCED:
                self._answered_broken(commit, applied)
            else:
                self._judged(commit, applied)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  as `contained`, without what that costs
            self.break_off(error)

    def _judged(self, commit: Commit, applied: Applied) -> None:
        verdict = applied.verdict
        match verdict:
            case Verdict.FENCED:
                _LOG.warning("run %s is not ours any more: its work since the last commit is lost", self.run.run_id)
                self.lose()
                # It may be ours again, by a later claim whose answer was lost while we still held this one.
                self._resources.requests.suspect_lost_claims()
            case Verdict.CANCELLING | Verdict.EXPIRED:
                # Nothing was written. The forward code has stopped, so the same delta goes again with the move of the
                # cancel, or with the failure of code that ended too late.
                self._claim.is_stopping = True
                self._late = None if verdict is Verdict.CANCELLING else self._deadline_exceeded()
                self.close()
                self._commits.send_again(commit, stop_move(self._journal, self._late), self.answered)
            case Verdict.APPLIED:
                self._acknowledge()
                self._moved(commit.move, applied)
            case _:
                assert_never(verdict)

    def _acknowledge(self) -> None:
        claim = self._claim
        claim.acknowledged = claim.number
        if self._progress is not None:
            self._progress.acknowledge(claim.number)

    def _moved(self, move: Move | None, applied: Applied) -> None:
        match move:
            case None if self._claim.is_stopping:
                if not self._bodies.running:
                    self._finish_stopped()
                elif self._journal.pending.is_urgent:
                    self._commits.submit(self.answered, None)
            case None if applied.cancelling:
                self.cancel()
            case None:
                self._commit_or_start()
            case Park():
                self._give_up(move)
                if self.turn is not None and self.turn.threads.functions:
                    self.turn.threads.release()
                self._host.parked(self, applied.revision, is_awake=applied.is_awake)
            case BeginRollback():
                self._begin_rollback(move)
            case End() | Pause() | Release():
                self._give_up(move)
                self.close()
                self._host.left(self, is_parked=isinstance(move, Pause))
            case _:
                assert_never(move)

    def _give_up(self, move: Move) -> None:
        """The claim is over."""
        self._claim.is_over = True
        self._stop_timer()
        if self._claim.is_leaving or not isinstance(move, Park):
            self._tell_over(move)
        if self._resources.observers is not None:
            self._resources.observers.left(self.run, outcome_of(move))

    def _tell_over(self, move: Move | None) -> None:
        """Callers in this process that wait for the result need not ask the store for what was just written."""
        on_over = self._resources.on_over
        if on_over is not None:
            run = self._claim.run
            if isinstance(move, End) and move.status is RunStatus.COMPLETED:
                run = run._replace(status=move.status, output=move.output)
            on_over(run)

    # --- defects ---

    def break_off(self, error: BaseException) -> None:
        """Something failed that the run's code cannot handle. The run is paused with the reason; the others go on."""
        claim, commits = self._claim, self._commits
        if claim.is_over:
            _LOG.error("run %s met a defect after it was given up: %s", self.run.run_id, type(error).__name__)
            return
        is_first = self._broken is None
        _LOG.error("run %s stopped by a defect: %s: %s", self.run.run_id, type(error).__name__, words_of(error))
        try:
            self._broken = Pause(encode_failure(record_failure(defect_of(error))))
            claim.is_stopping = True
            self._stop_timer()
            self._abandon_bodies()
            if self._transactions.running is not None:
                self._transactions.running = commits.sent = None
            self.close()
            if not is_first:
                raise RuntimeError("it cannot be paused, either")
            if commits.sent is None:
                commits.pause(self._broken, self.answered)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  given back like a claim that was never heard of
            _LOG.exception("run %s could not be paused", self.run.run_id)
            claim.is_over = True
            self._host.left(self)
            self._resources.requests.suspect_lost_claims()

    def _answered_broken(self, commit: Commit, applied: Applied) -> None:
        """The answer to the last commit before the defect, or to the pause."""
        assert self._broken is not None
        if applied.verdict is _APPLIED and commit.move is None:
            self._commits.pause(self._broken, self.answered)
        elif applied.verdict is _APPLIED:
            self._give_up(commit.move or Release())
            self._host.left(self, is_parked=isinstance(commit.move, Pause))
        else:
            # It was cancelled, or its time is over, which counts more.
            self._broken = None
            self._late = None if applied.verdict is Verdict.CANCELLING else self._deadline_exceeded()
            self._commits.send_again(commit, stop_move(self._journal, self._late), self.answered)

    # --- for its bodies ---

    def body_ended(self, body: Body, attempted: Attempted | None) -> None:
        """A body has ended, or was cancelled and gave nothing."""
        try:
            running, turn, claim = self._bodies.running, self.turn, self._claim
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
                self._finish_stopped()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  as `contained`, without what that costs
            self.break_off(error)

    def lose(self) -> None:
        """The run is not ours any more, or will not be for long: drop it."""
        self.drop()
        self._host.left(self)

    def open_link(self, body: Body) -> AttemptLink:
        """Connect a body that takes a context to this run, while it runs."""
        if self._progress is None:
            self._progress = RunProgress(self, self._claim, self._journal, self._bodies, self._resources)
        return self._progress.open_link(body)

    def close_link(self, link: AttemptLink, attempted: Attempted | None) -> None:
        """The body has ended."""
        assert self._progress is not None
        self._progress.close_link(link, attempted)

    @contained
    def commit_kept(self) -> None:
        """Commit what a running body keeps: now, or with the next commit if one is in flight."""
        if self._commits.sent is None:
            if self._claim.is_stopping:
                self._commits.submit(self.answered, None)
            else:
                self._commit_or_start()

    def record_soon(self) -> None:
        """A receipt goes with the next commit, if that comes before long."""
        pending = self._journal.pending
        if pending is not self._awaited and self._bodies.running:
            self._awaited = pending
            self._resources.receipts.wait(partial(self._record_now, pending))

    @contained
    def _record_now(self, pending: Pending) -> None:
        claim = self._claim
        if self._journal.pending is pending and not claim.is_over:
            pending.is_urgent = True
            if self._commits.sent is None and self._transactions.running is None and not claim.is_stopping:
                self._commit_or_start()

    def _abandon_bodies(self) -> None:
        self._bodies.abandon()
        self._transactions.due.clear()

    # --- transactional steps ---

    def _begin_transaction(self, turn: Turn) -> bool:
        """Begin the step that is due first; whether there is one that may begin."""
        body = None if self._claim.is_leaving else self._transactions.next_due()
        if body is None:
            return False
        self._commits.sent = commit = self._commits.take(None, turn.take_waits())
        self._bodies.running[body] = self._transactions.begin(body, commit, self)
        return True

    @contained
    def transacted(self, body: Body, commit: Commit, performed: Performed, recorded: Recorded | None) -> None:
        """The store has answered the commit of a transactional step."""
        if self._claim.is_over:
            return
        applied = performed.applied
        if applied is None:
            # Nothing was written: what was to go along goes now.
            assert performed.error is not None
            self._commits.send(commit, self.answered)
            self.body_ended(body, Raised(performed.error))
        elif applied.verdict is Verdict.FENCED:
            self.answered(applied)
        elif applied.verdict is Verdict.CANCELLING:
            # A cancel came first, and the body was not run; the answer to this commit says so again.
            self._bodies.running.pop(body, None)
            self._commits.send(commit, self.answered)
        else:
            assert recorded is not None
            self._commits.sent = None
            self._acknowledge()
            self._claim.is_leaving |= applied.held
            self._journal.adopt(recorded.entry)
            if applied.cancelling and not self._claim.is_stopping:
                self._begin_stop()
            self.body_ended(body, recorded)

    # --- ends ---

    def _stop(self) -> None:
        """The forward code goes no further; bodies that cannot be stopped are waited for."""
        self._begin_stop()
        if not self._bodies.running:
            self._finish_stopped()

    def _begin_stop(self) -> None:
        self._claim.is_stopping = True
        self._bodies.held.clear()
        self._transactions.due.clear()
        self._bodies.stop(self.body_ended, but=self._transactions.running)

    def _stop_late(self, failure: FailureRecord) -> None:
        self._late = failure
        self._stop()

    def _finish_stopped(self) -> None:
        """No body runs any more: record what did end, and leave the forward code."""
        if self._commits.sent is not None:
            return  # its answer comes back here
        self.close()
        self._commits.submit(self.answered, stop_move(self._journal, self._late))

    def _begin_rollback(self, move: BeginRollback) -> None:
        self.close()
        claim = self._claim
        claim.is_stopping, self._late = False, None
        claim.run = claim.run._replace(
            status=RunStatus.COMPENSATING,
            cause=move.cause,
            undo_floor=move.undo_floor,
            failure=move.failure if move.failure is not None else claim.run.failure,
        )
        self._journal.waits = {}
        self.turn = self._new_turn(self._mailbox.take())
        self.pump()

    def _new_turn(self, inbox: Inbox) -> Turn:
        run, resources = self._claim.run, self._resources
        strands = resources.environment.executor.lockstep_threads
        if run.status is RunStatus.COMPENSATING:
            return begin_rollback(self.workflow, run, self._journal, inbox, resources.codec, resources.now(), strands)
        return begin_forward(self.workflow, run, self._journal, inbox, resources.codec, strands)

    # --- time ---

    def _deadline_exceeded(self) -> FailureRecord:
        waits = [*self._journal.waits.values()] if self.turn is None else self.turn.waits.all
        path = self._journal.names.text(waits[0].location) if waits else ""
        assert self.run.deadline_at is not None
        return deadline_exceeded(self.run.deadline_at, path)

    def _set_timer(self) -> None:
        """While the run is owned, its deadlines are kept here."""
        self._stop_timer()
        deadline = self.turn.waits.next_deadline if self.turn is not None else None
        end = self._claim.end_at
        if end is not None:
            deadline = end if deadline is None else min(deadline, end)
        if deadline is not None:
            delay = max(0.001, (deadline - self._resources.now()) / SECOND)
            call = self.pump if self._resources.observers is None else partial(self._on_time, deadline)
            self._timer = asyncio.get_running_loop().call_later(delay, call)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- observers ---

    @contained
    def _on_time(self, due: Instant) -> None:
        """The run was here when its time came."""
        observers = self._resources.observers
        if observers is not None and not self._claim.is_over:
            observers.resumed(self.run, Span(max(0, self._resources.now() - due)))
        self.pump()

    def _observe_claim(self, observers: Observers) -> None:
        run, now = self.run, self._resources.now()
        observers.began(run, is_fresh=run.epoch == 1)
        inbox = self._mailbox.claimed
        woken = None if run.epoch == 1 else woken_at([*self._journal.waits.values()], inbox, now)
        if woken is not None:
            observers.resumed(run, Span(max(0, now - woken)))
