"""Layered codecs that the tests of this folder share."""

from __future__ import annotations

import hashlib

from stepwell.codec.base import Codec, Place, Row
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
KEYS = Keys("k2", {"k1": OLD, "k2": NEW})


def at(run: str = "run-1", path: str = "payment/charge", field: str = "value") -> Place:
    return Place("checkout", path, "the result", row=Row(run, path, field))


class DictBlobs:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        self.kept[name] = content
        return name

    def get(self, name: str) -> bytes:
        return self.kept[name]


def encrypted(keys: Keys = KEYS) -> Encrypted:
    return Encrypted(JsonCodec(), keys=keys)


def layered() -> dict[str, Codec]:
    """Each layer alone, and all of them."""
    return {
        "encrypted": encrypted(),
        "offloaded": Offloaded(JsonCodec(), DictBlobs(), above=100),
        "both": Offloaded(encrypted(), DictBlobs(), above=100),
    }
