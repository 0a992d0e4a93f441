"""Signals: messages to one run's mailbox."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

from stepwell.clock import Instant
from stepwell.ids import RunId, SignalId

IfMissing = Literal["raise", "hold", "drop"]


class NewSignal(NamedTuple):
    """A signal to deliver. The id makes repeating the call harmless."""

    signal_id: SignalId
    target: str  # a run id, or a normalised key
    name: str
    payload: bytes
    dedup_key: str | None = None
    hold: bool = False  # keep it for a run that is yet to come


class Signal(NamedTuple):
    """A pending signal in a mailbox; `number` orders a mailbox by commit."""

    number: int
    name: str
    payload: bytes
    sent_at: Instant


class Delivery(StrEnum):
    """What became of a signal."""

    DELIVERED = "delivered"
    DUPLICATE = "duplicate"  # the dedup key, or the id, was known: nothing stored
    HELD = "held"  # no active run: kept until one with that key appears
    MISSING = "missing"  # no active run: nothing stored


class Delivered(NamedTuple):
    """The outcome of delivering one signal."""

    delivery: Delivery
    run_id: RunId | None = None
    woke: bool = False
