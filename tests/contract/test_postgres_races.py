"""Transitions of a PostgreSQL store that meet: one has not committed yet when the other begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from stepwell.clock import Instant
from stepwell.conformance.records import new_change, opening, stored
from stepwell.conformance.scene import Scene, Turn, new_signal, place, step, wait_signal
from stepwell.environment import system_environment
from stepwell.ids import RunId
from stepwell.model.commits import Commit, End, Park, Verdict
from stepwell.model.records import ChangeOutcome, RecordChange, RecordFilter
from stepwell.model.signals import Delivery
from stepwell.model.states import RunStatus
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.calls import Call, Value
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.faults import ConflictError
from stepwell.stores.postgres.pool import ConnectionPool
from stepwell.stores.postgres.sessions import connect_now
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from stepwell.virtual.clock import ManualClock
from tests.servers.cleared import cleared_url


@pytest.fixture(params=["", "isolation=serializable"], ids=["read committed", "serializable"])
def url(request: pytest.FixtureRequest) -> str:
    return cleared_url(None, request.param)


@pytest_asyncio.fixture
async def scene(url: str) -> AsyncIterator[Scene]:
    store = PostgresStore(system_environment(), url)
    await store.open()
    scene = Scene(store, ManualClock())
    await scene.register()
    yield scene
    await store.close()


@pytest.fixture
def connection(url: str, scene: Scene) -> Iterator[Connection]:
    """A connection of another process, in a transaction."""
    connection = connect_now(parse_address(url))
    connection.execute_now("begin")
    yield connection
    connection.finish()


def _call(connection: Connection, call: calls.Call[Any], *arguments: Any) -> None:
    connection.call_now(call, call.values(None, Instant(0), arguments))


async def _until_a_lock_is_awaited(url: str) -> None:
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        asked = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        while connection.execute(asked).fetchone() is None:  # noqa: ASYNC110  only the server knows
            await asyncio.sleep(0.01)


async def _meet(url: str, connection: Connection, act: Awaitable[Any]) -> Any:
    """Begin an act, which has to wait for the transaction of the connection. Then commit that; return the answer."""
    waiting = asyncio.ensure_future(act)
    await _until_a_lock_is_awaited(url)
    connection.execute_now("commit")
    return await waiting


def _step(turn: Turn) -> Commit:
    return turn.next(names=("a",), entries=(step(1, place(0)),))


async def test_a_run_that_parks_beside_a_step_of_another_gets_a_signal_that_is_just_delivered(
    url: str, scene: Scene, connection: Connection
) -> None:
    parking, other = await scene.begin("r1"), await scene.begin("r2")
    _call(connection, calls.DELIVER, [new_signal("s1", "r1", "go")], None)

    batch = [_step(other), parking.next(waits=(wait_signal("go"),), move=Park(None))]
    answers = await _meet(url, connection, scene.store.runs.apply(batch))

    assert [one.verdict for one in answers] == [Verdict.APPLIED] * 2
    assert answers[1].is_awake
    assert (await scene.run("r1")).wake_at is not None


# --- records ---


def _change(change_id: str, record_id: str, expected: int, *targets: str, **changes: Any) -> RecordChange:
    """A change of a record that ends with its run. It signals runs."""
    signals = tuple(new_signal(f"{change_id} {target}", target) for target in targets)
    return new_change(change_id, opening(record_id, **changes).record, expected, signals=signals)


async def test_a_change_that_meets_the_end_of_its_run_comes_first_and_the_end_closes_the_record(
    url: str, scene: Scene, connection: Connection
) -> None:
    turn = await scene.begin("r1")
    await turn.commit(opened=(opening("t1"),))
    _call(connection, calls.CHANGE_RECORDS, [_change("c1", "t1", 1, "r1")], None)

    applied = await _meet(url, connection, turn.end())

    assert applied.verdict is Verdict.APPLIED
    record = await stored(scene, "t1")
    assert (record.version, record.state, record.is_open) == (3, "gone", False)
    [unread] = await scene.store.views.list_unread(limit=9)
    assert (unread.run_id, unread.reason) == ("r1", "")


async def test_a_change_that_meets_a_record_that_its_run_closes_is_stale(
    url: str, scene: Scene, connection: Connection
) -> None:
    turn = await scene.begin("r1")
    await turn.commit(opened=(opening("t1"),))
    end = calls.commit_out(turn.next(move=End(RunStatus.COMPLETED)))
    _call(connection, calls.APPLY, None, None, [end], None, None)

    [changed] = await _meet(url, connection, scene.store.records.change([_change("c1", "t1", 1, "r1")]))

    assert changed == (ChangeOutcome.STALE, 2, (), (), ())
    assert await scene.store.views.list_unread(limit=9) == []


async def test_a_signal_of_a_change_that_meets_a_cancel_is_kept_with_the_cancelled_run(
    url: str, scene: Scene, connection: Connection
) -> None:
    turn = await scene.begin("r1")
    await turn.commit(opened=(opening("t1"),))
    await turn.park(wait_signal("go"))
    _call(connection, calls.CANCEL, "r1", True, "", "", None, "")

    [changed] = await _meet(url, connection, scene.store.records.change([_change("c1", "t2", 0, "r1")]))

    assert [(one.delivery, one.run_id) for one in changed.delivered] == [(Delivery.MISSING, "r1")]
    assert (await stored(scene, "t1")).state == "gone"


async def test_a_cancel_that_meets_a_change_closes_the_record_that_it_reopened(
    url: str, scene: Scene, connection: Connection
) -> None:
    turn = await scene.begin("r1")
    await turn.commit(opened=(opening("t1"),))
    await turn.park(wait_signal("go"))
    [closed] = await scene.store.records.change([_change("c1", "t1", 1, is_open=False)])
    _call(connection, calls.CHANGE_RECORDS, [_change("c2", "t1", closed.version, "r1")], None)

    cancelled = await _meet(url, connection, scene.store.runs.cancel(RunId("r1"), compensate=True, reason=""))

    assert cancelled.changed
    record = await stored(scene, "t1")
    assert (record.version, record.is_open) == (4, False)


async def test_a_cancel_that_waits_for_a_child_does_not_lock_the_records_of_its_parent_yet(
    url: str, scene: Scene, connection: Connection
) -> None:
    parent = await scene.begin("p1")
    await parent.commit(names=("a",), opened=(opening("t1"),))
    await scene.begin_child(parent, "c1", place(0))
    connection.execute_now("select 1 from stepwell.runs where run_id = 'c1' for no key update")

    cancelling = asyncio.ensure_future(scene.cancel("p1", compensate=False))
    await _until_a_lock_is_awaited(url)
    [changed] = await scene.store.records.change([_change("c1", "t1", 1)])
    connection.execute_now("commit")

    assert changed.outcome is ChangeOutcome.CHANGED
    assert (await cancelling).runs == ("p1", "c1")
    assert (await stored(scene, "t1")).version == 3


async def test_of_two_changes_that_create_one_record_the_second_is_stale(
    url: str, scene: Scene, connection: Connection
) -> None:
    _call(connection, calls.CHANGE_RECORDS, [_change("c1", "t1", 0)], None)

    [changed] = await _meet(url, connection, scene.store.records.change([_change("c2", "t1", 0)]))

    assert changed == (ChangeOutcome.STALE, 1, (), (), ())


async def test_a_change_that_is_repeated_before_its_first_answer_is_not_made_twice(
    url: str, scene: Scene, connection: Connection
) -> None:
    change = _change("c1", "t1", 0, "nobody")
    _call(connection, calls.CHANGE_RECORDS, [change], None)

    [changed] = await _meet(url, connection, scene.store.records.change([change]))

    assert changed == (ChangeOutcome.CHANGED, 1, (), (), ())
    assert len(await scene.store.views.list_held(limit=9)) == 1


class Crowded(ConnectionPool):
    """Notes the deadlocks that the server resolves."""

    deadlocks: list[str]

    async def call(self, call: Call[Any], values: list[Value], *, is_urgent: bool = False) -> bytes:
        try:
            return await super().call(call, values, is_urgent=is_urgent)
        except ConflictError as error:
            if "deadlock" in str(error):
                self.deadlocks.append(call.name)
            raise


async def test_changes_ends_and_cancels_of_the_same_runs_wait_for_each_other_in_one_order(
    url: str, scene: Scene
) -> None:
    environment = system_environment()
    pool = Crowded(parse_address(url), environment)
    pool.deadlocks = []
    other = PostgresStore(environment, url, pool=pool)
    await other.open()
    for n in range(12):
        parent = await scene.begin(f"p{n}")
        await parent.commit(names=("a", "b"), opened=(opening(f"p{n}"),))
        child = await scene.begin_child(parent, f"c{n}", place(1))
        await child.commit(names=("a",), opened=(opening(f"c{n}"),))
        records = [f"p{n}", f"c{n}"]
        change = other.records.change
        await asyncio.gather(
            change([_change(f"1 {n} {one}", one, 1, *reversed(records)) for one in records]),
            change([_change(f"2 {n} {one}", one, 1, *records) for one in reversed(records)]),
            change([_change(f"3 {n} {one}", f"new {one}", 0, f"p{n}") for one in records]),
            change([_change(f"4 {n} {one}", f"new {one}", 0, f"c{n}") for one in reversed(records)]),
            other.runs.apply([child.next(opened=(opening(f"new p{n}"),), move=End(RunStatus.COMPLETED))]),
            other.runs.cancel(RunId(f"p{n}"), compensate=False, reason=""),
        )
    await other.close()

    assert pool.deadlocks == []
    left = await scene.store.records.list_records(RecordFilter("task", is_open=True), limit=99)
    assert {record.run_id for record in left} <= {None}
