"""Transactions that hold an author's own rows beside the record: of transactional steps, and of callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

from stepwell.clock import Instant
from stepwell.errors import TransactionsUnsupportedError
from stepwell.model.commits import Applied, Commit
from stepwell.model.runs import Created, NewRun
from stepwell.model.transactions import Transaction

T = TypeVar("T")


class Work(Protocol):
    """What is done inside a transaction before its commit is known. It may be called again if that could not be
    written.
    """

    def __call__(self, tx: Transaction, now: Instant) -> Commit: ...


class Performed(NamedTuple):
    """What became of a commit that was made inside its own transaction."""

    applied: Applied | None = None  # None: the work raised, and nothing was written
    commit: Commit | None = None  # what was applied, if the work was done by this call
    error: Exception | None = None  # what the work raised


class TransactionStore(Protocol):
    """Transactions in which an author writes."""

    async def perform(self, commit: Commit, work: Work, *, is_blocking: bool) -> Performed:
        """Do the work, and apply the commit that it returns, in one transaction.

        `commit` is what there is before the work; its fence, number and run are those of what the work returns.
        FENCED and a repetition are answered as by `apply`; CANCELLING while the run is cancelling: the work is not done
        in any of them. If the work raises, its writes are undone, nothing is applied, and the error is given back.
        Blocking work does not hold up the event loop. Raises `TransactionError` if the work ended the transaction.
        """
        ...

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Do the work in a transaction of its own, beside the event loop. If it raises, nothing was written."""
        ...

    def enqueue(self, connection: Any, runs: Sequence[NewRun]) -> list[Created]:
        """Start runs through a connection of the caller's, within its open transaction, as `RunStore.create` would
        without a claimant. They exist once the caller commits.

        Raises `InvalidOptionError` for anything but a connection to this database with an open transaction. Blocks.
        """
        ...


class NoTransactions:
    """`TransactionStore` of a store that has none."""

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
    """A store cannot do what was asked."""
    return TransactionsUnsupportedError(
        f"the {store} store has no {what}",
        where=where,
        why="an author's rows can only be committed with the record if one database holds both",
        fix='open the engine with "sqlite:///shop.db" or "postgresql://user@host/database", or in tests with "memory:"',
    )
