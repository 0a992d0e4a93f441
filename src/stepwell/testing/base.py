"""The common base of both kits: everything that needs no `await`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from stepwell.clock import SECOND, Duration, span
from stepwell.engine.handles import Handle
from stepwell.engine.views import SignalView
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.schedules import check_name, scheduled_of
from stepwell.model.topics import Event
from stepwell.replay.workflows import Workflow
from stepwell.testing import scripts
from stepwell.testing.contexts import UnitContext, unit_context
from stepwell.testing.crashes import Crashes, When
from stepwell.testing.databases import StoreKind, open_database
from stepwell.testing.errors import Diverged, KitClosedError, Stuck
from stepwell.testing.faults import NOTHING, Effect, Fault, InjectedFailure, Target, effect_of
from stepwell.testing.nodes import Node
from stepwell.testing.scripts import Act
from stepwell.testing.trees import tree
from stepwell.testing.world import Options, World
from stepwell.wiring import Engine

T = TypeVar("T")

Nondeterminism = Literal["error", "warn", "off"]
Worker = Node

CLUSTER: dict[str, Any] = {"lease": "10s", "sweep_every": "2s"}


@dataclass(frozen=True, slots=True)
class KitOptions:
    """The options of a kit: its store, its clock, and what counts as an error."""

    store: StoreKind = "memory"
    folder: Path | None = None
    postgres: str | None = None
    nondeterminism: Nondeterminism = "error"
    world: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Unrouted:
    """Messages that no run received."""

    signals: list[SignalView]  # held for a key without a run, or left unread by runs
    events: list[tuple[str, Any]]  # published while no run waited for them


@dataclass(slots=True)
class Started:
    """A run that the test started, and what the test then did to it."""

    world: World
    run_id: RunId
    workflow: Workflow[Any, Any] | None
    input: Any
    options: dict[str, Any]
    acts: list[Act] = field(default_factory=list)

    def has_ended(self) -> bool:
        """Whether the run has ended."""
        return self.world.find(self.run_id).ended_at is not None


class KitBase:
    """The database, clock and workers of one test. Nothing happens unless the test drives it."""

    def __init__(self, options: KitOptions, *, name: str = "this test") -> None:
        self.options = options
        self.name = name
        self._is_closed = False
        database = open_database(options.store, folder=options.folder, postgres=options.postgres)
        self.world = World(database, options.world)
        self._crashes = Crashes(self.world)
        self.deliveries = 1
        self._unheard: list[tuple[str, Any]] = []
        self.started: list[Started] = []
        self._reported = 0  # how many divergences were reported

    # --- life ---

    @property
    def is_closed(self) -> bool:
        """Whether the test is over."""
        return self._is_closed

    def check_open(self) -> None:
        """Raise `KitClosedError` if the test is over."""
        if self._is_closed:
            raise KitClosedError(
                f"this kit belongs to {self.name}, which has ended; its database and its clock are gone. Use the "
                "fixture `stepwell` in each test; to share a set-up, write a function-scoped fixture that uses it"
            )

    def close(self, *, is_checked: bool = True) -> None:
        """End everything. Raises if code diverged and the test was not told, or if a requested crash never happened."""
        if self._is_closed:
            return
        try:
            if is_checked:
                self.check_diverged()
                missed = self._crashes.missed
                if missed:
                    raise AssertionError(f"{missed[0]} never happened: no worker reached that path")
        finally:
            self._is_closed = True
            self.world.close()

    def check_diverged(self) -> None:
        """Raise `Diverged`, or warn, about every run whose replay took another path."""
        new, self._reported = self.world.diverged[self._reported :], len(self.world.diverged)
        if not new or self.options.nondeterminism == "off":
            return
        run_id, text = new[0]
        shown = tree([self.world.ask(self.world.engine.runs.detail(run_id))])
        message = f"the workflow is not deterministic: its replay differs from its first execution\n{text}"
        if self.options.nondeterminism == "warn":
            warnings.warn(message, stacklevel=3)
        else:
            raise Diverged(f"{message}\n\n{shown}")

    @property
    def engine(self) -> Engine:
        """The engine, for every other method. It has no worker of its own, and every call returns at once."""
        self.check_open()
        return self.world.engine

    def serve(self, *workflows: Workflow[Any, Any]) -> None:
        """Let the workers run these workflows. `start` does it for its workflow, and for all that its module names."""
        self.check_open()
        self.world.serve(*workflows)

    def _handle(self, workflow: Workflow[Any, Any] | str, input: Any, options: dict[str, Any]) -> Handle[Any]:
        self.check_open()
        if isinstance(workflow, Workflow):
            self.world.serve(workflow)
        elif self.options.world.workflows:
            self.world.serve()  # the app knows the name
        handle = self.world.tell(self.world.engine.start(cast("Any", workflow), input, **options))
        known = workflow if isinstance(workflow, Workflow) else None
        self.started.append(Started(self.world, handle.run_id, known, input, options))
        return handle

    def _scheduled(self, name: str) -> list[Handle[Any]]:
        self.check_open()
        engine, wanted = self.world.engine, check_name(name)
        runs = [(scheduled_of(run.attributes), run.run_id) for run in self.world.list_runs()]
        found = sorted((one.fire_time, run_id) for one, run_id in runs if one is not None and one.name == wanted)
        return [Handle(engine.runs, engine.signals, run_id, is_new=False, same_input=True) for _, run_id in found]

    def note(self, act: Act, run_id: RunId | None = None) -> None:
        """The test did something to one run, or to all runs; a crash sweep after the test repeats it."""
        for start in self.started:
            if run_id is None or start.run_id == run_id:
                start.acts.append(act)

    def wait_for(self, work: Coroutine[Any, Any, T], stuck: Callable[[str], Stuck]) -> T:
        """Drive until a waiting coroutine has its answer."""
        self.check_open()
        world = self.world
        task = world.loop.create_task(work, context=world.outside.context())
        world.drive(lambda: False, only_if=lambda: not task.done() and world.may_move())
        self.check_diverged()
        if not task.done():
            task.cancel()
            world.settle()
            raise stuck("answer")
        return cast("T", task.result())

    # --- faults ---

    def mock(
        self,
        target: Target,
        *,
        returns: Any = NOTHING,
        raises: BaseException | type[BaseException] | None = None,
        side_effect: Effect | None = None,
        times: int | None = None,
    ) -> None:
        """Replace a step's body: by path, glob ("rows/~*/load") or function; "reserve~undo" is the compensation of
        "reserve". The value is checked against the step's annotation. With `times`, only that many bodies are replaced.
        """
        self.world.faults.add(Fault(target, effect_of(returns, raises, side_effect), left=times))

    def fail(self, target: Target, *, times: int | None = None, error: BaseException | None = None) -> None:
        """Let a step's body fail: for `times` attempts, or always."""
        name = target if isinstance(target, str) else getattr(target, "__name__", "step")
        self.mock(target, raises=error or InjectedFailure(f"{name} failed: injected by the test"), times=times)

    def slow(self, target: Target, *, seconds: float, times: int | None = None) -> None:
        """Delay a step's body by this much time of the test's clock."""
        if seconds <= 0:
            raise InvalidOptionError(f"seconds is {seconds}", where="slow", why="a delay must be positive")
        self.world.faults.add(Fault(target, delay=seconds, left=times))

    def time_out(self, target: Target, *, times: int | None = None) -> None:
        """Let a step's body run into its own timeout."""
        self.world.faults.add(Fault(target, hangs=True, left=times))

    def clear_faults(self) -> None:
        """Remove all mocks and faults."""
        self.world.faults.clear()

    def crash_at(self, target: Target, *, when: When = "after_run_before_record") -> None:
        """Kill the worker once when it reaches this path; another worker takes over. If the crash never happens, the
        test fails at its end.
        """
        self._crashes.add(target, when)

    # --- recorded runs ---

    def assert_replays(self, workflow: Workflow[Any, Any], files: str | Path) -> int:
        """Check that every run of this workflow in these history files continues with the current code; returns their
        number. `files` is a path or a glob; `stepwell export` and `run.export` write such files. No body runs, and
        nothing is written.
        """
        from stepwell.testing.replays import assert_replays

        return assert_replays(workflow, str(files), self.options.world.codec)

    # --- messages ---

    def deliver_twice(self, *, on: bool = True) -> None:
        """Send every signal and event of the test twice from now on, as a client does that got no answer."""
        self.deliveries = 2 if on else 1

    def unrouted(self) -> Unrouted:
        """Messages that no run received."""
        self.check_open()
        held = self.world.ask(self.world.engine.signals.list_held())
        unread = self.world.ask(self.world.engine.signals.list_unread())
        return Unrouted([*held, *unread], list(self._unheard))

    def _emit(self, topic: str | Event | type[Event], payload: Any, options: dict[str, Any]) -> int:
        self.check_open()
        if self.options.world.triggers:
            self.world.serve()  # a worker declares them
        self.note(scripts.publish(topic, payload))
        heard = [self.world.tell(self.world.engine.publish(topic, payload, **options)) for _ in range(self.deliveries)]
        if not any(heard):
            name = topic if isinstance(topic, str) else type(topic).__name__
            self._unheard.append((name, payload if isinstance(topic, str) else topic))
        return heard[0]

    # --- workers ---

    def workers(self, count: int, **settings: Any) -> list[Worker]:
        """Start this many workers, with leases of 10 s that they must renew as in production. `settings` are fields of
        `WorkerSettings`. Call it before the first start.
        """
        self.check_open()
        if self.world.nodes:
            raise InvalidOptionError(
                "the test has a worker already", where="workers", fix="call stepwell.workers(n) before the first start"
            )
        return [self.world.add_node(**{**CLUSTER, **settings}) for _ in range(count)]

    def kill(self, worker: Worker) -> None:
        """Kill a worker, as `kill -9` does, without any clean-up. Others claim its runs when its lease has expired."""
        self.check_open()
        self._check_worker(worker)
        self.world.kill(worker, is_replaced=False)

    def partition(self, worker: Worker) -> None:
        """Disconnect a worker from the store: it lives, but none of its calls arrive."""
        self._check_worker(worker)
        if worker.lease_seconds > 86_400 * 365:
            raise InvalidOptionError(
                "the only worker of this test has a lease that never expires",
                where="partition",
                fix="call stepwell.workers(2) first, and disconnect one of them",
            )
        worker.wire.is_cut_off = True

    def heal(self, worker: Worker) -> None:
        """Connect a worker again that was disconnected."""
        self._check_worker(worker)
        worker.wire.is_cut_off = False

    def skew(self, worker: Worker, *, seconds: float) -> None:
        """Shift a worker's wall clock by this much from now on."""
        self._check_worker(worker)
        worker.clock.skew = round(seconds * SECOND)

    def _check_worker(self, worker: Worker) -> None:
        if worker not in self.world.nodes:
            raise InvalidOptionError(
                f"{worker!r} does not belong to this test", fix="use a worker that stepwell.workers(n) returned"
            )
        if not worker.is_alive:
            raise InvalidOptionError(f"{worker!r} cannot be used", why="it was killed")

    # --- acts for scripts, and single steps ---

    send = staticmethod(scripts.send)
    publish = staticmethod(scripts.publish)
    advance = staticmethod(scripts.advance)
    cancel = staticmethod(scripts.cancel)

    @staticmethod
    def ctx(**given: Any) -> UnitContext:
        """A context for a direct call of one step's function; see `unit_context` for the arguments."""
        return unit_context(**given)


def effects_of(effects: Callable[[], Iterable[Any]] | Iterable[Any] | None) -> Callable[[], Iterable[Any]] | None:
    """A function that returns the effects so far, from a function or from a growing collection."""
    if effects is None or callable(effects):
        return effects
    growing = effects
    return lambda: tuple(growing.elements() if isinstance(growing, Counter) else growing)


def as_seconds(duration: Duration) -> float:
    """A duration in seconds."""
    return span(duration) / SECOND


def as_sequence(paths: Sequence[str] | str) -> Sequence[str]:
    """One path or several, as a sequence."""
    return (paths,) if isinstance(paths, str) else paths
