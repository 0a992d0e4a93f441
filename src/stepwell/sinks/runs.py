"""Other runs as a sink: what a run sends to them with its commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from stepwell.clock import Duration
from stepwell.errors import Fatal, SinkError
from stepwell.model.messages import MESSAGES, TO_RUNS
from stepwell.sinks.base import SINK_RETRY, EmittedEvent

Deliver = Callable[[EmittedEvent], Awaitable[Any]]


class RunSink:
    """The sink of messages between runs. Every worker serves it."""

    def __init__(self) -> None:
        self.name: Final = TO_RUNS
        self.events: Final = (f"{MESSAGES}*",)
        self.retry: Final = SINK_RETRY
        self.timeout: Final[Duration] = "30s"
        self._deliver: Deliver | None = None

    def bind(self, deliver: Deliver) -> None:
        """Set the engine that delivers. An engine calls this for its own sinks."""
        self._deliver = deliver

    async def send(self, event: EmittedEvent, /) -> None:
        """Deliver a message."""
        if self._deliver is None:
            raise SinkError(f"sink {self.name!r} has no engine")
        await self._deliver(event)


def undeliverable(error: Exception) -> Fatal:
    """The failure of a message that no further attempt can deliver: it becomes a dead letter at once."""
    return Fatal(str(error))
