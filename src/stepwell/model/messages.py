"""Messages from one run to others: signals, cancels and events that a run sends with its commits.

They leave through the outbox, to a sink that every worker serves. So a message is stored with the entry that records
it, delivered at least once with an id that is a function of its place, in the order of its run, and one that cannot be
delivered becomes a dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from stepwell.model.events import Deliver

TO_RUNS: Final = "stepwell.runs"
"""The sink."""

MESSAGES: Final = "stepwell.to."  # followed by the verb: the names of messages in the outbox

IfMissing = Literal["hold", "drop"]

ASK: Final = "stepwell.ask"
"""The workflow that asks for a run."""

SENT: Final = "sent"  # the signal that tells it which run has the question
ANSWERED: Final = "answered"  # the signal that wakes it
ASKED_BY_RUN: Final = "ask:"  # the beginning of the ids of its questions, before its run id


@dataclass(frozen=True, slots=True)
class Question:
    """The input of a run that waits for an answer. The asking run sends the question, after what it sent before."""

    name: str
    timeout: int | None = None  # in microseconds


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question."""

    kind: Literal["given", "refused", "unanswered", "late"]
    value: Any = None
    reason: str = ""


class SignalMessage(msgspec.Struct, tag="signal", tag_field="verb", omit_defaults=True):
    """A signal to another run."""

    target: str  # a run id, or a normalised key
    name: str
    payload: bytes  # encoded for the target
    dedup_key: str | None = None
    if_missing: IfMissing = "hold"
    asks: bool = False


class CancelMessage(msgspec.Struct, tag="cancel", tag_field="verb", omit_defaults=True):
    """A request to cancel another run."""

    target: str
    reason: str = ""
    compensate: bool = True


class PublishMessage(msgspec.Struct, tag="publish", tag_field="verb", omit_defaults=True):
    """An event to publish."""

    topic: str
    payload: bytes  # encoded for the event
    deliver: Deliver = "all"
    retain: int | None = None  # in microseconds


Message = SignalMessage | CancelMessage | PublishMessage

_decode = msgspec.json.Decoder(Message).decode


def message_name(message: Message) -> str:
    """The name of a message in the outbox."""
    return MESSAGES + str(message.__struct_config__.tag)


def encode_message(message: Message) -> bytes:
    """A message as the outbox stores it. What runs say to each other in it is encoded already."""
    return b"j" + msgspec.json.encode(message)


def decode_message(stored: bytes) -> Message:
    """The message that `encode_message` wrote."""
    message: Message = _decode(stored[1:])
    return message
