"""Callers that give up half-way: no transaction stays open behind them, and nobody gets another one's answer."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from stepwell.clock import Instant, Span
from stepwell.environment import system_environment
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.runs import NewRun
from stepwell.model.transactions import Transaction
from stepwell.model.workers import Claimant, Fence, NewWorker
from stepwell.stores.base.transactions import Performed
from stepwell.stores.postgres.store import PostgresStore
from tests.system.postgres.crew import until

LINES = 4  # that the store has for ordinary calls
LEASE = Span(60_000_000)
Witness = psycopg.Connection[tuple[Any, ...]]


@pytest_asyncio.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(system_environment(), postgres_url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def witness(postgres_url: str, store: PostgresStore) -> Iterator[Witness]:
    """Somebody else on the same database, who looks, or stands in the way."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def states(witness: Witness) -> list[str]:
    """What the connections of the store are doing."""
    question = "select state from pg_stat_activity where application_name = 'stepwell' and datname = current_database()"
    return [str(state) for (state,) in witness.execute(question)]


def blocked(witness: Witness) -> int:
    """How many connections of the store wait for a lock."""
    question = (
        "select 1 from pg_stat_activity where application_name = 'stepwell' and datname = current_database()"
        " and wait_event_type = 'Lock'"
    )
    return len(witness.execute(question).fetchall())


async def come_to_rest(witness: Witness) -> None:
    await until(lambda: set(states(witness)) <= {"idle"}, "a transaction stayed open")


async def start(store: PostgresStore, *names: str) -> None:
    await store.runs.create([NewRun(RunId(name), "work", 1, b"jnull") for name in names])


async def own(store: PostgresStore, name: str) -> Commit:
    """Claim a run; its next commit, empty."""
    worker = Incarnation("w1")
    await store.workers.register(NewWorker(worker, "worker", LEASE, ("work@1",)))
    await start(store, name)
    [claimed] = await store.runs.claim(Claimant(worker, 1, ("work@1",)))
    return Commit(claimed.run.run_id, Fence(worker, claimed.run.epoch), 1)


async def test_a_call_that_is_cancelled_while_the_server_works_leaves_nothing_open(
    store: PostgresStore, witness: Witness, postgres_url: str
) -> None:
    await start(store, "r1", "r2")
    with psycopg.connect(postgres_url) as obstacle:
        obstacle.execute("select 1 from stepwell.runs where run_id = 'r1' for update")
        calls = [asyncio.ensure_future(store.runs.cancel(RunId("r1"), compensate=True, reason="")) for _ in range(3)]
        await until(lambda: blocked(witness) == len(calls))
        for call in calls:
            call.cancel()
        assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [
            asyncio.CancelledError
        ] * 3
        other = await store.views.find("r2")

    await come_to_rest(witness)
    assert other is not None
    assert other.run_id == "r2"
    assert len(states(witness)) <= LINES


async def test_nobody_gets_the_answer_to_a_question_that_another_one_gave_up(store: PostgresStore) -> None:
    rng, names = random.Random(3), [f"r{number}" for number in range(20)]
    await start(store, *names)
    given_up = 0
    for _ in range(120):
        asked = {name: asyncio.ensure_future(store.views.find(name)) for name in names}
        for _ in range(rng.randint(0, 6)):
            await asyncio.sleep(0)
        for name in rng.sample(names, 10):
            given_up += asked[name].cancel()
        answers = await asyncio.gather(*asked.values(), return_exceptions=True)

        for name, answer in zip(names, answers, strict=True):
            assert isinstance(answer, asyncio.CancelledError) or (not isinstance(answer, BaseException) and answer)
            assert isinstance(answer, BaseException) or answer.run_id == name

    assert given_up > 100


async def test_callers_that_give_up_while_they_wait_for_a_connection_leave_none_behind(
    store: PostgresStore, witness: Witness
) -> None:
    await start(store, "r1")
    rng = random.Random(5)
    for _ in range(20):
        witness.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'stepwell' and datname = current_database()"
        )
        calls = [asyncio.ensure_future(store.views.find("r1")) for _ in range(3 * LINES)]
        await asyncio.sleep(rng.random() * 0.02)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    found = await store.views.find("r1")
    await come_to_rest(witness)
    assert found is not None
    assert len(states(witness)) <= LINES


class Interrupted:
    """Work inside a transaction that waits until it is told to go on."""

    def __init__(self, number: int) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self._number = number

    def __call__(self, tx: Transaction) -> None:
        tx.execute("insert into coins values (?)", (self._number,))
        self.has_begun.set()
        assert self.may_end.wait(60)


def performing(store: PostgresStore, commit: Commit, work: Interrupted) -> Any:
    def whole(tx: Transaction, now: Instant) -> Commit:
        work(tx)
        return commit

    return store.transactions.perform(commit, whole, is_blocking=True)


Begin = Callable[[PostgresStore, Commit, Interrupted], Any]
WAYS: dict[str, Begin] = {
    "a step": performing,
    "a client": lambda store, _, work: store.transactions.run(work),
}


@pytest.mark.parametrize("way", WAYS)
async def test_work_that_nobody_waits_for_any_more_leaves_no_open_transaction(
    store: PostgresStore, witness: Witness, way: str
) -> None:
    witness.execute("create table coins (n int unique)")
    commit, work = await own(store, "r1"), Interrupted(1)
    call = asyncio.ensure_future(WAYS[way](store, commit, work))
    await until(work.has_begun.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    work.may_end.set()

    await come_to_rest(witness)
    # Whoever asks again is told what became of it, on a connection that is as good as new.
    again = Interrupted(2)
    again.may_end.set()
    await store.transactions.run(again)
    [applied] = await store.runs.apply([commit])
    assert applied.verdict is Verdict.APPLIED
    assert witness.execute("select n from coins order by n").fetchall() == [(1,), (2,)]


@pytest.mark.parametrize("way", WAYS)
async def test_work_that_outlives_its_store_does_not_keep_a_connection(
    postgres_url: str, witness: Witness, way: str
) -> None:
    witness.execute("create table coins (n int unique)")
    store, work = PostgresStore(system_environment(), postgres_url), Interrupted(1)
    await store.open()
    before = len(states(witness))
    call = asyncio.ensure_future(WAYS[way](store, await own(store, "r1"), work))
    await until(work.has_begun.is_set)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await store.close()

    work.may_end.set()

    await until(lambda: len(states(witness)) < before, "a connection stayed")


async def test_a_worker_leaves_without_waiting_for_a_transaction_that_does_not_end(
    store: PostgresStore, witness: Witness
) -> None:
    witness.execute("create table coins (n int unique)")
    commit, work = await own(store, "r1"), Interrupted(1)
    call = asyncio.ensure_future(performing(store, commit, work))
    await until(work.has_begun.is_set)

    await asyncio.wait_for(store.workers.retire(commit.fence.incarnation), 5)

    work.may_end.set()
    performed = await call
    freed = await store.runs.rescue(stalls_max=5)
    assert performed == Performed(Applied(Verdict.FENCED))
    assert witness.execute("select n from coins").fetchall() == []
    assert freed == ["r1"]


async def test_the_server_notices_a_machine_that_is_gone_without_a_word(store: PostgresStore) -> None:
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
    idle, interval, count = await store.transactions.run(
        lambda tx: [int(tx.execute(f"select setting from pg_settings where name = '{name}'")[0][0]) for name in names]
    )

    assert 0 < idle + interval * count <= 30


async def test_a_rescue_waits_for_a_commit_that_is_on_its_way(
    store: PostgresStore, witness: Witness, postgres_url: str
) -> None:
    commit = await own(store, "r1")
    with psycopg.connect(postgres_url) as obstacle:
        obstacle.execute("update stepwell.workers set lease_until = 0")
        obstacle.commit()
        obstacle.execute("select 1 from stepwell.runs where run_id = 'r1' for no key update")
        rescue = asyncio.ensure_future(store.runs.rescue(stalls_max=5))
        await until(lambda: blocked(witness) == 1 or rescue.done())

    assert await rescue == [commit.run_id]
