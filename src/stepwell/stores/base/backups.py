"""Copies of a database, and what makes one that was put back safe to use."""

from __future__ import annotations

from typing import Final, NamedTuple

# How far epochs and numbers are raised in a database that was put back: further than any database gets between a backup
# and its loss. Epochs are stored shifted by 20 bits, so 2^43 is the most that an epoch may become.
EPOCHS_SKIPPED: Final = 1 << 20
NUMBERS_SKIPPED: Final = 1 << 32


class BackedUp(NamedTuple):
    """A copy that was made and examined."""

    source: str
    target: str
    size: int
    schema: int
    runs: int


class Fenced(NamedTuple):
    """A database in which nothing that was seen outside before will be used again."""

    where: str
    runs: int
    workers: int


class Restored(NamedTuple):
    """A copy that took the place of a database."""

    copy: str
    target: str
    kept: str  # where the database is that was there before; "" if there was none
    fenced: Fenced
