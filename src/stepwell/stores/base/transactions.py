"""Transactions that write an author's rows together with the record: transactional steps, and callers' transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

from stepwell.clock import Instant
from stepwell.errors import InvalidOptionError, TransactionError, TransactionsUnsupportedError
from stepwell.model.commits import Applied, Commit
from stepwell.model.runs import Created, NewRun
from stepwell.model.transactions import Transaction

T = TypeVar("T")


class Work(Protocol):
    """The body of a transaction; it returns the commit to apply. It may be called again if that commit could not be
    written.
    """

    def __call__(self, tx: Transaction, now: Instant) -> Commit: ...


class Performed(NamedTuple):
    """The result of work that ran in its own transaction."""

    applied: Applied | None = None  # None: the work raised, and nothing was written
    commit: Commit | None = None  # what was applied, if the work was done by this call
    error: Exception | None = None  # what the work raised


class TransactionStore(Protocol):
    """Transactions in which an author writes."""

    async def perform(self, commit: Commit, work: Work, *, is_blocking: bool) -> Performed:
        """Do the work, and apply the commit that it returns, in one transaction.

        `commit` is the commit as it is before the work; the commit that the work returns has the same fence, number and
        run. FENCED and a repetition are answered as by `apply`; a run that is cancelling answers CANCELLING. In these
        cases the work is not done. If the work raises, its writes are undone, nothing is applied, and the error is
        returned. Blocking work does not block the event loop. Raises `TransactionError` if the work ended the
        transaction.
        """
        ...

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Do the work in a transaction of its own, off the event loop. If it raises, nothing was written."""
        ...

    def enqueue(self, connection: Any, runs: Sequence[NewRun]) -> list[Created]:
        """Start runs through the caller's connection, within its open transaction, as `RunStore.create` would without a
        claimant. They exist once the caller commits.

        Raises `InvalidOptionError` unless the connection is to this database and has an open transaction. Blocks.
        """
        ...


class NoTransactions:
    """`TransactionStore` of a store without transactions."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def perform(self, commit: Commit, work: Work, *, is_blocking: bool) -> Performed:
        self._refuse("transactional steps", commit.run_id)

    async def run(self, work: Callable[[Transaction], T]) -> T:
        self._refuse("transactions", "")

    def enqueue(self, connection: Any, runs: Sequence[NewRun]) -> list[Created]:
        self._refuse("starts inside a caller's transaction", "")

    def _refuse(self, what: str, where: str) -> NoReturn:
        raise no_transactions(self._name, what, where)


def no_transactions(store: str, what: str, where: str) -> TransactionsUnsupportedError:
    """The error of a store that does not support this operation."""
    return TransactionsUnsupportedError(
        f"the {store} store has no {what}",
        where=where,
        why="an author's rows can only be committed with the record if one database holds both",
        fix='open the engine with "sqlite:///shop.db" or "postgresql://user@host/database", or in tests with "memory:"',
    )


# --- errors of authors' and callers' transactions ---


def used_after_end() -> TransactionError:
    """A transaction is used after its step."""
    return TransactionError(
        "a transaction was used after its step had ended",
        where="Transaction",
        why="it is committed or rolled back when the body returns or raises",
        fix="do everything inside the body, and return plain values",
    )


def forbidden_sql(sql: str, what: str, fix: str) -> TransactionError:
    """An author's SQL does what it may not do."""
    return TransactionError(
        f"a transactional step {what}",
        where=brief(sql),
        why="its rows and its record commit together, in a transaction that stepwell begins and ends",
        fix=fix,
    )


def brief(sql: str) -> str:
    """A statement in one short line."""
    text = " ".join(sql.split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def not_a_connection(given: Any, drivers: str) -> InvalidOptionError:
    """A caller passes something else than a connection of a known driver."""
    return InvalidOptionError(
        f"transaction is a {type(given).__name__}",
        where="transaction",
        why=f"only connections of {drivers} are supported",
        fix="pass the driver's own connection, not a session or an engine around it",
    )


def no_open_transaction(fix: str) -> InvalidOptionError:
    """A caller's connection has no open transaction."""
    return InvalidOptionError(
        "the connection has no open transaction",
        where="transaction",
        why="the run is committed together with the caller's rows, so a transaction must be open",
        fix=fix,
    )
