"""The payload of an event: sealed by its publisher for the event, opened by each run that receives it."""

from __future__ import annotations

from typing import Any

from stepwell.codec.base import Codec, Payload, Place, PlaceLike, Row

EVENT = "event"


def event_place(topic: str, event_id: str) -> Place:
    """The place of the payload of an event."""
    return Place("", topic, "the event", root="event", row=Row(event_id, topic, EVENT))


def encode_event(codec: Codec, value: Any, hint: Any, *, topic: str, event_id: str) -> Payload:
    """The payload of an event; raises as `Codec.encode` does."""
    return codec.encode(value, hint, place=event_place(topic, event_id))


def rebind_event(codec: Codec, payload: Payload, *, topic: str, event_id: str, to: PlaceLike) -> Payload:
    """The payload of a received event for the row that keeps it; raises as `Codec.rebind` does."""
    return codec.rebind(payload, place=event_place(topic, event_id), to=to)
