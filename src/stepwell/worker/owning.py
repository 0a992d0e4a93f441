"""What an execution is made of, and what it needs of its worker."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from stepwell.clock import Instant
from stepwell.codec.base import Codec
from stepwell.config import WorkerSettings
from stepwell.environment import Environment
from stepwell.errors.records import FailureRecord
from stepwell.model.commits import Applied, Commit, End, Move, Pause
from stepwell.model.deadlines import deadline_exceeded
from stepwell.model.entries import Attempt
from stepwell.model.runs import Claimed, History, Inbox, Run
from stepwell.model.states import RunStatus
from stepwell.model.waits import Wait
from stepwell.model.workers import Fence
from stepwell.replay.bodies import Attempted, Body
from stepwell.replay.journal import Journal, Pending
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow
from stepwell.sinks.routes import Routes
from stepwell.stores.base.transactions import TransactionStore
from stepwell.worker.committer import Committer
from stepwell.worker.lease import Lease
from stepwell.worker.links import Checkpoints
from stepwell.worker.observing import Observers
from stepwell.worker.outlet import BodyOutlet
from stepwell.worker.receipts import Receipts

if TYPE_CHECKING:
    from stepwell.worker.execution import Execution


P = ParamSpec("P")
Self_ = TypeVar("Self_", bound="Owning")


def contained(
    method: Callable[Concatenate[Self_, P], None],
) -> Callable[Concatenate[Self_, P], None]:
    """For every way into an execution: what one run raises stays with that run, and ends no loop of the worker."""

    @functools.wraps(method)
    def call(self: Self_, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  see above
            self._break(error)

    return call


class Host(Protocol):
    """What an execution needs of its worker."""

    environment: Environment
    settings: WorkerSettings
    committer: Committer
    transactions: TransactionStore
    lease: Lease
    receipts: Receipts
    codec: Codec
    routes: Routes
    observers: Observers | None
    on_over: Callable[[Run], None] | None  # told of a run that is not executed here any more, ended if it has completed

    @property
    def active(self) -> int: ...
    @property
    def is_torn_down(self) -> bool: ...
    def now(self) -> Instant: ...
    def spawn_body(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...
    def parked(self, execution: Execution, revision: int, *, is_awake: bool) -> None: ...
    def left(self, execution: Execution, *, is_parked: bool = False) -> None: ...
    def doubt(self) -> None: ...
    def adopt(self, claimed: tuple[Claimed, ...]) -> None: ...


class Owning:
    """The state of one claim, and what follows from that alone."""

    # --- what the whole execution lends to its parts ---

    if TYPE_CHECKING:

        def _commit_or_start(self) -> None: ...
        def _submit(self, move: Move | None, waits: tuple[Wait, ...] | None = None) -> None: ...
        def _send(self, commit: Commit) -> None: ...
        def _answered(self, applied: Applied) -> None: ...
        def _begin_stop(self) -> None: ...
        def _body_ended(self, body: Body, attempted: Attempted | None) -> None: ...
        def _break(self, error: BaseException) -> None: ...

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
        self._awaited: Pending | None = None  # what is sent before long, even if no other commit takes it along
        self._held: list[tuple[int, Body]] = []  # asked for, each with the commit that must be durable before it starts
        self._due: list[Body] = []  # asked for, to be run inside the commit of their result
        self._transacting: Body | None = None  # the one that is: the code stands still meanwhile
        self._running: dict[Body, asyncio.Task[None]] = {}
        self._free_runner: asyncio.Task[None] | None = None  # a task that takes the next body
        self._next: Body | None = None  # the body it took
        self._checkpoints = Checkpoints()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = claimed.run.status is RunStatus.CANCELLING  # the forward code goes no further
        self._late: FailureRecord | None = None  # why it stops, if its time is over
        self._broken: Pause | None = None  # what is committed next and last: the run met a defect
        self._is_over = False
        self._is_leaving = False
        self._inbox = claimed.inbox
        self._came: Inbox | None = None  # came while no code could get it
        self._left: Turn | None = None  # the forward code, torn down: it knows what is left in the mailbox
        self._outlet: BodyOutlet | None = None

    @property
    def is_leaving(self) -> bool:
        """Whether its code is not to be kept."""
        return self._is_leaving

    @property
    def is_cancelling(self) -> bool:
        """Whether its forward code is being stopped for a cancel."""
        return self._is_stopping

    @property
    def is_over(self) -> bool:
        """Whether this claim is given up."""
        return self._is_over

    def _addressed(self, commit: Commit) -> Commit:
        routes = self._host.routes
        return routes.address(commit) if commit.emits or routes.announce is not None else commit

    def _acknowledge(self) -> None:
        """The last commit is durable: tell bodies that wait for that."""
        self._acknowledged = self._number
        if self._outlet is not None:
            self._outlet.acknowledge(self._number)
        if self._checkpoints.waiting:
            self._checkpoints.tell(self._number)

    def _may_begin(self, body: Body) -> bool:
        """Whether the lease is live still, now that the body's turn has come. If not, it is held back."""
        is_live = self._host.lease.is_live()
        if not is_live:
            self._hold_back(body)
        return is_live

    def _retract(self, body: Body) -> None:
        """A body whose beginning is recorded does not begin, or was stopped in order: that never is an attempt."""
        if body.is_noted and not body.is_unwanted:
            now = self._host.now()
            self._journal.record_attempt(Attempt(body.location, body.attempt, now, None, now))

    def _hold_back(self, body: Body) -> None:
        """The process stood still before this body began, for longer than its lease: it begins when that is live."""
        if not (self._is_over or self._is_stopping):
            self._held.append((0, body))
        self._body_ended(body, None)

    def _record_soon(self) -> None:
        """A receipt goes with the next commit, if that comes before long."""
        pending = self._journal.pending
        if pending.receipts and pending is not self._awaited and self._running:
            self._awaited = pending
            self._host.receipts.wait(partial(self._record_now, pending))

    @contained
    def _record_now(self, pending: Pending) -> None:
        if self._journal.pending is pending and not self._is_over:
            pending.is_urgent = True
            if self._sent is None and self._transacting is None and not self._is_stopping:
                self._commit_or_start()

    def _tell_over(self, move: Move | None) -> None:
        """Whoever waits for the result in this process need not ask the store for what was just written."""
        if self._host.on_over is not None:
            run = self.run
            if isinstance(move, End) and move.status is RunStatus.COMPLETED:
                run = run._replace(status=move.status, output=move.output)
            self._host.on_over(run)

    def _fence_of(self, claimed: Claimed) -> Fence:
        return Fence(self._host.lease.incarnation, claimed.run.epoch)

    def _is_past_deadline(self) -> bool:
        """Whether the run should have ended by now. A rollback takes the time that it takes."""
        deadline = self.run.deadline_at
        return deadline is not None and self.run.status is not RunStatus.COMPENSATING and deadline <= self._host.now()

    def _deadline_exceeded(self) -> FailureRecord:
        waits = [*self._journal.waits.values()] if self._turn is None else self._turn.waits.all
        path = self._journal.names.text(waits[0].location) if waits else ""
        assert self.run.deadline_at is not None
        return deadline_exceeded(self.run.deadline_at, path)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
