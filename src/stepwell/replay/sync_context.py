"""`SyncContext`: the author's surface in a plain `def`. Each method is that of `Context`, and returns its result."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar, Unpack, overload

from stepwell.clock import Duration
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId
from stepwell.replay.branches import mark_plain
from stepwell.replay.context import SILENT, Compensations, Context, Previous, Tried
from stepwell.replay.definition import Step, Workflow, is_async
from stepwell.replay.operations import Operation, Outcome
from stepwell.replay.plain import PlainCode, untouched
from stepwell.replay.primitives.child import ChildOptions, OnParentClose
from stepwell.replay.primitives.join import OnError
from stepwell.replay.primitives.loop import Break, Continue
from stepwell.replay.primitives.race import First, Winner
from stepwell.replay.primitives.sleep import Slept
from stepwell.replay.primitives.stream import Stream
from stepwell.replay.step_context import StepContext
from stepwell.replay.sync_messages import SyncMessages

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")


async def run_plain(context: Context, fn: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]) -> Any:
    """Run a plain function as workflow code. It may be run again: it gets its arguments anew each time."""
    code = PlainCode(context._scope.turn, lambda code: fn(SyncContext(context, code), *arguments()))
    return await code.run()


def plain_branch(fn: Any) -> Callable[..., Awaitable[Any]]:
    """A plain function as the branch, body or item function that the primitives know."""
    if not callable(fn) or is_async(fn):
        raise InvalidOptionError(
            f"{getattr(fn, '__qualname__', fn)!r} is not a plain function",
            why="a `def` workflow runs plain functions, which take a SyncContext",
            fix="write `def`, and `async def` for steps only",
        )

    @functools.wraps(fn)
    async def branch(context: Context, *args: Any) -> Any:
        first, kept = [args], untouched(args)
        return await run_plain(context, fn, lambda: first.pop() if first else untouched(kept))

    return mark_plain(branch)


class SyncContext(SyncMessages):
    """Every operation of a `def` workflow: as those of `Context`, but each returns its result instead of an awaitable.

    The function holds no thread while it waits: it is unwound there, and run again from its beginning when the answer
    is there, with everything it was told before. Its `finally` blocks run at each unwinding, and can record nothing.
    """

    __slots__ = ()

    # --- who and when ---

    @property
    def run_id(self) -> RunId:
        """The id of this run."""
        return self._ctx.run_id

    @property
    def key(self) -> str | None:
        """The business key, normalised."""
        return self._ctx.key

    @property
    def workflow(self) -> str:
        """The name of this workflow."""
        return self._ctx.workflow

    @property
    def workflow_version(self) -> int:
        """The version this run was started with."""
        return self._ctx.workflow_version

    @property
    def generation(self) -> int:
        """1, and one more after each continue-as-new."""
        return self._ctx.generation

    @property
    def previous(self) -> Previous | None:
        """The predecessor in the chain, with both of its times."""
        return self._ctx.previous

    @property
    def started_at(self) -> datetime:
        """When this run began: the `started_at` that its successor sees in `previous`."""
        return self._ctx.started_at

    def now(self) -> datetime:
        """The time at which the last result reached this scope, by the store's clock: the same on every replay."""
        return self._code.read("now", self._ctx.now)

    def random(self) -> float:
        """A number in [0, 1), the same on every replay."""
        return self._code.read("random", self._ctx.random)

    def uuid(self) -> uuid.UUID:
        """A random UUID, the same on every replay."""
        return self._code.read("uuid", self._ctx.uuid)

    @property
    def is_replaying(self) -> bool:
        """Whether this code is passing what it did before. For diagnostics only: never branch on it."""
        return self._code.is_catching_up or self._ctx.is_replaying

    @property
    def log(self) -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
        """A logger that is silent on replay."""
        return SILENT if self.is_replaying else self._ctx.log

    # --- steps ---

    @overload
    def step(self, fn: Step[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(
        self, fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def step(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, fn: Callable[Concatenate[StepContext, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, name: str, fn: Step[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(
        self, name: str, fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def step(
        self, name: str, fn: Callable[Concatenate[StepContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def step(self, name: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def step(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function as a step: `ctx.step(charge, order)` or `ctx.step("charge", fn, order)`.

        All keywords belong to the function. Raises `StepFailed` when it failed for good.
        """
        return self._ask("step", fn, lambda: self._ctx.step(fn, *args, **kwargs))

    @overload
    def try_step(self, fn: Step[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Tried[R]: ...
    @overload
    def try_step(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Tried[R]: ...
    @overload
    def try_step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Tried[R]: ...
    @overload
    def try_step(self, name: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Tried[R]: ...
    @overload
    def try_step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Tried[R]: ...
    def try_step(self, fn: Any, /, *args: Any, **kwargs: Any) -> Tried[Any]:
        """As `step`, but a final failure is a value. A `Rollback`, suspension and cancellation are not caught by it."""
        return self._ask("step", fn, lambda: self._ctx.try_step(fn, *args, **kwargs))

    def once(self, name: str, producer: Callable[[], R], *, repeat: bool = False) -> R:
        """A local value that is kept: `ref = ctx.once("ref", make_reference)`.

        It is recorded once. If the worker dies before that, it is produced again, and no step has seen the first one.
        """
        return self._ask("once", name, lambda: self._ctx.once(name, producer, repeat=repeat))

    def fail(self, reason: str, data: Any = None) -> NoReturn:
        """End with a planned business failure: the reason is kept verbatim, nothing is retried, compensations run."""
        self._ctx.fail(reason, data)

    # --- time ---

    def sleep(self, name: str, duration: Duration, *, repeat: bool = False) -> Slept:
        """Wait. The deadline is fixed at the first visit and never extended by a replay."""
        return self._ask("sleep", name, lambda: self._ctx.sleep(name, duration, repeat=repeat))

    def sleep_until(self, name: str, when: datetime, *, repeat: bool = False) -> Slept:
        """Wait until a point in time; a past one is over at once."""
        return self._ask("sleep", name, lambda: self._ctx.sleep_until(name, when, repeat=repeat))

    # --- to clients, while it runs ---

    def publish_state(self, value: Any) -> None:
        """Show a value to clients, who read it with `engine.runs.state(run)`. It replaces the one before."""
        self._code.read("publish_state", lambda: self._ctx.publish_state(value))

    @property
    def state(self) -> SyncState:
        """Named values for clients: `ctx.state["progress"] = 0.5`, read with `engine.runs.state(run, "progress")`."""
        return SyncState(self._ctx, self._code)

    def stream(self, name: str) -> SyncStream:
        """A durable output that clients read by offset: `ctx.stream("log").append(line)`."""
        return SyncStream(self._ctx.stream(name), self._code, name)

    # --- parallel ---

    def join(
        self,
        name: str,
        branches: Mapping[str, Callable[[SyncContext], R]],
        *,
        on_error: OnError = "wait_all",
        repeat: bool = False,
    ) -> dict[str, R]:
        """Run all branches at once; their results by name. Raises `JoinError` with the failing ones.

        One branch runs at a time, until it waits; their steps and waits overlap.
        """
        return self._ask(
            "join", name, lambda: self._ctx.join(name, _plain_branches(branches), on_error=on_error, repeat=repeat)
        )

    def map(
        self,
        name: str,
        function: Callable[[SyncContext, T], R],
        items: Iterable[T],
        *,
        limit: int = 100,
        on_error: OnError = "wait_all",
        repeat: bool = False,
    ) -> list[R]:
        """Run a function over many items, at most `limit` at once; the results in the order of the items."""
        return self._ask(
            "map",
            name,
            lambda: self._ctx.map(name, plain_branch(function), items, limit=limit, on_error=on_error, repeat=repeat),
        )

    def race(
        self,
        name: str,
        branches: Mapping[str, Callable[[SyncContext], Any]],
        *,
        first: First = "success",
        repeat: bool = False,
    ) -> Winner:
        """Run all branches at once; the first to succeed wins, and the others are cancelled."""
        return self._ask(
            "race", name, lambda: self._ctx.race(name, _plain_branches(branches), first=first, repeat=repeat)
        )

    def loop(
        self,
        name: str,
        body: Callable[[SyncContext, S], Continue[S] | Break[R] | None],
        state: S,
        *,
        commit_every: int = 1,
        trim_every: int = 20,
        keep: int = 20,
        repeat: bool = False,
    ) -> R:
        """Iterate with durable state until the body returns `Break(value)`; the history stays small."""
        given: dict[str, Any] = {"commit_every": commit_every, "trim_every": trim_every, "keep": keep}
        found: R = self._ask(
            "loop", name, lambda: self._ctx.loop(name, plain_branch(body), state, **given, repeat=repeat)
        )
        return found

    # --- other runs ---

    @overload
    def child(self, workflow: Workflow[None, Out], **options: Unpack[ChildOptions]) -> Out: ...
    @overload
    def child(self, workflow: Workflow[In, Out], input: In, **options: Unpack[ChildOptions]) -> Out: ...
    def child(self, workflow: Workflow[Any, Any], input: Any = None, **options: Any) -> Any:
        """Start a child and wait for its result. Raises `ChildFailed` if it does not complete."""
        return self._ask("child", options.get("name") or workflow, lambda: self._ctx.child(workflow, input, **options))

    @overload
    def child_outcome(self, workflow: Workflow[None, Out], **options: Unpack[ChildOptions]) -> Outcome[Out]: ...
    @overload
    def child_outcome(
        self, workflow: Workflow[In, Out], input: In, **options: Unpack[ChildOptions]
    ) -> Outcome[Out]: ...
    def child_outcome(self, workflow: Workflow[Any, Any], input: Any = None, **options: Any) -> Outcome[Any]:
        """Start a child and wait for how it ended; its failure is a value instead of an exception."""
        return self._ask(
            "child", options.get("name") or workflow, lambda: self._ctx.child(workflow, input, **options).outcome()
        )

    def children(
        self,
        workflow: Workflow[In, Out],
        inputs: Iterable[In],
        *,
        name: str | None = None,
        on_parent_close: OnParentClose = "leave",
    ) -> list[Out]:
        """Start a child for each input and wait for all of them; their results in that order."""
        return self._ask(
            "children",
            name or workflow,
            lambda: self._ctx.children(workflow, inputs, name=name, on_parent_close=on_parent_close),
        )

    @overload
    def spawn(self, workflow: Workflow[None, Any], **options: Unpack[ChildOptions]) -> RunId: ...
    @overload
    def spawn(self, workflow: Workflow[In, Any], input: In, **options: Unpack[ChildOptions]) -> RunId: ...
    def spawn(self, workflow: Workflow[Any, Any], input: Any = None, **options: Any) -> RunId:
        """Start a run that this one neither waits for nor takes down with it; its id."""
        return self._ask("spawn", options.get("name") or workflow, lambda: self._ctx.spawn(workflow, input, **options))

    @overload
    def continue_as_new(self, input: Any = None, *, compensations: Compensations = "keep") -> NoReturn: ...
    @overload
    def continue_as_new(
        self, input: In, workflow: Workflow[In, Any], *, compensations: Compensations = "keep"
    ) -> NoReturn: ...
    def continue_as_new(
        self,
        input: Any = None,
        workflow: Workflow[Any, Any] | None = None,
        *,
        compensations: Compensations = "keep",
    ) -> NoReturn:
        """End this run and go on as a new one of the same key, atomically; unread signals move along.

        What this run could still undo goes along too, and the successor undoes it after its own steps;
        `compensations="drop"` gives it up. Raises `InvalidOptionError` if a compensation could not be found again: it
        has to be a function at the top of a module.
        """
        self._ctx.continue_as_new(input, workflow, compensations=compensations)  # type: ignore[arg-type]

    # --- undoing ---

    def rollback_checkpoint(self, name: str, *, repeat: bool = False) -> None:
        """Mark a line: `raise Rollback(to=name)` undoes only what comes after it."""
        self._ask("checkpoint", name, lambda: self._ctx.rollback_checkpoint(name, repeat=repeat))

    # --- changing code ---

    def version(self, name: str, latest: int) -> int:
        """`latest` for a run that comes here for the first time, 1 for one that had passed before this was written."""
        return self._code.read(f"version {name}", lambda: self._ctx.version(name, latest))

    def patched(self, name: str) -> bool:
        """Whether this run takes the new code: true for one that comes here for the first time."""
        return self._code.read(f"patched {name}", lambda: self._ctx.patched(name))

    def deprecated(self, name: str) -> None:
        """The patch is everywhere now: accepts runs that recorded it."""
        self._code.read(f"deprecated {name}", lambda: self._ctx.deprecated(name))

    def removed(self, name: str, kind: str) -> None:
        """Declare that an operation of this name and kind ("step", "sleep", …) was removed from the code."""
        self._code.read(f"removed {name}", lambda: self._ctx.removed(name, kind))

    def _ask(self, kind: str, subject: Any, begin: Callable[[], Operation[T]]) -> T:
        name = subject if isinstance(subject, str) else getattr(subject, "name", None) or _name_of(subject)
        return self._code.ask(f"{kind} {name}", begin)


class SyncState:
    """`ctx.state["name"] = value` of a `def` workflow."""

    __slots__ = ("_code", "_ctx")

    def __init__(self, context: Context, code: PlainCode) -> None:
        self._ctx = context
        self._code = code

    def __setitem__(self, name: str, value: Any) -> None:
        """Publish a value under a name."""
        self._code.read(f"state {name}", lambda: self._ctx.state.__setitem__(name, value))


class SyncStream:
    """A stream of a `def` workflow."""

    __slots__ = ("_code", "_name", "_stream")

    def __init__(self, stream: Stream, code: PlainCode, name: str) -> None:
        self._stream = stream
        self._code = code
        self._name = name

    def append(self, value: Any) -> None:
        """Append a value. It is recorded once, and reaches readers with the run's next commit."""
        self._code.ask(f"append {self._name}", lambda: self._stream.append(value))

    def close(self) -> None:
        """Tell readers that nothing follows. The end of the run does the same."""
        self._code.ask(f"close {self._name}", self._stream.close)


def _plain_branches(branches: Mapping[str, Callable[[SyncContext], R]]) -> dict[str, Callable[..., Awaitable[R]]]:
    return {name: plain_branch(branch) for name, branch in branches.items()}


def _name_of(fn: Any) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))
