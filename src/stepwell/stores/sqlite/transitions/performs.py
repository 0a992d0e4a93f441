"""An author's work inside our transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stepwell.errors import StoreError, TransactionError
from stepwell.model.commits import Applied, Commit
from stepwell.model.transactions import Transaction as AuthorsTransaction
from stepwell.stores.base.transactions import Performed, Work
from stepwell.stores.sqlite.database import BatchAborted, SqliteDatabase
from stepwell.stores.sqlite.guards import GuardedTransaction
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.commits import apply, find_target

T = TypeVar("T")

_SAVE, _RELEASE, _BACK = (SQL[f"transactions.{name}"] for name in ("save", "release", "roll_back_to_save"))


def perform(tx: Transaction, database: SqliteDatabase, commit: Commit, work: Work) -> Performed:
    """Do the work under the fence, and apply the commit that it returns."""
    found = find_target(tx, commit, has_work=True)
    if isinstance(found, Applied):
        return Performed(found)
    try:
        full = in_savepoint(tx, database, lambda author: work(author, tx.now))
    except BatchAborted:
        raise
    except Exception as error:  # noqa: BLE001  whatever the work raises is its outcome
        return Performed(error=error)
    [applied] = apply(tx, [full], None)
    return Performed(applied, full)


def run(tx: Transaction, database: SqliteDatabase, work: Callable[[AuthorsTransaction], T]) -> T | Performed:
    """Do work that belongs to no run. Returns `Performed` with its error if it raised."""
    try:
        return in_savepoint(tx, database, work)
    except BatchAborted:
        raise
    except Exception as error:  # noqa: BLE001  whatever the work raises is its outcome
        return Performed(error=error)


def in_savepoint(tx: Transaction, database: SqliteDatabase, work: Callable[[AuthorsTransaction], T]) -> T:
    """Let an author write. If the work raises, its writes are undone and the transaction continues without them.

    Raises `BatchAborted` if the transaction itself was rolled back.
    """
    connection = tx.connection
    tx.execute(_SAVE)
    author = GuardedTransaction(connection, database.guard())
    try:
        result = work(author)
    except Exception as error:
        if not connection.in_transaction:
            raise BatchAborted from _reason(error)
        tx.execute(_BACK)
        tx.execute(_RELEASE)
        raise
    finally:
        author.close()
    if not connection.in_transaction:
        raise BatchAborted from _reason(None)
    tx.execute(_RELEASE)
    return result


def _reason(error: Exception | None) -> Exception:
    """Why the transaction has ended: SQLite ended it by itself, or because a statement contained `or rollback`."""
    if isinstance(error, StoreError):
        return error
    return TransactionError(
        "a transactional step ended its transaction",
        why=f"a statement with `or rollback`, or a trigger with `raise(rollback)`, undid everything ({error})",
        fix="use `or abort` and `raise(abort)`: they undo only their statement; raise an error to undo the step",
    )
