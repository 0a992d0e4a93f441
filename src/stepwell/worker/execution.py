"""One owned run: drives its code, commits what it did, runs its bodies once what is before them is durable."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol, assert_never

from stepwell.clock import SECOND, Instant
from stepwell.codec.base import Codec
from stepwell.config import WorkerSettings
from stepwell.environment import Environment
from stepwell.errors import ReplayError
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release, Verdict
from stepwell.model.entries import Progress
from stepwell.model.runs import Claimed, History, Inbox, Run
from stepwell.model.states import KEEPS_CURSORS, RunStatus
from stepwell.model.waits import Wait
from stepwell.model.workers import Fence
from stepwell.replay.bodies import Attempted, Body, Raised, Recorded
from stepwell.replay.definition import Workflow
from stepwell.replay.driver import begin_forward, begin_rollback, conclude, honour_cancel
from stepwell.replay.journal import Journal
from stepwell.replay.turn import Turn
from stepwell.stores.base.transactions import Performed, TransactionStore
from stepwell.worker.bodies import run_body
from stepwell.worker.committer import Committer
from stepwell.worker.lease import Lease
from stepwell.worker.links import AttemptLink, Checkpoints
from stepwell.worker.transactions import transact

_LOG = logging.getLogger("stepwell.worker")


class Host(Protocol):
    """What an execution needs of its worker."""

    environment: Environment
    settings: WorkerSettings
    committer: Committer
    transactions: TransactionStore
    lease: Lease
    codec: Codec

    def now(self) -> Instant: ...
    def parked(self, execution: Execution, revision: int, *, is_awake: bool) -> None: ...
    def left(self, execution: Execution) -> None: ...
    def doubt(self) -> None: ...
    def adopt(self, claimed: tuple[Claimed, ...]) -> None: ...


class Execution:
    """The life of one claim. Everything happens in callbacks of the event loop, one at a time."""

    def __init__(self, host: Host, workflow: Workflow[Any, Any], claimed: Claimed, history: History) -> None:
        self._host = host
        self.workflow = workflow
        self.run: Run = claimed.run
        self._fence = self._fence_of(claimed)
        self._number = 0  # of the last commit sent
        self._acknowledged = 0
        self._journal = Journal(claimed.run.run_id, history, claimed.run.last_seq)
        self._turn: Turn | None = None
        self._sent: Commit | None = None  # the commit in flight
        self._held: list[tuple[int, Body]] = []  # asked for, each with the commit that must be durable before it starts
        self._due: list[Body] = []  # asked for, to be run inside the commit of their result
        self._transacting: Body | None = None  # the one that is: the code stands still meanwhile
        self._running: dict[Body, asyncio.Task[None]] = {}
        self._checkpoints = Checkpoints()
        self._timer: asyncio.TimerHandle | None = None
        self._is_cancelling = claimed.run.status is RunStatus.CANCELLING
        self._is_over = False
        self._is_leaving = False
        self._inbox = claimed.inbox

    @property
    def is_leaving(self) -> bool:
        """Whether its code is not to be kept."""
        return self._is_leaving

    @property
    def is_cancelling(self) -> bool:
        """Whether its forward code is being stopped for a cancel."""
        return self._is_cancelling

    @property
    def is_over(self) -> bool:
        """Whether this claim is given up."""
        return self._is_over

    # --- driven by the worker ---

    def begin(self) -> None:
        """Start or resume the code under a new claim."""
        if self._is_cancelling:
            self._finish_cancel()
            return
        if self._turn is None:
            self._turn = self._new_turn(self._inbox)
        self.pump()

    def reclaim(self, claimed: Claimed) -> None:
        """The parked run was claimed again here, and nothing happened to it in between: go on in place."""
        self.run = claimed.run
        self._fence = self._fence_of(claimed)
        self._number = self._acknowledged = 0
        # A deadline may have passed while the park was on its way, and the code asked for bodies: numbers begin anew.
        barrier = int(self._journal.pending.is_urgent)
        self._held = [(barrier, body) for _, body in self._held]
        self._is_over = self._is_leaving = False
        self._is_cancelling = claimed.run.status is RunStatus.CANCELLING
        if self._turn is not None:
            self._turn.run = claimed.run
            self._turn.epoch = claimed.run.epoch
            self._turn.receive(claimed.inbox)
            self._turn.go_on()
        self.begin()

    def receive(self, inbox: Inbox) -> None:
        """Messages came while the run is owned."""
        if not self._is_over and self._turn is not None and not self._is_cancelling:
            self._turn.receive(inbox)
            self.pump()

    def cancel(self) -> None:
        """A cancel was recorded: stop the code, let running bodies end, then undo."""
        if self._is_over or self._is_cancelling or self.run.status is RunStatus.COMPENSATING:
            return
        self._begin_cancel()
        if not self._running:
            self._finish_cancel()

    def _begin_cancel(self) -> None:
        self._is_cancelling = True
        self._held.clear()
        self._due.clear()
        self._stop_bodies()

    def renewed(self) -> None:
        """The lease lasts longer now: bodies that were held back may start."""
        if self._is_over:
            return
        self._start_bodies()
        if self._due and self._sent is None:
            self._commit_or_start()

    def leave(self) -> None:
        """Give the run back, without losing anything, as soon as no body of it is running."""
        self._is_leaving = True
        if not self._is_over and not self._is_cancelling and self._sent is None:
            self._commit_or_start()

    def drop(self) -> None:
        """Stop at once; whatever is not committed is lost, and somebody else will do it again."""
        self._is_over = True
        self._stop_timer()
        for body, task in self._running.items():
            body.is_unwanted = True
            task.cancel()
        self._running.clear()
        self._held.clear()
        self._due.clear()
        self.close()

    def close(self) -> None:
        """Tear the code down."""
        if self._turn is not None:
            self._turn.close()
            self._turn = None

    # --- the heart ---

    def pump(self) -> None:
        """Let the code go as far as it can, and commit or start what that asks for."""
        if self._is_over or self._is_cancelling or self._turn is None or self._transacting is not None:
            return
        turn = self._turn
        self._advance(turn)
        if turn.yielded and (self._running or self._held or not turn.is_idle):
            # The slot cannot be given back while another body of the run needs it.
            turn.go_on()
            self._advance(turn)
        if turn.problem is None and not turn.is_ended:
            barrier = self._number + int(self._journal.pending.is_urgent)
            self._held += [(barrier, body) for body in turn.take_bodies()]
            if turn.transactions:
                self._due += turn.transactions
                turn.transactions.clear()
        if self._sent is None:
            self._commit_or_start()

    def _advance(self, turn: Turn) -> None:
        try:
            turn.advance(self._host.now())
        except Exception as error:  # noqa: BLE001  a defect stops this run and no other
            _LOG.exception("run %s stopped by a defect", self.run.run_id)
            turn.diverge(ReplayError(f"stepwell itself failed on this run: {type(error).__name__}: {error}"))
        for body in turn.unwanted:
            task = self._running.get(body)
            if task is not None:
                self._cancel(body, task)
        turn.unwanted.clear()

    def _commit_or_start(self) -> None:
        turn = self._turn
        if turn is None:
            return
        move = self._next_move(turn)
        if self._due and move is None and self._begin_transaction(turn):
            pass  # it takes along what there is to commit
        elif move is not None or self._journal.pending.is_urgent or turn.has_new_waits:
            self._submit(move, turn.take_waits())
        self._start_bodies()
        self._set_timer()

    def _next_move(self, turn: Turn) -> Move | None:
        if turn.problem is not None or turn.is_ended:
            self._held.clear()
            self._due.clear()
            if self._running:
                self._stop_bodies()
                return None
            return conclude(turn, self.workflow)
        if self._running:
            return None
        if self._is_leaving:
            self._held.clear()
            return Release()
        if self._held or not turn.is_idle:
            return None
        deadline = turn.next_deadline
        if turn.yielded:
            now = self._host.now()
            return Park(now if deadline is None else min(now, deadline))  # behind all who are due already
        hold = self._host.settings.hold_span
        if deadline is not None and turn.waits_for_time_only and deadline - self._host.now() <= hold:
            return None
        return Park(deadline)

    def _submit(self, move: Move | None, waits: tuple[Wait, ...] | None = None) -> None:
        self._number += 1
        self._send(self._journal.take(self._fence, self._number, waits, move))

    def _send(self, commit: Commit) -> None:
        left = self._journal.progress
        if left and isinstance(commit.move, End) and commit.move.status not in KEEPS_CURSORS:
            commit = commit._replace(progress=(), ended_progress=(*commit.ended_progress, *left))
        self._sent = commit
        self._host.committer.submit(commit, self._answered)

    def _answered(self, applied: Applied) -> None:
        commit, self._sent = self._sent, None
        if applied.claimed:
            # Also when this run is given up meanwhile: the children are ours, and nobody else will run them.
            self._host.adopt(applied.claimed)
        if self._is_over or commit is None:
            return
        match applied.verdict:
            case Verdict.FENCED:
                self.drop()
                self._host.left(self)
                # It may be ours again, by a later claim whose answer was lost while we still held this one.
                self._host.doubt()
            case Verdict.CANCELLING:
                # Nothing was written. The forward code has stopped, so the same delta goes again with the cancel's
                # own move.
                self._is_cancelling = True
                self.close()
                self._send(commit._replace(move=honour_cancel(self._journal), waits=None))
            case Verdict.APPLIED:
                self._applied(commit.move, applied)
            case _:
                assert_never(applied.verdict)

    def _applied(self, move: Move | None, applied: Applied) -> None:
        self._acknowledged = self._number
        if self._checkpoints.waiting:
            self._checkpoints.tell(self._acknowledged)
        self.run = self.run._replace(revision=applied.revision)
        match move:
            case None if self._is_cancelling:
                if not self._running:
                    self._finish_cancel()
                elif self._journal.pending.is_urgent:
                    self._submit(None)
            case None if applied.cancelling:
                self.cancel()
            case None:
                self._commit_or_start()
            case Park():
                self._is_over = True
                self._stop_timer()
                self._host.parked(self, applied.revision, is_awake=applied.is_awake)
            case BeginRollback():
                self._begin_rollback(move)
            case End() | Pause() | Release():
                self._is_over = True
                self._stop_timer()
                self.close()
                self._host.left(self)
            case _:
                assert_never(move)

    # --- bodies ---

    def _start_bodies(self) -> None:
        """Start what is held back, if everything before it is durable and the lease is live."""
        host = self._host
        if not self._held or self._is_leaving or not host.lease.is_live():
            return
        held, self._held = self._held, []
        for barrier, body in held:
            if body.is_unwanted:
                continue
            if barrier > self._acknowledged:
                self._held.append((barrier, body))
                continue
            self._running[body] = host.environment.executor.spawn(self._run(body), name="stepwell-step")

    async def _run(self, body: Body) -> None:
        """Run one body, and go on at once with what came of it: a done callback would cost a round of the loop."""
        attempted: Attempted | None = None
        link: AttemptLink | None = None
        if body.takes_context:
            link = body.link = AttemptLink(self, body, self._host)
        try:
            attempted = await run_body(body, self._host.environment.executor)
        finally:
            if link is not None:
                self._close(link, attempted)
            self._body_ended(body, attempted)

    def _body_ended(self, body: Body, attempted: Attempted | None) -> None:
        """A body has ended, or was cancelled and gave nothing."""
        was_running = self._running.pop(body, None)
        turn = self._turn
        if was_running is None or self._is_over or turn is None:
            return
        if attempted is not None:
            turn.settle(body, attempted)
        if self._transacting is not None:
            return
        if not self._is_cancelling:
            self.pump()
            return
        self._advance(turn)
        if not self._running:
            self._finish_cancel()

    def _close(self, link: AttemptLink, attempted: Attempted | None) -> None:
        """What a body said last goes with what came of it."""
        progress = link.close(attempted)
        if progress is not None and not self._is_over:
            self._journal.keep_progress(progress)

    def _stop_bodies(self) -> None:
        """Ask running bodies to stop. A thread cannot be stopped, and may have to be undone: it is waited for."""
        for body, task in self._running.items():
            if body.is_async and not body.is_stopping and body is not self._transacting:
                body.is_stopping = True
                self._cancel(body, task)

    def _cancel(self, body: Body, task: asyncio.Task[None]) -> None:
        """Cancel a body. One that has not begun yet never reaches its own end, so that is noted here."""
        task.cancel()
        task.add_done_callback(lambda _: self._body_ended(body, None))

    # --- transactional steps ---

    def _begin_transaction(self, turn: Turn) -> bool:
        """Begin the step that is due first. Its commit takes along what is before it, so it has nothing to wait for."""
        self._due = [body for body in self._due if not body.is_unwanted]
        if not self._due or self._is_leaving or not self._host.lease.is_live():
            return False
        body = self._due.pop(0)
        self._number += 1
        self._sent = commit = self._journal.take(self._fence, self._number, turn.take_waits(), None)
        self._transacting = body
        self._running[body] = self._host.environment.executor.spawn(self._transact(body, commit), name="stepwell-step")
        return True

    async def _transact(self, body: Body, commit: Commit) -> None:
        performed, recorded = await transact(self._host.transactions, body, commit, self._host.doubt)
        self._transacting = None
        if not self._is_over:
            self._transacted(body, commit, performed, recorded)

    def _transacted(self, body: Body, commit: Commit, performed: Performed, recorded: Recorded | None) -> None:
        applied = performed.applied
        if applied is None:
            # Nothing was written: what was to go along goes now.
            assert performed.error is not None
            self._send(commit)
            self._body_ended(body, Raised(performed.error))
        elif applied.verdict is Verdict.FENCED:
            self._answered(applied)
        elif applied.verdict is Verdict.CANCELLING:
            # A cancel came first, and the body was not run; the answer to this commit says so again.
            self._running.pop(body, None)
            self._send(commit)
        else:
            assert recorded is not None
            self._sent = None
            self._acknowledged = self._number
            if self._checkpoints.waiting:
                self._checkpoints.tell(self._acknowledged)
            self.run = self.run._replace(revision=applied.revision)
            self._journal.adopt(recorded.entry)
            if applied.cancelling and not self._is_cancelling:
                self._begin_cancel()
            self._body_ended(body, recorded)

    # --- what bodies keep while they run ---

    def keep(self, progress: Progress) -> None:
        """Write how far a body has come, with the next commit."""
        if self._is_over:
            return
        self._journal.keep_progress(progress)
        if self._sent is None:
            if self._is_cancelling:
                self._submit(None)
            else:
                self._commit_or_start()

    def keep_durably(self, progress: Progress) -> asyncio.Future[None]:
        """Write how far a body has come; done when that is durable, cancelled if it never will be."""
        future = self._checkpoints.add(self._number + 1)
        if self._is_over:
            future.cancel()
        self.keep(progress)
        return future

    # --- ends ---

    def _finish_cancel(self) -> None:
        """No body runs any more: record what did end, and leave the forward code."""
        if self._sent is not None:
            return  # its answer comes back here
        self.close()
        self._submit(honour_cancel(self._journal))

    def _begin_rollback(self, move: BeginRollback) -> None:
        self.close()
        self._is_cancelling = False
        self.run = self.run._replace(
            status=RunStatus.COMPENSATING,
            cause=move.cause,
            undo_floor=move.undo_floor,
            failure=move.failure if move.failure is not None else self.run.failure,
        )
        self._journal.waits = {}
        self._turn = self._new_turn(Inbox())
        self.pump()

    def _new_turn(self, inbox: Inbox) -> Turn:
        host = self._host
        if self.run.status is RunStatus.COMPENSATING:
            return begin_rollback(self.workflow, self.run, self._journal, inbox, host.codec, host.now())
        return begin_forward(self.workflow, self.run, self._journal, inbox, host.codec)

    def _fence_of(self, claimed: Claimed) -> Fence:
        return Fence(self._host.lease.incarnation, claimed.run.epoch)

    # --- time ---

    def _set_timer(self) -> None:
        """While the run is owned, its deadlines are kept here."""
        self._stop_timer()
        deadline = self._turn.next_deadline if self._turn is not None else None
        if deadline is not None:
            delay = max(0.001, (deadline - self._host.now()) / SECOND)
            self._timer = asyncio.get_running_loop().call_later(delay, self.pump)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
