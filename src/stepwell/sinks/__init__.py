"""Where emitted events go: functions of your own, signed webhooks, mail, topics, and Redis, NATS and Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.sinks.base import EmittedEvent, Sink
    from stepwell.sinks.emails import Email
    from stepwell.sinks.handlers import handler
    from stepwell.sinks.kafka_topics import KafkaTopic
    from stepwell.sinks.nats_subjects import NatsSubject
    from stepwell.sinks.redis_streams import RedisStream
    from stepwell.sinks.signatures import verify_signature
    from stepwell.sinks.topics import TopicSink
    from stepwell.sinks.webhooks import Webhook

__all__ = [
    "Email",
    "EmittedEvent",
    "KafkaTopic",
    "NatsSubject",
    "RedisStream",
    "Sink",
    "TopicSink",
    "Webhook",
    "handler",
    "verify_signature",
]

_HOMES = {
    "stepwell.sinks.base": ["EmittedEvent", "Sink"],
    "stepwell.sinks.emails": ["Email"],
    "stepwell.sinks.handlers": ["handler"],
    "stepwell.sinks.kafka_topics": ["KafkaTopic"],
    "stepwell.sinks.nats_subjects": ["NatsSubject"],
    "stepwell.sinks.redis_streams": ["RedisStream"],
    "stepwell.sinks.signatures": ["verify_signature"],
    "stepwell.sinks.topics": ["TopicSink"],
    "stepwell.sinks.webhooks": ["Webhook"],
}

if not TYPE_CHECKING:  # a type checker knows exactly the names above
    from stepwell.lazy import lazy_names

    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
