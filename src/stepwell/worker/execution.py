"""One owned run: drives its code, commits what it did, runs its bodies once what is before them is durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, assert_never

from stepwell.clock import SECOND, Instant, Span
from stepwell.errors import ReplayError, StoreError
from stepwell.errors.records import FailureRecord
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release, Verdict
from stepwell.model.deadlines import waited_too_long
from stepwell.model.failures import encode_failure, record_failure, words_of
from stepwell.model.runs import Claimed, Inbox
from stepwell.model.states import KEEPS_CURSORS, RunStatus
from stepwell.model.waits import Wait
from stepwell.replay.bodies import Attempted, Body, Raised
from stepwell.replay.driver import begin_forward, begin_rollback, conclude, expire, honour_cancel
from stepwell.replay.turn import Turn
from stepwell.stores.base.faults import is_final
from stepwell.worker.bodies import run_body
from stepwell.worker.observing import Observers, outcome_of, woken_at
from stepwell.worker.owning import contained
from stepwell.worker.transacting import Transacting

_LOG = logging.getLogger("stepwell.worker")


# How long one task may run body after body before the rest of the loop gets its turn.
_INLINE_SECONDS, _INLINE_MAX = 0.002, 32
_APPLIED = Verdict.APPLIED


class Execution(Transacting):
    """The life of one claim. Everything happens in callbacks of the event loop, one at a time."""

    # --- driven by the worker ---

    @contained
    def begin(self) -> None:
        """Start or resume the code under a new claim."""
        if self._host.observers is not None:
            self._observe_claim(self._host.observers)
        if self._is_stopping:
            self._finish_stopped()
            return
        if self._is_past_deadline():
            self._stop_late(self._deadline_exceeded())
            return
        if self._turn is None:
            self._turn = self._new_turn(self._inbox)
        self.pump()

    @contained
    def reclaim(self, claimed: Claimed) -> None:
        """The parked run was claimed again here, and nothing happened to it in between: go on in place."""
        self.run = claimed.run
        self._fence = self._fence_of(claimed)
        self._number = self._acknowledged = 0
        # A deadline may have passed while the park was on its way, and the code asked for bodies: numbers begin anew.
        barrier = int(self._journal.pending.is_urgent)
        self._held = [(barrier, body) for _, body in self._held]
        self._is_over = self._is_leaving = False
        self._is_stopping = claimed.run.status is RunStatus.CANCELLING
        self._late = None
        self._inbox, self._came = claimed.inbox, None
        if self._turn is not None:
            self._turn.resume(claimed.run, claimed.inbox)
        self.begin()

    @contained
    def receive(self, inbox: Inbox, epoch: int) -> None:
        """Messages came while the run is owned, by this very claim."""
        if epoch != self.run.epoch or self._is_over:
            return
        if self._turn is None or self._is_stopping:
            self._came = inbox  # the forward code gets nothing any more; a compensation may
            return
        self._turn.mailbox.receive(inbox)
        self.pump()

    @contained
    def cancel(self) -> None:
        """A cancel was recorded: stop the code, let running bodies end, then undo."""
        if self._is_over or self._is_stopping or self.run.status is RunStatus.COMPENSATING:
            return
        self._stop()

    @contained
    def renewed(self) -> None:
        """The lease lasts longer now: bodies that were held back may start."""
        if self._is_over:
            return
        self._start_bodies()
        if self._due and self._sent is None:
            self._commit_or_start()

    @contained
    def leave(self) -> None:
        """Give the run back, without losing anything, as soon as no body of it is running."""
        self._is_leaving = True
        if not self._is_over and not self._is_stopping and self._sent is None:
            self._commit_or_start()

    def drop(self) -> None:
        """Stop at once; whatever is not committed is lost, and somebody else will do it again."""
        if self._host.observers is not None and not self._is_over:
            self._host.observers.left(self.run, "lost")
        self._is_over = True
        self._stop_timer()
        self._tell_over(None)
        self._abandon_bodies()
        self.close()

    def close(self) -> None:
        """Tear the code down."""
        turn, self._turn = self._turn, None
        if turn is not None:
            self._left = turn
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
            self._break(error)

    def _pump(self) -> None:
        if self._is_over or self._is_stopping or self._turn is None or self._transacting is not None:
            return
        turn = self._turn
        is_late = self.run.deadline_at is not None and self._is_past_deadline()
        late = self._deadline_exceeded() if is_late else None
        self._advance(turn)  # also when it is late: what has ended is recorded, so that it can be undone
        if late is not None:
            self._stop_late(late)
            return
        if turn.bodies.yielded and (self._running or self._held or not turn.bodies.are_idle):
            # The slot cannot be given back while another body of the run needs it.
            turn.bodies.resume_yielded()
            self._advance(turn)
        if turn.problem is None and not turn.is_ended:
            overdue = None if self.run.max_suspend is None else turn.waits.find_overdue(turn.now)
            if overdue is not None:
                self._stop_late(waited_too_long(overdue, self._journal.names.text(overdue.location)))
                return
            if turn.bodies.asked:
                barrier = self._number + int(self._journal.pending.is_urgent)
                for body in turn.bodies.take():
                    self._held.append((barrier, body))
            if turn.bodies.transactions:
                self._due += turn.bodies.transactions
                turn.bodies.transactions.clear()
        if self._sent is None:
            self._commit_or_start()

    def _advance(self, turn: Turn) -> None:
        try:
            turn.advance(self._host.now())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  a defect stops this run and no other
            _LOG.exception("run %s stopped by a defect", self.run.run_id)
            turn.diverge(_defect(error))
        if turn.bodies.unwanted:
            for body in turn.bodies.unwanted:
                task = self._running.get(body)
                if task is not None:
                    self._cancel(body, task)
            turn.bodies.unwanted.clear()
            self._held = [(barrier, body) for barrier, body in self._held if not body.is_unwanted]

    def _commit_or_start(self) -> None:
        turn = self._turn
        if turn is None:
            return
        is_special = self._due or self._is_leaving or self._timer is not None or self.run.deadline_at is not None
        if self._held and not is_special and turn.is_stepping:
            # Its code waits for bodies, and needs nothing else.
            if self._journal.pending.is_urgent:
                self._submit(None, turn.take_waits())
            self._start_bodies()
            return
        move = self._next_move(turn)
        if self._due and move is None and self._begin_transaction(turn):
            pass  # it takes along what there is to commit
        elif move is not None or self._journal.pending.is_urgent or turn.waits.has_new:
            self._submit(move, turn.take_waits())
        if self._held:
            self._start_bodies()
        if self._timer is not None or turn.waits.has_deadlines or self.run.deadline_at is not None:
            self._set_timer()

    def _next_move(self, turn: Turn) -> Move | None:
        if turn.problem is not None or turn.is_ended:
            for _, body in self._held:
                self._retract(body)
            self._held.clear()
            self._due.clear()
            if self._running:
                self._stop_bodies()
                return None
            return Release() if _is_interrupted(turn.problem) else self._conclude(turn)
        if self._running:
            return None
        if self._is_leaving:
            for _, body in self._held:
                self._retract(body)
            self._held = [held for held in self._held if held[1].is_announced]
            return None if self._held else Release()
        if self._held or not turn.bodies.are_idle:
            return None
        deadline = turn.waits.next_deadline
        if turn.bodies.yielded:
            now = self._host.now()
            return Park(now if deadline is None else min(now, deadline))  # behind all who are due already
        return None if self._is_due_soon(turn, deadline) else Park(deadline)

    def _conclude(self, turn: Turn) -> Move:
        try:
            return conclude(turn, self.workflow)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  what the code returned or raised cannot be recorded
            _LOG.exception("run %s stopped by a defect", self.run.run_id)
            turn.diverge(_defect(error))
            return conclude(turn, self.workflow)

    def _is_due_soon(self, turn: Turn, deadline: Instant | None) -> bool:
        """Whether it is not worth while to give the run up."""
        settings = self._host.settings
        end = None if self.run.status is RunStatus.COMPENSATING else self.run.deadline_at
        if deadline is not None and turn.waits_for_time_only and deadline - self._host.now() <= settings.hold_span:
            return True
        # It would be claimed again at once.
        due = end if deadline is None else deadline if end is None else min(deadline, end)
        return due is not None and settings.ahead_span > 0 and due - self._host.now() <= settings.ahead_span

    def _submit(self, move: Move | None, waits: tuple[Wait, ...] | None = None) -> None:
        self._number += 1
        self._send(self._addressed(self._journal.take(self._fence, self._number, waits, move)))

    def _send(self, commit: Commit) -> None:
        left = self._journal.progress
        if left and isinstance(commit.move, End) and commit.move.status not in KEEPS_CURSORS:
            commit = commit._replace(progress=(), ended_progress=(*commit.ended_progress, *left))
        self._sent = commit
        self._host.committer.submit(commit, self._answered)

    def _answered(self, applied: Applied) -> None:
        try:
            commit, self._sent = self._sent, None
            verdict, is_cancelling, _, _, claimed, is_held = applied
            if claimed:
                # Also when this run is given up meanwhile: the children are ours, and nobody else will run them.
                self._host.adopt(claimed)
            if self._is_over or commit is None:
                return
            self._is_leaving |= is_held
            if verdict is _APPLIED and commit.move is None and not (is_cancelling or self._is_stopping):
                self._acknowledge()
                self._commit_or_start()
                return
            if self._broken is not None and verdict is not Verdict.FENCED:
                self._answered_broken(commit, applied)
                return
            match verdict:
                case Verdict.FENCED:
                    self.drop()
                    self._host.left(self)
                    # It may be ours again, by a later claim whose answer was lost while we still held this one.
                    self._host.doubt()
                case Verdict.CANCELLING:
                    # Nothing was written. The forward code has stopped, so the same delta goes again with the cancel's
                    # own move.
                    self._is_stopping, self._late = True, None
                    self.close()
                    self._send(commit._replace(move=honour_cancel(self._journal), waits=None))
                case Verdict.EXPIRED:
                    # Nothing was written: the code ended too late. What it did goes again, with the failure.
                    self._is_stopping, self._late = True, self._deadline_exceeded()
                    self.close()
                    self._send(commit._replace(move=expire(self._journal, self._late), waits=None))
                case Verdict.APPLIED:
                    self._applied(commit.move, applied)
                case _:
                    assert_never(verdict)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  as `contained`, without what that costs
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """Something failed that the run's code cannot handle. The run is paused with the reason; the others go on."""
        if self._is_over:
            _LOG.error("run %s met a defect after it was given up: %s", self.run.run_id, type(error).__name__)
            return
        is_first = self._broken is None
        _LOG.error("run %s stopped by a defect: %s: %s", self.run.run_id, type(error).__name__, words_of(error))
        try:
            self._broken = Pause(encode_failure(record_failure(_defect(error))))
            self._is_stopping = True
            self._stop_timer()
            self._abandon_bodies()
            if self._transacting is not None:
                self._transacting = self._sent = None
            self.close()
            if not is_first:
                raise RuntimeError("it cannot be paused, either")
            if self._sent is None:
                self._send_broken()
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  given back like a claim that nobody heard of
            _LOG.exception("run %s could not be paused", self.run.run_id)
            self._is_over = True
            self._host.left(self)
            self._host.doubt()

    def _send_broken(self) -> None:
        self._number += 1
        self._sent = Commit(self.run.run_id, self._fence, self._number, move=self._broken)
        self._host.committer.submit(self._sent, self._answered)

    def _answered_broken(self, commit: Commit, applied: Applied) -> None:
        """The answer to the last commit before the defect, or to the pause."""
        if applied.verdict is _APPLIED and commit.move is None:
            self._send_broken()
        elif applied.verdict is _APPLIED:
            self._give_up(commit.move or Release())
            self._host.left(self, is_parked=isinstance(commit.move, Pause))
        else:
            # It was cancelled, or its time is over, which counts more.
            failure = None if applied.verdict is Verdict.CANCELLING else self._deadline_exceeded()
            move = honour_cancel(self._journal) if failure is None else expire(self._journal, failure)
            self._broken, self._late = None, failure
            self._send(commit._replace(move=move, waits=None))

    def _abandon_bodies(self) -> None:
        """Stop every body at once; nobody waits for what it gives."""
        for body, task in self._running.items():
            body.is_unwanted = True
            self._host.environment.executor.keep(task)
            task.cancel()
        self._running.clear()
        self._held.clear()
        self._due.clear()

    def _applied(self, move: Move | None, applied: Applied) -> None:
        self._acknowledge()
        match move:
            case None if self._is_stopping:
                if not self._running:
                    self._finish_stopped()
                elif self._journal.pending.is_urgent:
                    self._submit(None)
            case None if applied.cancelling:
                self.cancel()
            case None:
                self._commit_or_start()
            case Park():
                self._give_up(move)
                if self._turn is not None and self._turn.threads.functions:
                    self._turn.threads.release()
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
        self._is_over = True
        self._stop_timer()
        if self._is_leaving or not isinstance(move, Park):
            self._tell_over(move)
        if self._host.observers is not None:
            self._host.observers.left(self.run, outcome_of(move))

    # --- bodies ---

    def _start_bodies(self) -> None:
        """Start what is held back, if everything before it is durable and the lease is live."""
        host = self._host
        if not self._held:
            return
        if len(self._held) == 1 and self._held[0][0] > self._acknowledged:
            return  # the most frequent case: its own commit is on its way
        if not host.lease.is_live():
            return
        held, self._held = self._held, []
        for barrier, body in held:
            if body.is_unwanted or (self._is_leaving and not body.is_announced):
                self._retract(body)
                continue
            if barrier > self._acknowledged:
                self._held.append((barrier, body))
                continue
            if self._free_runner is not None:
                self._next, self._running[body] = body, self._free_runner
                self._free_runner = None
            else:
                work = self._run(body)
                self._running[body] = host.committer.teller.take(work) or host.spawn_body(work)
        if self._journal.pending.receipts:
            self._record_soon()

    async def _run(self, body: Body) -> None:
        """Run one body, and go on at once with what came of it: a done callback would cost a round of the loop.

        Of a run that executes here alone nobody could share the commit, so it is written at once, and the body that
        comes next runs in this task too, unless this one has left traces in it.
        """
        task = self._running[body]
        host, clean, monotonic = self._host, copy_context(), self._host.environment.clock.monotonic
        began, count = monotonic(), 0
        following: Body | None = body
        while following is not None:
            body, attempted = following, None
            if not self._may_begin(body):
                return
            if host.environment.on_body is not None:
                host.environment.on_body(body, self)
            committer = host.committer
            link = self._open_link(body) if body.takes_context else None
            try:
                attempted = await self._attempt(body)
                if link is not None:
                    self._close(link, attempted)
                if attempted is None:
                    self._hold_back(body)
                    return
                if attempted.__class__ is Raised and task.cancelling() and host.is_torn_down:
                    # The event loop ends, and took the body along: that is no outcome of it.
                    self.drop()
                    host.left(self)
                    return
                is_alone = host.active == 1 and len(self._running) == 1
                committer.is_attended = is_alone and not task.cancelling() and copy_context() == clean
                self._body_ended(body, attempted)
            except BaseException:
                committer.is_attended = False
                if link is not None:
                    self._close(link, attempted)
                self._body_ended(body, None)
                raise
            if not committer.is_attended:
                return
            self._free_runner = task
            try:
                await committer.write_now()
            finally:
                self._free_runner = None
            following, self._next = self._next, None
            count += 1
            if following is not None and (count >= _INLINE_MAX or monotonic() - began > _INLINE_SECONDS):
                await asyncio.sleep(0)
                began, count = monotonic(), 0

    def _attempt(self, body: Body) -> Coroutine[Any, Any, Attempted | None]:
        """Run one body; whoever observes hears of it."""
        host = self._host
        attempt = run_body(body, host.environment.executor, host.lease.is_live)
        return attempt if host.observers is None else host.observers.watch(body, attempt)

    def _body_ended(self, body: Body, attempted: Attempted | None) -> None:
        """A body has ended, or was cancelled and gave nothing."""
        try:
            was_running = self._running.pop(body, None)
            turn = self._turn
            if was_running is None or self._is_over or turn is None:
                return
            if attempted is not None:
                turn.bodies.settle(body, attempted)
            elif body.is_stopping:
                self._retract(body)
            if self._transacting is not None:
                return
            if not self._is_stopping:
                self._pump()
                return
            self._advance(turn)
            if not self._running:
                self._finish_stopped()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  as `contained`, without what that costs
            self._break(error)

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

    # --- ends ---

    def _stop(self) -> None:
        """The forward code goes no further; bodies that cannot be stopped are waited for."""
        self._begin_stop()
        if not self._running:
            self._finish_stopped()

    def _begin_stop(self) -> None:
        self._is_stopping = True
        self._held.clear()
        self._due.clear()
        self._stop_bodies()

    def _stop_late(self, failure: FailureRecord) -> None:
        self._late = failure
        self._stop()

    def _finish_stopped(self) -> None:
        """No body runs any more: record what did end, and leave the forward code."""
        if self._sent is not None:
            return  # its answer comes back here
        self.close()
        move = honour_cancel(self._journal) if self._late is None else expire(self._journal, self._late)
        self._submit(move)

    def _begin_rollback(self, move: BeginRollback) -> None:
        self.close()
        self._is_stopping, self._late = False, None
        self.run = self.run._replace(
            status=RunStatus.COMPENSATING,
            cause=move.cause,
            undo_floor=move.undo_floor,
            failure=move.failure if move.failure is not None else self.run.failure,
        )
        self._journal.waits = {}
        self._turn = self._new_turn(self._mail())
        self._left = self._came = None
        self.pump()

    def _mail(self) -> Inbox:
        """The mailbox as the forward code left it, with what has come since."""
        if self._left is None:
            return self._inbox if self._came is None else self._came
        if self._came is not None:
            self._left.mailbox.receive(self._came)
        return self._left.mailbox.inbox

    def _new_turn(self, inbox: Inbox) -> Turn:
        host = self._host
        threads = host.environment.executor.lockstep_threads
        if self.run.status is RunStatus.COMPENSATING:
            return begin_rollback(self.workflow, self.run, self._journal, inbox, host.codec, host.now(), threads)
        return begin_forward(self.workflow, self.run, self._journal, inbox, host.codec, threads)

    # --- time ---

    def _set_timer(self) -> None:
        """While the run is owned, its deadlines are kept here."""
        self._stop_timer()
        deadline = self._turn.waits.next_deadline if self._turn is not None else None
        end = self.run.deadline_at
        if end is not None and self.run.status is not RunStatus.COMPENSATING:
            deadline = end if deadline is None else min(deadline, end)
        if deadline is not None:
            delay = max(0.001, (deadline - self._host.now()) / SECOND)
            call = self.pump if self._host.observers is None else partial(self._on_time, deadline)
            self._timer = asyncio.get_running_loop().call_later(delay, call)

    # --- who looks on ---

    @contained
    def _on_time(self, due: Instant) -> None:
        """The run was here when its time came."""
        if self._host.observers is not None and not self._is_over:
            self._host.observers.resumed(self.run, Span(max(0, self._host.now() - due)))
        self.pump()

    def _observe_claim(self, observers: Observers) -> None:
        observers.began(self.run, is_fresh=self.run.epoch == 1)
        now = self._host.now()
        woken = None if self.run.epoch == 1 else woken_at([*self._journal.waits.values()], self._inbox, now)
        if woken is not None:
            observers.resumed(self.run, Span(max(0, now - woken)))


def _defect(error: BaseException) -> ReplayError:
    return ReplayError(f"stepwell itself failed on this run: {type(error).__name__}: {words_of(error)}")


def _is_interrupted(problem: ReplayError | None) -> bool:
    """Whether the code was stopped because the store is away, and with it a payload that is kept apart in it.

    The run is given back, which waits until the store is there again. A payload in a file that cannot be read needs a
    person.
    """
    cause = None if problem is None else problem.__cause__
    return isinstance(cause, StoreError) and not is_final(cause) and not isinstance(cause.__cause__, OSError)
