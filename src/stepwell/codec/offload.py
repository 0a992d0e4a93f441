"""Offloading: a payload above a limit is kept as a blob, and its row has a short reference.

A reference is `r`, the blob's hash in hexadecimal, a colon and the size. The blob is durable before any row that refers
to it is; its hash is verified whenever it is read.
"""

from __future__ import annotations

import errno
import re
from typing import ClassVar, Final, NamedTuple

from stepwell.codec.base import REFERENCE, Codec, Payload, PlaceLike, place_of
from stepwell.codec.blobs import Blobs, DamagedBlobError
from stepwell.codec.layers import Layer
from stepwell.errors import CorruptRecordError, InvalidOptionError, StoreFullError, StoreUnavailableError

ABOVE: Final = 100_000
OFFLOADED_BYTES_MAX: Final = 64 * 1024 * 1024

_REFERENCE: Final = re.compile(rb"r([0-9a-f]{64}):([0-9]{1,12})")
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Reference(NamedTuple):
    """The reference to an offloaded payload."""

    name: str
    size: int


class Offloaded(Layer):
    """A codec that keeps payloads above `above` bytes as blobs.

        Engine(url, codec=Offloaded(JsonCodec(), FolderBlobs("shop-blobs")))

    With encryption, put it outside: `Offloaded(Encrypted(codec, keys=keys), blobs)` stores blobs encrypted. Equal
    payloads share a blob; encrypted payloads are never equal.

    Not promised: that a blob is removed once nothing refers to it. Writing and reading the files of a folder blocks the
    event loop for as long as the disk needs. In a SQLite database, blobs of 256 KiB and more are written in another
    thread; they are read in the thread of the event loop.
    """

    is_outermost: ClassVar[bool] = True

    def __init__(
        self, codec: Codec, blobs: Blobs, *, above: int = ABOVE, payload_bytes_max: int = OFFLOADED_BYTES_MAX
    ) -> None:
        if above < 100:
            raise InvalidOptionError(f"above is {above}", why="a reference takes up to 78 bytes", fix="use 100 or more")
        super().__init__(codec.limited_to(payload_bytes_max))
        self._blobs = blobs
        self._above = above

    def close(self, payload: Payload, place: PlaceLike) -> Payload:
        """The payload, or the reference to it once it is durable."""
        if len(payload) <= self._above:
            return payload
        try:
            name = self._blobs.put(payload)
        except OSError as error:
            at = place_of(place)
            kind = StoreFullError if error.errno in _FULL else StoreUnavailableError
            raise kind(
                f"{at.subject} cannot be stored: its blob cannot be written",
                where=at.where,
                why=f"{error.strerror or error} ({len(payload)} bytes to {self._blobs!r})",
                fix="free some space there, or fix the permissions",
            ) from error
        return b"%b%b:%d" % (REFERENCE, name.encode(), len(payload))

    def open(self, payload: Payload, place: PlaceLike) -> Payload:
        """The payload, fetched if it is a reference."""
        if type(payload) is not bytes or payload[:1] != REFERENCE:
            return payload
        reference = read_reference(payload)
        if reference is None:
            raise _lost(place, "it is damaged", "it begins like a reference to a blob, but is not a valid one")
        try:
            content = self._blobs.get(reference.name)
        except (LookupError, DamagedBlobError) as error:
            raise _lost(place, "its blob is lost", f"{error.args[0]}, in {self._blobs!r}") from error
        except OSError as error:
            at = place_of(place)
            raise StoreUnavailableError(
                f"{at.subject} cannot be read now: its blob cannot be opened",
                where=at.where,
                why=f"{error.strerror or error} (blob {reference.name} in {self._blobs!r})",
                fix="fix the permissions or the disk there",
            ) from error
        if len(content) != reference.size:
            raise _lost(place, "it is damaged", f"it refers to {reference.size} bytes, the blob has {len(content)}")
        return content


def read_reference(payload: Payload) -> Reference | None:
    """The parts of a reference; None if the payload is not one."""
    found = _REFERENCE.fullmatch(payload)
    return None if found is None else Reference(found[1].decode(), int(found[2]))


def _lost(place: PlaceLike, what: str, why: str) -> CorruptRecordError:
    at = place_of(place)
    return CorruptRecordError(
        f"{at.subject} cannot be read back: {what}",
        where=at.where,
        why=why,
        fix="restore the blobs from the backup that was made with the one of the database",
    )
