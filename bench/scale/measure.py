"""Measures the service times on a real server, through the store itself: CPU of the server's processes, by the size of
the call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import LiteralString

import psycopg

from bench.peers.observing import usage
from bench.scale.costs import Costs, line_through
from bench.workflows import WORKFLOWS, sequence
from stepwell import Engine, Start
from stepwell.clock import Span
from stepwell.conformance.scene import FLOW, new_run, place, step
from stepwell.environment import system_environment
from stepwell.ids import Incarnation
from stepwell.model.commits import Commit, End
from stepwell.model.locations import use
from stepwell.model.runs import Claimed
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant, Fence, NewWorker
from stepwell.stores.postgres.store import PostgresStore
from tests.servers.postgres import PostgresServer

SIZES = (1, 10, 50, 200)
_RUNS = 2_000  # for each size; the CPU of a process is told in hundredths of a second
_CALLS = 300  # at most, for each size
_HELD = 2_000  # rows that somebody holds while others are claimed
_WORKER = Claimant(Incarnation("scale"), 1, (FLOW,))
_LEASE = Span(3_600_000_000)


async def measure_costs(server: PostgresServer, tell: Callable[[str], None]) -> Costs:
    """All of them, in about a minute."""
    url = server.create_database()
    try:
        tell("round trips and the log")
        round_trip, flush = _waits(url)
        store = PostgresStore(system_environment(), url)
        await store.open()
        try:
            await store.workers.register(NewWorker(_WORKER.incarnation, "scale", _LEASE, (FLOW,)))
            bench = _Bench(server, store)
            claims: dict[int, float] = {}
            commits: dict[int, float] = {}
            for size in SIZES:
                tell(f"claims and commits of {size}")
                claims[size], commits[size] = await bench.calls(size)
            tell("claims past rows that others hold")
            skip = await bench.skipping(url)
        finally:
            await store.close()
        tell("a worker's own work")
        worker = await _worker_step(server)
    finally:
        server.drop_database(url)
    return Costs(*line_through(claims), skip, *line_through(commits), flush, round_trip, worker)


class _Bench:
    """Calls of the store, and what they take of the server."""

    def __init__(self, server: PostgresServer, store: PostgresStore) -> None:
        self._server = server
        self._store = store
        self._made = 0

    async def calls(self, size: int) -> tuple[float, float]:
        """CPU seconds of the server for one claim of so many runs, and for one commit of a step of each of them."""
        count = min(_CALLS, max(_RUNS // size, 10))
        await self._make(size * count)
        batches: list[list[Claimed]] = []

        async def claim() -> None:
            batches.append(await self._store.runs.claim(_WORKER._replace(limit=size)))

        claimed = await self._cpu(claim, count)
        assert sum(map(len, batches)) == size * count
        # The first step of a run brings its name along; those that follow are only entries.
        for batch in batches:
            await self._store.runs.apply([_step(one, 1, names=("tick",)) for one in batch])
        commits = iter([[_step(one, 2) for one in batch] for batch in batches])

        async def commit() -> None:
            await self._store.runs.apply(next(commits))

        committed = await self._cpu(commit, count)
        for batch in batches:
            ended = [_step(one, 3)._replace(entries=(), move=End(RunStatus.COMPLETED)) for one in batch]
            await self._store.runs.apply(ended)
        return claimed, committed

    async def skipping(self, url: str) -> float:
        """CPU seconds of the server for each row that a claim has to step over."""
        await self._make(_HELD + _CALLS)

        async def claim() -> None:
            await self._store.runs.claim(_WORKER)

        with psycopg.connect(url) as holder:
            holder.execute(
                "select 1 from stepwell.runs where wake_at is not null order by wake_at, id limit %s for update",
                [_HELD],
            )
            held = await self._cpu(claim, _CALLS // 2)
            holder.rollback()
        free = await self._cpu(claim, _CALLS // 2)
        return max(held - free, 0.0) / _HELD

    async def _make(self, count: int) -> None:
        for first in range(self._made, self._made + count, 500):
            last = min(first + 500, self._made + count)
            await self._store.runs.create([new_run(f"scale-{number}") for number in range(first, last)])
        self._made += count

    async def _cpu(self, call: Callable[[], Awaitable[None]], count: int) -> float:
        before = usage([self._server.pid]).cpu
        for _ in range(count):
            await call()
        return (usage([self._server.pid]).cpu - before) / count


def _step(claimed: Claimed, number: int, names: tuple[str, ...] = ()) -> Commit:
    """What a worker commits after a step of a run: one entry."""
    assert claimed.run.owner is not None
    fence = Fence(claimed.run.owner, claimed.run.epoch)
    at = use(place(0), number) if number > 1 else place(0)
    return Commit(claimed.run.run_id, fence, number, names=names, entries=(step(number, at),))


def _waits(url: str) -> tuple[float, float]:
    """Seconds of a round trip that asks for nothing, and those that a commit waits for the log."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table waited (number int)")
        trip = _median(connection, "select 1")
        connection.execute("set synchronous_commit = off")
        quick = _median(connection, "insert into waited values (1)")
        connection.execute("set synchronous_commit = on")
        durable = _median(connection, "insert into waited values (1)")
        connection.execute("drop table waited")
    return trip, max(durable - quick, 0.0)


def _median(connection: psycopg.Connection[tuple[object, ...]], statement: LiteralString) -> float:
    times = []
    for _ in range(500):
        began = time.perf_counter()
        connection.execute(statement, prepare=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def _worker_step(server: PostgresServer) -> float:
    """CPU seconds of a process with a worker for one step, among many runs at once; starting and asking included."""
    url = server.create_database()
    try:
        async with Engine(url, workflows=WORKFLOWS, worker=True) as engine:
            await (await engine.start(sequence, 50)).result()
            busy = time.process_time()
            for handle in await engine.runs.start_many(sequence, [Start(10)] * 500):
                await handle.result()
            return (time.process_time() - busy) / 5_000
    finally:
        server.drop_database(url)
