"""The space that a database takes, and giving back what is not used."""

from __future__ import annotations

from typing import NamedTuple, Protocol

# Tables whose rows belong to runs: what they take is spread over the workflows.
OF_RUNS = frozenset(
    {
        *("runs", "heads", "payloads", "attributes", "published", "chunks", "entries", "names", "attempts", "progress"),
        *("cursors", "waits", "receipts", "signals", "replies", "discards", "outbox", "audit"),
    }
)
SAMPLE = 2_000  # runs that are weighed


class TableSpace(NamedTuple):
    """What a table takes, in bytes. `dead` rows are deleted, and their space is not usable yet."""

    name: str
    bytes: int
    index_bytes: int
    rows: int
    dead: int = 0


class WorkflowCount(NamedTuple):
    """How many runs a workflow has, and how many of them were made in the last day."""

    workflow: str
    runs: int
    recent: int


class Weighed(NamedTuple):
    """Runs of a workflow that were weighed: the bytes of their values and rows, without the cost of the database."""

    workflow: str
    runs: int
    bytes: int


class Space(NamedTuple):
    """Where the bytes of a database are. `reusable` bytes are free for new rows; None if that is not known."""

    total: int
    reusable: int | None
    log: int
    tables: tuple[TableSpace, ...]
    workflows: tuple[WorkflowCount, ...]
    weighed: tuple[Weighed, ...]
    note: str  # what the database does by itself about deleted rows


class Vacuumed(NamedTuple):
    """What a vacuum came to."""

    where: str
    before: int  # bytes
    after: int
    dropped: tuple[str, ...] = ()  # schemas with the functions of releases that no process uses


class Upkeep(Protocol):
    """Measures and cleans a database, over a connection of its own. Every method blocks."""

    def measure(self) -> Space:
        """Where the bytes are. Reads the structure of all tables, and weighs some runs; changes nothing."""
        ...

    def vacuum(self) -> Vacuumed:
        """Give back the space of deleted rows. Raises `StoreInUseError` if workers would have to wait for it."""
        ...

    def tidy(self) -> tuple[str, ...]:
        """Drop what no release uses any more, as far as this role may; returns what was dropped. Disturbs nobody."""
        ...
