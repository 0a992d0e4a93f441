"""Typed events: a class whose name is a topic."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from stepwell.errors import UnknownTopicError
from stepwell.model.locations import check_name


class Event(msgspec.Struct):
    """The base of typed events. The topic is the name of the class, or `__topic__`.

    class Shipped(Event):
        order: str

    await engine.publish(Shipped(order="42"))
    shipped = await ctx.topic(Shipped, where={"order": "42"})
    """

    __topic__: ClassVar[str]


def topic_of(topic: Any) -> tuple[str, Any]:
    """The name of a topic, and the type of its events: `Any` if only a name is given."""
    if isinstance(topic, str):
        return check_name(topic, what="topic"), Any
    if isinstance(topic, type) and issubclass(topic, Event) and topic is not Event:
        return check_name(topic.__dict__.get("__topic__", topic.__name__), what="topic"), topic
    raise UnknownTopicError(
        f"{topic!r:.80} is not a topic",
        where="publish, ctx.topic or engine.events.on",
        why="a topic is a text or a class that inherits from stepwell.Event",
        fix='declare class Shipped(Event): order: str; or give a name, as in publish("shipped", payload)',
    )
