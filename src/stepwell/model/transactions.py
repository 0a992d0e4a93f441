"""Transactions: what the body of a transactional step is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]


class Transaction(Protocol):
    """A transaction of the database that holds the runs, as the body of a transactional step has it.

    What is written here and the step's record commit together or not at all. It ends with the body: the body neither
    commits nor rolls back, and it leaves the tables of stepwell alone.
    """

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Execute a statement, and give its rows. On SQLite the text may have several statements.

        Raises `sqlite3.IntegrityError` for a constraint, `sqlite3.OperationalError` for SQL that is wrong, and
        `TransactionError` for what would break the transaction.
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
        """On SQLite the row id of the last insert; on PostgreSQL the last number that a sequence gave, 0 for none."""
        ...
