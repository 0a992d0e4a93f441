"""Compression of payloads: a payload above a limit is stored deflated, if that makes it smaller.

A compressed payload is `z` and the zlib stream of another payload.
"""

from __future__ import annotations

import zlib
from typing import Final

from stepwell.codec.base import COMPRESSED, Codec, Payload, PlaceLike, place_of
from stepwell.codec.layers import Layer
from stepwell.errors import CorruptRecordError, InvalidOptionError

ABOVE: Final = 1_000
LEVEL: Final = 6
OPENED_BYTES_MAX: Final = 64 * 1024 * 1024  # a damaged or planted payload must not fill the memory


class Compressed(Layer):
    """A codec that compresses payloads above `above` bytes.

        Engine(url, codec=Compressed(JsonCodec()))

    With encryption, put it inside: `Encrypted(Compressed(JsonCodec()), keys=keys)`, because encrypted bytes cannot be
    compressed; and with offloading inside of that, too. Payloads that were stored without it are still read.

    Not promised: that filters such as `input.customer:ann` find runs whose input is compressed. The length of a
    compressed and encrypted payload tells a little of its content.
    """

    def __init__(self, codec: Codec, *, above: int = ABOVE, level: int = LEVEL) -> None:
        if codec.conceals or getattr(codec, "is_outermost", False):
            raise InvalidOptionError(
                "Compressed is around a codec whose payloads cannot be compressed",
                why="they are encrypted, or stored elsewhere",
                fix="write Offloaded(Encrypted(Compressed(JsonCodec()), keys=...), blobs)",
            )
        if above < 0 or not 1 <= level <= 9:
            raise InvalidOptionError(
                f"above is {above} and level is {level}",
                fix="above=1_000 bytes, and a level from 1 (fast) to 9 (small)",
            )
        super().__init__(codec)
        self._above = above
        self._level = level

    def close(self, payload: Payload, place: PlaceLike) -> Payload:
        """The payload, compressed if that saves something."""
        if len(payload) <= self._above:
            return payload
        packed = COMPRESSED + zlib.compress(payload, self._level)
        return packed if len(packed) < len(payload) else payload

    def open(self, payload: Payload, place: PlaceLike) -> Payload:
        """The payload as it was before it was compressed."""
        if type(payload) is not bytes or payload[:1] != COMPRESSED:
            return payload
        opened = decompress(payload)
        if opened is None:
            at = place_of(place)
            raise CorruptRecordError(
                f"{at.subject} cannot be read back: it is damaged",
                where=at.where,
                why=f"it is not a compressed payload of at most {OPENED_BYTES_MAX // 1024 // 1024} MiB",
                fix="restore the record from a backup",
            )
        return opened


def decompress(payload: Payload) -> Payload | None:
    """The payload inside a compressed one; None if it is damaged or too large. Any other payload as it is."""
    if payload[:1] != COMPRESSED:
        return payload
    unpacker = zlib.decompressobj()
    try:
        opened = unpacker.decompress(payload[1:], OPENED_BYTES_MAX + 1)
    except zlib.error:
        return None
    is_whole = unpacker.eof and not unpacker.unused_data
    return opened if is_whole and len(opened) <= OPENED_BYTES_MAX else None
