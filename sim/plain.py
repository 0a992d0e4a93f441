"""The plain twin of an async workflow: the same code, run by a `def` over a `SyncContext`.

The twin drives the coroutine inside its own thread. Each operation that the coroutine awaits is done then and there by
the `SyncContext`, so the coroutine never waits. Async and plain code must therefore leave the same history.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from typing import Any

from stepwell.replay.context import Context
from stepwell.replay.scopes import Scope
from stepwell.replay.sync_context import SyncContext, SyncStream
from stepwell.replay.workflows import Workflow

# What is no operation: it is read, or it raises.
_AT_ONCE = frozenset(
    {"now", "random", "uuid", "fail", "continue_as_new", "version", "patched", "deprecated", "removed", "publish_state"}
    | {"cleanup", "handle"}
    | {"set_attributes", "set_title", "add_tags", "remove_tags"}
)


def twin_of(original: Workflow[Any, Any]) -> Workflow[Any, Any]:
    """A `def` workflow of the same name and version, which does the same."""
    fn = _plain(original.fn)
    signature = inspect.signature(original.fn)
    first, *rest = signature.parameters.values()
    fn.__signature__ = signature.replace(parameters=[first.replace(annotation=SyncContext), *rest])
    return Workflow(fn, original.name, original.version)


def _plain(fn: Callable[..., Awaitable[Any]]) -> Any:
    @functools.wraps(fn)
    def run(ctx: SyncContext, *args: Any) -> Any:
        return finish(fn(PlainTwin(ctx), *args))

    return run


def finish(work: Any) -> Any:
    """Run a coroutine that never waits."""
    if not inspect.isawaitable(work):
        return work
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    raise AssertionError("a plain function cannot wait for anything but its context")


class Done(Coroutine[Any, Any, Any]):
    """An operation that is done when it is awaited."""

    def __init__(self, do: Callable[[], Any], outcome: Callable[[], Any] | None = None) -> None:
        self._do = do
        self._outcome = outcome

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._do()
        yield

    def outcome(self) -> Done:
        """Of a child: how it ended."""
        assert self._outcome is not None
        return Done(self._outcome)

    def send(self, _: Any) -> Any:
        raise StopIteration(self._do())

    def throw(self, *_: Any) -> Any:
        raise AssertionError("it never waits")

    def close(self) -> None:
        return None


class PlainTwin:
    """Looks like a `Context` to async code, and is a `SyncContext`."""

    def __init__(self, ctx: SyncContext) -> None:
        self._ctx = ctx

    def stream(self, name: str) -> PlainStream:
        """A stream whose appends are awaited."""
        return PlainStream(self._ctx.stream(name))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ctx, name)
        if name in _AT_ONCE or not inspect.ismethod(found):
            return found

        def operation(*args: Any, **kwargs: Any) -> Done:
            given = args
            if name in ("join", "race"):
                given = (args[0], {key: _plain(branch) for key, branch in _mapping(args[1]).items()})
            elif name in ("map", "loop"):
                given = (args[0], _plain(args[1]), *args[2:])
            outcome = functools.partial(self._ctx.child_outcome, *args, **kwargs) if name == "child" else None
            return Done(lambda: found(*given, **kwargs), outcome)

        return operation


def scope_of(ctx: Context | PlainTwin) -> Scope:
    """The scope that a context stands for."""
    return ctx._ctx._inner._scope if isinstance(ctx, PlainTwin) else ctx._scope


def path_of(ctx: Context | PlainTwin) -> str:
    """The path of that scope."""
    scope = scope_of(ctx)
    return scope.turn.journal.names.text(scope.location)


class PlainStream:
    """Looks like a `Stream` to async code, and is a `SyncStream`."""

    def __init__(self, stream: SyncStream) -> None:
        self._stream = stream

    def append(self, value: Any) -> Done:
        """Append, when it is awaited."""
        return Done(lambda: self._stream.append(value))

    def close(self) -> Done:
        """Close, when it is awaited."""
        return Done(self._stream.close)


def _mapping(branches: Any) -> Mapping[str, Any]:
    return branches if isinstance(branches, Mapping) else {}
