"""Connections that are dead without a word: every wait ends by the lease, and every stop by its grace time."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from stepwell import Context, Engine, Transaction, WorkerSettings, step, workflow
from tests.servers.proxy import Proxy
from tests.system.postgres.crew import SECONDS_MAX, Crew, until

BODIES: Counter[int] = Counter()
SETTINGS = WorkerSettings(lease="2s", sweep_every="500ms")


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    port = urlsplit(postgres_url).port
    assert port is not None
    with Proxy(port) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def mine(postgres_url: str) -> None:
    BODIES.clear()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table mine (number int)")


@step(transaction=True)
def enter(tx: Transaction, number: int) -> int:
    tx.execute("insert into mine values (?)", (number,))
    return number


@step
async def work(number: int) -> int:
    BODIES[number] += 1
    return number


@workflow
async def tally(ctx: Context, number: int) -> Any:
    return await ctx.step(enter, number)


@workflow
async def easy(ctx: Context, number: int) -> Any:
    return await ctx.step(work, number)


@workflow
async def waits(ctx: Context, number: int) -> Any:
    await ctx.receive("go")
    return await ctx.step(enter, number)


@pytest.mark.parametrize("way", ["cut_silently", "drop_answers"])
async def test_steps_go_on_within_a_lease_after_every_connection_died_silently(
    postgres_url: str, proxy: Proxy, way: str
) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        async with Engine(proxy.url(postgres_url), workflows=[tally, easy], settings=SETTINGS) as engine:
            for number, flow in enumerate((tally, easy)):
                assert await (await engine.start(flow, number)).result() == number
            getattr(proxy, way)()
            handles = await asyncio.gather(*(engine.start(flow, 2 + n) for n, flow in enumerate((tally, easy))))
            assert await asyncio.gather(*(handle.result() for handle in handles)) == [2, 3]

    assert BODIES == {1: 1, 3: 1}
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select number from mine order by number").fetchall() == [(0,), (2,)]


async def test_an_engine_closes_within_its_grace_time_while_the_server_never_answers(
    postgres_url: str, proxy: Proxy
) -> None:
    engine = Engine(proxy.url(postgres_url), workflows=[tally, waits], settings=WorkerSettings(lease="60s"))
    await engine.__aenter__()
    await (await engine.start(tally, 1)).result()
    run = await engine.start(waits, 2)
    proxy.is_silent = True
    asking = asyncio.ensure_future(run.signal("go"))
    await asyncio.sleep(0.1)

    async with asyncio.timeout(30):  # the lease, and what the driver would wait for, are longer
        await engine.shutdown(grace=0.5)
    asking.cancel()


async def test_a_transaction_on_a_silent_server_keeps_no_thread_after_a_stop(postgres_url: str, proxy: Proxy) -> None:
    has_begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    threads: list[threading.Thread] = []

    @step(transaction=True)
    def fall_silent(tx: Transaction) -> None:
        threads.append(threading.current_thread())
        proxy.is_silent = True
        loop.call_soon_threadsafe(has_begun.set)
        tx.execute("insert into mine values (1)")

    @workflow
    async def stuck(ctx: Context) -> None:
        await ctx.step(fall_silent)

    engine = Engine(proxy.url(postgres_url), workflows=[stuck], settings=WorkerSettings(lease="60s"))
    await engine.__aenter__()
    await engine.start(stuck)
    await has_begun.wait()
    async with asyncio.timeout(30):
        await engine.shutdown(grace=0.1)
        await until(lambda: not any(thread.is_alive() for thread in threads))
    assert len(threads) == 1


async def test_a_worker_process_leaves_on_sigterm_while_the_server_never_answers(
    postgres_url: str, proxy: Proxy, tmp_path: Path
) -> None:
    with Crew(tmp_path, proxy.url(postgres_url)) as crew:
        hand = await crew.hire("w", lease=120.0)
        proxy.is_silent = True
        hand.send(signal.SIGTERM)
        async with asyncio.timeout(SECONDS_MAX):  # half of the lease
            assert await hand.left() == 0
