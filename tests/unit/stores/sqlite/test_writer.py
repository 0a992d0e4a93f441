"""Group commit: shared transactions, isolated operations, nothing lost at the end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
import pytest_asyncio

from stepwell.clock import Span
from stepwell.conformance.scene import Scene, new_run, place, step
from stepwell.environment import Environment, system_environment
from stepwell.errors import LeaseLostError, StoreFullError, StoreUnavailableError
from stepwell.model.commits import Verdict
from stepwell.model.workers import NewWorker
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.writer import Writer
from stepwell.virtual.clock import ManualClock
from tests.unit.stores.sqlite.conftest import OpenStore


@pytest.fixture(params=[1.0, 0.0], ids=["on the loop", "in the thread"])
def writer(request: pytest.FixtureRequest, file: Path) -> Writer:
    """A runner that commits on the loop's thread, and one that never does."""
    return Writer(SqliteDatabase(str(file)), quick_seconds=request.param)


@pytest.fixture
async def store(open_store: OpenStore, writer: Writer) -> SqliteStore:
    return await open_store(runner=writer)


async def test_concurrent_writes_share_one_commit(store: SqliteStore, writer: Writer) -> None:
    before = writer.database.commits

    await asyncio.gather(*(store.runs.create([new_run(f"r{n}")]) for n in range(200)))

    assert writer.database.commits == before + 1
    assert await store.views.find("r199") is not None


async def test_writes_during_a_commit_share_the_next_one(open_store: OpenStore, file: Path) -> None:
    writer = Writer(SqliteDatabase(str(file)), quick_seconds=0.0)
    store = await open_store(runner=writer)
    before = writer.database.commits
    first = asyncio.ensure_future(store.runs.create([new_run("first")]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # its transaction is being written to disk now

    await asyncio.gather(*(store.runs.create([new_run(f"r{n}")]) for n in range(50)))

    assert first.done()
    assert writer.database.commits == before + 2


async def test_one_caller_in_sequence_pays_one_commit_each(store: SqliteStore, writer: Writer) -> None:
    before = writer.database.commits

    for n in range(5):
        await store.runs.create([new_run(f"r{n}")])

    assert writer.database.commits == before + 5


@pytest_asyncio.fixture
async def rounds() -> AsyncIterator[Callable[[], int]]:
    """How many rounds the loop has made, counted by a callback that is always ready."""
    made = 0

    async def count() -> None:
        nonlocal made
        while True:
            await asyncio.sleep(0)
            made += 1

    counting = asyncio.create_task(count())
    yield lambda: made
    counting.cancel()


async def test_a_write_that_cannot_be_shared_does_not_wait_for_the_loop(store: SqliteStore, writer: Writer) -> None:
    looked: list[int] = []
    await store.runs.create([new_run("first")])
    asyncio.get_running_loop().call_later(0, looked.append, 1)  # runs in the next round; no callback is ready before
    await store.runs.create([new_run("second")])
    is_inline = writer._quick_seconds > 0
    assert bool(looked) is not is_inline

    for n in range(20):
        await store.runs.create([new_run(f"r{n}")])
    assert looked  # timers are polled, although no caller waited


async def test_continuous_writes_yield_to_other_callbacks(store: SqliteStore, rounds: Callable[[], int]) -> None:
    for n in range(40):
        await store.runs.create([new_run(f"r{n}")])

    assert rounds() >= 20


async def test_continuous_reads_yield_to_other_callbacks(store: SqliteStore, rounds: Callable[[], int]) -> None:
    before = rounds()
    for _ in range(1_000):
        await store.views.find("nobody")
    assert rounds() > before


async def test_concurrent_writes_share_a_commit_after_an_immediate_one(store: SqliteStore, writer: Writer) -> None:
    for n in range(6):
        await store.runs.create([new_run(f"lone{n}")])
        await asyncio.sleep(0)
    before = writer.database.commits

    await asyncio.gather(*(store.runs.create([new_run(f"r{n}")]) for n in range(200)))
    burst = writer.database.commits - before
    await asyncio.gather(*(store.runs.create([new_run(f"s{n}")]) for n in range(200)))

    assert burst <= 2
    assert writer.database.commits == before + burst + 1
    assert await store.views.find("r199") is not None


@pytest.mark.parametrize("is_batch", [True, False])
async def test_work_before_a_commit_does_not_make_the_disk_look_slow(
    open_store: OpenStore, file: Path, clock: ManualClock, is_batch: bool
) -> None:
    writer = Writer(SqliteDatabase(str(file)))
    await open_store(runner=writer)

    await writer.write(lambda _: clock.advance("3s"), is_batch=is_batch)

    assert writer._is_quick


async def test_an_operation_that_raises_does_not_affect_others(store: SqliteStore, writer: Writer) -> None:
    def write_then_raise(tx: Transaction) -> None:
        tx.definition("trace", 1, 0)
        raise KeyError("mine")

    outcomes: tuple[Any, ...] = await asyncio.gather(
        store.runs.create([new_run("r1")]),
        writer.write(write_then_raise),
        store.runs.create([new_run("r2")]),
        store.workers.renew("nobody", Span(1)),  # type: ignore[arg-type]
        return_exceptions=True,
    )

    assert [type(one) for one in outcomes] == [list, KeyError, list, LeaseLostError]
    assert [run.run_id for run in await store.views.find_many(["r1", "r2"]) if run] == ["r1", "r2"]
    assert await store.views.list_definitions() == ["flow@1"]


async def test_an_operation_that_raises_before_it_writes_costs_no_extra_commit(
    store: SqliteStore, writer: Writer
) -> None:
    before = writer.database.commits

    await asyncio.gather(
        store.runs.create([new_run("r1")]),
        store.workers.renew("nobody", Span(1)),  # type: ignore[arg-type]
        return_exceptions=True,
    )

    assert writer.database.commits == before + 1


async def test_a_caller_that_gave_up_before_the_start_leaves_nothing(store: SqliteStore) -> None:
    call = asyncio.ensure_future(store.runs.create([new_run("r1")]))
    kept = asyncio.ensure_future(store.runs.create([new_run("r2")]))
    await asyncio.sleep(0)
    call.cancel()
    await kept

    assert await store.views.find("r1") is None
    assert await store.views.find("r2") is not None


async def test_a_caller_that_gives_up_in_the_middle_does_not_stop_the_writer(open_store: OpenStore, file: Path) -> None:
    store = await open_store(runner=Writer(SqliteDatabase(str(file)), quick_seconds=0.0))
    call = asyncio.ensure_future(store.runs.create([new_run("r1")]))
    for _ in range(2):
        await asyncio.sleep(0)
    call.cancel()

    await store.runs.create([new_run("r2")])

    assert await store.views.find("r1") is not None


async def test_closing_finishes_pending_writes(environment: Environment, file: Path, writer: Writer) -> None:
    before = threading.enumerate()  # a store whose loop has ended keeps its thread
    store = SqliteStore(environment, file, runner=writer)
    await store.open()
    calls = [asyncio.ensure_future(store.runs.create([new_run(f"r{n}")])) for n in range(20)]
    await asyncio.sleep(0)

    await store.close()

    assert all([(await call)[0].is_new for call in calls])
    with pytest.raises(StoreUnavailableError):
        await store.runs.create([new_run("late")])
    after = [thread for thread in threading.enumerate() if thread not in before]
    assert [thread.name for thread in after if thread.name.startswith("stepwell-w")] == []


async def test_a_store_can_be_opened_again(environment: Environment, file: Path) -> None:
    store = SqliteStore(environment, file)
    for n in range(3):
        await store.open()
        await store.runs.create([new_run(f"r{n}")])
        assert len(await store.views.find_many(["r0", "r1", "r2"])) == 3
        await store.close()


async def test_a_full_disk_fails_the_whole_write_and_work_continues_with_space(
    store: SqliteStore, writer: Writer
) -> None:
    await store.runs.create([new_run("r1")])
    connection = writer.database.connection
    connection.pragma("max_page_count", connection.pragma("page_count"))

    with pytest.raises(StoreFullError) as caught:
        await asyncio.gather(*(store.runs.create([new_run(f"big{n}", input=bytes(100_000))]) for n in range(3)))
    assert "space" in caught.value.title
    assert await store.views.find_many(["big0", "big1", "big2"]) == [None] * 3

    connection.pragma("max_page_count", 1_000_000)
    assert (await store.runs.create([new_run("big0", input=bytes(100_000))]))[0].is_new
    run = await store.views.find("big0")
    assert run is not None
    assert len(run.input) == 100_000


async def test_waiting_for_a_lock_does_not_block_the_loop(store: SqliteStore, file: Path) -> None:
    holder = apsw.Connection(str(file))
    holder.execute("begin immediate")
    call = asyncio.ensure_future(store.runs.create([new_run("r1")]))
    for _ in range(20):
        await asyncio.sleep(0.002)  # the loop runs on
    assert not call.done()

    holder.execute("commit")

    assert (await call)[0].is_new
    holder.close()


async def test_closing_does_not_wait_for_a_lock(environment: Environment, file: Path) -> None:
    store = SqliteStore(environment, file)
    await store.open()
    holder = apsw.Connection(str(file))
    holder.execute("begin immediate")
    call = asyncio.ensure_future(store.runs.create([new_run("r1")]))
    await asyncio.sleep(0.01)

    await store.close()

    with pytest.raises(StoreUnavailableError, match="write lock"):
        await call
    holder.execute("rollback")
    holder.close()


def _size(file: Path) -> int:
    return file.stat().st_size


async def test_the_log_is_written_back_while_it_is_small(store: SqliteStore, file: Path) -> None:
    for n in range(30):
        await store.runs.create([new_run(f"r{n}", input=bytes(200_000))])

    assert _size(file.with_name("runs.db-wal")) < 8_000_000
    assert _size(file) > 4_000_000


async def test_large_reads_see_what_was_just_written(store: SqliteStore, environment: Environment) -> None:
    scene = Scene(store, environment.clock)  # type: ignore[arg-type]
    await store.workers.register(NewWorker(scene.incarnation, "w", Span(10_000_000), ("flow@1",)))
    turn = await scene.begin("r1")
    applied = await turn.commit(names=("a",), entries=tuple(step(n, place(n)) for n in range(1, 2_001)))

    history = await scene.history("r1")

    assert applied.verdict is Verdict.APPLIED
    assert [entry.seq for entry in history.entries] == list(range(1, 2_001))


async def test_a_caller_that_blocks_the_loop_gets_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(system_environment(), path)
    await store.open()
    other, caller = apsw.Connection(str(path)), apsw.Connection(str(path))
    caller.set_busy_timeout(30_000)
    other.execute("begin immediate")
    writing = asyncio.ensure_future(store.runs.create([new_run("r1")]))
    await asyncio.sleep(0.05)
    other.execute("commit")
    time.sleep(0.05)

    caller.execute("begin immediate")  # raises if it does not get the lock
    caller.execute("commit")

    assert [created.is_new for created in await writing] == [True]
    for connection in (other, caller):
        connection.close()
    await store.close()


@pytest.mark.parametrize("where", ["try_begin", "perform", "commit"])
def test_a_store_that_was_interrupted_anywhere_in_a_write_can_be_closed(
    file: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """As by a second Ctrl-C, which no loop catches: it leaves the loop, and waiting callers get an error."""
    writer = Writer(SqliteDatabase(str(file)))
    store = SqliteStore(system_environment(), str(file), runner=writer)
    told: list[BaseException] = []

    def interrupted(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    async def create(name: str) -> None:
        try:
            await store.runs.create([new_run(name)])
        except StoreUnavailableError as error:
            told.append(error)

    with asyncio.Runner() as runner:
        runner.run(store.open())
        loop = runner.get_loop()
        waiting = [loop.create_task(create(name)) for name in ("one", "two")]
        monkeypatch.setattr(writer.database, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(asyncio.gather(*waiting))
        runner.run(asyncio.wait_for(asyncio.wait(waiting), 30))
        assert len(told) == 2
        runner.run(store.runs.create([new_run("three")]))
        runner.run(asyncio.wait_for(store.close(), 30))


@pytest.mark.parametrize("callback", ["_begin", "_returned"])
def test_a_store_can_be_closed_after_an_interrupt_that_lost_a_callback(
    file: Path, monkeypatch: pytest.MonkeyPatch, callback: str
) -> None:
    """Python looks for Ctrl-C when it enters a function: the loop has forgotten the callback by then."""
    writer = Writer(SqliteDatabase(str(file)), quick_seconds=0.0)
    store = SqliteStore(system_environment(), str(file), runner=writer)

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with asyncio.Runner() as runner:
        runner.run(store.open())
        loop = runner.get_loop()
        waiting = [loop.create_task(store.runs.create([new_run(name)])) for name in ("one", "two")]
        monkeypatch.setattr(writer, callback, interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(asyncio.gather(*waiting))
        runner.run(asyncio.wait_for(store.close(), 10))
        assert all(isinstance(one.exception(), StoreUnavailableError) for one in waiting)
