"""Copies of a database, and the fencing that makes a restored copy safe to use."""

from __future__ import annotations

from typing import Final, NamedTuple

# How far epochs, versions of records and numbers are raised in a restored database: further than any database gets
# between a backup and its loss. Epochs are stored shifted by 20 bits, so an epoch must stay below 2^43.
EPOCHS_SKIPPED: Final = 1 << 20  # and versions of records
NUMBERS_SKIPPED: Final = 1 << 32


class BackedUp(NamedTuple):
    """A copy that was made and verified."""

    source: str
    target: str
    size: int
    schema: int
    runs: int


class Fenced(NamedTuple):
    """A database that will not reuse any epoch or number that was visible before."""

    where: str
    runs: int
    workers: int


class Restored(NamedTuple):
    """A copy that replaced a database."""

    copy: str
    target: str
    kept: str  # where the replaced database is now; "" if there was none
    fenced: Fenced
