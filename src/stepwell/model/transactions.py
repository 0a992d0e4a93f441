"""Transactions: what the body of a transactional step gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]


class Transaction(Protocol):
    """A transaction of the database that holds the runs, given to the body of a transactional step.

    The rows that the body writes and the step's record commit together or not at all. The transaction ends with the
    body: the body neither commits nor rolls back, and does not touch the tables of stepwell.
    """

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows. On SQLite the text may have several statements.

        Raises `sqlite3.IntegrityError` for a violated constraint, `sqlite3.OperationalError` for invalid SQL, and
        `TransactionError` for a statement that would break the transaction.
        """
        ...

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Execute a statement for each of these parameters."""
        ...

    @property
    def changes(self) -> int:
        """How many rows the last insert, update or delete changed."""
        ...

    @property
    def last_row_id(self) -> int:
        """On SQLite the row id of the last insert; on PostgreSQL the last value of a sequence, 0 if there is none."""
        ...
