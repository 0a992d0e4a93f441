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

    An `async def` runs on the loop, a `def` in a thread. It has done its part when it returns; what it raises is a
    failed attempt, `Fatal` the last one. Its name in the store is `name`, or the function's.
    """
    if not callable(fn):
        raise InvalidOptionError(f"the handler {fn!r:.120} is not callable", fix="give a function that takes an event")
    known = name if name is not None else str(getattr(fn, "__name__", ""))
    if known in ("", "<lambda>") and name is None:
        raise InvalidOptionError(
            "a handler has no name",
            why="events that are owed to it are stored under its name, and a lambda or an object has none",
            fix='handler(fn, name="...")',
        )
    return Handler(fn, known, check_sink(known, events, retry, timeout), retry, timeout)


def is_async(send: Any) -> bool:
    """Whether a sink's `send` runs on the loop."""
    return inspect.iscoroutinefunction(send) or inspect.iscoroutinefunction(getattr(send, "__call__", None))  # noqa: B004
