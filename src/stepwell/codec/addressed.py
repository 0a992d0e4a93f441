"""Signals under encryption: sealed by a sender that knows a target and a name, opened by the run that receives it.

A sender may name a run by its key, or by the id of a run that has been continued since. So the payload carries the
target in the clear: `t`, the length and text of the target, and the payload, bound to target and name. A run opens it
only if the target means that run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from stepwell.codec.base import ADDRESSED, ANY, Codec, Payload, Place, PlaceLike, Row, place_of
from stepwell.errors import CorruptRecordError

SIGNAL: Final = "signal"

Targets: TypeAlias = Callable[[str], bool]
"""Whether a target means the receiving run."""


def encode_signal(codec: Codec, value: Any, *, target: str, name: str, hint: Any = ANY) -> Payload:
    """The payload of a signal to `target`, a run id or a normalised key; raises as `Codec.encode` does."""
    stored = codec.encode(value, hint, place=lambda: _place(target, name))
    if not codec.conceals:
        return stored
    address = target.encode()
    return ADDRESSED + len(address).to_bytes(2, "big") + address + stored


def rebind_signal(codec: Codec, payload: Payload, *, name: str, targets: Targets, to: PlaceLike) -> Payload:
    """The payload of a received signal for the row that keeps it.

    Raises:
        CorruptRecordError: it was sent to another run, under another name, or is damaged.
    """
    if not codec.conceals:
        return payload
    target, sealed = split(payload) or ("", payload)
    if target and not targets(target):
        at = place_of(to)
        raise CorruptRecordError(
            f"{at.subject} cannot be read back: it was sent to {target!r}",
            where=at.where,
            why="that is neither this run, nor its key, nor a run that it continues",
            fix="restore the record from a backup",
        )
    return codec.rebind(sealed, place=_place(target, name), to=to)


def move_signal(codec: Codec, payload: Payload, *, name: str, target: str) -> Payload:
    """The payload of a signal, sealed again for another target."""
    if not codec.conceals:
        return payload
    before, sealed = split(payload) or ("", payload)
    address = target.encode()
    moved = codec.rebind(sealed, place=_place(before, name), to=_place(target, name))
    return ADDRESSED + len(address).to_bytes(2, "big") + address + moved


def split(payload: Payload) -> tuple[str, Payload] | None:
    """The target and the sealed payload; None if it has no target."""
    end = 3 + int.from_bytes(payload[1:3], "big")
    if payload[:1] != ADDRESSED or end > len(payload):
        return None
    return payload[3:end].decode("utf-8", "replace"), payload[end:]


def _place(target: str, name: str) -> Place:
    return Place("", name, "the signal", row=Row(target, name, SIGNAL))
