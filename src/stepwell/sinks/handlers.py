"""A function of this process as a sink."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from stepwell.clock import Duration
from stepwell.errors import InvalidOptionError
from stepwell.model.retries import Retry
from stepwell.sinks.base import SINK_RETRY, EmittedEvent, check_sink

Handle = Callable[[EmittedEvent], Awaitable[Any] | Any]


@dataclass(frozen=True, slots=True)
class Handler:
    """A sink that calls a function; made by `handler`."""

    send: Handle = field(repr=False)
    name: str
    events: tuple[str, ...]
    retry: Retry
    timeout: Duration


def handler(
    fn: Handle,
    events: str | Iterable[str] | None = None,
    *,
    name: str | None = None,
    retry: Retry = SINK_RETRY,
    timeout: Duration = "30s",
) -> Handler:
    """A sink that calls a function with each event: `handler(send_mail, events="order.*")`.

    An `async def` runs on the loop, a `def` in a thread. The event is delivered when the function returns. An exception
    is a failed attempt, and `Fatal` ends the attempts. Its name in the store is `name`; by default the function's name.
    """
    if not callable(fn):
        raise InvalidOptionError(f"the handler {fn!r:.120} is not callable", fix="pass a function that takes an event")
    known = name if name is not None else str(getattr(fn, "__name__", ""))
    if known in ("", "<lambda>") and name is None:
        raise InvalidOptionError(
            "a handler has no name",
            why="its events are stored under its name, and a lambda or an object has none",
            fix='write: handler(fn, name="...")',
        )
    return Handler(fn, known, check_sink(known, events, retry, timeout), retry, timeout)


def is_async(send: Any) -> bool:
    """Whether a sink's `send` runs on the loop."""
    return inspect.iscoroutinefunction(send) or inspect.iscoroutinefunction(getattr(send, "__call__", None))  # noqa: B004
