"""What both kinds of kits are made of: everything that needs no `await`."""

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
    """How a kit is made: which store, whose clock, and what is an error."""

    store: StoreKind = "memory"
    folder: Path | None = None
    postgres: str | None = None
    nondeterminism: Nondeterminism = "error"
    world: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Unrouted:
    """What was sent and reached nobody."""

    signals: list[SignalView]  # held for a key without a run, or left unread by runs
    events: list[tuple[str, Any]]  # published while nobody waited for them


@dataclass(slots=True)
class Started:
    """A run that the test started, and what it did to it from outside."""

    world: World
    run_id: RunId
    workflow: Workflow[Any, Any] | None
    input: Any
    options: dict[str, Any]
    acts: list[Act] = field(default_factory=list)

    def has_ended(self) -> bool:
        """Whether the run has come to an end."""
        return self.world.find(self.run_id).ended_at is not None


class KitBase:
    """A database, a clock and workers of one test. Nothing happens in it unless somebody drives it."""

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
        self._told = 0  # how many divergences were told

    # --- life ---

    @property
    def is_closed(self) -> bool:
        """Whether the test is over."""
        return self._is_closed

    def check_open(self) -> None:
        """Raise `KitClosedError` if the test is over."""
        if self._is_closed:
            raise KitClosedError(
                f"this kit belongs to {self.name}, which is over; its database and its clock are gone. Take the "
                "fixture `stepwell` in each test; to share a set-up, write a function-scoped fixture that takes it"
            )

    def close(self, *, is_checked: bool = True) -> None:
        """End everything. Raises if code diverged and nobody was told, or if a crash that was asked for never came."""
        if self._is_closed:
            return
        try:
            if is_checked:
                self.check_diverged()
                missed = self._crashes.missed
                if missed:
                    raise AssertionError(f"{missed[0]} never happened: no worker came there")
        finally:
            self._is_closed = True
            self.world.close()

    def check_diverged(self) -> None:
        """Raise `Diverged`, or warn, about every run whose code did something else when it was replayed."""
        new, self._told = self.world.diverged[self._told :], len(self.world.diverged)
        if not new or self.options.nondeterminism == "off":
            return
        run_id, text = new[0]
        shown = tree([self.world.ask(self.world.engine.runs.detail(run_id))])
        message = f"the workflow is not deterministic: its replay did something else than its first run\n{text}"
        if self.options.nondeterminism == "warn":
            warnings.warn(message, stacklevel=3)
        else:
            raise Diverged(f"{message}\n\n{shown}")

    @property
    def engine(self) -> Engine:
        """The engine, for every other verb; it has no worker of its own, and every answer comes at once."""
        self.check_open()
        return self.world.engine

    def serve(self, *workflows: Workflow[Any, Any]) -> None:
        """Let the workers run these. `start` does so for its own workflow, and for those that its module names."""
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

    def note(self, act: Act, run_id: RunId | None = None) -> None:
        """Something was done to a run, or to all of them; a sweep after the test does it again."""
        for start in self.started:
            if run_id is None or start.run_id == run_id:
                start.acts.append(act)

    def wait_for(self, work: Coroutine[Any, Any, T], stuck: Callable[[str], Stuck]) -> T:
        """Drive until something that waits has its answer."""
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
        """Let something stand for a step's body: by path, glob ("rows/~*/load") or function; "reserve~undo" is its
        compensation. The value is checked against the step's own annotation. With `times`, only for so many bodies.
        """
        self.world.faults.add(Fault(target, effect_of(returns, raises, side_effect), left=times))

    def fail(self, target: Target, *, times: int | None = None, error: BaseException | None = None) -> None:
        """Let a step's body fail, for so many attempts, or always."""
        name = target if isinstance(target, str) else getattr(target, "__name__", "step")
        self.mock(target, raises=error or InjectedFailure(f"{name} failed because the test says so"), times=times)

    def slow(self, target: Target, *, seconds: float, times: int | None = None) -> None:
        """Let so much time of the test's clock pass before a step's body does anything."""
        if seconds <= 0:
            raise InvalidOptionError(f"seconds is {seconds}", where="slow", why="it would change nothing")
        self.world.faults.add(Fault(target, delay=seconds, left=times))

    def time_out(self, target: Target, *, times: int | None = None) -> None:
        """Let a step's body run into its own timeout."""
        self.world.faults.add(Fault(target, hangs=True, left=times))

    def clear_faults(self) -> None:
        """From now on, every body is the real one."""
        self.world.faults.clear()

    def crash_at(self, target: Target, *, when: When = "after_run_before_record") -> None:
        """Kill the worker when it comes to this path, once; another one takes over. A crash that never comes fails the
        test at its end.
        """
        self._crashes.add(target, when)

    # --- recorded runs ---

    def assert_replays(self, workflow: Workflow[Any, Any], files: str | Path) -> int:
        """Every run of this workflow in these history files (a path or a glob; `stepwell export` and `run.export` write
        them) goes on with the code as it is now; how many there are. No body runs, and nothing is written.
        """
        from stepwell.testing.replays import assert_replays

        return assert_replays(workflow, str(files), self.options.world.codec)

    # --- messages ---

    def deliver_twice(self, *, on: bool = True) -> None:
        """Send every signal and event of the test twice from now on, as a sender does who heard no answer."""
        self.deliveries = 2 if on else 1

    def unrouted(self) -> Unrouted:
        """What was sent and reached nobody."""
        self.check_open()
        held = self.world.ask(self.world.engine.signals.list_held())
        unread = self.world.ask(self.world.engine.signals.list_unread())
        return Unrouted([*held, *unread], list(self._unheard))

    def _emit(self, topic: str | Event | type[Event], payload: Any, options: dict[str, Any]) -> int:
        self.check_open()
        self.note(scripts.publish(topic, payload))
        heard = [self.world.tell(self.world.engine.publish(topic, payload, **options)) for _ in range(self.deliveries)]
        if not any(heard):
            name = topic if isinstance(topic, str) else type(topic).__name__
            self._unheard.append((name, payload if isinstance(topic, str) else topic))
        return heard[0]

    # --- workers ---

    def workers(self, count: int, **settings: Any) -> list[Worker]:
        """Have this many workers, with leases of 10 s that have to be renewed as in production; the settings are those
        of `WorkerSettings`. Call it before the first start.
        """
        self.check_open()
        if self.world.nodes:
            raise InvalidOptionError(
                "there is a worker already", where="workers", fix="call stepwell.workers(n) before the first start"
            )
        return [self.world.add_node(**{**CLUSTER, **settings}) for _ in range(count)]

    def kill(self, worker: Worker) -> None:
        """Kill a worker, as `kill -9` does: no clean-up, no last word. Others have its runs when its lease is over."""
        self.check_open()
        self._check_worker(worker)
        self.world.kill(worker, is_replaced=False)

    def partition(self, worker: Worker) -> None:
        """Cut a worker off from the store: it lives, and nothing that it says arrives."""
        self._check_worker(worker)
        if worker.lease_seconds > 86_400 * 365:
            raise InvalidOptionError(
                "the one worker of a plain test has a lease that never ends",
                where="partition",
                fix="call stepwell.workers(2) first, and cut one of those off",
            )
        worker.wire.is_cut_off = True

    def heal(self, worker: Worker) -> None:
        """Connect a worker again that was cut off."""
        self._check_worker(worker)
        worker.wire.is_cut_off = False

    def skew(self, worker: Worker, *, seconds: float) -> None:
        """Let a worker's wall clock be wrong by so much from now on."""
        self._check_worker(worker)
        worker.clock.skew = round(seconds * SECOND)

    def _check_worker(self, worker: Worker) -> None:
        if worker not in self.world.nodes:
            raise InvalidOptionError(
                f"{worker!r} is no worker of this test", fix="one of what stepwell.workers(n) gave"
            )
        if not worker.is_alive:
            raise InvalidOptionError(f"{worker!r} cannot be used any more", why="it was killed")

    # --- parts of scripts, and single steps ---

    send = staticmethod(scripts.send)
    publish = staticmethod(scripts.publish)
    advance = staticmethod(scripts.advance)
    cancel = staticmethod(scripts.cancel)

    @staticmethod
    def ctx(**given: Any) -> UnitContext:
        """A context to call one step's function alone with; see `unit_context` for what can be given."""
        return unit_context(**given)


def effects_of(effects: Callable[[], Iterable[Any]] | Iterable[Any] | None) -> Callable[[], Iterable[Any]] | None:
    """The effects so far, however they are given: a function, or a collection that grows."""
    if effects is None or callable(effects):
        return effects
    growing = effects
    return lambda: tuple(growing.elements() if isinstance(growing, Counter) else growing)


def as_seconds(duration: Duration) -> float:
    """A duration in seconds."""
    return span(duration) / SECOND


def as_sequence(paths: Sequence[str] | str) -> Sequence[str]:
    """Paths, also if there is only one."""
    return (paths,) if isinstance(paths, str) else paths
