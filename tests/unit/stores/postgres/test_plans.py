"""The cost of a call does not grow with finished runs: indexes are used, few pages are read, hot rows stay in place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest

from stepwell.clock import Instant, Span
from stepwell.conformance.scene import (
    LEASE,
    Scene,
    Turn,
    new_event,
    new_run,
    new_signal,
    place,
    step,
    wait_signal,
    wait_timer,
    wait_topic,
)
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.commits import End, Park, Verdict
from stepwell.model.locations import Location
from stepwell.model.outbox import Emit
from stepwell.model.records import NewRecord, NewRecordEvent, RecordChange, RecordFilter, RecordOpening, RecordOrder
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.base.filters import Condition, Field, Order, SortKey
from stepwell.stores.base.views import RunFilter
from stepwell.stores.postgres.calls import Call, Value
from stepwell.stores.postgres.migrator import prepare
from stepwell.stores.postgres.pool import InlinePool
from stepwell.stores.postgres.sessions import open_connection
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.texts import SQL, render
from stepwell.stores.postgres.urls import parse_address
from stepwell.stores.sql.statements import load_statements
from stepwell.virtual.clock import ManualClock
from tests.servers.postgres import PostgresServer
from tests.unit.stores.postgres.conftest import Opened

CROWD = load_statements(Path(__file__).parent)
ROWS_READ = """
    select coalesce(sum(idx_tup_fetch), 0)::bigint from pg_stat_user_tables
    where schemaname = 'stepwell' and relname = 'runs'
"""
HOT = ("runs_wake", "runs_owner", "runs_active_key", "runs_debounced", "runs_status")
# These tables have few rows, and reading them completely is cheapest.
SMALL = ("blobs", "definitions", "holds", "meta", "seals", "workers")
# Everyday listings. The workflow "rare" has few runs, and they are the oldest.
LISTED = (
    *(RunFilter(order=Order(by, is_down)) for by in SortKey for is_down in (True, False)),
    *(RunFilter(order=Order(by), workflow="other7") for by in SortKey),
    RunFilter((RunStatus.COMPLETED,), order=Order(SortKey.TOOK)),
    RunFilter(workflow="other7"),
    RunFilter(workflow="rare"),
    RunFilter((RunStatus.COMPLETED,), workflow="rare"),
    RunFilter(workflow="nobody"),
    RunFilter(conditions=(Condition(Field.WORKFLOW, (("ra", ""),)),)),
    RunFilter(conditions=(Condition(Field.CREATED, ((">=", "999990"),)),)),
    RunFilter(conditions=(Condition(Field.CREATED, (("<=", "10"),)),)),
    # A tenth of the runs, the oldest, has attributes.
    *(
        RunFilter((RunStatus.COMPLETED,), conditions=(Condition(Field.ATTRIBUTE, (test,), path=name),), order=order)
        for name, test in (("n", ("=", "n200000077")), ("n", (">", "n200099900")), ("region", ("=", "t1")))
        for order in (Order(), Order(descending=False), Order(attribute="n"))
    ),
    RunFilter(conditions=(Condition(Field.ATTRIBUTE, (("<", "n200000100"),), path="n"),), order=Order(SortKey.TOOK)),
    RunFilter((RunStatus.FAILED,), order=Order(attribute="region")),
    RunFilter(conditions=(Condition(Field.STARTED_BY, (("ann",),)),)),
)
LATER = Instant(8_500_000_000_000_000)
WORKER = Incarnation("worker-1")
CLAIMANT = Claimant(WORKER, 5, ("flow@1",))
# Far above what a call reads, and far below a table: a million runs are twenty thousand pages.
BLOCKS_MAX = 3_000


class Watching(InlinePool):
    """Makes every call twice: first explained and rolled back, then for real; and counts what it read."""

    def __init__(self, url: str) -> None:
        super().__init__(parse_address(url))
        self.sequential: Counter[tuple[str, str]] = Counter()  # scans, by call and table
        self.blocks: dict[str, int] = {}  # by the last call
        self.most: dict[str, int] = {}  # by any call, including the first look-ups of a session
        self.is_watching = False

    def call_now(self, call: Call[Any], values: list[Value]) -> bytes:
        if not self.is_watching:
            return super().call_now(call, values)
        before = self.scans()
        self._explain(call, values)
        answer = super().call_now(call, values)
        for table, count in (self.scans() - before).items():
            self.sequential[call.name, table] += count
        return answer

    def _explain(self, call: Call[Any], values: list[Value]) -> None:
        connection = self._use()
        connection.execute_now("savepoint explained")
        text = b"explain (analyze, buffers, timing off, format json) " + connection._statement(call)
        result = connection.driver.pgconn.exec_params(text, values, None, call.formats)
        assert result.status == psycopg.pq.ExecStatus.TUPLES_OK, (call.name, result.error_message)
        [found] = json.loads(result.get_value(0, 0) or b"")
        blocks = found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"]
        self.blocks[call.name] = blocks
        self.most[call.name] = max(blocks, self.most.get(call.name, 0))
        connection.execute_now("rollback to explained")

    def scans(self) -> Counter[str]:
        """Scans of whole tables in this transaction so far."""
        rows = self._use().driver.execute(
            "select relname, seq_scan from pg_stat_xact_user_tables"
            " where schemaname = 'stepwell' and relname <> all (%s)",
            [list(SMALL)],
        )
        return Counter(dict(rows.fetchall()))

    def execute(self, text: str) -> None:
        self._use().execute_now(text)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(
        durable=False, settings={"shared_buffers": "256MB", "max_wal_size": "1GB", "autovacuum": "off"}
    ) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    """A prepared, empty database."""
    url = server.create_database()
    address = parse_address(url)
    with open_connection(address) as connection:
        prepare(connection, address.schema, address.where)
    yield url
    server.drop_database(url)


def execute(url: str, *texts: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for text in texts:
            connection.execute(text.encode())


def sizes(url: str) -> dict[str, int]:
    """How many bytes each index of active runs takes."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select name, pg_relation_size('stepwell.' || name) from unnest(%s::text[]) as name", [list(HOT)]
        )
        return dict(rows.fetchall())


async def live(store: PostgresStore, n: int) -> None:
    """A bit of everything that happens to runs, with new ids."""
    runs, scene = store.runs, Scene(store, ManualClock(), WORKER)
    await store.workers.renew(WORKER, LEASE)
    await store.views.upcoming_work(("flow@1", "other1@1"))
    await store.views.next_wake(("flow@1",))
    await store.views.has_stranded()
    await runs.create([new_run(f"new-{n}-{m}", key=f"new-key-{n}-{m}") for m in range(3)])
    await runs.debounce(new_run(f"calm-{n}", key=f"calm-key-{n}"), quiet=LEASE, max_wait=LEASE)
    first, second, third, fourth, fifth = [Turn(store, claimed) for claimed in await runs.claim(CLAIMANT)]
    await runs.load([first.run_id, second.run_id])
    await runs.inbox(first.run_id)
    await first.record("charge")  # a name and an entry
    for seq in (2, 3):  # an entry alone, and one after it
        await first.commit(entries=(step(seq, Location(place(0) + bytes((0x11, seq)))),))
    await second.record("charge")
    await runs.apply(
        [first.next(entries=(step(4, Location(place(0) + b"\x11\x04")),)), second.next(entries=(step(2, place(1)),))]
    )
    first.number, second.number = first.number + 1, second.number + 1
    await scene.send(f"signal-{n}", first.run_id)
    await scene.send(f"held-{n}", f"nobody-{n}")
    await scene.send(f"keyed-{n}", f"active-key-{n * 5 + 2}", "go", dedup_key="once")
    [signal] = (await runs.inbox(first.run_id)).signals
    emit = Emit(EventId(f"out-{n}"), "paid", "charge", b"1", Instant(1), ("mail",))
    await first.commit(consumed=(signal.number,), emits=(emit,), waits=(wait_timer(LATER),), move=Park(LATER))
    await second.park(wait_signal("go"))
    await third.park(wait_topic(f"topic-{n}"))
    await fourth.end(RunStatus.COMPLETED, output=b"1")
    await fifth.end(RunStatus.FAILED, failure=b"{}")
    made = await runs.create([new_run(f"together-{n}-{m}") for m in range(4)], CLAIMANT)
    one, two, three, four = [Turn(store, one.claimed) for one in made if one.claimed is not None]
    end, park, until = End(RunStatus.COMPLETED), Park(None), (wait_signal("go"),)
    await runs.apply(
        [
            *(turn.next(names=("charge",), entries=(step(1, place(0)),), move=end) for turn in (one, two)),
            *(turn.next(waits=until, move=park) for turn in (three, four)),
        ]
    )
    await store.events.publish([new_event(f"event-{n}", f"topic-{n}")], CLAIMANT)
    await store.signals.deliver([new_signal(f"more-{n}", second.run_id)], CLAIMANT)
    await store.outbox.next_due("mail")
    taken = await store.outbox.take(WORKER, "mail", limit=5, batch_max=5)
    assert len(taken) == 5
    await runs.cancel(RunId(f"new-{n}-0"), compensate=True, reason="why not")
    for target in ("018bcfe5-0000c350", "key-00050000", f"active-{n:06}", f"active-key-{n}", "nobody"):
        await store.views.find(target)
    await store.views.find_by_prefix("018bcfe5-0000c", limit=5)
    await store.views.detail(RunId("018bcfe5-000003e8"))
    await store.views.list_runs(RunFilter(), limit=20)
    await store.views.list_runs(RunFilter(statuses=(RunStatus.FAILED, RunStatus.RUNNING)), limit=20)
    await store.views.list_runs(RunFilter(key="key-00050000"), limit=20)
    for where in LISTED if n % 4 == 0 else ():
        page = await store.views.list_runs(where, limit=20)
        if len(page) == 20:
            await store.views.list_runs(where, limit=20, before=page[-1].run_id)
    await store.views.list_audit(RunId("018bcfe5-000003e8"))
    await store.views.list_held(limit=5)


def used_indexes(url: str) -> set[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "select indexrelname from pg_stat_user_indexes where schemaname = 'stepwell' and idx_scan > 0"
        )
        return {name for (name,) in rows.fetchall()}


async def test_with_a_million_finished_runs_every_call_uses_its_indexes(url: str, opened: Opened) -> None:
    empty = sizes(url)
    execute(url, CROWD["crowd.prepare"])
    with ThreadPoolExecutor(2) as threads:
        parts = ("finished", "heads", "histories", "records")
        list(threads.map(lambda name: execute(url, CROWD[f"crowd.{name}"]), parts))
    # Finished runs take no space in the indexes that workers use.
    assert sizes(url) == empty
    execute(url, CROWD["crowd.active"], CROWD["crowd.settle"], "select pg_stat_reset()")
    pool = Watching(url)
    store = await opened(url, pool)

    pool.execute("begin")
    pool.is_watching = True
    for n in range(7):  # after five times the server may choose another plan, which is good for any values
        await live(store, n)
    pool.execute("set local plan_cache_mode = force_generic_plan")
    for n in range(7, 9):
        await live(store, n)
    assert len(await store.runs.rescue(stalls_max=100)) == 200
    assert await store.views.orphans() == []
    pool.is_watching = False
    pool.execute("rollback")
    pool.execute("select pg_stat_force_next_flush()")
    await store.close()

    assert pool.sequential == Counter()
    # These read as many runs as they find: 200, and all unfinished ones.
    assert {name for name, blocks in pool.blocks.items() if blocks > BLOCKS_MAX} == {"rescue", "orphans"}
    assert pool.blocks["rescue"] < 200 * 100
    assert pool.most["list_runs"] < BLOCKS_MAX
    # A commit costs the same however many runs are running.
    small = ("advance_one", "advance_known", "advance", "next_due", "find_many")
    assert max(pool.blocks[name] for name in small) < 100
    assert pool.blocks["renew"] < 1_000  # it counts what its worker owns
    assert 0 < pool.blocks["advance_known"] < pool.blocks["advance_one"]
    assert used_indexes(url) >= {
        "runs_wake",
        "runs_owner",
        "runs_active_key",
        "runs_key",
        "runs_status",
        "runs_definition",
        "runs_created",
        "runs_started",
        "runs_ended",
        "runs_took",
        "attributes_value",
        "attributes_pkey",
        "payloads_started_by",
        "runs_run_id_key",
        "heads_pkey",
        "entries_pkey",
        "signals_mailbox",
        "signals_signal_id_key",
        "waits_topic",
        "outbox_due",
        "outbox_queue",
    }


def test_the_doctor_reads_few_pages_of_a_large_database(url: str) -> None:
    execute(url, CROWD["crowd.prepare"], CROWD["crowd.active"], CROWD["crowd.settle"])
    with psycopg.connect(url, autocommit=True) as connection:
        for name, parameters in (("has_unfinished", {}), ("backlog", {"limit": 1_001}), ("workers", {})):
            text = "explain (analyze, buffers, format json) " + render(SQL[f"diagnosis.{name}"], "stepwell")
            [([found],)] = connection.execute(text.encode(), parameters or None).fetchall()
            assert found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"] < BLOCKS_MAX


# --- records ---

# Far above what a page reads, and far below a table: the records are nearly a thousand pages.
PAGE_BLOCKS_MAX = 400
TASKS = RecordFilter("task")
PAGES = (
    *(TASKS._replace(labels=labels, order=order) for labels in ((), ("role",)) for order in get_args(RecordOrder)),
    *(TASKS._replace(labels=("role",), is_open=is_open, order="oldest") for is_open in (True, False)),
    *(TASKS._replace(is_open=is_open, order="oldest") for is_open in (True, False)),
    *(TASKS._replace(states=("open",), order=order) for order in get_args(RecordOrder)),
    TASKS._replace(labels=("for:7", "role"), is_open=True),
    TASKS._replace(labels=("for:7",), states=("open",), is_open=True, order="oldest"),
    TASKS._replace(due_before=Instant(10_020_000_000)),
    TASKS._replace(labels=("role",), due_before=Instant(10_020_000_000)),
    TASKS._replace(run_id=RunId("r1")),
)


async def handle_records(store: PostgresStore, n: int) -> None:
    """A bit of everything that happens to records, with new ids."""
    records, scene = store.records, Scene(store, ManualClock())
    await store.workers.renew(scene.incarnation, LEASE)
    for where in PAGES if n < 2 else ():
        page = await records.list_records(where, limit=20)
        if len(page) == 20:
            await records.list_records(where, limit=20, after=page[-1])
        await records.count(where, limit=50)
    assert len(await records.due(["task", "none"], limit=20)) == 20
    assert await records.next_due(["task", "none"]) == 10_001_000_000
    found = await records.find("task", f"task-{5_000 + n}")
    assert found is not None
    await records.list_events("task", found.record_id, limit=5)
    new = NewRecord("task", found.record_id, "open", b"", ("for:1", "role"), Instant(10**15), end_state="ended")
    [changed] = await records.change([RecordChange(f"change-{n}", 2, new, (NewRecordEvent("opened"),))])
    assert changed.version == 3
    assert await records.prune("task", older_than=Span(1), limit=5) == 5
    one, two, three = [await scene.begin(f"r-{n}-{m}") for m in range(3)]
    for turn in (one, two):
        opening = RecordOpening(place(0), new._replace(record_id=turn.run_id), (NewRecordEvent("opened"),))
        await turn.commit(opened=(opening,))
    await one.end()
    await store.runs.apply([turn.next(move=End(RunStatus.COMPLETED)) for turn in (two, three)])
    await (await scene.begin(f"r-{n}-4")).end()


async def test_with_many_closed_records_every_call_uses_its_indexes_even_without_statistics(
    url: str, opened: Opened
) -> None:
    execute(url, CROWD["crowd.records"])
    for settle in ((), (CROWD["crowd.settle"],)):
        execute(url, *settle)
        pool = Watching(url)
        store = await opened(url, pool)
        await Scene(store, ManualClock()).register()

        pool.execute("begin")
        await handle_records(store, 0)  # the first calls of a session read the catalogue, too
        pool.is_watching = True
        for n in range(1, 7):
            await handle_records(store, n)
        pool.execute("set local plan_cache_mode = force_generic_plan")
        await handle_records(store, 7)
        pool.is_watching = False
        pool.execute("rollback")
        await store.close()

        assert {name: blocks for name, blocks in pool.most.items() if blocks > PAGE_BLOCKS_MAX} == {}
        assert {table for _, table in pool.sequential if table.startswith("record")} == set()


async def test_a_session_that_began_with_no_records_finds_them_by_their_ids(url: str, opened: Opened) -> None:
    store = await opened(url)
    tasks = [NewRecord("task", f"t{n}", "open", b"", labels=("a",)) for n in range(100)]
    await store.records.change([RecordChange(f"c{one.record_id}", 0, one, (NewRecordEvent("made"),)) for one in tasks])
    for one in tasks:
        ended = one._replace(state="done", is_open=False)
        await store.records.change([RecordChange(f"d{one.record_id}", 1, ended, (NewRecordEvent("done"),))])
    await store.close()

    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "select indexrelname, idx_tup_read from pg_stat_user_indexes where relname = 'records' and idx_scan > 0"
        )
        read: dict[str, int] = dict(rows.fetchall())
    assert read.keys() <= {"records_pkey", "records_kind_record_id_key"}
    assert 0 < read["records_kind_record_id_key"] < 1_000


# --- rows in place ---


def updates(url: str, table: str) -> tuple[int, int]:
    """How many rows of a table were updated, and how many of them in place: on their page and without any index."""
    with psycopg.connect(url, autocommit=True) as connection:
        [(all_of_them, in_place)] = connection.execute(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where schemaname = 'stepwell' and relname = %s",
            [table],
        ).fetchall()
        return all_of_them, in_place


async def test_commits_of_a_run_update_its_row_in_place(url: str, opened: Opened) -> None:
    pool = InlinePool(parse_address(url))
    store = await opened(url, pool)
    scene = Scene(store, ManualClock(), WORKER)
    await scene.register(WORKER)
    others = [await scene.begin(f"other-{n}") for n in range(50)]  # so that it shares its page
    turn = await scene.begin("r1", key="k1")

    for n in range(200):
        await turn.record(f"step-{n}")
        if n % 10 == 0:
            await others[n // 10].record("step")
    pool._use().execute_now("select pg_stat_force_next_flush()")
    await store.close()

    commits, in_place = updates(url, "heads")
    assert commits == 220
    assert in_place >= 0.9 * commits
    moved, _ = updates(url, "runs")
    assert moved == 0  # a commit with entries only does not change indexed columns


async def test_runs_that_have_ended_leave_the_indexes_of_those_that_have_not(url: str, opened: Opened) -> None:
    pool = InlinePool(parse_address(url))
    store = await opened(url, pool)
    scene = Scene(store, ManualClock(), WORKER)
    await scene.register(WORKER)
    for n in range(300):
        turn = await scene.begin(f"r{n}", key=f"k{n}")
        await turn.park(wait_signal("go"))
        await scene.send(f"s{n}", f"r{n}")
        [turn] = await scene.claim()
        await turn.end()
    await store.close()
    execute(url, "vacuum stepwell.runs")

    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select relname, reltuples::bigint from pg_class where relname = any (%s)", [[*HOT, "runs_pkey"]]
        )
        assert dict(rows.fetchall()) == {"runs_pkey": 300, **dict.fromkeys(HOT, 0)}


def rows_read(pool: InlinePool) -> int:
    """How many rows of runs have been read by an index."""
    connection = pool._use().driver
    assert isinstance(connection, psycopg.Connection)
    connection.execute("select pg_stat_force_next_flush()")
    [(rows,)] = connection.execute(ROWS_READ).fetchall()
    return int(rows)


async def test_without_statistics_a_worker_finds_each_run_by_its_own_look_up(url: str, opened: Opened) -> None:
    """And not among all its runs: a new database has no statistics, and keeps its first plans."""
    pool = InlinePool(parse_address(url))
    store = await opened(url, pool)
    scene = Scene(store, ManualClock(), WORKER)
    await scene.register()
    for first, count in ((0, 2), (2, 200)):
        await store.runs.create([new_run(f"run-{first + n}") for n in range(count)])
        turns = await scene.claim(limit=count)
        before = rows_read(pool)
        for seq in range(1, 8):
            commits = [turn.next(entries=(step(seq, place(seq)),)) for turn in turns]
            assert {applied.verdict for applied in await store.runs.apply(commits)} == {Verdict.APPLIED}
            for turn in turns:
                turn.number, turn.seq = turn.number + 1, seq
        assert rows_read(pool) - before <= 3 * 7 * count
    await store.close()
