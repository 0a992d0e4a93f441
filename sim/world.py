"""One seed: its processes, its clients, its faults, and what came of them."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from sim.checker import Checker, Violation
from sim.checks.final import check_end
from sim.checks.leaves import Leaves
from sim.checks.progress import LongSteps
from sim.checks.records import late_max
from sim.checks.refusals import check_failed
from sim.checks.timers import Timers
from sim.checks.transactions import Transactions
from sim.clients import Clients
from sim.coroutines import at_once
from sim.databases import open_database, watch
from sim.ledger import Ledger
from sim.mix import MODES, Mix, Shape, add_outages, draw_code, draw_mix, draw_shape
from sim.outages import Outages
from sim.process import Process, draw_process
from sim.programs import Maker, longest, walk
from sim.reach import REACH, Cell
from sim.sinks import Sinks
from sim.witness import WITNESSES
from stepwell.replay.bodies import Body
from stepwell.replay.step_context import StepContext
from stepwell.virtual.clock import ContinuousClock
from stepwell.virtual.lanes import LANE, Lane, drawn
from stepwell.virtual.loop import DeadlockError, SpinningError, VirtualLoop

HANDLES_MAX = 600_000  # of one seed: beyond it, something spins without ever letting time go on
SECONDS_TO_END = 120.0  # of virtual time, once all faults have stopped, besides what the programs themselves take


@dataclass(slots=True)
class Report:
    """What one seed came to."""

    seed: int
    store: str
    mode: str
    mix: str
    violations: list[Violation] = field(default_factory=list)
    unfinished: int = 0
    stats: Counter[str] = field(default_factory=Counter)
    executed: Counter[str] = field(default_factory=Counter)
    faulted: Counter[str] = field(default_factory=Counter)
    reached: Counter[Cell] = field(default_factory=Counter)
    reached_by_faults: Counter[Cell] = field(default_factory=Counter)
    digest: str = ""  # of all events, if it was asked for


class Scenario(NamedTuple):
    """A world that is not drawn: for sweeps over given programs."""

    mix: Mix
    shape: Shape
    programs: list[dict[str, Any]]


class World:
    """Everything of one seed."""

    def __init__(
        self,
        seed: int,
        store: str,
        mode: str,
        log: Callable[[str], None] | None = None,
        scenario: Scenario | None = None,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed}/{store}/{mode}")
        self.mix = draw_mix(self.rng)
        add_outages(self.mix, random.Random(f"{seed}/{store}/{mode}/outages"), store)
        self.shape = draw_shape(self.rng, store, mode)
        self.mode = mode
        if scenario is not None:
            self.mix, self.shape = scenario.mix, scenario.shape
        self.host = ContinuousClock()  # the wall clock that all processes of the host share
        order = drawn(random.Random(self.rng.getrandbits(64)))
        self.loop = VirtualLoop(self.host, choose=order, has_outside=False)
        self.loop.handles_max = HANDLES_MAX
        self.loop.set_exception_handler(self._note_problem)
        self.context = self.loop.world.context()
        self.problems: list[tuple[Lane | None, str, BaseException | None]] = []
        self.database = open_database(store)
        self.stats: Counter[str] = Counter()
        self.faulted: Counter[str] = Counter()
        self.are_faults_on = True
        self.calm_at = float("inf")
        self.budget = self.mix.budget
        self.processes: dict[str, Process] = {}
        self.started: list[Process] = []  # all, also those that are no more
        self.closed: set[Process] = set()  # left in order, at the end
        # In every other seed: where code stands still for a transaction, less happens side by side.
        maker = Maker(random.Random(self.rng.getrandbits(64)), has_transactions=seed % 2 == 1)
        programs = scenario.programs if scenario else [maker.program() for _ in range(self.shape.programs)]
        self.programs = programs if scenario else [*programs, *maker.further()]
        self.code = draw_code(random.Random(f"{seed}/{store}/{mode}/code"), self.programs)
        self.is_quiet = scenario is not None  # clients only place their orders
        inspecting = draw_process(self.loop, Lane("inspector"), self.host, random.Random(0))
        inspector = self.database.open(inspecting.environment, self.host)
        at_once(inspector.open())
        every = [node for program in self.programs for node in walk(program)]
        nodes = {node["id"]: node for node in every}
        nodes |= {node["called"]: node for node in every if "called" in node and node["op"] == "step"}
        rows = watch(self.database, inspector)
        self.checker = Checker(inspector, rows, nodes, self.shape.settings.stalls_max, self.loop.time)
        WITNESSES.begin(self)
        REACH.begin(self.programs)
        self.sinks = Sinks(self)
        self.checker.outbox.is_on = self.sinks.is_on
        self.ledger = Ledger(self)
        self.progress = LongSteps(self)
        self.transactions = Transactions()
        self.clients = Clients(self)
        self.checker.marks_of_runs = self.clients.marks_of_runs
        self.outages = Outages(self)
        self.leaves = Leaves(self)
        self.timers = self.checker.timers = Timers(self)
        self.checker.records.is_on = self.clients.desk.is_on
        self.checker.records.late_max = partial(late_max, self)
        self._log = log
        self._mended: set[str] = set()
        self._undo_fixed: set[str] = set()
        self._calls: Counter[str] = Counter()
        self._tags = 0

    # --- the story ---

    async def main(self) -> None:
        """Faults and clients together; then no more faults, and everything must end."""
        for number in range(self.shape.workers):
            self._start(f"worker{number}")
        self._start("client", is_worker=False)
        await asyncio.gather(self.clients.run(), self._jump_clock(), self._drain(), *self.outages.stories())
        self.stats["calls while it ran"] = self._calls["*"]
        await self._stop_faults()
        await self.clients.operators.settle(SECONDS_TO_END + 2 * max(map(longest, self.programs)))
        if not self.checker.violations:
            await self._close()

    async def _stop_faults(self) -> None:
        left = self.shape.faulty_seconds - self.loop.time()
        if left > 0 and not self.is_quiet:
            await asyncio.sleep(left)
        self.are_faults_on = False
        self.calm_at = self.loop.time()
        self.timers.stop_faults()
        for process in self.processes.values():
            process.lane.fuse = -1
        self.trace("calm")

    async def _jump_clock(self) -> None:
        for _ in range(self.mix.clock_jumps):
            await asyncio.sleep(self.rng.uniform(0.1, 2.0))
            seconds = self.rng.choice((-5.0, -1.0, -0.1, 0.5, 2.0, 10.0, 60.0))
            self.stats["clock jumps"] += 1
            self.trace("clock", seconds)
            self.host.jump(seconds)

    async def _drain(self) -> None:
        for _ in range(self.mix.drains):
            await asyncio.sleep(self.rng.uniform(0.2, 2.0))
            ready = [one for one in self.processes.values() if one.is_worker and one.is_ready]
            if not ready:
                continue
            process = self.rng.choice(ready)
            self.leave(process, self.rng.choice((0.0, 0.2, 5.0)), self.rng.uniform(0.1, 3.0))

    def leave(self, process: Process, grace: float, following: float) -> None:
        """Let a process leave in order; another one starts after so many seconds."""
        self.stats["drains"] += 1
        self.trace("drain", process.name)
        self.loop.create_task(self.leaves.leave(process, grace), name="drain", context=process.lane.context())
        self.loop.call_later(following, self._start, process.name, context=self.context)

    async def _close(self) -> None:
        """A last orderly shutdown leaves nothing behind."""
        for process in tuple(self.processes.values()):
            while not (process.is_ready or process.is_leaving or process.lane.is_dead):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            if process.is_ready:
                await process.ask(lambda engine: engine.shutdown(5.0))
                self.closed.add(process)
        await asyncio.sleep(0.1)

    # --- processes ---

    def _start(self, name: str, is_worker: bool = True) -> None:
        process = Process(self, name, is_worker=is_worker)
        self.processes[name] = process
        self.started.append(process)
        self.trace("start", name)
        process.start()

    def process_died(self, process: Process) -> None:
        """Somebody starts it again, after a while."""
        self.process_hit(process)
        if self.processes.get(process.name) is process and not process.is_leaving:
            self.loop.call_later(
                self.rng.uniform(0.01, 3.0), self._start, process.name, process.is_worker, context=self.context
            )

    def process_hit(self, process: Process) -> None:
        """A fault hits a process, and so what its runs were doing."""
        for row in self.checker.rows_now.values():
            if row.owner is not None and self.checker.incarnations.get(row.owner) is process:
                REACH.hit(row.run_id)

    def shot(self, method: str) -> str | None:
        """The single fault that is meant for this very call, if any."""
        self._calls[method] += 1
        self._calls["*"] += 1
        for aimed, nth, fault in self.mix.shots:
            if aimed in (method, "*") and nth == self._calls[aimed]:
                return fault
        return None

    def spend(self) -> bool:
        """Whether there may be another crash or pause."""
        self.budget -= 1
        return self.budget >= 0

    # --- what processes do ---

    async def perform(
        self, process: Process, noun: str, method: str, bound: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Let the real store do it, under the checker's eyes."""
        if process.lane.is_dead:
            await self.loop.create_future()
        self.stats["store calls"] += 1
        self.checker.before(method, args)
        try:
            answer = await bound(*args, **kwargs)
        except Exception as error:
            self.trace("refused", process.name, method, type(error).__name__)
            if isinstance(error, (ValueError, AssertionError, KeyError, TypeError)):
                check_failed(self.checker, method, args)
                self.violate("I47", "", f"{method} raised {error!r}")
            raise
        if self._log is not None:
            shown = tuple(sorted(arg) if isinstance(arg, (set, frozenset)) else arg for arg in args)
            self.trace("call", process.name, method, shown, kwargs, answer)
        self.checker.after(process, method, args, answer)
        return answer

    def note_fault(self, fault: str, method: str, args: tuple[Any, ...]) -> None:
        """Count a fault, and whom it hit."""
        self.stats[{"ack_lost": "acks lost"}.get(fault, fault.replace("_", " "))] += 1
        self.trace("fault", fault, method)
        if method == "apply":
            for commit in args[0]:
                REACH.hit(commit.run_id)
                self.faulted.update(entry.kind.word for entry in commit.entries)
                self.faulted["progress"] += len(commit.progress)
                self.faulted.update(f"wait for {wait.kind.value}" for wait in commit.waits or ())
        else:
            self.faulted[method] += 1

    def body_dispatched(self, process: Process, body: Body, execution: Any) -> None:
        """A worker starts a body."""
        self.checker.body(process, body, execution)

    def body_began(self, info: StepContext, node: dict[str, Any] | None = None) -> None:
        """A body runs."""
        self.ledger.began(info)
        self.leaves.began(asyncio_process(), info)
        if node is not None:
            self.check_given(info.run_id, node)

    def undo_began(self, info: StepContext, node: dict[str, Any], result: Any) -> None:
        """A compensation runs."""
        self.ledger.began(info)
        self.leaves.began(asyncio_process(), info)
        self.check_undone(info.run_id, info.path, node, result)

    def check_undone(self, run_id: str, path: str, node: dict[str, Any], result: Any) -> None:
        """A compensation is given what the code passed to its step, and what came of it."""
        self.stats["undone"] += 1
        if self.checker.is_marked(run_id, path):
            self.violate("I30", run_id, f"{path} was undone again, although a person had done that")
        self.check_given(run_id, node)
        if result != ["did", node["id"], node["value"]]:
            self.violate("I30", run_id, f"{path} was given {result!r}")

    def check_given(self, run_id: str, node: dict[str, Any]) -> None:
        """A body is given what the code passed, whatever others have done to theirs."""
        passed = self.checker.nodes.get(node.get("id", ""))
        if passed is not None and any(node.get(key) != part for key, part in passed.items()):
            self.violate("I53", run_id, f"{passed['id']} was given {node!r}")

    def next_tag(self) -> str:
        """A name for one execution of a body."""
        self._tags += 1
        return f"t{self._tags}"

    def poisoned(self, run_id: str) -> None:
        """A body takes its process down."""
        times = self.checker.poisonings[run_id] = self.checker.poisonings[run_id] + 1
        self.stats["poisonings"] += 1
        if times > 2 * self.shape.settings.stalls_max:
            self.violate("L3", run_id, f"it took its worker down {times} times")
        process = asyncio_process()
        process.crash()

    def is_mended(self, run_id: str) -> bool:
        """Whether a poisonous step has been mended."""
        return run_id in self._mended

    def mend(self, run_id: str) -> None:
        """Mend what kills its worker."""
        self._mended.add(run_id)
        self.checker.poisonings[run_id] = 0

    def is_undo_fixed(self, run_id: str) -> bool:
        """Whether the compensations of a run no longer fail as planned."""
        return run_id in self._undo_fixed

    def fix_undo(self, run_id: str) -> None:
        """Fix the compensations of a run whose rollback has stopped, and which is about to be resumed."""
        self._undo_fixed.add(run_id)

    # --- what came of it ---

    def violate(self, invariant: str, run_id: str, text: str) -> None:
        """Note a broken promise."""
        self.checker.violate(invariant, run_id, text)

    def trace(self, *event: Any) -> None:
        """One event, for whoever wants to see or to compare them."""
        if self._log is not None:
            self._log(f"{self.loop.time():.6f} {event!r}")

    def run(self) -> Report:
        """Live through the seed."""
        report = Report(self.seed, self.shape.store, self.mode, self.mix.name)
        try:
            self._live()
            if not self.checker.violations:
                check_end(self)
        except (DeadlockError, SpinningError) as error:
            self.violate("L1", "", str(error))
        except Exception as error:
            self.violate("I47", "", f"{type(error).__name__} out of the engine: {error}")
        report.violations = self.checker.violations
        report.unfinished = self.clients.operators.unfinished
        report.stats = self.stats + self.checker.stats
        report.stats["runs"] = len(self.checker.rows_now)
        report.stats["events"] = self.loop.handles
        report.executed = self.checker.kinds
        report.faulted = self.faulted
        report.reached, report.reached_by_faults = REACH.executed, REACH.faulted
        return report

    def _live(self) -> None:
        main = self.loop.create_task(self.main(), context=self.context.copy())
        self.loop.drive(main.done)
        main.result()

    def _note_problem(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback raised: kept, because nobody else will ever hear of it."""
        self.problems.append((LANE.get(), str(context.get("message", "")), context.get("exception")))

    def dispose(self) -> None:
        """Leave nothing that could reach into the next seed."""
        for process in self.started:
            process.environment.executor.close()
        self.loop.dispose()
        gc.collect()
        self.database.close()


def simulate(
    seed: int, store: str, mode: str, log: Callable[[str], None] | None = None, scenario: Scenario | None = None
) -> Report:
    """One seed from beginning to end, with nothing left of it."""
    was_enabled = gc.isenabled()
    gc.disable()  # what is collected when must not depend on what ran before
    world = World(seed, store, mode, log, scenario)
    try:
        return world.run()
    finally:
        world.dispose()
        del world
        if was_enabled:
            gc.enable()


def asyncio_process() -> Process:
    """The process whose code is running."""
    process: Process = LANE.get().process
    return process


def place_of(seed: int, store: str = "sqlite", mode: str = "both") -> tuple[str, str]:
    """Which store and which mode a seed is for: the modes take turns, each with and without transactional steps."""
    return store, MODES[seed // 2 % 2] if mode == "both" else mode
