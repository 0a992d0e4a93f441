"""The world of one test: a database, a clock, and workers, driven step by step."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

from stepwell.advice import in_python
from stepwell.clock import SECOND, Clock, Instant, Span, SystemClock
from stepwell.codec.base import Codec, Place, event_row
from stepwell.codec.envelopes import read_plainly
from stepwell.codec.json_codec import JsonCodec
from stepwell.config import WorkerSettings
from stepwell.engine.records import RecordKind
from stepwell.engine.system_runs import SYSTEM_DEFINITIONS
from stepwell.engine.triggers import Trigger
from stepwell.errors import LeaseLostError
from stepwell.ids import RunId
from stepwell.model.commits import Applied, Commit, Pause, Verdict
from stepwell.model.failures import decode_failure
from stepwell.model.locations import format_path
from stepwell.model.messages import TO_RUNS
from stepwell.model.outbox import Emit
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus, WaitKind
from stepwell.replay.bodies import Body
from stepwell.replay.workflows import Workflow
from stepwell.sinks.base import Sink
from stepwell.stores.base.views import RunFilter
from stepwell.testing.discovery import related
from stepwell.testing.faults import Faults
from stepwell.testing.nodes import FOREVER, Node, NodeEngine, add_known
from stepwell.testing.threads import ThreadCalls
from stepwell.testing.wire import Wire, never
from stepwell.virtual.clock import ManualClock
from stepwell.virtual.databases import Database
from stepwell.virtual.ids import counted_ids
from stepwell.virtual.lanes import Lane
from stepwell.virtual.loop import VirtualLoop
from stepwell.virtual.processes import VirtualProcess

T = TypeVar("T")

BEGINNING = Instant(1_767_225_600_000_000)  # the first moment of 2026: a test sees the same times whenever it runs
LAPSE = Span(1_000)  # the rest of a killed worker's lease: short, so that a crash hardly delays timers
JUMPS_MAX = 100_000  # of the clock without a write: then nothing will happen
_HORIZON = 20 * 365 * 86_400.0  # seconds; only lease renewals are that far away
_DIVERGED = frozenset({"SW201", "SW121"})
_MOVING = (
    RunStatus.PENDING,
    RunStatus.RUNNING,
    RunStatus.WAITING,
    RunStatus.CANCELLING,
    RunStatus.COMPENSATING,
)

Moment = Literal["before", "after"]


class Begun(NamedTuple):
    """A body that began to run."""

    run_id: RunId
    workflow: str
    path: str
    attempt: int
    worker: str
    fn: Callable[..., Any]


class Point(NamedTuple):
    """A commit, where a process can die."""

    number: int  # counted over the whole test, from 1
    run_id: RunId
    workflow: str
    paths: tuple[str, ...]  # that it records
    move: str  # what else it does to the run: "Park", "End", …; "" for nothing

    def __str__(self) -> str:
        what = ", ".join(self.paths) if self.paths else self.move.lower() or "a wait"
        return f"commit {self.number} ({what})"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a world."""

    always_replay: bool = True
    clock: Literal["virtual", "real"] = "virtual"
    codec: Codec | None = None
    sinks: tuple[Sink, ...] = ()
    lifecycle: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    is_offloading: bool = False  # large payloads go to blobs of the test's database
    workflows: tuple[Workflow[Any, Any], ...] = ()  # that workers run from the beginning
    triggers: tuple[Trigger, ...] = ()  # that workers declare


class World:
    """One database, one clock, any number of workers. The test itself acts from outside all workers."""

    def __init__(self, database: Database, options: Options) -> None:
        self.options = options
        self.database = database
        self.clock: Clock = SystemClock() if options.clock == "real" else ManualClock(BEGINNING)
        self.loop = VirtualLoop(self.clock)
        self.loop.set_exception_handler(_ignore)
        self.faults = Faults()
        self.changes = 0  # how many writes there were
        self.begun: list[Begun] = []
        self.emitted: dict[RunId, list[Emit]] = {}
        self.diverged: list[tuple[RunId, str]] = []
        self.problems: list[Exception] = []  # mistakes of the test itself, found while driving
        self.nodes: list[Node] = []
        self.on_point: Callable[[Node, Moment, Point], None] | None = None
        self.on_begin: Callable[[Node, Body, str], None] | None = None
        self._points: dict[tuple[str, int, int], Point] = {}
        self._written: set[tuple[str, int, int]] = set()
        self._names: dict[RunId, tuple[str, ...]] = {}
        self._workflows: dict[str, Workflow[Any, Any]] = {}
        self._calls = ThreadCalls(self.loop)
        self._ids = counted_ids(self.clock)
        self.outside = self.loop.add_lane("test")
        outside = VirtualProcess(
            self.loop, self.outside, self.clock, self._ids, random.Random("test"), calls=self._calls
        )
        self._environment = outside.environment
        self.store = database.open(self._environment, self.clock)
        # Run ids have a counter of their own, so that they are the same on every store.
        asking = replace(self._environment, ids=counted_ids(self.clock, first=1 << 32))
        self.engine = NodeEngine(
            self.store,
            worker=False,
            environment=asking,
            codec=options.codec,
            offload="database" if options.is_offloading else None,
            settings=WorkerSettings().completed(),
        )
        self.perform(self.store.open(), self.outside)
        for each in (*options.workflows, *(trigger.start for trigger in options.triggers)):
            if add_known(self._workflows, each, is_asked=True):
                self.ask(self.engine.serve(each))

    # --- calls ---

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Read from the store at once: nothing else happens meanwhile, and no time passes."""
        try:
            work.send(None)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
        work.close()
        raise AssertionError("the store of a test must answer at once")

    def tell(self, work: Coroutine[Any, Any, T]) -> T:
        """The same as `ask`, for a call that writes."""
        self.changes += 1
        return self.ask(work)

    def perform(self, work: Coroutine[Any, Any, T], lane: Lane) -> T:
        """Run a coroutine that takes several rounds of the loop, but no time."""
        task = self.loop.create_task(work, context=lane.context())
        self.loop.drive(task.done, lambda when: when if when is not None and when <= self.loop.time() else None)
        if not task.done():
            task.cancel()
            raise AssertionError(f"{work!r} waits for something that needs time")
        return task.result()  # type: ignore[no-any-return]

    # --- workers ---

    def serve(self, *workflows: Workflow[Any, Any]) -> None:
        """Let workers run these workflows and all that they may start. The first call starts a worker."""
        new = [each for each in workflows if add_known(self._workflows, each, is_asked=True)]
        for asked in workflows:
            new += [each for each in related(asked) if add_known(self._workflows, each, is_asked=False)]
        for each in new:
            self.ask(self.engine.serve(each))
            for node in self.alive():
                self.perform(node.engine.serve(each), node.lane)
        if not self.nodes:
            self.add_node()

    def alive(self) -> list[Node]:
        """The live workers."""
        return [node for node in self.nodes if node.is_alive]

    def add_node(self, *, is_waited_for: bool = True, **settings: Any) -> Node:
        """Start a worker. By default leases never expire, because renewals would slow the test down."""
        node = Node(
            f"worker-{len(self.nodes) + 1}",
            self.loop,
            clock=self.clock,
            ids=self._ids,
            calls=self._calls,
            on_body=self._on_body,
            watcher=self,
        )
        chosen: dict[str, Any] = {
            "mode": "yield" if self.options.always_replay else "live",
            "name": node.name,
            "lease": FOREVER,
            "sweep_every": FOREVER,
            **self.options.settings,
            **settings,
        }
        node.equip(
            self.database.open(node.environment, self.clock),
            self._workflows.values(),
            settings=WorkerSettings(**chosen).completed(),  # variables and files of the machine do not matter
            codec=(self.options.codec or JsonCodec()).refusing_untyped(),
            is_offloading=self.options.is_offloading,
            sinks=self.options.sinks,
            lifecycle=self.options.lifecycle,
            triggers=self.options.triggers,
        )
        self.nodes.append(node)
        if is_waited_for:
            self.perform(node.engine.__aenter__(), node.lane)
        else:
            node.executor.spawn(node.engine.__aenter__(), name=f"{node.name} opens")
        return node

    def kill(self, node: Node, *, is_replaced: bool = True) -> None:
        """Kill a worker. Its lease expires a moment later, and then another worker claims its runs."""
        node.kill()
        # Not at once: it may have died inside a transaction, which must roll back first.
        self.loop.call_soon(self._expire_lease, node, is_replaced, context=self.outside.context())

    def _expire_lease(self, node: Node, is_replaced: bool) -> None:
        incarnation = node.wire.incarnation
        if incarnation is not None:
            try:
                self.tell(self.store.workers.renew(incarnation, LAPSE))
            except LeaseLostError:
                pass  # it has expired already
            self.loop.call_later(LAPSE / SECOND + 1e-6, self._rescue, context=self.outside.context())
        if is_replaced and not self.alive():
            self.add_node(is_waited_for=False)

    def _rescue(self) -> None:
        self.tell(self.store.runs.rescue(stalls_max=WorkerSettings().stalls_max))

    @property
    def workflows(self) -> tuple[Workflow[Any, Any], ...]:
        """All workflows that workers run."""
        return tuple(self._workflows.values())

    def list_runs(self) -> list[Run]:
        """Every run, oldest first."""
        return self.ask(self.store.views.list_runs(RunFilter(), limit=10_000))[::-1]

    def find(self, run_id: RunId) -> Run:
        """The row of an existing run."""
        run = self.ask(self.store.views.find(run_id))
        assert run is not None
        return run

    # --- driving ---

    def drive(self, is_done: Callable[[], bool], *, until: float | None = None, only_if: Callable[[], bool]) -> None:
        """Let everything happen until `is_done`, which is called after each change. When nothing can happen at the
        current time, time passes: up to `until`, and while `only_if` is true.
        """
        seen, answer, jumps, written = -1, False, 0, self.changes

        def done() -> bool:
            nonlocal seen, answer
            if seen != self.changes:
                seen = self.changes
                answer = is_done()
            return answer or bool(self.problems)

        def idle(when: float | None) -> float | None:
            nonlocal jumps, written
            if until is not None:
                if when is None or when > until:
                    if self.loop.manual is not None:
                        self.loop.manual.go_to(until)
                    return None
                return when
            if when is None or when > self.loop.time() + _HORIZON or not only_if():
                return None
            jumps = jumps + 1 if written == len(self._written) else 0
            written = len(self._written)
            return when if jumps < JUMPS_MAX else None

        self.loop.drive(done, idle)
        if self.problems:
            raise self.problems.pop(0)

    def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        self.drive(lambda: False, until=self.loop.time(), only_if=lambda: True)

    def is_moving(self) -> bool:
        """Whether a run makes progress: it executes, waits for a retry, or waits for a worker."""
        active = self.ask(self.store.views.list_runs(RunFilter(statuses=_MOVING), limit=10_000))
        now = self.store.now()
        served = {*self._workflows, *SYSTEM_DEFINITIONS} if self.alive() else set()
        return any(
            run.owner is not None
            or (run.wake_at is not None and run.wake_at <= now and run.definition in served)
            or (run.wake_at is not None and self._waits_for_retry(run.run_id))
            for run in active
        )

    def _waits_for_retry(self, run_id: RunId) -> bool:
        detail = self.ask(self.store.views.detail(run_id))
        return detail is not None and any(wait.kind is WaitKind.RETRY for wait in detail.history.waits)

    def may_move(self) -> bool:
        """Whether anything can still happen: a run executes or will be due, or a sink has events to send."""
        if any(node.engine.active for node in self.alive()):
            return True
        upcoming = self.ask(self.store.views.upcoming_work((*self._workflows, *SYSTEM_DEFINITIONS)))
        if upcoming.next_wake is not None and self.alive():
            return True
        owned = self.ask(self.store.views.list_runs(RunFilter(statuses=_MOVING), limit=10_000))
        if any(run.owner is not None for run in owned):
            return True
        sinks = {TO_RUNS, *(sink.name for sink in self.options.sinks)}
        # Also events that a dead worker has taken: another one gives them back.
        owed = self.ask(self.store.outbox.list_owed(is_dead=False, limit=1_000))
        return any(event.sink in sinks for event in owed)

    def next_due(self) -> Instant | None:
        """When the first waiting run or schedule is due."""
        runs = self.ask(self.store.views.list_runs(RunFilter(statuses=_MOVING), limit=10_000))
        times = [run.wake_at for run in runs if run.wake_at is not None]
        scheduled = self.ask(self.store.records.next_due([RecordKind.SCHEDULE]))
        return min([*times, *([] if scheduled is None else [scheduled])], default=None)

    def why(self, run_id: RunId) -> str:
        """Why a run makes no progress, and what would continue it."""
        explained = self.ask(self.engine.explain(run_id))
        following = in_python(explained.next)
        return f"{explained.sentence}\n  next: {following}" if following else explained.sentence

    # --- what workers do ---

    def _on_body(self, node: Node, body: Body) -> None:
        path = body.names.text(body.location)
        self._begin(node, body, path)
        try:
            self.faults.apply(body, path, node.executor)
        except Exception as error:  # noqa: BLE001  a mistake of the test: raised where the test drives, not in the engine
            self.problems.append(error)
        if self.on_begin is not None:
            self.on_begin(node, body, path)
        if not node.is_alive:
            body.fn, body.is_async, body.takes_context = never, True, False
            body.args, body.kwargs = (), {}

    def _begin(self, node: Node, body: Body, path: str) -> None:
        run = body.run
        self.begun.append(Begun(run.run_id, run.workflow, path, body.attempt, node.name, body.fn))

    def performs(self, wire: Wire, body: Body) -> None:
        """A transactional step begins."""
        node = self._node_of(wire)
        path = body.names.text(body.location)
        self._begin(node, body, path)
        if self.on_begin is not None:
            self.on_begin(node, body, path)

    def before(self, wire: Wire, commits: Sequence[Commit]) -> None:
        """A worker is about to commit."""
        self._meet(wire, commits, "before")

    def wrote(self, wire: Wire, commits: Sequence[Commit], applied: Sequence[Applied]) -> None:
        """A worker has committed."""
        self.changes += 1
        for commit, one in zip(commits, applied, strict=True):
            mark = (commit.run_id, commit.fence.epoch, commit.number)
            if one.verdict is not Verdict.APPLIED or mark in self._written:
                continue
            self._written.add(mark)
            self._names[commit.run_id] = self._names.get(commit.run_id, ()) + commit.names
            self.emitted.setdefault(commit.run_id, []).extend(commit.emits)
            if isinstance(commit.move, Pause):
                failure = decode_failure(commit.move.failure)
                if failure.code in _DIVERGED:
                    self.diverged.append((commit.run_id, _in_words(failure.message, failure.why, failure.fix)))

    def after(self, wire: Wire, commits: Sequence[Commit]) -> None:
        """A worker has committed, and has not got the answer yet."""
        self._meet(wire, commits, "after")
        if self.options.always_replay:
            node = self._node_of(wire)
            for commit in commits:
                if commit.move is None and _is_progress(commit):
                    node.engine.evict_now(commit.run_id)

    def _meet(self, wire: Wire, commits: Sequence[Commit], moment: Moment) -> None:
        if self.on_point is None:
            return
        node = self._node_of(wire)
        for commit in commits:
            self.on_point(node, moment, self._point(commit))

    def _point(self, commit: Commit) -> Point:
        mark = (commit.run_id, commit.fence.epoch, commit.number)
        point = self._points.get(mark)
        names = self._names.get(commit.run_id, ())
        if mark not in self._written:
            names += commit.names
        paths = tuple(format_path(entry.location, names) for entry in commit.entries)
        if point is None or point.paths != paths:
            run = self.ask(self.store.views.find(commit.run_id))
            number = len(self._points) + 1 if point is None else point.number
            workflow = "" if run is None else run.workflow
            move = "" if commit.move is None else type(commit.move).__name__
            point = self._points[mark] = Point(number, commit.run_id, workflow, paths, move)
        return point

    def _node_of(self, wire: Wire) -> Node:
        return next(node for node in self.nodes if node.lane is wire.lane)

    def read_emit(self, run: Run, emit: Emit) -> Any:
        """The payload of an emitted event as plain JSON values."""
        place = Place(run.workflow, emit.path, "the event", row=event_row(run.run_id, emit.path, emit.event_id))
        return read_plainly(self.engine.codec.unseal(emit.payload, place=place))

    # --- the end ---

    def close(self) -> None:
        """End everything."""
        for node in self.alive():
            node.wire.is_cut_off = False
            try:
                self.perform(node.engine.shutdown(grace=0.0), node.lane)
            except Exception:  # noqa: BLE001  a body that does not stop ends with its lane
                continue
        self.loop.dispose()
        for node in self.nodes:
            node.executor.close()
        self._calls.close()
        self.database.close()


def _is_progress(commit: Commit) -> bool:
    """Whether the run can be released after this commit without losing anything.

    Not after the recorded beginning of an at-most-once step: the next worker would have to treat the step as begun.
    """
    has_begun = any(attempt.failure is None and attempt.next_at is None for attempt in commit.attempts)
    return bool(commit.entries or commit.cursors) and not has_begun


def _in_words(message: str, why: str, fix: str) -> str:
    return "\n".join([message, *(f"  {label:<5} {text}" for label, text in (("why", why), ("fix", fix)) if text)])


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore cancelled tasks of killed processes, which nothing awaits."""
    error = context.get("exception")
    if error is not None and not isinstance(error, asyncio.CancelledError):
        loop.default_exception_handler(context)
