"""An author's work inside the transaction of a commit, for stores that declare `has_transactions`."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, Turn, place, step
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import TransactionError, TransactionsUnsupportedError
from stepwell.model.commits import Applied, Commit, Release, Verdict
from stepwell.model.transactions import Transaction
from stepwell.stores.base.store import Store
from stepwell.stores.base.transactions import Performed

Coins = Callable[[], Awaitable[list[int]]]

_CREATE = "create table if not exists coins (n integer not null unique)"


class Insert:
    """Work that inserts one coin, and records a step."""

    def __init__(self, commit: Commit, coin: int, then: Callable[[Transaction], Any] | None = None) -> None:
        self.commit = commit
        self.times = 0
        self._coin = coin
        self._then = then

    def __call__(self, tx: Transaction, now: Instant) -> Commit:
        self.times += 1
        tx.execute("insert into coins values (?)", (self._coin,))
        if self._then is not None:
            self._then(tx)
        entry = step(len(self.commit.entries) + 1, place(0))._replace(at=now)
        return self.commit._replace(entries=(*self.commit.entries, entry))


def _executing(sql: str) -> Callable[[Transaction], Any]:
    return lambda tx: tx.execute(sql)


class TransactionSuite(StoreCase):
    """`perform` and `run`.

    `forbidden` is SQL that an author may not execute, in the dialect of the store's database.
    """

    forbidden: tuple[str, ...] = (
        "commit",
        "commit;",
        "rollback;",
        "begin immediate;",
        "savepoint stepwell_work;",
        "release stepwell_work;",
        "rollback to stepwell_work;",
        "insert or rollback into coins values (7)",
        "delete from stepwell_runs",
        "select * from stepwell_entries",
        "DROP TABLE Stepwell_Runs",
        "create table stepwell_mine (n)",
        "create trigger t after insert on stepwell_runs begin select 1; end",
        "attach ':memory:' as elsewhere",
        "pragma synchronous = off",
    )

    @pytest_asyncio.fixture
    async def coins(self, store: Store) -> Coins:
        """A table of the author's own, and how to read it."""
        if not store.capabilities.has_transactions:
            with pytest.raises(TransactionsUnsupportedError) as caught:
                await store.transactions.run(lambda tx: tx.execute(_CREATE))
            assert caught.value.fix
            pytest.skip("the store declares that it has no transactions")
        await store.transactions.run(lambda tx: tx.execute(_CREATE))

        async def read() -> list[int]:
            rows = await store.transactions.run(lambda tx: tx.execute("select n from coins order by n"))
            return [n for (n,) in rows]

        return read

    async def _perform(self, turn: Turn, work: Insert) -> Performed:
        return await turn._store.transactions.perform(work.commit, work, is_blocking=False)

    async def test_rows_and_record_are_written_together(self, scene: Scene, coins: Coins) -> None:
        turn = await scene.begin("r1")
        work = Insert(turn.next(names=("a",)), 7)

        performed = await self._perform(turn, work)

        assert performed.applied == Applied(Verdict.APPLIED, revision=1)
        assert performed.commit is not None
        history = await scene.history("r1")
        assert (history.names, history.entries) == (("a",), performed.commit.entries)
        assert await coins() == [7]

    async def test_work_that_raises_leaves_neither_rows_nor_record(self, scene: Scene, coins: Coins) -> None:
        turn = await scene.begin("r1")
        before = await snapshot(scene.store)
        error = ValueError("no")

        def fail(_: Transaction) -> None:
            raise error

        performed = await self._perform(turn, Insert(turn.next(names=("a",)), 7, fail))

        assert performed == Performed(error=error)
        assert await snapshot(scene.store) == before
        assert await coins() == []
        assert (await turn.record("a")).verdict is Verdict.APPLIED

    async def test_a_repetition_does_the_work_once(self, scene: Scene, coins: Coins) -> None:
        turn = await scene.begin("r1")
        work = Insert(turn.next(names=("a",)), 7)
        await self._perform(turn, work)

        again = await self._perform(turn, work)

        assert (again, work.times) == (Performed(Applied(Verdict.APPLIED, revision=1)), 1)
        assert await coins() == [7]

    async def test_a_worker_that_lost_its_run_does_no_work(self, scene: Scene, coins: Coins) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a",), move=Release())
        await scene.claim_only("r1")
        before = await snapshot(scene.store)
        work = Insert(turn.next(), 7)

        performed = await self._perform(turn, work)

        assert (performed, work.times) == (Performed(Applied(Verdict.FENCED)), 0)
        assert (await snapshot(scene.store), await coins()) == (before, [])

    async def test_a_number_out_of_turn_does_no_work(self, scene: Scene, coins: Coins) -> None:
        turn = await scene.begin("r1")
        work = Insert(turn.next(names=("a",))._replace(number=2), 7)

        assert await self._perform(turn, work) == Performed(Applied(Verdict.FENCED))
        assert work.times == 0

    async def test_a_cancel_that_came_first_prevents_the_work(self, scene: Scene, coins: Coins) -> None:
        turn = await scene.begin("r1")
        await turn.record("a", undo=b"u")
        await scene.cancel("r1")
        work = Insert(turn.next(), 7)

        assert await self._perform(turn, work) == Performed(Applied(Verdict.CANCELLING))
        assert (work.times, await coins()) == (0, [])
        assert (await turn.commit()).cancelling

    async def test_work_cannot_end_the_transaction_nor_touch_the_record(self, scene: Scene, coins: Coins) -> None:
        turn = await scene.begin("r1")
        before = await snapshot(scene.store)
        for sql in self.forbidden:
            work = Insert(turn.next(names=("a",)), 7, _executing(sql))

            try:
                error = (await self._perform(turn, work)).error
            except TransactionError as raised:
                error = raised

            assert isinstance(error, TransactionError), sql
            assert error.fix
            assert (await snapshot(scene.store), await coins()) == (before, [])
        assert (await turn.record("a")).verdict is Verdict.APPLIED

    async def test_work_may_use_savepoints_and_see_its_own_rows(self, scene: Scene, coins: Coins) -> None:
        def write(tx: Transaction) -> None:
            tx.execute("savepoint mine")
            tx.execute_many("insert into coins values (:n)", [{"n": 8}, {"n": 9}])
            assert tx.execute("select count(*) from coins") == [(3,)]
            tx.execute("rollback to mine")
            tx.execute("release mine")
            tx.execute("insert into coins values (10)")
            assert (tx.changes, tx.last_row_id >= 0) == (1, True)

        turn = await scene.begin("r1")
        await self._perform(turn, Insert(turn.next(names=("a",)), 7, write))

        assert await coins() == [7, 10]

    async def test_wrong_sql_raises_the_errors_of_sqlite3(self, scene: Scene, coins: Coins) -> None:
        turn = await scene.begin("r1")
        first = await self._perform(turn, Insert(turn.next(names=("a",)), 7, lambda tx: tx.execute("nonsense")))
        await self._perform(turn, Insert(turn.next(names=("a",)), 7))
        turn.number += 1
        second = await self._perform(turn, Insert(turn.next(), 7))

        assert isinstance(first.error, sqlite3.OperationalError)
        assert isinstance(second.error, sqlite3.IntegrityError)

    async def test_a_transaction_cannot_be_used_after_its_step(self, scene: Scene, coins: Coins) -> None:
        kept: list[Transaction] = []
        turn = await scene.begin("r1")
        await self._perform(turn, Insert(turn.next(names=("a",)), 7, kept.append))

        with pytest.raises(TransactionError, match="after its step had ended"):
            kept[0].execute("insert into coins values (8)")
        assert await coins() == [7]

    async def test_a_separate_transaction_is_atomic(self, scene: Scene, coins: Coins) -> None:
        def fail(tx: Transaction) -> None:
            tx.execute("insert into coins values (1)")
            raise KeyError("no")

        with pytest.raises(KeyError):
            await scene.store.transactions.run(fail)

        assert await coins() == []
