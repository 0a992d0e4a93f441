"""What transactions of authors come to, for a store that has none: the specification that the others are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.runs import NewRun
from stepwell.model.states import RunStatus
from stepwell.model.transactions import Parameters, Transaction
from stepwell.stores.base.transactions import Performed, Work
from stepwell.stores.memory.store import MemoryStore

T = TypeVar("T")

INSERT = "insert into coins values ("  # a number, and ")": every store reads it, whatever its parameters look like
SELECT = "select n from coins order by n"


class IntegrityError(Exception):
    """A coin is there already. Drivers have a class of this name."""


class _Coins:
    """The one table that authors have here, as a `Transaction`: `INSERT` and `SELECT` are all that it reads."""

    def __init__(self, coins: set[int]) -> None:
        self.coins = set(coins)
        self.changes = self.last_row_id = 0

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        if sql == SELECT:
            return [(coin,) for coin in sorted(self.coins)]
        if not sql.startswith(INSERT):
            return []
        coin = int(sql.removeprefix(INSERT).removesuffix(")"))
        if coin in self.coins:
            raise IntegrityError(f"there is a coin {coin}")
        self.coins.add(coin)
        return []

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> None:
        for row in rows:
            self.execute(sql, row)


class ModelTransactions:
    """`TransactionStore` over the memory store: nothing else happens meanwhile, so undoing is forgetting."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._coins: set[int] = set()

    async def perform(self, commit: Commit, work: Work, *, is_blocking: bool) -> Performed:
        row = self._store.database.runs.get(commit.run_id)
        is_next = row is not None and (row.owner, row.epoch) == commit.fence and commit.number == row.applied + 1
        if row is None or not is_next:
            return Performed((await self._store.runs.apply([commit]))[0])
        if row.status is RunStatus.CANCELLING:
            return Performed(Applied(Verdict.CANCELLING))
        table = _Coins(self._coins)
        try:
            full = work(table, self._store.now())
        except Exception as error:
            return Performed(error=error)
        [applied] = await self._store.runs.apply([full])
        self._coins = table.coins
        return Performed(applied, full)

    async def run(self, work: Callable[[Transaction], T]) -> T:
        table = _Coins(self._coins)
        result = work(table)
        self._coins = table.coins
        return result

    def enqueue(self, connection: Any, runs: Sequence[NewRun]) -> NoReturn:
        raise AssertionError("a store without transactions is never asked to take part in one")
