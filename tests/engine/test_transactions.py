"""Transactional steps on a SQLite file, starts inside a caller's transaction, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import apsw
import pytest

from stepwell import (
    AlreadyExistsError,
    Context,
    Engine,
    InvalidInputError,
    NotFoundError,
    RunFailed,
    Start,
    StepContext,
    SyncEngine,
    Transaction,
    step,
    workflow,
)
from stepwell.environment import system_environment
from stepwell.errors import InvalidOptionError, StoreUnavailableError, TransactionsUnsupportedError
from tests.cases.stores import STORES, without_transactions

ORDERS = "create table if not exists orders (id integer primary key, run text)"


@workflow
async def ship(ctx: Context, number: int) -> int:
    return number * 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


Connect = Callable[[Path], Any]


def with_apsw(path: Path) -> Any:
    return apsw.Connection(str(path))


def with_tracers(path: Path) -> Any:
    connection = apsw.Connection(str(path))
    connection.row_trace = lambda cursor, row: {"strange": row}
    return connection


@pytest.fixture(params=[with_apsw, with_tracers], ids=lambda made: made.__name__)
def connect(request: pytest.FixtureRequest) -> Connect:
    made: Connect = request.param
    return made


# --- starts inside a caller's transaction ----------------------------------------------------------


async def test_a_run_begins_with_the_commit_of_its_caller(path: Path, connect: Connect):
    async with Engine(f"sqlite:///{path}", workflows=[ship]) as engine:
        await engine.transact(lambda tx: tx.execute(ORDERS))
        connection = connect(path)
        connection.execute("begin immediate")
        connection.execute("insert into orders (id) values (1)")
        run = await engine.start(ship, 21, key="order-1", transaction=connection)
        assert run.is_new
        assert await engine.status(run.run_id) is None
        connection.execute("commit")
        connection.close()

        assert await run.result("60s") == 42
        assert await engine.transact(lambda tx: tx.execute("select id from orders")) == [(1,)]


async def test_a_rollback_of_its_caller_leaves_no_run(path: Path, connect: Connect):
    async with Engine(f"sqlite:///{path}", workflows=[ship]) as engine:
        connection = connect(path)
        connection.execute("begin immediate")
        run = await engine.start(ship, 21, key="order-1", transaction=connection)
        connection.execute("rollback")
        connection.close()

        assert await engine.status("order-1") is None
        with pytest.raises(NotFoundError):
            await run.status()
        again = await engine.start(ship, 4, key="order-1")
        assert (again.is_new, await again.result("60s")) == (True, 8)


async def test_a_known_key_gives_the_run_that_has_it_and_writes_nothing(path: Path, connect: Connect):
    async with Engine(f"sqlite:///{path}", workflows=[ship], worker=False) as engine:
        first = await engine.start(ship, 1, key="k")
        connection = connect(path)
        connection.execute("begin immediate")
        same = await engine.start(ship, 1, key="k", transaction=connection)
        other = await engine.start(ship, 2, key="K", transaction=connection)
        with pytest.raises(AlreadyExistsError):
            await engine.start(ship, 1, key="k", on_conflict="raise", transaction=connection)
        with pytest.raises(AlreadyExistsError):
            await engine.start(ship, 1, run_id=first.run_id, transaction=connection)
        connection.execute("commit")
        connection.close()

        assert (same.run_id, same.is_new, same.same_input) == (first.run_id, False, True)
        assert (other.run_id, other.same_input) == (first.run_id, False)
        assert len(await engine.runs.list()) == 1


async def test_another_process_sees_it_after_the_commit(path: Path, connect: Connect):
    async with Engine(f"sqlite:///{path}") as client, Engine(f"sqlite:///{path}", workflows=[ship]) as worker:
        connection = connect(path)
        connection.execute("begin immediate")
        run = await client.start(ship, 5, transaction=connection)
        connection.execute("commit")
        connection.close()

        assert await worker.result(run.run_id, timeout="60s") == 10


async def test_a_start_with_a_delay_and_held_signals_is_as_any_other(path: Path, connect: Connect):
    async with Engine(f"sqlite:///{path}", workflows=[ship], worker=False) as engine:
        await engine.signal("k", "go", 1, if_missing="hold")
        connection = connect(path)
        connection.execute("begin immediate")
        run = await engine.start(ship, 5, key="k", delay="1h", transaction=connection)
        connection.execute("commit")
        connection.close()
        detail = await engine.runs.detail(run.run_id)

        assert [signal.name for signal in detail.signals] == ["go"]
        assert detail.run.wake_at is not None
        assert detail.run.wake_at - detail.run.created_at == 3_600_000_000


def test_code_that_is_not_asynchronous_starts_in_its_own_thread(path: Path):
    with SyncEngine(f"sqlite:///{path}", workflows=[ship]) as engine:
        engine.transact(lambda tx: tx.execute(ORDERS))
        connection = apsw.Connection(str(path))
        connection.execute("begin immediate")
        connection.execute("insert into orders (id) values (7)")
        run = engine.start(ship, 7, key="seven", transaction=connection)
        connection.execute("commit")
        connection.close()

        assert run.result("60s") == 14


# --- through sqlite3, in a process that has the file open in no other way --------------------------


def plain_rows(_: sqlite3.Connection) -> None: ...


def dict_rows(connection: sqlite3.Connection) -> None:
    connection.row_factory = lambda cursor, row: {column[0]: row[at] for at, column in enumerate(cursor.description)}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("prepare", [plain_rows, dict_rows])
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_process_without_an_open_engine_starts_through_sqlite3(
    path: Path, prepare: Callable[[sqlite3.Connection], None], end: str
):
    engine = Engine(f"sqlite:///{path}", workflows=[ship])
    async with engine:
        await engine.transact(lambda tx: tx.execute(ORDERS))
        held = await engine.signal("order-1", "go", 1, if_missing="hold")
        assert held.value == "held"
    connection = sqlite3.connect(path)
    prepare(connection)
    connection.execute("insert into orders (id) values (1)")
    [run] = engine.runs.start_within(connection, ship, [Start(21, "order-1")])
    [again] = engine.runs.start_within(connection, ship, [Start(21, "Order-1")])
    getattr(connection, end)()
    connection.close()

    assert (run.is_new, again.is_new, again.run_id, again.same_input) == (True, False, run.run_id, True)
    async with Engine(f"sqlite:///{path}", workflows=[ship]) as worker:
        orders = await worker.transact(lambda tx: tx.execute("select id from orders"))
        if end == "commit":
            assert (orders, await worker.result(run.run_id, timeout="60s")) == ([(1,)], 42)
        else:
            assert (orders, await worker.status(run.run_id)) == ([], None)


def name_as_it_is(path: Path) -> Path:
    return path


def symbolic_link(path: Path) -> Path:
    link = path.with_name("link.db")
    link.symlink_to(path)
    return link


def hard_link(path: Path) -> Path:
    link = path.with_name("hard.db")
    link.hardlink_to(path)
    return link


@pytest.mark.parametrize("name", [name_as_it_is, symbolic_link, hard_link])
async def test_sqlite3_is_refused_while_any_engine_of_the_process_has_the_file_open(
    path: Path, name: Callable[[Path], Path]
):
    async with Engine(f"sqlite:///{path}", workflows=[ship], worker=False) as engine:
        other = Engine(f"sqlite:///{name(path)}", workflows=[ship])
        # To nothing: opening the file itself here is what must not happen.
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.execute("begin")
        with pytest.raises(InvalidOptionError, match="of sqlite3, and this process has the same file open") as caught:
            await engine.start(ship, 1, transaction=connection)
        with pytest.raises(InvalidOptionError, match="of sqlite3, and this process has the same file open"):
            other.runs.start_within(connection, ship, [Start(1)])
        connection.close()

        assert "apsw.Connection(path)" in caught.value.fix
        assert "not open" not in caught.value.fix
        assert await engine.runs.list() == []


@pytest.mark.parametrize("thread", ["the same thread", "another thread"])
def test_no_engine_opens_a_file_that_sqlite3_has_open_in_this_process(path: Path, thread: str):
    with SyncEngine(f"sqlite:///{path}", workflows=[ship]) as engine:
        engine.start(ship, 1)
    connection = sqlite3.connect(path, check_same_thread=thread == "another thread")
    connection.execute("select count(*) from sqlite_schema").fetchall()

    with pytest.raises(InvalidOptionError, match="a sqlite3 connection of this process has") as caught:
        SyncEngine(f"sqlite:///{path}", workflows=[ship]).__enter__()
    connection.close()

    assert "close that connection" in caught.value.fix
    with SyncEngine(f"sqlite:///{path}", workflows=[ship]) as engine:
        assert len(engine.runs.list()) == 1


def test_a_sqlite3_connection_that_is_closed_after_a_refusal_lets_the_file_go_at_once(path: Path):
    """Else it would close it later, whenever the collector runs, and delete the log of the engine that has it then."""
    with SyncEngine(f"sqlite:///{path}", workflows=[ship]) as engine:
        engine.start(ship, 1)
    gc.disable()
    try:
        connection = sqlite3.connect(path)
        connection.execute("select count(*) from sqlite_schema").fetchall()
        with pytest.raises(InvalidOptionError):
            SyncEngine(f"sqlite:///{path}", workflows=[ship]).__enter__()
        connection.close()

        assert path.stat().st_ino not in inodes_open_here()
    finally:
        gc.enable()


def test_a_new_sqlite3_connection_is_not_taken_for_one_that_is_gone(path: Path, tmp_path: Path):
    """Python gives the identity of an object that is gone to the next one."""
    with SyncEngine(f"sqlite:///{path}", workflows=[ship]) as engine:
        engine.start(ship, 1)
    elsewhere = tmp_path / "elsewhere.db"
    with SyncEngine(f"sqlite:///{elsewhere}", workflows=[ship]) as engine:
        engine.start(ship, 1)
    lent = sqlite3.connect(elsewhere, isolation_level=None)
    lent.execute("begin immediate")
    Engine(f"sqlite:///{elsewhere}", workflows=[ship]).runs.start_within(lent, ship, [Start(1)])
    lent.execute("commit")
    lent.close()
    gone = id(lent)
    del lent
    made: list[sqlite3.Connection] = []
    while not made or id(made[-1]) != gone:
        made.append(sqlite3.connect(path))
        assert len(made) < 1_000, "no connection got the old identity"
    made[-1].execute("select count(*) from sqlite_schema").fetchall()
    for connection in made[:-1]:
        connection.close()

    with pytest.raises(InvalidOptionError, match="a sqlite3 connection of this process has"):
        SyncEngine(f"sqlite:///{path}", workflows=[ship]).__enter__()
    made[-1].close()


def inodes_open_here() -> set[int]:
    found: set[int] = set()
    for fd in Path("/dev/fd").iterdir():
        with suppress(OSError):  # it was the descriptor of the folder itself
            found.add(os.fstat(int(fd.name)).st_ino)
    return found


async def test_a_bad_input_is_refused_before_anything_is_written(path: Path, connect: Connect):
    async with Engine(f"sqlite:///{path}", workflows=[ship], worker=False) as engine:
        connection = connect(path)
        connection.execute("begin immediate")
        with pytest.raises(InvalidInputError):
            await engine.start(ship, "many", transaction=connection)  # type: ignore[misc]
        connection.execute("commit")
        connection.close()

        assert await engine.runs.list() == []


async def test_a_connection_without_a_transaction_is_refused(path: Path, connect: Connect):
    async with Engine(f"sqlite:///{path}", workflows=[ship], worker=False) as engine:
        connection = connect(path)
        with pytest.raises(InvalidOptionError, match="has no open transaction") as caught:
            await engine.start(ship, 1, transaction=connection)
        connection.close()

        assert "BEGIN IMMEDIATE" in caught.value.fix
        assert await engine.runs.list() == []


@pytest.mark.parametrize("elsewhere", [":memory:", "another.db"])
async def test_a_connection_to_another_database_is_refused(
    path: Path, connect: Connect, elsewhere: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(path.parent)
    async with Engine(f"sqlite:///{path}", workflows=[ship], worker=False) as engine:
        connection = connect(Path(elsewhere))
        connection.execute("begin immediate")
        with pytest.raises(InvalidOptionError, match="and the runs are in") as caught:
            await engine.start(ship, 1, transaction=connection)
        connection.close()

        assert (caught.value.where, bool(caught.value.fix)) == ("transaction", True)


async def test_the_file_may_be_spelled_in_another_way(path: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(path.parent)
    async with Engine(f"sqlite:///{path}", workflows=[ship]) as engine:
        connection = connect(Path("shop.db"))
        connection.execute("begin immediate")
        run = await engine.start(ship, 1, transaction=connection)
        connection.execute("commit")
        connection.close()

        assert await run.result("60s") == 2


async def test_what_is_no_connection_is_refused(path: Path):
    async with Engine(f"sqlite:///{path}", workflows=[ship], worker=False) as engine:
        with pytest.raises(InvalidOptionError, match="transaction is a str") as caught:
            await engine.start(ship, 1, transaction="shop.db")
        assert caught.value.fix


async def test_a_database_in_memory_has_transactions():
    async with Engine("memory:", workflows=[ship], worker=False) as engine:
        await engine.transact(lambda tx: tx.execute(ORDERS))
        await engine.transact(lambda tx: tx.execute("insert into orders (run) values ('a')"))

        assert await engine.transact(lambda tx: tx.execute("select id, run from orders")) == [(1, "a")]


async def test_a_store_without_transactions_refuses():
    connection = apsw.Connection(":memory:")
    store = without_transactions(STORES["sqlite"]())(system_environment())
    async with Engine(store, workflows=[ship], worker=False) as engine:
        with pytest.raises(TransactionsUnsupportedError) as caught:
            await engine.start(ship, 1, transaction=connection)
        with pytest.raises(TransactionsUnsupportedError):
            await engine.transact(lambda tx: tx.execute(ORDERS))
    connection.close()
    assert (caught.value.code, bool(caught.value.fix)) == ("SW133", True)


def test_a_connection_of_another_thread_is_refused(path: Path):
    made: SimpleQueue[sqlite3.Connection] = SimpleQueue()
    is_over = threading.Event()

    def make() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("begin")
            made.put(connection)
            is_over.wait()

    thread = threading.Thread(target=make)
    thread.start()
    try:
        with pytest.raises(InvalidOptionError, match="cannot be used") as caught:
            Engine(f"sqlite:///{path}", workflows=[ship]).runs.start_within(made.get(), ship, [Start(1)])
    finally:
        is_over.set()
        thread.join()
    assert "check_same_thread" in caught.value.fix


async def test_a_transaction_that_cannot_write_any_more_says_so(path: Path):
    async with Engine(f"sqlite:///{path}", workflows=[ship], worker=False) as engine:
        connection = apsw.Connection(str(path))
        connection.execute("begin")
        connection.execute("select count(*) from sqlite_schema").fetchall()
        await engine.start(ship, 1)
        with pytest.raises(StoreUnavailableError, match="could not write") as caught:
            await engine.start(ship, 2, transaction=connection)
        connection.close()

        assert "BEGIN IMMEDIATE" in caught.value.fix
        assert len(await engine.runs.list()) == 1


# --- transactional steps on a file -----------------------------------------------------------------


async def test_many_runs_write_their_rows_and_results_together(path: Path):
    @step(transaction=True)
    def book(tx: Transaction, number: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        tx.execute("insert into orders (id) values (?)", (number,))
        return number

    @step(transaction=True)
    async def mark(tx: Transaction, number: int) -> int:
        tx.execute("update orders set run = 'marked' where id = ?", (number,))
        return tx.changes

    @workflow
    async def flow(ctx: Context, number: int) -> list[int]:
        return [await ctx.step(book, number), await ctx.step(mark, number)]

    async with Engine(f"sqlite:///{path}", workflows=[flow]) as engine:
        await engine.transact(lambda tx: tx.execute(ORDERS))
        runs = [await engine.start(flow, number) for number in range(60)]
        assert [await run.result("60s") for run in runs] == [[number, 1] for number in range(60)]
        counted = "select count(*), count(distinct id), sum(run = 'marked') from orders"
        assert await engine.transact(lambda tx: tx.execute(counted)) == [(60, 60, 60)]


async def test_a_failing_body_does_not_hurt_those_who_share_its_transaction(path: Path):
    @step(transaction=True)
    async def book(tx: Transaction, number: int) -> int:
        tx.execute("insert into orders (id) values (?)", (number,))
        if number % 3 == 0:
            tx.execute("insert or rollback into orders (id) values (?)", (number,))
        if number % 3 == 1:
            raise ValueError("no")
        return number

    @workflow
    async def flow(ctx: Context, number: int) -> int:
        return await ctx.step(step_once(book), number)

    async with Engine(f"sqlite:///{path}", workflows=[flow]) as engine:
        await engine.transact(lambda tx: tx.execute(ORDERS))
        runs = [await engine.start(flow, number) for number in range(30)]
        ended = await asyncio.gather(*(run.result("60s") for run in runs), return_exceptions=True)
        stored = await engine.transact(lambda tx: tx.execute("select id from orders order by id"))

    assert [number for number in ended if isinstance(number, int)] == list(range(2, 30, 3))
    assert [type(error) for error in ended if not isinstance(error, int)] == [RunFailed] * 20
    assert [number for (number,) in stored] == list(range(2, 30, 3))


def step_once(booked: Any) -> Any:
    from stepwell import Retry

    return booked.options(retry=Retry(max_attempts=1))


# --- what is refused when a step is defined ---------------------------------------------------------


async def paying(tx: Transaction) -> None: ...


async def plain(number: int) -> None: ...


async def context(info: StepContext) -> None: ...


@pytest.mark.parametrize(
    ("body", "options", "why"),
    [
        (plain, {"transaction": True}, "the first argument is the transaction"),
        (context, {"transaction": True}, "the first argument is the transaction"),
        (paying, {}, "only a transactional step"),
        (paying, {"transaction": True, "timeout": "5s"}, "timeout cannot apply"),
        (paying, {"transaction": True, "at_most_once": True}, "at_most_once cannot apply"),
        (paying, {"transaction": True, "durability": "deferred"}, "durability"),
        (paying, {"transaction": True, "isolate": "process"}, "isolate cannot apply"),
    ],
)
def test_a_transactional_step_without_meaning_is_refused(body: Any, options: dict[str, Any], why: str):
    with pytest.raises(InvalidOptionError, match="cannot be transactional as it is") as caught:
        step(body, **options)
    assert why in caught.value.why
    assert caught.value.fix
