"""Databases that hold encrypted values take no others."""

from __future__ import annotations

from stepwell.errors import EncryptedStoreError


def plain_writer() -> EncryptedStoreError:
    """Somebody without a key wants to write a value to a database that holds encrypted ones."""
    return EncryptedStoreError(
        "this database holds encrypted values, and this process would write values in the clear",
        why="it was opened without an encrypting codec, and the database has been written to with one",
        fix="open it with the codec that the workers have: Engine(url, codec=Encrypted(JsonCodec(), keys=Keys(...)))",
    )
