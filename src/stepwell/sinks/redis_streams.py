"""A stream of Redis or Valkey as a sink: each event is one entry. Needs the extra `stepwell[redis]`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from stepwell.clock import SECOND, Duration, span
from stepwell.errors import InvalidOptionError
from stepwell.model.retries import Retry
from stepwell.sinks.base import SINK_RETRY, EmittedEvent, check_sink
from stepwell.sinks.connections import Connection, need
from stepwell.sinks.webhooks import message_of


class RedisStream:
    """A sink that appends each event to a stream (`XADD`): `RedisStream("redis://localhost", stream="orders")`.

    An entry has the fields `id`, `name`, `run_id` and `body`, the event as JSON. An event may be appended twice, with
    the same `id`. `length_max` trims the stream to about that many entries. The durability of an appended event is that
    of the server. Its name in the store is `name`; by default "redis" and the stream.
    """

    def __init__(
        self,
        url: str,
        *,
        stream: str,
        events: str | Iterable[str] | None = None,
        length_max: int | None = None,
        name: str | None = None,
        retry: Retry = SINK_RETRY,
        timeout: Duration = "10s",
    ) -> None:
        if not stream or (length_max is not None and length_max < 1):
            raise InvalidOptionError(
                f"a stream is named {stream!r:.80} and keeps {length_max} entries",
                fix='RedisStream("redis://localhost", stream="orders", length_max=100_000)',
            )
        self.name = name if name is not None else f"redis {stream}"
        self.events = check_sink(self.name, events, retry, timeout)
        self.retry = retry
        self.timeout = timeout
        self._stream = stream
        self._length_max = length_max
        redis: Any = need("redis.asyncio", "redis", "redis")
        seconds = span(timeout) / SECOND
        try:
            made: Any = redis.Redis.from_url
            self._make: Any = partial(made, url, socket_connect_timeout=seconds, socket_timeout=seconds)
            self._make()
        except ValueError as error:
            raise InvalidOptionError(
                "the URL of a Redis server cannot be read",
                where=self.name,
                why=str(error)[:120],
                fix='"redis://localhost:6379/0", "rediss://…" or "unix:///path"',
            ) from None
        self._connection: Connection[Any] = Connection(self._connect, lambda client: client.aclose())

    async def send(self, event: EmittedEvent) -> None:
        """Append one event. Raises what the server answers."""
        fields = {"id": event.id, "name": event.name, "run_id": event.run_id, "body": message_of(event)}
        client = await self._connection.get()
        await client.xadd(self._stream, fields, maxlen=self._length_max, approximate=True)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.drop()

    async def _connect(self) -> Any:
        return self._make()

    def __repr__(self) -> str:
        return f"RedisStream(stream={self._stream!r}, name={self.name!r})"  # without the URL: it may hold a password
