"""A turn: one workflow function run against its journal until it ends or can only wait.

A turn is a plain object driven from outside. `advance(now)` runs the code as far as possible, `bodies` has the step
bodies that the code requests, `waits` what it waits for, and `mailbox` what arrived for it. The turn starts nothing and
writes nothing itself, so a worker, a test or a simulation can drive it.

Results reach the code one at a time; the code runs until it waits before it gets the next one. So entries are numbered
in the order in which the code saw them, and a replay hands them out in that order again. Code with concurrent branches
takes the same interleaving as the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from stepwell.clock import Instant
from stepwell.codec.base import Codec, Place, Row
from stepwell.codec.carried import decode_headers
from stepwell.environment import LockstepThreads
from stepwell.errors import ReplayError
from stepwell.model.failures import sound
from stepwell.model.headers import Headers
from stepwell.model.locations import Location, is_below
from stepwell.model.runs import Inbox, Run
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Since, Wait
from stepwell.replay.background import Background
from stepwell.replay.bodies import Bodies
from stepwell.replay.code_threads import CodeThreads
from stepwell.replay.event_loop import TurnLoop
from stepwell.replay.journal import Journal
from stepwell.replay.mailbox import Mailbox
from stepwell.replay.operations import Operation
from stepwell.replay.order import ReplayOrder
from stepwell.replay.suspend import Suspend
from stepwell.replay.turn_checks import find_loss, find_unpassed
from stepwell.replay.waits import Armed, Arrival, Waits

if TYPE_CHECKING:
    from stepwell.replay.primitives.reply import Asked
    from stepwell.replay.registry import Registry

_UNDOING = RunStatus.COMPENSATING


class Turn:
    """The running code of one workflow, driven from outside."""

    # Slots, because this class has more attributes than instances can share a key table for: with a dictionary of its
    # own for each of a thousand runs, they would evict each other from the processor's caches.
    __slots__ = (
        "_headers",
        "_root",
        "background",
        "bodies",
        "closed_streams",
        "code",
        "codec",
        "context",
        "has_unique_names",
        "is_closed",
        "is_diverged_early",
        "journal",
        "loop",
        "mailbox",
        "now",
        "operations",
        "order",
        "owed",
        "problem",
        "registry",
        "run",
        "threads",
        "unawaited",
        "waits",
    )

    def __init__(
        self,
        run: Run,
        journal: Journal,
        inbox: Inbox,
        codec: Codec,
        context: Callable[[Any], Any],
        threads: LockstepThreads | None = None,
    ) -> None:
        self.run = run
        self.journal = journal
        self.codec = codec
        self.context = context  # makes the `Context` of a scope
        self.code: Callable[..., Any] | None = None  # the workflow's function, if this turn runs it
        self.has_unique_names = False  # the workflow rejects a name that is used twice in a scope
        self.registry: Registry | None = None  # the workflows that this worker knows
        self.now = Instant(0)
        self.loop = loop = TurnLoop()  # type: ignore[abstract]
        self.bodies = Bodies(loop)
        # A rollback has no time limit.
        self.waits = Waits(loop, journal.waits.values(), None if run.status is _UNDOING else run.max_suspend)
        self.mailbox = Mailbox(inbox)
        self.order = ReplayOrder(loop, journal, run.loose)
        self.threads = CodeThreads(threads)
        self.operations = 0  # made by the code so far
        self.unawaited: dict[int, Operation[Any]] = {}  # by number
        self.owed: list[Asked] = []  # questions that were received and not answered yet
        self.closed_streams: set[str] = set()
        self.background = Background(self) if journal.blocks else None
        self.problem: ReplayError | None = None
        self.is_diverged_early = False  # the problem occurred before the code had passed every recorded result
        self.is_closed = False  # the code is torn down, which is not its outcome
        self._headers: Headers | None = None
        self._root: asyncio.Task[Any] | None = None

    # --- driving ---

    def begin(self, main: Coroutine[Any, Any, Any]) -> None:
        """Set the root coroutine. It sees no context variables of this process: a replay elsewhere has others."""
        self._root = self.loop.create_task(main, context=Context())

    def resume(self, run: Run, inbox: Inbox) -> None:
        """Continue in place under a new claim of the run."""
        self.run = run
        self.mailbox.receive(inbox)
        self.bodies.resume_yielded()

    def advance(self, now: Instant) -> None:
        """Run the code until it has ended or everything in it waits."""
        self.now = now
        root = self._root
        assert root is not None
        loop, bodies, order, mailbox, waits = self.loop, self.bodies, self.order, self.mailbox, self.waits
        while True:
            if loop.ready:
                loop.run_until_idle()
            is_over = root.done() or self.problem is not None
            # Results of bodies that outlived the code are still recorded, so that they can be undone.
            if bodies.settled and ((not is_over and order.queue and order.hand_over()) or bodies.hand_over()):
                continue
            if is_over:
                break
            if order.queue and order.hand_over():
                continue
            if order.is_passing and not self._has_passed():
                break
            if self.background is not None and not order.is_rehearsal and self.background.start_left():
                continue
            if (mailbox.signals or mailbox.events or mailbox.outcomes) and mailbox.hand_over(waits):
                continue
            if waits.deadlines and not order.is_rehearsal and waits.pass_deadline(now):
                continue
            if mailbox.observations is None or order.is_rehearsal or not self._release_claims():
                break
        if not bodies.asked or root.done() or self.problem is not None or loop.problem is not None:
            self._check()

    def rehearse(self, now: Instant) -> None:
        """Advance through recorded results and arrived messages only: no deadline passes, nothing new is computed."""
        self.order.is_rehearsal = True
        self.advance(now)

    def take_waits(self) -> tuple[Wait, ...] | None:
        """All waits, if they differ from the stored ones; None otherwise. They count as stored from now on."""
        waits = self.waits
        if self.is_diverged_early or (not waits.armed and not waits.stored):
            return None  # diverged code does not know what the run waits for
        return waits.take_changed()

    def close(self) -> None:
        """Tear the code down at its waits, so that its `finally` blocks run. It no longer records anything."""
        if self.is_closed:
            return
        self.is_closed = self.order.is_closed = True
        self.loop.move()  # a test tears code down when its own loop has stopped
        self.unawaited.clear()
        bodies, order = self.bodies, self.order
        is_waiting = self.waits.armed or bodies.asked or bodies.in_flight or bodies.yielded or order.queue or order.held
        interrupts = [_interrupt(future) for future in self._awaited() if not future.done()] if is_waiting else ()
        if self.loop.ready:
            self.loop.run_until_idle()
        root = self._root
        if root is not None and not root.done():
            root.cancel()
            self.loop.run_until_idle()
        if self.threads.own is not None:
            self.threads.own.close()
        if root is not None and root.done() and not root.cancelled():
            root.exception()  # retrieved, so that asyncio does not report it
        # The frames of a traceback refer to this turn; without this, only the garbage collector could free it.
        self._root = None
        for interrupt in interrupts:
            interrupt.__traceback__ = None

    def give_up(self, scope: Location) -> None:
        """The code of a scope has lost: drop its bodies and waits, and stop the tasks that it made."""
        asked = (*self.bodies.open, *(body for body, _ in self.bodies.settled))
        bodies = [body for body in asked if is_below(body.location, scope)]
        waits = [armed for at, armed in self.waits.armed.items() if is_below(at, scope)]
        for body in bodies:
            body.settled.cancel()
        for armed in waits:
            armed.future.cancel()

    def _awaited(self) -> Iterator[asyncio.Future[Any]]:
        for armed in self.waits.armed.values():
            yield armed.future
        for body in self.bodies.open:
            yield body.settled
        yield from self.order.futures
        yield from self.bodies.yielded

    # --- state ---

    @property
    def is_ended(self) -> bool:
        """Whether the code has returned or raised."""
        return self._root is not None and self._root.done()

    @property
    def is_stepping(self) -> bool:
        """Whether the code has not ended, and waits only for bodies."""
        return self.problem is None and not self.waits.armed and self._root is not None and not self._root.done()

    @property
    def is_replaying(self) -> bool:
        """Whether the code is still repeating what an earlier turn did."""
        journal = self.journal
        return journal.unvisited > 0 or bool(journal.ahead or journal.repeated) or self.order.is_rehearsal

    @property
    def is_undoing(self) -> bool:
        """Whether this turn rolls the run back."""
        return self.run.status is _UNDOING

    @property
    def waits_for_time_only(self) -> bool:
        """Whether only time can wake the run, so that a worker may keep it in memory during a short wait.

        Not if the code has looked into its mailbox: it must see new signals even if their hint was lost.
        """
        return self.mailbox.observations is None and self.waits.are_timed

    @property
    def has_rivals(self) -> bool:
        """Whether the code could have received something else instead of the result that it has just received: because
        of another wait or body, a look into the mailbox, or an earlier claim that died here.
        """
        return bool(
            self.waits.armed
            or not self.bodies.are_idle
            or self.bodies.yielded
            or self.mailbox.observations is not None
            or self.is_replaying
            or self.run.stalls
            or self.is_undoing
        )

    @property
    def error(self) -> BaseException | None:
        """What the code raised, once it has ended."""
        assert self._root is not None
        if self._root.cancelled():
            return asyncio.CancelledError()
        error = self._root.exception()
        return None if error is None else sound(error)

    @property
    def value(self) -> Any:
        """What the code returned."""
        assert self._root is not None
        return self._root.result()

    # --- for primitives ---

    @property
    def headers(self) -> Headers:
        """The headers of the run."""
        if self._headers is None:
            run = self.run
            self._headers = decode_headers(self.codec, run.headers, workflow=run.workflow, run_id=run.run_id)
        return self._headers

    def place(self, location: Location, what: str, *, field: str = "value") -> Place:
        """The place of a value of this run: in words, and as the row and field that store it."""
        path = self.journal.names.text(location)
        return Place(self.run.workflow, path, what, row=Row(self.run.run_id, path, field))

    def check_open(self) -> None:
        """Reject operations of code that is being torn down or has diverged."""
        if self.is_closed:
            raise Suspend
        if self.problem is not None:
            raise self.problem

    def diverge(self, problem: ReplayError) -> ReplayError:
        """Stop the turn with this problem, whatever the code does with the exception."""
        if self.problem is None:
            self.problem = problem
            self.is_diverged_early = self.order.is_passing
        return self.problem

    @property
    def background_work(self) -> Background:
        """What goes on beside the code, made if needed."""
        if self.background is None:
            self.background = Background(self)
        return self.background

    async def wait(
        self,
        location: Location,
        kind: WaitKind,
        due_at: Instant | None,
        names: tuple[str, ...] = (),
        where: tuple[str, ...] = (),
        since: Since = "wait",
    ) -> Arrival:
        """Wait for a message, a child or the deadline, whichever is first. A pending message wins over the deadline."""
        if self.mailbox.observations is not None:
            self.mailbox.observations.release(location)
        return await self.waits.arrive(self._wait_of(location, kind, due_at, names, where, since))

    def arm(self, location: Location, kind: WaitKind, due_at: Instant) -> Armed:
        """Begin to wait for a deadline that is a function of recorded results. `max_suspend` does not limit it: the
        code may do other things meanwhile.
        """
        wait = self._wait_of(location, kind, due_at)._replace(limit_at=None)
        return self.waits.arm(wait, is_derived=True)

    def _wait_of(
        self,
        location: Location,
        kind: WaitKind,
        due_at: Instant | None,
        names: tuple[str, ...] = (),
        where: tuple[str, ...] = (),
        since: Since = "wait",
    ) -> Wait:
        waits = self.waits
        stored = self.journal.reach_wait(location)
        stored = waits.take_repeated(location) or stored
        if stored is not None and stored.kind is kind and stored.due_at == due_at:
            return stored._replace(names=names, where=where, since=since)
        token, limit = waits.new_token(self.run.epoch), waits.limit(self.now, due_at)
        return Wait(location, kind, token, due_at, names, where, since, limit)

    # --- inside ---

    def _release_claims(self) -> bool:
        """Release the claims of all scopes on signals, because everything waits; whether there was one."""
        observations = self.mailbox.observations
        return self.bodies.are_idle and observations is not None and observations.release_all()

    def _has_passed(self) -> bool:
        """Whether the code has passed everything that is recorded, once it has received every recorded result.

        If it took another path, it stops here, before it does anything new.
        """
        problem = find_unpassed(self)
        if problem is not None:
            self.diverge(problem)
        self.order.is_passing = self.problem is not None
        if not self.order.is_passing:
            self.journal.pass_replies()
        return not self.order.is_passing

    def _check(self) -> None:
        """Find work that would be lost silently, once the code cannot continue."""
        if self.problem is not None or self.is_closed:
            return
        problem = find_loss(self)
        if problem is not None:
            self.diverge(problem)
        # An undo that could not begin has failed, whatever path changed code would have taken.
        if self.order.is_passing and self.is_ended and (self.error is None or not self.is_undoing):
            self._has_passed()


def _interrupt(future: asyncio.Future[Any]) -> Suspend:
    interrupt = Suspend()
    future.set_exception(interrupt)
    return interrupt
