"""A simulated process: an engine on a lane of its own, that can be killed, frozen, drained and asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sim.faults import FaultyWakeups, FaultyWire
from sim.interpreter import PLAIN_WORKFLOWS, WORKFLOWS
from sim.keeper import Keeper
from stepwell.errors import SchemaMissingError, StoreNotWritableError, StoreUnavailableError
from stepwell.model.workers import NewWorker
from stepwell.replay.bodies import Body
from stepwell.services.service import Service
from stepwell.virtual.clock import ManualClock, ProcessClock
from stepwell.virtual.executors import InlineCalls
from stepwell.virtual.ids import drawn_ids
from stepwell.virtual.lanes import Lane
from stepwell.virtual.loop import VirtualLoop
from stepwell.virtual.processes import VirtualProcess
from stepwell.virtual.wire import RemoteStore
from stepwell.wiring import Engine

if TYPE_CHECKING:
    from sim.world import World

T = TypeVar("T")


class ProcessDied(Exception):
    """The process that was asked is no more; whether it did what it was asked is not known."""


class KeptEngine(Engine):
    """An engine whose worker has one more service, if anybody keeps records in this seed."""

    def __init__(self, process: Process, store: RemoteStore, **options: Any) -> None:
        super().__init__(store, **options)
        self._process = process

    def _services(self) -> list[Service]:
        process = self._process
        keepers = [Keeper(process, self._backend)] if process.world.clients.desk.is_on else []
        return [*super()._services(), *keepers]


class Process:
    """One start of one process. A restart is another object, with the same name."""

    def __init__(self, world: World, name: str, *, is_worker: bool) -> None:
        self.world = world
        self.name = name
        self.is_worker = is_worker
        self.was_frozen = False  # for longer than its lease
        self.is_ready = False
        self.is_leaving = False
        self.lane = world.loop.add_lane(name)
        self.lane.process = self
        self.rng = random.Random(world.rng.getrandbits(64))
        self._process = draw_process(world.loop, self.lane, world.host, self.rng, self._on_body)
        self.environment = self._process.environment
        self.deadlines: dict[str, float] = {}  # of each incarnation: how long its lease surely lasts, by our clock
        self._requested: dict[str, float] = {}
        self._asked: dict[asyncio.Future[Any], None] = {}
        self.inner = world.database.open(self.environment, self.environment.clock)
        self.store = RemoteStore(self.inner, FaultyWire(self), FaultyWakeups(self, self.inner.wakeups))
        is_plain = world.code == "plain" or (world.code == "mixed" and len(world.started) % 2 == 0)
        self.engine: Engine = KeptEngine(
            self,
            self.store,
            workflows=PLAIN_WORKFLOWS if is_plain else WORKFLOWS,
            worker=is_worker,
            settings=world.shape.settings,
            environment=self.environment,
            sinks=world.sinks.make(self),
            lifecycle=True,
        )

    # --- life ---

    def start(self) -> None:
        """Begin to serve."""
        world = self.world
        world.loop.create_task(self._main(), name=f"{self.name} main", context=self.lane.context())
        if self.is_worker and world.mix.freeze_at is not None:
            self.lane.on_fuse, self.lane.fuse = self._pause_by_fuse, world.mix.freeze_at
        elif self.is_worker and world.are_faults_on and self.rng.random() < world.mix.fuses and world.spend():
            self.lane.on_fuse = self._crash_by_fuse if self.rng.random() < 0.6 else self._pause_by_fuse
            self.lane.fuse = int(self.rng.expovariate(1 / 150))

    async def _main(self) -> None:
        await self.engine.__aenter__()
        self.is_ready = True

    async def leave(self, grace: float) -> None:
        """Leave in order."""
        self.is_leaving = True
        self.is_ready = False
        await self.engine.shutdown(grace)
        self._end()

    def crash(self) -> None:
        """kill -9."""
        if self.lane.is_dead:
            return
        self.world.stats["crashes"] += 1
        self.world.trace("crash", self.name)
        self._end()
        self.world.process_died(self)

    def _end(self) -> None:
        self.is_ready = False
        self._process.kill()
        self._process.executor.close()
        asked, self._asked = self._asked, {}
        for future in asked:
            if not future.done():
                future.set_exception(ProcessDied(self.name))

    def pause(self) -> None:
        """SIGSTOP for longer than the lease; then SIGCONT: a zombie."""
        if self.lane.is_dead or self.lane.is_paused:
            return
        world = self.world
        lease = world.shape.settings.lease_span / 1e6
        self._process.pause()
        self.was_frozen = True
        world.stats["pauses"] += 1
        world.process_hit(self)
        world.trace("pause", self.name)
        world.loop.call_later(lease * self.rng.uniform(0.5, 2.5), self._resume, context=world.context)

    def _resume(self) -> None:
        self._process.resume()
        self.world.trace("resume", self.name)

    def _crash_by_fuse(self) -> None:
        self.crash()

    def _pause_by_fuse(self) -> None:
        self.pause()

    async def crash_here(self) -> None:
        """Die inside a store call: it never returns."""
        self.crash()
        await self.world.loop.create_future()

    async def pause_here(self) -> None:
        """Freeze inside a store call."""
        self.pause()
        await asyncio.sleep(0)

    # --- asking it ---

    async def ask(self, question: Callable[[Engine], Awaitable[T]], *, cancel_after: float | None = None) -> T:
        """Let code of this process call its engine. Raises `ProcessDied` if it dies meanwhile."""
        if self.lane.is_dead:
            raise ProcessDied(self.name)
        answer: asyncio.Future[T] = self.world.loop.create_future()
        self._asked[answer] = None
        context = self.lane.context()

        async def call() -> None:
            try:
                value = await question(self.engine)
            except BaseException as error:
                if not answer.done():
                    answer.set_exception(Interrupted() if isinstance(error, asyncio.CancelledError) else error)
            else:
                if not answer.done():
                    answer.set_result(value)
            finally:
                self._asked.pop(answer, None)

        task = self.world.loop.create_task(call(), name=f"{self.name} call", context=context)
        if cancel_after is not None:
            self.world.loop.call_later(cancel_after, task.cancel, context=context)
        return await answer

    # --- what the checker wants to know ---

    def requested(self, method: str, args: tuple[Any, ...]) -> None:
        """A call begins."""
        if method in ("register", "renew"):
            self._requested[_incarnation(args)] = self.environment.clock.monotonic()

    def answered(self, method: str, args: tuple[Any, ...], answer: Any) -> None:
        """A call was answered, and the process hears it."""
        if method in ("register", "renew"):
            incarnation = _incarnation(args)
            lease = (args[0].lease if method == "register" else args[1]) / 1e6
            until = self._requested[incarnation] + lease
            self.deadlines[incarnation] = max(until, self.deadlines.get(incarnation, until))

    def _on_body(self, body: Body, execution: Any) -> None:
        self.world.body_dispatched(self, body, execution)


def draw_process(
    loop: VirtualLoop,
    lane: Lane,
    host: ManualClock,
    rng: random.Random,
    on_body: Callable[[Body, Any], None] | None = None,
) -> VirtualProcess:
    """A process that starts now. Its clock, its ids, its randomness and the pace of its threads are from the seed."""
    clock = ProcessClock(host, origin=rng.uniform(0, 1e6))
    ids = drawn_ids(clock, random.Random(rng.getrandbits(64)))
    pace = random.Random(rng.getrandbits(64))
    calls = InlineCalls(loop, lambda: pace.choice((0.0, 0.001, 0.02)))
    chance = random.Random(rng.getrandbits(64))
    # Few threads, so that code often has to give one up and be run again.
    return VirtualProcess(loop, lane, clock, ids, chance, calls=calls, threads_max=3, on_body=on_body)


class Interrupted(Exception):
    """The call was cancelled at an await; whether it took effect is not known."""


# What a caller hears when nobody can say whether it was done.
UNKNOWN = (ProcessDied, Interrupted, StoreUnavailableError, StoreNotWritableError, SchemaMissingError)


def _incarnation(args: tuple[Any, ...]) -> str:
    return args[0].incarnation if isinstance(args[0], NewWorker) else args[0]
