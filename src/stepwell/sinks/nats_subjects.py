"""Subjects of NATS JetStream as a sink: each event is one message. Needs the extra `stepwell[nats]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from stepwell.clock import SECOND, Duration, span
from stepwell.errors import InvalidOptionError, SinkError
from stepwell.model.retries import Retry
from stepwell.sinks.base import SINK_RETRY, EmittedEvent, check_sink
from stepwell.sinks.connections import Connection, need
from stepwell.sinks.webhooks import message_of

_SUBJECT: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class NatsSubject:
    """A sink that publishes each event to JetStream, on the subject `prefix.name`:
    `NatsSubject("nats://localhost:4222", prefix="shop")` publishes `order.paid` on `shop.order.paid`.

    A stream of the server must take these subjects: its acknowledgement is what counts as delivered. The id of the
    event is the id of the message (`Nats-Msg-Id`), so the server drops what is sent again within its window. Its name
    in the store is `name`; by default "nats" and the prefix.
    """

    def __init__(
        self,
        servers: str | Iterable[str],
        *,
        prefix: str,
        events: str | Iterable[str] | None = None,
        name: str | None = None,
        retry: Retry = SINK_RETRY,
        timeout: Duration = "10s",
        **options: Any,
    ) -> None:
        if not _SUBJECT.fullmatch(prefix):
            raise InvalidOptionError(
                f"{prefix!r:.80} is not the beginning of a subject",
                why="it has words of letters, digits, _ and -, with dots in between",
                fix='NatsSubject("nats://localhost:4222", prefix="shop.orders")',
            )
        self.name = name if name is not None else f"nats {prefix}"
        self.events = check_sink(self.name, events, retry, timeout)
        self.retry = retry
        self.timeout = timeout
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._prefix = prefix
        self._options = options  # of `nats.connect`, such as tls, user_credentials
        self._seconds = span(timeout) / SECOND
        self._nats = need("nats", "nats-py", "nats")
        self._errors = need("nats.js.errors", "nats-py", "nats")
        self._connection: Connection[Any] = Connection(self._connect, lambda client: client.close())

    async def send(self, event: EmittedEvent) -> None:
        """Publish one event. Raises `SinkError` if no stream takes its subject."""
        client = await self._connection.get()
        if client.is_closed:
            await self._connection.drop()
            client = await self._connection.get()
        subject = f"{self._prefix}.{event.name.replace(':', '.').strip('.')}"
        headers = {"Nats-Msg-Id": event.id, "Stepwell-Event": event.name}
        try:
            await client.jetstream(timeout=self._seconds).publish(subject, message_of(event), headers=headers)
        except self._errors.NoStreamResponseError as error:
            raise SinkError(
                f"no stream of the server takes the subject {subject}",
                where=self.name,
                why="without a stream, nothing would keep the message",
                fix=f"nats stream add --subjects '{self._prefix}.>'",
            ) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.drop()

    async def _connect(self) -> Any:
        return await self._nats.connect(
            self._servers, connect_timeout=self._seconds, allow_reconnect=True, error_cb=_ignore, **self._options
        )

    def __repr__(self) -> str:
        return f"NatsSubject(prefix={self._prefix!r}, name={self.name!r})"  # without the servers: see `RedisStream`


async def _ignore(error: Exception) -> None:
    """A lost connection fails the event that needs it, which the relay logs."""
