"""A sink: a destination outside the store for emitted events."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from stepwell.clock import Duration, span
from stepwell.errors import InvalidNameError, InvalidOptionError
from stepwell.model.locations import check_name
from stepwell.model.retries import Retry

SINK_RETRY: Final = Retry(max_attempts=12, initial="1s", factor=3, max_delay="1h")
"""Twelve attempts over about four hours."""

ALERTS: Final = "stepwell.alert."  # followed by what became of an alert: names of events

_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}\*?|\*")


@dataclass(frozen=True, slots=True)
class EmittedEvent:
    """An event as a sink gets it, at least once. `id` is the same each time: a receiver that must act once keeps it."""

    id: str
    name: str
    payload: Any  # plain JSON values
    run_id: str
    workflow: str
    key: str | None
    path: str  # where the run emitted it; "" for an event of the run itself
    at: datetime  # when it was emitted
    sent_at: datetime  # when this attempt began
    attempt: int  # 1 for the first
    headers: Mapping[str, str] = field(default_factory=dict)  # of the run


class Sink(Protocol):
    """The interface of a sink. `send` returns when the event is delivered; any exception is a failed attempt.

    A `send` that is not asynchronous runs in a thread. The name is stored with every event that is owed to the sink, so
    it must stay the same. If it has a coroutine function `close`, that is called when the worker ends.
    """

    @property
    def name(self) -> str: ...
    @property
    def events(self) -> tuple[str, ...]:
        """The names of the events that it wants; a name may end with `*` as a wildcard."""
        ...

    @property
    def retry(self) -> Retry: ...
    @property
    def timeout(self) -> Duration: ...

    def send(self, event: EmittedEvent, /) -> Awaitable[Any] | Any: ...


def wants(sink: Sink, name: str) -> bool:
    """Whether a sink wants events of this name. Alerts go only to sinks that ask for them by name."""
    if name.startswith(ALERTS):
        return any(
            p.startswith(ALERTS) and (name.startswith(p[:-1]) if p.endswith("*") else name == p) for p in sink.events
        )
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in sink.events)


def check_sink(name: str, events: str | Iterable[str] | None, retry: Retry, timeout: Duration) -> tuple[str, ...]:
    """The patterns of a sink; `events=None` means every event. Raises for invalid options."""
    check_name(name, what="sink name")
    if not isinstance(retry, Retry):
        raise InvalidOptionError(f"retry of sink {name!r} is {retry!r:.80}", fix="pass a Retry(...)")
    if span(timeout, what=f"timeout of sink {name!r}") == 0:
        raise InvalidOptionError(f"timeout of sink {name!r} is 0", fix='write timeout="10s", for example')
    patterns = ("*",) if events is None else (events,) if isinstance(events, str) else tuple(events)
    each: Any
    for each in patterns:
        if not isinstance(each, str) or not _PATTERN.fullmatch(each):
            raise InvalidNameError(
                f"sink {name!r} wants events {each!r:.120}",
                where=name,
                why="a pattern has letters, digits and _ . : -, and may end with *",
                fix='write "order.paid", "order.*" or "*", for example',
            )
    if not patterns:
        raise InvalidOptionError(f"sink {name!r} wants no events", fix="leave events out to get all of them")
    return patterns
