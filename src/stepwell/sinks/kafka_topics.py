"""A topic of Kafka as a sink: each event is one record. Needs the extra `stepwell[kafka]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from stepwell.clock import SECOND, Duration, span
from stepwell.errors import InvalidOptionError
from stepwell.model.retries import Retry
from stepwell.sinks.base import SINK_RETRY, EmittedEvent, check_sink
from stepwell.sinks.connections import Connection, need
from stepwell.sinks.webhooks import message_of

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaTopic:
    """A sink that produces each event to a topic: `KafkaTopic("localhost:9092", topic="orders")`.

    The key of a record is the id of its run, so the events of one run are in one partition, in their order. Its value
    is the event as JSON; the headers `id` and `name` are those of the event. All replicas that are in sync acknowledge
    it. An event may be produced twice, with the same `id`. Its name in the store is `name`; by default "kafka" and the
    topic.
    """

    def __init__(
        self,
        servers: str | Iterable[str],
        *,
        topic: str,
        events: str | Iterable[str] | None = None,
        name: str | None = None,
        retry: Retry = SINK_RETRY,
        timeout: Duration = "30s",
        **options: Any,
    ) -> None:
        if not _TOPIC.fullmatch(topic):
            raise InvalidOptionError(
                f"{topic!r:.80} is not the name of a topic",
                why="it has letters, digits, dots, _ and -",
                fix='KafkaTopic("localhost:9092", topic="orders")',
            )
        self.name = name if name is not None else f"kafka {topic}"
        self.events = check_sink(self.name, events, retry, timeout)
        self.retry = retry
        self.timeout = timeout
        self._servers = servers if isinstance(servers, str) else list(servers)
        self._topic = topic
        self._options = options  # of `AIOKafkaProducer`, such as security_protocol
        self._milliseconds = round(span(timeout) / SECOND * 1_000)
        self._aiokafka = need("aiokafka", "aiokafka", "kafka")
        self._connection: Connection[Any] = Connection(self._connect, lambda producer: producer.stop())

    async def send(self, event: EmittedEvent) -> None:
        """Produce one event, and wait for the acknowledgement."""
        producer = await self._connection.get()
        headers = [("id", event.id.encode()), ("name", event.name.encode())]
        await producer.send_and_wait(self._topic, message_of(event), key=event.run_id.encode(), headers=headers)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.drop()

    async def _connect(self) -> Any:
        producer = self._aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._servers,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=self._milliseconds,
            **self._options,
        )
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return producer

    def __repr__(self) -> str:
        return f"KafkaTopic(topic={self._topic!r}, name={self.name!r})"
