"""A database that holds encrypted values accepts only encrypted values."""

from __future__ import annotations

from stepwell.errors import EncryptedStoreError


def plaintext_refused() -> EncryptedStoreError:
    """A process without a key tries to write a value to a database that holds encrypted values."""
    return EncryptedStoreError(
        "this database holds encrypted values, and this process would write values in the clear",
        why="it was opened without an encrypting codec, and the database has been written to with one",
        fix="open it with the codec that the workers use: Engine(url, codec=Encrypted(JsonCodec(), keys=Keys(...)))",
    )
