"""Closing a PostgreSQL store while other processes use it, each on its own connection and by the server's clock."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from stepwell.clock import Instant
from stepwell.conformance.contents import pack_all
from stepwell.conformance.scene import Scene, Turn, new_run, new_signal, place, step
from stepwell.environment import system_environment
from stepwell.errors import StoreSealedError, StoreUnavailableError, TransferError
from stepwell.ids import RunId, SignalId
from stepwell.model.commits import Commit, Verdict
from stepwell.model.transactions import Transaction
from stepwell.stores.base.packed_items import HighestNumbers, PackedRun, PackedSignal, TransferBatch
from stepwell.stores.base.transfers import Manifest
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.sessions import connect_now
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.texts import functions_schema
from stepwell.stores.postgres.urls import parse_address
from stepwell.virtual.clock import ManualClock
from tests.servers.cleared import cleared_url


@pytest.fixture(params=["", "isolation=serializable"], ids=["read committed", "serializable"])
def url(request: pytest.FixtureRequest) -> str:
    return cleared_url(None, request.param)


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(system_environment(), url)
    await store.open()
    yield store
    await store.close()


@pytest_asyncio.fixture
async def scene(store: PostgresStore) -> Scene:
    scene = Scene(store, ManualClock())
    await scene.register()
    return scene


@pytest.fixture
def connection(url: str, store: PostgresStore) -> Iterator[Connection]:
    """A connection of another process, configured like the store's own."""
    connection = connect_now(parse_address(url))
    yield connection
    connection.finish()


def _end_leases(url: str) -> None:
    with psycopg.connect(url.partition("?")[0]) as connection:
        connection.execute("update stepwell.workers set lease_until = 0")


async def _until_a_lock_is_awaited(url: str) -> None:
    """Wait until a transaction waits for the lock of another."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        asked = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        while connection.execute(asked).fetchone() is None:  # noqa: ASYNC110  only the server knows
            await asyncio.sleep(0.01)


def _seal_without_committing(connection: Connection) -> None:
    connection.execute_now("begin isolation level read committed")
    connection.call_now(calls.SEAL, calls.SEAL.values(None, Instant(0), ("t1", "leaving", "there", None)))


def _plain(turn: Turn) -> Commit:
    """The most common commit: one entry, and no new name."""
    return turn.next(entries=(step(turn.seq + 1, place(turn.seq)),))


def _meet(connection: Connection, turn: Turn) -> calls.RunNumber:
    """Commit a single step. Returns the number by which the run is then known."""
    found = calls.ADVANCE_ONE.decode(connection.call_now(calls.ADVANCE_ONE, calls.one_out(_plain(turn))))
    assert found is not None
    turn.number, turn.seq = turn.number + 1, turn.seq + 1
    return found[1]


async def _packed_runs(store: PostgresStore) -> dict[str, PackedRun]:
    return {one.run.run_id: one for one in await pack_all(store) if isinstance(one, PackedRun)}


# --- sealing waits for transitions in progress ---


async def test_sealing_waits_for_a_start_in_a_callers_transaction(url: str, store: PostgresStore) -> None:
    with psycopg.connect(url.partition("?")[0]) as connection:
        connection.execute("select 1")
        store.transactions.enqueue(connection, [new_run("r1")])
        sealing = asyncio.create_task(store.transfers.seal("t1", "there"))
        await _until_a_lock_is_awaited(url)
        assert not sealing.done()
        assert await store.transfers.find_seal() is None
        connection.commit()
        await sealing

        connection.execute("select 1")
        with pytest.raises(StoreSealedError):
            store.transactions.enqueue(connection, [new_run("r2")])

    assert list(await _packed_runs(store)) == ["r1"]


@pytest.mark.parametrize("is_known", [False, True])
async def test_sealing_waits_for_a_plain_commit_of_a_worker_that_counts_as_dead(
    url: str, store: PostgresStore, scene: Scene, connection: Connection, is_known: bool
) -> None:
    turn = await scene.begin("r1")
    await turn.record("a")
    known = _meet(connection, turn) if is_known else None
    _end_leases(url)
    connection.execute_now("begin")
    if known is None:
        _meet(connection, turn)
    else:
        assert connection.call_now(calls.ADVANCE_KNOWN, calls.known_out(_plain(turn), known)) == b"3"

    sealing = asyncio.create_task(store.transfers.seal("t1", "there"))
    await _until_a_lock_is_awaited(url)
    assert not sealing.done()
    connection.execute_now("commit")
    await sealing

    packed = (await _packed_runs(store))["r1"]
    steps = 3 if is_known else 2
    assert len(packed.history.entries) == steps
    assert (packed.run.owner, packed.run.stalls, packed.applied) == (None, 1, steps)


async def test_sealing_waits_for_a_transactional_step(url: str, store: PostgresStore, scene: Scene) -> None:
    turn = await scene.begin("r1")
    commit, has_begun, go_on = turn.next(names=("a",)), threading.Event(), threading.Event()

    def work(tx: Transaction, now: Instant) -> Commit:
        tx.execute("create table coins (n integer)")
        has_begun.set()
        assert go_on.wait(20)
        return commit._replace(entries=(step(1, place(0)),))

    performing = asyncio.create_task(store.transactions.perform(commit, work, is_blocking=True))
    assert await asyncio.to_thread(has_begun.wait, 20)
    _end_leases(url)
    sealing = asyncio.create_task(store.transfers.seal("t1", "there"))
    await _until_a_lock_is_awaited(url)
    go_on.set()
    performed = await performing
    await sealing

    assert performed.applied is not None
    assert performed.applied.verdict is Verdict.APPLIED
    assert [entry.seq for entry in (await _packed_runs(store))["r1"].history.entries] == [1]


# --- transitions that wait for the seal are rejected ---


async def test_a_transition_that_waits_while_the_store_is_closed_is_rejected(
    url: str, store: PostgresStore, connection: Connection
) -> None:
    _seal_without_committing(connection)
    starting = asyncio.create_task(store.runs.create([new_run("r1")]))
    await _until_a_lock_is_awaited(url)
    connection.execute_now("commit")

    with pytest.raises(StoreSealedError, match="being moved to there"):
        await starting
    assert await store.transfers.manifest() == Manifest(0, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("is_single", [True, False])
async def test_a_plain_commit_that_waits_while_the_store_is_closed_is_rejected(
    url: str, store: PostgresStore, scene: Scene, connection: Connection, is_single: bool
) -> None:
    turn = await scene.begin("r1")
    await turn.record("a")
    _end_leases(url)
    commit = _plain(turn) if is_single else turn.next(names=("b",), entries=(step(2, place(1)),))
    _seal_without_committing(connection)

    applying = asyncio.create_task(store.runs.apply([commit]))
    await _until_a_lock_is_awaited(url)
    connection.execute_now("commit")

    with pytest.raises(StoreSealedError):
        await applying
    packed = (await _packed_runs(store))["r1"]
    assert (len(packed.history.entries), packed.history.names, packed.applied) == (1, ("a",), 1)


async def test_the_fast_paths_of_plain_commits_write_nothing_to_a_closed_store(
    url: str, store: PostgresStore, scene: Scene, connection: Connection
) -> None:
    turn = await scene.begin("r1")
    await turn.record("a")
    known = _meet(connection, turn)
    _end_leases(url)
    await store.transfers.seal("t1", "there")
    commit = _plain(turn)

    assert connection.call_now(calls.ADVANCE_KNOWN, calls.known_out(commit, known)) == b""
    assert connection.call_now(calls.ADVANCE_ONE, calls.one_out(commit)) == b""
    values = calls.ADVANCE.values(None, Instant(0), ([calls.plain_out(commit)],))
    assert connection.call_now(calls.ADVANCE, values) == b"[]"
    assert len((await _packed_runs(store))["r1"].history.entries) == 2


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_transaction_with_an_older_snapshot_does_not_get_past_the_seal(
    url: str, store: PostgresStore, level: str
) -> None:
    with psycopg.connect(url.partition("?")[0]) as connection:
        connection.execute(f"set transaction isolation level {level}".encode())
        connection.execute("select count(*) from stepwell.runs")
        await store.transfers.seal("t1", "there")

        with pytest.raises((StoreUnavailableError, StoreSealedError)):
            store.transactions.enqueue(connection, [new_run("r1")])
        connection.rollback()

        connection.execute("select 1")
        with pytest.raises(StoreSealedError):
            store.transactions.enqueue(connection, [new_run("r1")])


async def test_transactional_steps_are_rejected_before_their_work(url: str, store: PostgresStore, scene: Scene) -> None:
    turn = await scene.begin("r1")
    _end_leases(url)
    await store.transfers.seal("t1", "there")
    done: list[Any] = []

    def work(tx: Transaction, now: Instant) -> Commit:
        done.append(tx)
        return turn.next()

    with pytest.raises(StoreSealedError):
        await store.transactions.perform(turn.next(), work, is_blocking=True)
    with pytest.raises(StoreSealedError):
        await store.transactions.run(done.append)
    assert done == []


async def test_rejected_blobs_do_not_prevent_unsealing(store: PostgresStore) -> None:
    await store.transfers.seal("t1", "there")
    name = store.blobs.put(b"large" * 1_000)

    with pytest.raises(StoreSealedError):
        await store.runs.create([new_run("r1")])
    assert (await store.transfers.manifest()).blobs == 0
    await store.transfers.unseal("t1")
    await store.runs.create([new_run("r1")])

    assert (await store.transfers.manifest()).blobs == 1
    assert store.blobs.get(name) == b"large" * 1_000


async def test_an_attempt_to_seal_does_not_block_a_store_in_use(url: str, scene: Scene, connection: Connection) -> None:
    """The rejection does not wait for transitions in progress, so no transition has to wait for it."""
    connection.execute_now("begin")
    connection.call_now(calls.BEGIN_WORK, calls.BEGIN_WORK.values(None, Instant(0), ()))

    with pytest.raises(Exception, match="workers are using this database: w1"):
        await asyncio.wait_for(scene.store.transfers.seal("t1", "there"), 5)
    connection.execute_now("rollback")


# --- unpacking ---


async def test_the_item_with_an_unstorable_text_is_named(store: PostgresStore) -> None:
    await store.transfers.expect("t1", "here", since=Instant(0))
    held = PackedSignal(1, SignalId("s1"), None, "k", "go\x00", None, b"", Instant(1), False, None, "", None)

    with pytest.raises(TransferError, match="signal s1 cannot be stored in the destination"):
        await store.transfers.unpack("t1", TransferBatch(signals=(held,)))
    assert (await store.transfers.manifest()).signals == 0


async def test_the_item_with_a_taken_number_is_named(store: PostgresStore) -> None:
    await store.transfers.expect("t1", "here", since=Instant(0))
    one = PackedSignal(1, SignalId("s1"), None, "k", "go", None, b"", Instant(1), False, None, "", None)
    two = one._replace(number=2, signal_id=SignalId("s2"))
    await store.transfers.unpack("t1", TransferBatch(signals=(one, one)))

    with pytest.raises(TransferError, match="signal s3 is already in the destination"):
        await store.transfers.unpack("t1", TransferBatch(signals=(one, two, two._replace(signal_id=SignalId("s3")))))
    assert (await store.transfers.manifest()).signals == 1


async def test_a_mark_of_another_store_is_rejected(store: PostgresStore) -> None:
    await store.transfers.seal("t1", "there")

    with pytest.raises(ValueError, match="no batch ends at"):
        await store.transfers.pack("shelves:7", limit=1)


async def test_runs_keep_the_order_in_which_they_came(store: PostgresStore) -> None:
    names = [f"r{(n * 7) % 20:02}" for n in range(20)]
    for name in names:
        await store.runs.create([new_run(name)])
    await store.transfers.seal("t1", "there")

    batch = await store.transfers.pack(limit=9)
    assert [one.run.run_id for one in batch.runs] == names[:9]
    batch = await store.transfers.pack(batch.next, limit=9)
    assert [RunId(one.run.run_id) for one in batch.runs] == names[9:18]


@pytest.fixture
def restricted(url: str, store: PostgresStore) -> Iterator[str]:
    """The URL for a role with only the rights that docs/postgres.md grants."""
    role, plain = f"runner_{uuid.uuid4().hex}", url.partition("?")[0]
    rights = (
        f"create role {role} login",
        f"grant usage on schema stepwell, {functions_schema('stepwell')} to {role}",
        f"grant select, insert, update, delete on all tables in schema stepwell to {role}",
        f"grant usage on all sequences in schema stepwell to {role}",
    )
    with psycopg.connect(plain, autocommit=True) as connection:
        for right in rights:
            connection.execute(right.encode())
        yield url.replace("postgres@", f"{role}@")
        connection.execute(f"drop owned by {role}".encode())
        connection.execute(f"drop role {role}".encode())


async def test_a_role_with_usage_of_sequences_can_unpack(restricted: str) -> None:
    store = PostgresStore(system_environment(), restricted)
    await store.open()
    held = PackedSignal(700, SignalId("s1"), None, "k", "go", None, b"", Instant(1), False, None, "", None)

    await store.transfers.expect("t1", "here", since=Instant(0))
    await store.transfers.unpack("t1", TransferBatch(signals=(held,), highest=HighestNumbers(receipts=30, owed=20)))
    await store.transfers.accept("t1")
    await store.signals.deliver([new_signal("s2", "k", hold=True)])
    await store.transfers.seal("t2", "there")
    batch = await store.transfers.pack(limit=9)
    await store.close()

    assert [one.number for one in batch.signals] == [700, 701]
    assert batch.highest == HighestNumbers(receipts=30, owed=20)
