"""A turn: one workflow function run against its journal until it ends or can only wait.

A turn is a plain object driven from outside: `advance(now)` runs the code as far as it goes, `bodies` are the step
bodies
it asks for, `settle` and `receive` bring results and messages in. It starts nothing and writes nothing itself, so the
same turn can
be driven by a worker, by a test, or by a simulation.

Results reach the code one at a time, and the code runs until it waits before the next one does. Entries are therefore
numbered in the order in which the code saw them, and a replay hands them out in that order again: code with
concurrent branches takes the same interleaving as it did the first time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

from stepwell.clock import Instant
from stepwell.codec.base import Codec, Place, Row
from stepwell.environment import Holder, Strands
from stepwell.errors import ReplayError, StuckError
from stepwell.model.entries import Entry
from stepwell.model.failures import record_failure, sound
from stepwell.model.locations import Location
from stepwell.model.runs import Inbox, Run
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Since, Wait
from stepwell.replay import divergence
from stepwell.replay.arrivals import Armed, Arrival, Arrivals
from stepwell.replay.bodies import Attempted, Body, Recorded
from stepwell.replay.journal import Journal
from stepwell.replay.loop import TurnLoop
from stepwell.replay.operations import Operation
from stepwell.replay.suspend import Suspend

if TYPE_CHECKING:
    from stepwell.replay.primitives.reply import Asked


class Turn(Arrivals):
    """The running code of one workflow, between the world's events."""

    # More attributes than the instances of a class can share the keys of: in dictionaries of their own, a thousand runs
    # would leave little of the processor's caches to each other.
    __slots__ = (
        "_held",
        "_in_flight",
        "_is_closed",
        "_is_passing",
        "_is_rehearsal",
        "_last_wait",
        "_owns_strands",
        "_replays",
        "_root",
        "_settled",
        "_stored_waits",
        "_strands",
        "_tokens",
        "bodies",
        "closed_streams",
        "code",
        "codec",
        "context",
        "epoch",
        "is_astray",
        "loop",
        "operations",
        "owed",
        "plain",
        "problem",
        "transactions",
        "unawaited",
        "unwanted",
        "yielded",
    )

    def __init__(
        self,
        run: Run,
        journal: Journal,
        inbox: Inbox,
        codec: Codec,
        context: Callable[[Any], Any],
        strands: Strands | None = None,
    ) -> None:
        super().__init__(run, journal)
        self._strands = strands  # for plain functions
        self._owns_strands = strands is None
        self.plain: dict[Holder, None] = {}  # plain functions that have begun and not ended
        self.context = context  # makes the author's surface for a scope
        self.codec = codec
        self.code: Callable[..., Any] | None = None  # the function of the workflow, if this is its turn
        self.loop = TurnLoop()  # type: ignore[abstract]
        self.epoch = run.epoch
        self.bodies: list[Body] = []  # asked for, and not taken yet
        self.transactions: list[Body] = []  # bodies asked for that run inside the commit of their result
        self.unwanted: list[Body] = []  # taken, and nobody waits for them any more
        self.operations = 0  # how many the code has made
        self.unawaited: dict[int, Operation[Any]] = {}  # by number
        self.problem: ReplayError | None = None
        self.is_astray = False  # the problem came before the code had passed all that is recorded
        self._is_passing = journal.unvisited > 0 or bool(journal.awaited)
        self._is_rehearsal = False
        self._held: list[asyncio.Future[None]] = []  # in a rehearsal: what would be made now
        self.closed_streams: set[str] = set()
        self._root: asyncio.Task[Any] | None = None
        self._in_flight: set[Body] = set()
        self._settled: list[tuple[Body, Attempted]] = []
        self._replays: list[tuple[int, int, asyncio.Future[None]]] = []
        self._stored_waits = frozenset(journal.waits.values())
        self.owed: list[Asked] = []  # received, and not answered yet
        self.yielded: dict[asyncio.Future[None], Location] = {}  # steps that gave their slot back
        self._tokens = 0
        self._last_wait: Wait | None = None  # the one that something has come for last
        self._is_closed = False
        self.receive(inbox)

    # --- driving ---

    def begin(self, main: Coroutine[Any, Any, Any]) -> None:
        """Give the turn its root coroutine. It sees no context variable of the process that happens to run it: another
        process, which replays it, has others.
        """
        self._root = self.loop.create_task(main, context=Context())

    def advance(self, now: Instant) -> None:
        """Run the code until it has ended or everything in it waits for the world."""
        self.now = now
        root = self._root
        assert root is not None
        loop = self.loop
        while True:
            if loop.ready:
                loop.run_until_idle()
            if self._settled:
                # Results of bodies that outlived the code are still recorded, so that they can be undone.
                is_over = root.done() or self.problem is not None
                if (not is_over and self._replays and self._replay_next()) or self._settle_next():
                    continue
            if root.done() or self.problem is not None:
                break
            if self._replays and self._replay_next():
                continue
            if self._is_passing and not self._has_passed():
                break
            has_come = self._outcomes or self._signals or self._events or self._deadlines
            if has_come and (self._come_next() if self._is_rehearsal else self._arrive_next()):
                continue
            if self.observations is None or self._is_rehearsal or not self._release_next():
                break
        if not self.bodies or root.done() or self.problem is not None or loop.problem is not None:
            self._check()

    def rehearse(self, now: Instant) -> None:
        """Advance no further than what is recorded, and what has come for it since: no deadline passes, and no value is
        made that the code would need only beyond that.
        """
        self._is_rehearsal = True
        self.advance(now)

    def settle(self, body: Body, attempted: Attempted) -> None:
        """A body has ended; the code hears of it at the next `advance`."""
        self._in_flight.discard(body)
        if isinstance(attempted, Recorded):
            # It is recorded before all that is not: the code must see it before them.
            self._settled.insert(0, (body, attempted))
        elif not body.is_unwanted:
            self._settled.append((body, attempted))

    def take_bodies(self) -> list[Body]:
        """The bodies asked for since the last call; the caller runs them and settles each."""
        bodies, self.bodies = self.bodies, []
        self._in_flight.update(bodies)
        return bodies

    @property
    def is_ended(self) -> bool:
        """Whether the code has returned or raised."""
        return self._root is not None and self._root.done()

    @property
    def is_stepping(self) -> bool:
        """Whether the code goes on, and waits for nothing but bodies."""
        return self.problem is None and not self._armed and self._root is not None and not self._root.done()

    @property
    def is_closed(self) -> bool:
        """Whether the code is torn down, which is no outcome of it."""
        return self._is_closed

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

    @property
    def has_rivals(self) -> bool:
        """Whether something else could have reached the code instead of what just did, or may be asked why it did not:
        another wait or body, a look into the mailbox, a claim that died here before.
        """
        return bool(
            self._armed
            or not self.is_idle
            or self.yielded
            or self.observations is not None
            or self.is_replaying
            or self.run.stalls
            or self.is_undoing
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing but waiting is left: no body is asked for or in flight."""
        return not (self.bodies or self._in_flight or self._settled)

    def go_on(self) -> None:
        """Others have had their turn, or none can be given: steps that gave their slot back go on."""
        yielded, self.yielded = self.yielded, {}
        for future in yielded:
            if not future.done():
                future.set_result(None)

    @property
    def is_replaying(self) -> bool:
        """Whether the code is still passing what it did before."""
        journal = self.journal
        return journal.unvisited > 0 or bool(journal.ahead or journal.repeated) or self._is_rehearsal

    @property
    def has_new_waits(self) -> bool:
        """Whether the code waits for something that is not stored yet: its deadline is not fixed before it is."""
        return bool(self._armed) and any(armed.wait not in self._stored_waits for armed in self._armed.values())

    def take_waits(self) -> tuple[Wait, ...] | None:
        """The whole set of waits if it differs from what is stored; it counts as stored from now on."""
        if self.is_astray or (not self._armed and not self._stored_waits):
            return None  # code that has gone astray does not know where the run stands
        waits = tuple(armed.wait for armed in self._armed.values())
        stored = frozenset(waits)
        if stored == self._stored_waits:
            return None
        self._stored_waits = stored
        return waits

    @property
    def strands(self) -> Strands:
        """Where plain functions run: on those of the process, or on its own if it was given none."""
        if self._strands is None:
            self._strands = Strands()
        return self._strands

    def rest(self) -> None:
        """Hold no thread while nothing but waiting is left."""
        for code in tuple(self.plain):
            code.leave()

    def close(self) -> None:
        """Tear the code down at its waits, so that its `finally` blocks run; it records nothing any more."""
        if self._is_closed:
            return
        self._is_closed = True
        self.unawaited.clear()
        is_waiting = self._armed or self.bodies or self._in_flight or self._replays or self.yielded or self._held
        interrupts = self._interrupt_all() if is_waiting else ()
        if self.loop.ready:
            self.loop.run_until_idle()
        root = self._root
        if root is not None and not root.done():
            root.cancel()
            self.loop.run_until_idle()
        if self._owns_strands and self._strands is not None:
            self._strands.close()
        if root is not None and root.done() and not root.cancelled():
            root.exception()  # heard: asyncio need not report it
        # The frames that an exception came through refer to this turn, which would have to be found by the collector.
        self._root = None
        for interrupt in interrupts:
            interrupt.__traceback__ = None

    def _interrupt_all(self) -> list[BaseException]:
        awaited: list[asyncio.Future[Any]] = [armed.future for armed in self._armed.values()]
        awaited += [body.settled for body in (*self.bodies, *self._in_flight)]
        awaited += [future for _, _, future in self._replays]
        return [_interrupt(future) for future in (*awaited, *self.yielded, *self._held) if not future.done()]

    # --- for primitives: called from inside the code ---

    def place(self, location: Location, what: str, *, field: str = "value") -> Place:
        """Where a value of this run belongs: in words, and as the row and field that it is stored in."""
        path = self.journal.names.text(location)
        return Place(self.run.workflow, path, what, row=Row(self.run.run_id, path, field))

    def check_open(self) -> None:
        """Refuse operations of code that is being torn down or has diverged."""
        if self._is_closed:
            raise Suspend
        if self.problem is not None:
            raise self.problem

    def diverge(self, problem: ReplayError) -> ReplayError:
        """Stop the turn with this problem, whatever the code does with the exception."""
        if self.problem is None:
            self.problem = problem
            self.is_astray = self._is_passing
        return self.problem

    async def in_order(self, entry: Entry) -> None:
        """Wait until all recorded results before this one have reached the code."""
        replays = self._replays
        # Nothing else is ready and nothing earlier is waiting: this result would be the next one anyway.
        if self.loop.ready or (replays and replays[0][0] <= entry.seq):
            future: asyncio.Future[None] = self.loop.own_future()
            heapq.heappush(replays, (entry.seq, 0, future))
            await future
        if entry.seq > self.journal.position:
            self.journal.position = entry.seq
            if self.journal.replies:
                self.journal.pass_replies(entry.seq)

    async def after_replay(self) -> None:
        """Wait until all recorded results have reached the code: what is recorded now comes after them in a replay."""
        if self._replays or self.journal.unvisited > 0:
            future: asyncio.Future[None] = self.loop.own_future()
            self._tokens += 1
            heapq.heappush(self._replays, (self.journal.last_seq + 1, self._tokens, future))
            await future
        if self._is_rehearsal and not any(self.journal.unpassed(self.run.loose)):
            self._held.append(self.loop.own_future())
            await self._held[-1]

    def begin_transaction(self, body: Body, record: Callable[[Any, Instant], tuple[Entry, Any]]) -> None:
        """Ask for a body that runs inside the commit of its result, which is made by `record`."""
        body.record = record
        self.transactions.append(body)
        self._in_flight.add(body)

    def abandon(self, body: Body) -> None:
        """Nobody waits for this body any more."""
        body.is_unwanted = True
        if body in self._in_flight:
            self._in_flight.discard(body)
            self.unwanted.append(body)
        elif body in self.bodies:
            self.bodies.remove(body)

    async def wait(
        self,
        location: Location,
        kind: WaitKind,
        due_at: Instant | None,
        names: tuple[str, ...] = (),
        where: tuple[str, ...] = (),
        since: Since = "wait",
    ) -> Arrival:
        """Wait for a message, a child or the deadline, whichever is first; a message that is there wins."""
        stored, again = self.journal.waits.get(location), self._last_wait
        if again is not None and again.location == location:
            stored = again  # what came for it did not fit: it goes on, with the limit that it had
        self._last_wait = None
        self.journal.ahead.discard(location)
        self.journal.awaited.discard(location)
        if self.observations is not None:
            self.observations.release(location)
        if stored is not None and stored.kind is kind and stored.due_at == due_at:
            wait = stored._replace(names=names, where=where, since=since)
        else:
            self._tokens += 1
            limit = self._limit(due_at)
            wait = Wait(location, kind, self.epoch << 20 | self._tokens, due_at, names, where, since, limit)
        armed = Armed(wait, self.loop.own_future())
        self._armed[location] = armed
        if due_at is not None:
            self._tokens += 1
            heapq.heappush(self._deadlines, (due_at, self._tokens, armed))
        try:
            arrival = await armed.future
        finally:
            if self._armed.get(location) is armed:
                del self._armed[location]
        self._last_wait = wait
        return arrival

    async def pass_turn(self, location: Location) -> None:
        """Wait until others have had their turn."""
        future: asyncio.Future[None] = self.loop.own_future()
        self.yielded[future] = location
        try:
            await future
        finally:
            self.yielded.pop(future, None)

    def stored_wait(self, location: Location, kind: WaitKind) -> Wait | None:
        """The wait that was registered here before, with its deadline."""
        stored = self.journal.waits.get(location)
        return stored if stored is not None and stored.kind is kind else None

    # --- inside ---

    def _limit(self, due_at: Instant | None) -> Instant | None:
        """When a wait that begins now has taken too long, if its own deadline does not come first."""
        if self.run.max_suspend is None or self.is_undoing:
            return None
        limit = Instant(self.now + self.run.max_suspend)
        return limit if due_at is None or due_at > limit else None

    @property
    def is_undoing(self) -> bool:
        """Whether this turn undoes what the run did."""
        return self.run.status is RunStatus.COMPENSATING

    def _replay_next(self) -> bool:
        while self._replays:
            _, _, future = heapq.heappop(self._replays)
            if not future.done():
                future.set_result(None)
                return True
        return False

    def _settle_next(self) -> bool:
        while self._settled:
            body, attempted = self._settled.pop(0)
            if not body.settled.done():
                body.settled.set_result(attempted)
                return True
        return False

    def _release_next(self) -> bool:
        """Everything waits, so nobody has a claim on a signal any more; whether that makes a difference."""
        return self.is_idle and self.observations is not None and self.observations.release_all()

    def _has_passed(self) -> bool:
        """All that is recorded has been handed to the code. Unless it went another way it has come to everything, and
        may get and ask for what is new; if it did, it stops here, before anything is done that was not meant for it.
        """
        entries, waits = self.journal.unpassed(self.run.loose)
        if self.problem is None and (entries or waits):
            path = self.journal.names.text
            recorded = [(path(entry.location), entry.kind.word) for entry in entries]
            stands = [(path(wait.location), wait.kind.value) for wait in waits]
            self.diverge(divergence.gone_elsewhere(recorded, stands, self._describe()))
        self._is_passing = self.problem is not None
        if not self._is_passing:
            self.journal.pass_replies()
        return not self._is_passing

    def _describe(self) -> str:
        """How far the code has come."""
        path = self.journal.names.text
        if self.is_ended:
            error = self.error
            return "it returns" if error is None else f"it raises {record_failure(error).summary}"
        asked = [path(body.location) for body in (*self.bodies, *self.transactions)]
        if asked:
            return f"it asks for {', '.join(asked[:5])}"
        armed = [f"a {one.wait.kind.value} at {path(at)}" for at, one in sorted(self._armed.items())]
        return f"it waits for {', '.join(armed[:5])}" if armed else "it waits elsewhere"

    def _check(self) -> None:
        """After the code has gone as far as it can: find what would silently be lost."""
        root, path = self._root, self.journal.names.text
        assert root is not None
        if self.problem is not None or self._is_closed:
            return
        if isinstance(self.loop.problem, ReplayError):
            self.diverge(self.loop.problem)
        elif root.done():
            error = self.error
            if isinstance(error, ReplayError):
                self.diverge(error)
            elif error is None:
                self._check_ended()
            # An undo that could not be begun has failed, whatever a changed code would have come to.
            if self._is_passing and (error is None or not self.is_undoing):
                self._has_passed()
        elif self.is_idle and not (self._armed or self.yielded or self._held):
            self.diverge(
                StuckError(
                    f"workflow {self.run.workflow} awaits something that no operation will complete",
                    why="all of its operations have ended, and the code still waits",
                    fix="await operations of ctx only; wait for the outside world with ctx.receive or inside a step",
                )
            )
        elif self.unawaited and self.is_idle and self.loop.problem is not None:
            self.diverge(divergence.unawaited([path(op.location) for op in self.unawaited.values()]))

    def _check_ended(self) -> None:
        path = self.journal.names.text
        if self.unawaited or self.bodies or self._in_flight or self._armed or self.yielded:
            lost = [op.location for op in self.unawaited.values()]
            lost += [body.location for body in (*self.bodies, *self._in_flight)]
            lost += [*self._armed, *self.yielded.values()]
            self.diverge(divergence.unawaited([path(location) for location in lost]))
        elif self.journal.unvisited > 0:
            missing, _ = self.journal.unpassed(self.run.loose)
            if missing:
                self.diverge(divergence.not_visited([(path(entry.location), entry.kind) for entry in missing]))


def _interrupt(future: asyncio.Future[Any]) -> Suspend:
    interrupt = Suspend()
    future.set_exception(interrupt)
    return interrupt
