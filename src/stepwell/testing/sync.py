"""The kit of a `def` test: the same verbs, without `await`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from stepwell.engine.starts import StartOptions
from stepwell.model.topics import Event
from stepwell.replay.workflows import Workflow
from stepwell.testing.base import KitBase, KitOptions, as_sequence, effects_of
from stepwell.testing.clock import SyncClock
from stepwell.testing.runs import SyncRun
from stepwell.testing.scripts import Act
from stepwell.testing.sweeps import CrashReport, Sweep, check

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")


class SyncKit(KitBase):
    """The fixture `stepwell` of a `def` test."""

    def __init__(self, options: KitOptions, *, name: str = "this test") -> None:
        super().__init__(options, name=name)
        self.clock = SyncClock(self.world, self.note)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_checked=kind is None)

    @overload
    def start(
        self, workflow: Workflow[None, Out], input: None = None, **options: Unpack[StartOptions]
    ) -> SyncRun[Out]: ...
    @overload
    def start(self, workflow: Workflow[In, Out], input: In, **options: Unpack[StartOptions]) -> SyncRun[Out]: ...
    @overload
    def start(self, workflow: str, input: Any = None, **options: Unpack[StartOptions]) -> SyncRun[Any]: ...
    def start(
        self, workflow: Workflow[Any, Any] | str, input: Any = None, **options: Unpack[StartOptions]
    ) -> SyncRun[Any]:
        """See `Kit.start`."""
        return SyncRun(self, self._handle(workflow, input, dict(options)))

    @overload
    def run(
        self, workflow: Workflow[None, Out], input: None = None, **options: Unpack[StartOptions]
    ) -> SyncRun[Out]: ...
    @overload
    def run(self, workflow: Workflow[In, Out], input: In, **options: Unpack[StartOptions]) -> SyncRun[Out]: ...
    def run(self, workflow: Workflow[Any, Any], input: Any = None, **options: Unpack[StartOptions]) -> SyncRun[Any]:
        """See `Kit.run`."""
        return self.start(workflow, input, **options).ended()

    def handle(self, workflow: Workflow[Any, Out], target: str) -> SyncRun[Out]:
        """See `Kit.handle`."""
        self.check_open()
        return SyncRun(self, self.world.ask(self.world.engine.handle(workflow, target)))

    def emit(self, topic: str | Event | type[Event], payload: Any = None, **options: Any) -> int:
        """See `Kit.emit`."""
        return self._emit(topic, payload, options)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The answer to a coroutine of `stepwell.engine`, which every other verb is."""
        self.check_open()
        return self.world.tell(work)

    def settle(self) -> None:
        """See `Kit.settle`."""
        self.check_open()
        self.world.settle()
        self.check_diverged()

    def crash_everywhere(
        self,
        workflow: Workflow[Any, Any],
        input: Any = None,
        *,
        script: Sequence[Act] = (),
        same_result: bool | Callable[[Any], Any] = True,
        at_most_once: Sequence[str] | str = (),
        effects: Callable[[], Iterable[Any]] | Iterable[Any] | None = None,
        before_each: Callable[[], object] | None = None,
        check: bool = True,
        **options: Unpack[StartOptions],
    ) -> CrashReport:
        """See `Kit.crash_everywhere`."""
        return sweep(
            self,
            workflow,
            input,
            script=script,
            same_result=same_result,
            at_most_once=at_most_once,
            effects=effects,
            before_each=before_each,
            is_checked=check,
            options=dict(options),
        )


def sweep(
    kit: KitBase,
    workflow: Workflow[Any, Any],
    input: Any,
    *,
    script: Sequence[Act],
    same_result: bool | Callable[[Any], Any],
    at_most_once: Sequence[str] | str,
    effects: Callable[[], Iterable[Any]] | Iterable[Any] | None,
    before_each: Callable[[], object] | None,
    is_checked: bool,
    options: dict[str, Any],
) -> CrashReport:
    """Crash everywhere, each time in a world of its own that is made like the one of the kit."""
    kit.check_open()
    faults = kit.world.faults

    def make_kit(always_replay: bool) -> SyncKit:
        # A file would be the same one each time: the database of each execution is its own, in memory.
        world = replace(kit.options.world, always_replay=always_replay)
        made = SyncKit(replace(kit.options, folder=None, world=world), name=kit.name)
        made.world.faults = faults.copy()
        return made

    found = Sweep(
        make_kit,
        same_result=same_result,
        at_most_once=as_sequence(at_most_once),
        effects=effects_of(effects),
        before_each=before_each,
    ).run(workflow, input, script, options)
    return check(found) if is_checked else found
