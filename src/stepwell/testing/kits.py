"""The kit of an `async def` test."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from stepwell.engine.starts import StartOptions
from stepwell.model.topics import Event
from stepwell.replay.workflows import Workflow
from stepwell.testing.base import KitBase, KitOptions
from stepwell.testing.clock import KitClock
from stepwell.testing.runs import KitRun
from stepwell.testing.scripts import Act
from stepwell.testing.sweeps import CrashReport, sweep

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")


class Kit(KitBase):
    """The fixture `stepwell` of an `async def` test: the real engine with its own clock and database."""

    def __init__(self, options: KitOptions, *, name: str = "this test") -> None:
        super().__init__(options, name=name)
        self.clock = KitClock(self.world, self.note)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_checked=kind is None)

    @overload
    async def start(
        self, workflow: Workflow[None, Out], input: None = None, **options: Unpack[StartOptions]
    ) -> KitRun[Out]: ...
    @overload
    async def start(self, workflow: Workflow[In, Out], input: In, **options: Unpack[StartOptions]) -> KitRun[Out]: ...
    @overload
    async def start(self, workflow: str, input: Any = None, **options: Unpack[StartOptions]) -> KitRun[Any]: ...
    async def start(
        self, workflow: Workflow[Any, Any] | str, input: Any = None, **options: Unpack[StartOptions]
    ) -> KitRun[Any]:
        """Start a run, as `Engine.start` does. The run does nothing until the test drives it."""
        return KitRun(self, self._handle(workflow, input, dict(options)))

    @overload
    async def run(
        self, workflow: Workflow[None, Out], input: None = None, **options: Unpack[StartOptions]
    ) -> KitRun[Out]: ...
    @overload
    async def run(self, workflow: Workflow[In, Out], input: In, **options: Unpack[StartOptions]) -> KitRun[Out]: ...
    async def run(
        self, workflow: Workflow[Any, Any], input: Any = None, **options: Unpack[StartOptions]
    ) -> KitRun[Any]:
        """Start a run and drive it to its end, successful or not. Raises `Stuck` if it can never end."""
        return await (await self.start(workflow, input, **options)).ended()

    async def handle(self, workflow: Workflow[Any, Out], target: str) -> KitRun[Out]:
        """An existing run by id or key, for example a child."""
        self.check_open()
        return KitRun(self, self.world.ask(self.world.engine.runs.handle(workflow, target)))

    async def scheduled(self, name: str) -> list[KitRun[Any]]:
        """The runs that a schedule has started so far, the earliest fire time first. Let time pass with
        `clock.advance`; a worker must run the workflow (`serve`).
        """
        return [KitRun(self, handle) for handle in self._scheduled(name)]

    async def emit(self, topic: str | Event | type[Event], payload: Any = None, **options: Any) -> int:
        """Publish an event, as `Engine.publish` does; returns how many runs got it."""
        return self._emit(topic, payload, options)

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine of `stepwell.engine`: for every other method of the engine."""
        self.check_open()
        return self.world.tell(work)

    async def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        self.check_open()
        self.world.settle()
        self.check_diverged()

    async def crash_everywhere(
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
        """Run the workflow once to find its commits, then three times for each commit: the worker dies before it, the
        worker dies after it, or its acknowledgement is lost. Raises `CrashFound` if an execution differs.

        `script` lists acts from outside; each is done when the run waits. `same_result` compares status, result,
        failure and path; a function is applied to the results first. `at_most_once` lists paths whose bodies may begin
        twice only if they read their idempotency key. `effects` are the effects on the outside world, as a growing
        collection or a function; each must happen as often as without a crash. `before_each` resets the outside world.
        Mocks and faults apply to every execution. With `check=False` it only reports.
        """
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
