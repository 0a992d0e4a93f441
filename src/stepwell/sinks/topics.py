"""The topics of the engine itself as a sink."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Protocol

from stepwell.clock import Duration
from stepwell.errors import SinkError
from stepwell.model.events import Deliver
from stepwell.model.retries import Retry
from stepwell.sinks.base import SINK_RETRY, EmittedEvent, check_sink


class Publish(Protocol):
    """How an engine publishes."""

    def __call__(
        self, topic: str, payload: Any, /, *, deliver: Deliver, retain: Duration | bool | None, event_id: str
    ) -> Awaitable[int]: ...


class TopicSink:
    """A sink that publishes emitted events on topics, each event on the topic of its name.

    A topic remembers the id of an event for at least 7 days: an event that is sent again within that time is published
    once.
    """

    def __init__(
        self,
        events: str | Iterable[str] | None = None,
        *,
        deliver: Deliver = "all",
        retain: Duration | bool | None = None,
        name: str = "topics",
        retry: Retry = SINK_RETRY,
        timeout: Duration = "30s",
    ) -> None:
        self.name = name
        self.events = check_sink(name, events, retry, timeout)
        self.retry = retry
        self.timeout = timeout
        self._deliver: Deliver = deliver
        self._retain = retain
        self._publish: Publish | None = None

    def bind(self, publish: Publish) -> None:
        """Set the engine that publishes. An engine calls this for its own sinks."""
        self._publish = publish

    async def send(self, event: EmittedEvent, /) -> None:
        """Publish an event."""
        if self._publish is None:
            raise SinkError(f"sink {self.name!r} has no engine", fix="write: Engine(..., sinks=[TopicSink(...)])")
        await self._publish(event.name, event.payload, deliver=self._deliver, retain=self._retain, event_id=event.id)
