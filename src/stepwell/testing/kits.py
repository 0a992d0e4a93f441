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
    """The fixture `stepwell` of an `async def` test: the real engine, on a clock and a database of its own."""

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
        """Start a run, as `Engine.start` does. It does nothing before it is driven."""
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
        """Start a run and drive it to its end, whatever that is. One that can never end raises `Stuck`."""
        return await (await self.start(workflow, input, **options)).ended()

    async def handle(self, workflow: Workflow[Any, Out], target: str) -> KitRun[Out]:
        """A run that exists already, by id or key: a child, for example."""
        self.check_open()
        return KitRun(self, self.world.ask(self.world.engine.runs.handle(workflow, target)))

    async def emit(self, topic: str | Event | type[Event], payload: Any = None, **options: Any) -> int:
        """Publish an event, as `Engine.publish` does; how many runs got it."""
        return self._emit(topic, payload, options)

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The answer to a coroutine of `stepwell.engine`, which every other verb is."""
        self.check_open()
        return self.world.tell(work)

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
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
        """Run the workflow once to find its commits, then once for each way to crash at each of them: the worker dies
        before the commit, after it, or its acknowledgement is lost. Raises `CrashFound` if anything differs.

        `script` is what happens from outside, each line once the run waits. `same_result` compares status, result,
        failure and path; a function is applied to the results first. `at_most_once` are paths whose bodies may not
        begin twice unless they look at their idempotency key. `effects` are what happened to the outside world: a
        collection that grows, or a function; each must happen as often as without a crash. `before_each` makes the
        outside world anew. Mocks and faults count in every execution. With `check=False` it only reports.
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
