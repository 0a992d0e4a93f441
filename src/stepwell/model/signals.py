"""Signals: messages to one run's mailbox."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from stepwell.clock import Instant
from stepwell.ids import RunId, SignalId
from stepwell.model.states import RunStatus

IfMissing = Literal["raise", "hold", "drop"]

# Names that begin like this belong to the engine. `check_name` rejects them, so nobody can send such a signal.
RESERVED: Final = "~"


def is_accepted(name: str, names: Collection[str]) -> bool:
    """Whether a wait for these names takes a signal of this name. Without names, it takes any signal that can be sent
    to a run from outside.
    """
    return name in names if names else not name.startswith(RESERVED)


class NewSignal(NamedTuple):
    """A signal to deliver. The id makes repeating the call harmless."""

    signal_id: SignalId
    target: str  # a run id, or a normalised key
    name: str
    payload: bytes
    dedup_key: str | None = None
    hold: bool = False  # keep it for a run that starts later
    asks: bool = False  # the sender waits for a reply
    pending_max: int | None = None  # it is refused if as many are pending already; None: it is not


class Signal(NamedTuple):
    """A pending signal in a mailbox; `number` orders a mailbox by commit."""

    number: int
    name: str
    payload: bytes
    sent_at: Instant
    ask_id: SignalId | None = None  # of a signal that asks: its id, by which the sender finds the reply


class ReplyStatus(StrEnum):
    """What a reply is. The letter is what is stored."""

    GIVEN = "d"
    REFUSED = "f"


class Reply(NamedTuple):
    """What a run answers to a signal that asked."""

    number: int  # of the signal
    status: ReplyStatus
    value: bytes  # the encoded value, or the encoded failure


class Refusal(NamedTuple):
    """A signal that the run rejected, and why. It is kept for an operator."""

    number: int
    reason: str


class Question(NamedTuple):
    """What became of a signal that asked."""

    run_id: RunId | None  # None while it is held
    run_status: RunStatus | None
    is_read: bool  # the run has taken it out of its mailbox
    reply: Reply | None


class Redelivery(NamedTuple):
    """A signal that its run will not read, and its new target."""

    number: int
    target: str  # a run id, or a normalised key
    payload: bytes  # encoded for the target


class Delivery(StrEnum):
    """What became of a signal."""

    DELIVERED = "delivered"
    DUPLICATE = "duplicate"  # the dedup key or the id is known: nothing was stored
    HELD = "held"  # no active run: kept until a run with that key starts
    MISSING = "missing"  # no active run: nothing was stored
    FULL = "full"  # the mailbox has as many pending signals as it may: nothing was stored


class Delivered(NamedTuple):
    """The outcome of delivering one signal."""

    delivery: Delivery
    run_id: RunId | None = None
    woke: bool = False
    pending: int = 0  # how many signals its mailbox has now, if the sender named a limit
