"""Switches that break transactional steps ."""

from __future__ import annotations

from typing import Any

from sim.sabotage.patches import Patches, switches
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.replay.journal import Journal
from stepwell.stores.base.transactions import Performed
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.guards import GuardedTransaction
from stepwell.stores.sqlite.runners import InlineRunner
from stepwell.stores.sqlite.store import SqliteTransactions
from stepwell.stores.sqlite.transitions import performs
from stepwell.stores.sqlite.transitions.commits import apply, find_target
from stepwell.worker.execution import Execution


def record_apart_from_rows() -> Patches:
    """The rows are committed, and the record in another transaction after that."""

    async def perform(self: SqliteTransactions, commit: Commit, work: Any, *, is_blocking: bool) -> Performed:
        database, runner = self._runner.database, self._runner
        assert isinstance(runner, InlineRunner)
        found = await runner.write(lambda tx: find_target(tx, commit, has_work=True))
        if isinstance(found, Applied):
            return Performed(found)
        try:
            full = await runner.write(
                lambda tx: performs.in_savepoint(tx, database, lambda author: work(author, tx.now))
            )
        except Exception as error:
            return Performed(error=error)
        if commit.number % 3 == 0:  # the process dies in between, as far as the record is concerned
            return Performed(Applied(Verdict.FENCED))
        return await runner.write(lambda tx: Performed(apply(tx, [full], None)[0], full))

    return [(SqliteTransactions, "perform", perform)]


def rows_before_the_fence() -> Patches:
    """A worker that has lost its run writes the author's rows all the same."""
    return _works_in_spite_of(Verdict.FENCED)


def _works_in_spite_of(verdict: Verdict) -> Patches:
    """The work is done although the store answers so."""

    def perform(tx: Any, database: SqliteDatabase, commit: Commit, work: Any) -> Performed:
        found = find_target(tx, commit, has_work=True)
        refused = found if isinstance(found, Applied) else None
        if refused is not None and refused.verdict is not verdict:
            return Performed(refused)
        try:
            full = performs.in_savepoint(tx, database, lambda author: work(author, tx.now))
        except Exception as error:
            return Performed(error=error)
        return Performed(refused) if refused is not None else Performed(apply(tx, [full], None)[0], full)

    return [(performs, "perform", perform)]


def failed_rows_stay() -> Patches:
    """What a body wrote before it raised is kept."""

    def in_savepoint(tx: Any, database: SqliteDatabase, work: Any) -> Any:
        return work(GuardedTransaction(tx.connection, database.guard()))

    return [(performs, "in_savepoint", in_savepoint)]


def repetition_works_again() -> Patches:
    """An acknowledgement that was lost lets the body write its rows again."""
    return _works_in_spite_of(Verdict.APPLIED)


def result_not_adopted() -> Patches:
    """The kernel does not know that the result of a transaction is recorded."""
    return [(Journal, "adopt", lambda self, entry: None)]


def code_goes_on_meanwhile() -> Patches:
    """The code of a run runs on while one of its transactions is on its way."""
    original = Execution.pump

    def pump(self: Execution) -> None:
        was = self._transactions.running
        self._transactions.running = None
        try:
            original(self)
        finally:
            if was is not None:
                self._transactions.running = was

    return [(Execution, "pump", pump)]


TRANSACTION_SWITCHES = switches(
    record_apart_from_rows,
    failed_rows_stay,
    repetition_works_again,
    result_not_adopted,
)
# Hardly any seed has a worker that lost its run just before a transaction; tests/faults/test_transactions.py has. And
# few have something that comes just while a transaction is on its way.
RARE_TRANSACTION_SWITCHES = switches(rows_before_the_fence, code_goes_on_meanwhile)
