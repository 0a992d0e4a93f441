"""A process that is suspended or vanishes during a transactional step: what it locks, and for how long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from stepwell.clock import Instant, span
from stepwell.conformance.scene import FLOW, Turn, new_run, place, step
from stepwell.environment import system_environment
from stepwell.errors import TransactionError
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Commit, Verdict
from stepwell.model.transactions import Transaction
from stepwell.model.workers import Claimant, NewWorker
from stepwell.stores.postgres import transactions
from stepwell.stores.postgres.store import PostgresStore
from tests.servers.cleared import cleared_url

_WORKER = Incarnation("w1")
_LEASE = span("300ms")


class Held:
    """Work that inserts a coin, and then blocks until it is released."""

    def __init__(self, commit: Commit, coins: int = 1) -> None:
        self.commit = commit
        self._coins = coins
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, tx: Transaction, now: Instant) -> Commit:
        tx.execute("insert into coins values (1)")
        self.begun.set()
        self.let_go.wait(60)
        for _ in range(1, self._coins):
            tx.execute("insert into coins values (1)")
        return self.commit._replace(entries=(step(1, place(0))._replace(at=now),))


@pytest_asyncio.fixture
async def store() -> AsyncIterator[PostgresStore]:
    # The server's own clock: a test clock is a row that every call writes, which would block all others.
    store = PostgresStore(system_environment(), cleared_url())
    await store.open()
    await store.transactions.run(lambda tx: tx.execute("create table coins (n int)"))
    yield store
    await store.close()


async def begin(store: PostgresStore, *run_ids: str) -> list[Turn]:
    """Runs of a worker with a short lease."""
    await store.workers.register(NewWorker(_WORKER, "w1", _LEASE, (FLOW,)))
    created = await store.runs.create([new_run(run_id) for run_id in run_ids], Claimant(_WORKER, 9, (FLOW,)))
    return [Turn(store, each.claimed) for each in created if each.claimed is not None]


async def coins(store: PostgresStore) -> int:
    return len(await store.transactions.run(lambda tx: tx.execute("select n from coins")))


async def test_one_run_in_a_held_transaction_does_not_keep_the_others_from_their_rescue(store: PostgresStore) -> None:
    first, _ = await begin(store, "r1", "r2")
    work = Held(first.next())
    performing = asyncio.ensure_future(store.transactions.perform(work.commit, work, is_blocking=True))
    await asyncio.to_thread(work.begun.wait)
    await asyncio.sleep(0.4)  # longer than the lease

    freed = await store.runs.rescue(stalls_max=5)
    is_found_again = await store.views.has_stranded()
    work.let_go.set()
    performed = await performing
    freed_later = await store.runs.rescue(stalls_max=5)

    assert (freed, is_found_again, freed_later) == (["r2"], True, ["r1"])
    # Its lease has expired: neither the record nor the rows of the body are kept.
    assert performed.applied is not None
    assert performed.applied.verdict is Verdict.FENCED
    assert await coins(store) == 0
    [history] = await store.runs.load([RunId("r1")])
    assert history.entries == ()


@pytest.mark.parametrize("coins_wanted", [1, 2], ids=["at the end", "in the middle"])
async def test_the_server_ends_an_idle_transaction(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, coins_wanted: int
) -> None:
    monkeypatch.setattr(transactions, "_IDLE_SECONDS", 0.2)
    [turn] = await begin(store, "r1")
    work = Held(turn.next(), coins_wanted)
    performing = asyncio.ensure_future(store.transactions.perform(work.commit, work, is_blocking=True))
    await asyncio.to_thread(work.begun.wait)

    freed: list[RunId] = []
    for _ in range(200):
        freed += await store.runs.rescue(stalls_max=5)
        await asyncio.sleep(0.05 if not freed else 0)
    work.let_go.set()

    assert freed == ["r1"]
    with pytest.raises(TransactionError, match="was idle for too long") as caught:
        await performing
    assert caught.value.fix
    assert await coins(store) == 0
