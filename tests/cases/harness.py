"""Workers and clients over one database, in virtual time: started, stopped, paused and killed at will."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stepwell import Engine, EntryView, Handle, RunView, WorkerSettings, Workflow
from stepwell.clock import Duration
from stepwell.virtual.clock import ManualClock
from stepwell.environment import Answers, Environment, Holder, LockstepThread, LockstepThreads
from stepwell.ids import format_uuid7
from stepwell.stores.base.store import Store
from tests.cases.virtual_loop import PROCESS, Process, VirtualLoop, resume
from tests.cases.wire import Wire

T = TypeVar("T")

OpenStore = Callable[[Environment], Store]


class CountedIds:
    """Time-sorted ids that are the same in every execution of a test."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._count = itertools.count(1)

    def uuid(self) -> str:
        return format_uuid7(self._clock.now() // 1_000, next(self._count))


class InlineExecutor:
    """Starts work in the context of its process; blocking calls run at once, as if in a very fast thread."""

    def __init__(self, context: contextvars.Context) -> None:
        self._context = context
        self._live: set[asyncio.Task[Any]] = set()
        self.is_dead = False
        self.lockstep_threads: LockstepThreads = MortalThreads(4)
        self.answers = Answers()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        loop = asyncio.get_running_loop()
        if self.is_dead:
            work.close()
            work = _never()
        task = loop.create_task(work, name=name, context=self._context.copy())
        self._live.add(task)
        task.add_done_callback(self._live.discard)
        return task

    def begin(self, work: Coroutine[Any, Any, T], *, name: str, context: contextvars.Context) -> asyncio.Task[T]:
        return self.spawn(work, name=name)

    def keep(self, task: asyncio.Task[Any]) -> None:
        pass  # all of them are kept

    def call_blocking(self, call: Callable[[], T], *, began: Callable[[], None] | None = None) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if began is not None:
            began()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        self.lockstep_threads.close()

    def end(self) -> None:
        """The process is no more: whatever is left of its tasks gets no thread."""
        self.is_dead = True
        self.lockstep_threads.close()
        self.lockstep_threads.is_dead = True  # type: ignore[attr-defined]


class MortalThreads(LockstepThreads):
    """LockstepThreads that end with their process."""

    is_dead = False

    def take(self, holder: Holder) -> LockstepThread:
        if self.is_dead:
            raise asyncio.CancelledError
        return super().take(holder)


async def _never() -> Any:
    await asyncio.get_running_loop().create_future()


class Node:
    """One process: an engine with its own way to the database. Whatever is asked of it happens inside of it."""

    def __init__(self, name: str, harness: Harness, workflows: tuple[Workflow[Any, Any], ...], **settings: Any) -> None:
        self.process = Process(name)
        self._context = contextvars.copy_context()
        self._context.run(PROCESS.set, self.process)
        self._executor = InlineExecutor(self._context)
        environment = Environment(harness.clock, harness.ids, random.Random(name), self._executor, process=name)
        self.wire = Wire(harness.open_store(environment), harness.answers)
        outward = {key: settings.pop(key) for key in ("sinks", "lifecycle") if key in settings}
        chosen = {"mode": harness.mode, "name": name, "lease": "1h", "sweep_every": "10m", **settings}
        self.engine = Engine(
            self.wire, workflows=workflows, settings=WorkerSettings(**chosen), environment=environment, **outward
        )

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have this process do something."""
        return await asyncio.get_running_loop().create_task(work, context=self._context.copy())

    async def open(self) -> None:
        await self.do(self.engine.__aenter__())

    async def shutdown(self, grace: float = 10.0) -> None:
        """Leave in order."""
        await self.do(self.engine.shutdown(grace))

    def pause(self) -> None:
        """Stop the process without killing it: a long garbage collection, a closed laptop."""
        self.process.is_stopped = True

    def resume(self) -> None:
        """Let a paused process go on, as if no time had passed for it."""
        resume(self.process)

    def crash(self) -> None:
        """Stop at once and for ever: no clean-up, no last word to the database."""
        self.process.is_stopped = True
        self.wire.cut()
        self._executor.end()

    async def start(self, workflow: Workflow[Any, Any] | str, input: Any = None, **options: Any) -> Handle[Any]:
        return await self.do(self.engine.start(workflow, input, **options))

    async def signal(self, target: str, name: Any, payload: Any = None, **options: Any) -> Any:
        return await self.do(self.engine.signal(target, name, payload, **options))

    async def publish(self, topic: Any, payload: Any = None, **options: Any) -> int:
        return await self.do(self.engine.publish(topic, payload, **options))


class Harness:
    """One database, one clock, any number of processes."""

    def __init__(self, open_store: OpenStore, mode: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        self.clock = loop.clock
        self.ids = CountedIds(loop.clock)
        self.mode = mode
        self.open_store = open_store
        self.nodes: list[Node] = []
        self.answers: list[tuple[str, Any, Any]] = []  # every commit of every process, and what became of it

    async def client(self) -> Node:
        """A process that only asks."""
        return await self._add((), worker_name="client")

    async def worker(self, *workflows: Workflow[Any, Any], **settings: Any) -> Node:
        """A process that serves these workflows."""
        return await self._add(workflows, worker_name="worker", **settings)

    async def _add(self, workflows: tuple[Workflow[Any, Any], ...], worker_name: str, **settings: Any) -> Node:
        node = Node(f"{worker_name}-{len(self.nodes)}", self, workflows, **settings)
        self.nodes.append(node)
        await node.open()
        return node

    async def deploy(self, worker: Node, *workflows: Workflow[Any, Any], **settings: Any) -> Node:
        """Replace a worker by one with other code."""
        await worker.shutdown()
        self.nodes.remove(worker)
        return await self.worker(*workflows, **settings)

    async def takeover(self, worker: Node, *workflows: Workflow[Any, Any], **settings: Any) -> Node:
        """Kill a worker, and let another one have its runs as soon as the lease is over."""
        worker.crash()
        successor = await self.worker(*workflows, **settings)
        await self.advance("90m")
        return successor

    async def advance(self, duration: Duration) -> None:
        """Let time pass, and everything in it happen."""
        await self._loop.let_pass(duration)

    async def drain(self) -> None:
        """Let everything happen that needs no time."""
        await self._loop.let_pass(0)

    # --- looking, past all processes ---

    @property
    def _any(self) -> Engine:
        return next(node.engine for node in self.nodes if not node.process.is_stopped)

    async def status(self, run: Handle[Any] | str) -> RunView:
        view = await self._any.status(_id(run))
        assert view is not None
        return view

    async def history(self, run: Handle[Any] | str) -> list[EntryView]:
        return await self._any.runs.history(_id(run))

    async def paths(self, run: Handle[Any] | str) -> list[str]:
        """The recorded places of a run, in the order of their commits."""
        return [entry.path for entry in await self.history(run)]

    async def result(self, run: Handle[Any] | str) -> Any:
        """The result of a run that has ended, or what it raises."""
        return await self._any.result(_id(run), timeout="2m")

    async def orphans(self) -> list[str]:
        return list(await self.nodes[0].wire.behind.views.orphans())

    async def close(self) -> None:
        """Nothing may be left without a cause to go on; then all processes leave."""
        orphans = await self.orphans()
        for node in self.nodes:
            if node.wire.is_cut:
                resume(node.process)
            else:
                if node.process.is_stopped:
                    node.resume()
                node.wire.before = node.wire.after = _pass
                node.wire.is_down = False
                await node.shutdown(grace=0.0)
        await _cancel_the_rest()
        for node in self.nodes:
            node._executor.end()
        assert orphans == []


async def _pass(_: str) -> None:
    return None


async def _cancel_the_rest() -> None:
    for _ in range(5):
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if not rest:
            return
        for task in rest:
            task.cancel()
        await asyncio.wait(rest, timeout=1)


def _id(run: Handle[Any] | str) -> str:
    return run if isinstance(run, str) else run.run_id
