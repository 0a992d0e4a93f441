"""Transactions that the server undoes, by force and by real concurrency: they are asked again, and nothing shows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from stepwell.conformance.blobs import BlobSuite
from stepwell.conformance.cancels import FamilySuite
from stepwell.conformance.concurrency import ConcurrencySuite
from stepwell.conformance.effects import EffectSuite
from stepwell.conformance.events import KeptEventSuite
from stepwell.conformance.operators import ResumeSuite, RetrySuite
from stepwell.conformance.outbox import DeadLetterSuite, SettleSuite
from stepwell.conformance.replies import RedeliverySuite, SignalOrStartSuite
from stepwell.conformance.scene import Scene
from stepwell.conformance.starts import DebounceSuite
from stepwell.conformance.transactions import Coins, Insert, TransactionSuite
from stepwell.conformance.workers import LeaseSuite, RescueSuite
from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import SystemIds
from stepwell.stores.base.store import Store
from stepwell.stores.postgres.store import PostgresStore
from stepwell.virtual.clock import ManualClock
from tests.servers.cleared import cleared_url
from tests.system.postgres.crew import Crew
from tests.system.postgres.load import Load
from tests.system.postgres.sabotage import force_conflicts


class TestForcedConflicts(
    BlobSuite,
    ConcurrencySuite,
    DeadLetterSuite,
    DebounceSuite,
    EffectSuite,
    FamilySuite,
    KeptEventSuite,
    LeaseSuite,
    RedeliverySuite,
    RescueSuite,
    ResumeSuite,
    RetrySuite,
    SettleSuite,
    SignalOrStartSuite,
    TransactionSuite,
):
    """The contract holds to the letter while half of all transactions fail at first. Every transition is in these parts
    of the suite.
    """

    forbidden = ("commit", "delete from stepwell.runs")

    async def test_a_repetition_does_the_work_once(self, scene: Scene, coins: Coins) -> None:
        """Work is done again while its transaction is undone, and never once it is durable."""
        for coin in range(8):
            turn = await scene.begin(f"r{coin}")
            work = Insert(turn.next(names=("a",)), coin)
            done = await self._perform(turn, work)
            times = work.times

            again = await self._perform(turn, work)

            assert (again.applied, work.times) == (done.applied, times)
            assert await coins() == list(range(coin + 1))

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def url(self) -> str:
        return _sabotaged_url()

    @pytest_asyncio.fixture
    async def store(self, clock: ManualClock, url: str) -> AsyncIterator[Store]:
        store = await _open(clock, url)
        yield store
        await store.close()

    @pytest_asyncio.fixture
    async def other(self, clock: ManualClock, store: Store, url: str) -> AsyncIterator[Store]:
        other = await _open(clock, url)
        yield other
        await other.close()


_sabotaged: set[str] = set()


def _sabotaged_url() -> str:
    """A cleared database of this process; clearing it is a transaction like any other, and may have to be repeated."""
    while True:
        try:
            url = cleared_url(query="application_name=sabotaged")
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            continue
        if url not in _sabotaged:
            force_conflicts(url)
            _sabotaged.add(url)
        return url


async def _open(clock: ManualClock, url: str) -> PostgresStore:
    environment = Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor())
    store = PostgresStore(environment, url, test_clock=clock)
    await store.open()
    return store


async def test_a_crew_whose_transactions_fail_half_the_time_loses_and_repeats_nothing(crew: Crew) -> None:
    await asyncio.gather(crew.enlist("first"), crew.enlist("second", mode="yield"))
    async with Load(crew) as load:
        force_conflicts(crew.url)
        load.begin()
        await load.goes_on(20)

        await load.check(await load.settle())

    assert undone(crew.url) > 100


async def test_a_serializable_crew_with_real_conflicts_loses_and_repeats_nothing(crew: Crew) -> None:
    crew.url += "?isolation=serializable"
    await asyncio.gather(crew.enlist("first"), crew.enlist("second", mode="yield"), crew.enlist("third"))
    async with Load(crew) as load:
        load.begin()
        await load.goes_on(30)

        await load.check(await load.settle())

    assert undone(crew.url) > 10


def undone(url: str) -> int:
    """How many transactions of a database were undone."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        found = connection.execute("select xact_rollback from pg_stat_database where datname = current_database()")
        return int(found.fetchall()[0][0])
