"""Records on PostgreSQL: batches of ends, rows that cannot be read, and a database that was restored."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from stepwell.clock import Instant
from stepwell.conformance.records import change, new_change, new_record, opening, stored
from stepwell.conformance.scene import Scene, new_signal, wait_signal
from stepwell.environment import system_environment
from stepwell.errors import CorruptRecordError
from stepwell.model.commits import End
from stepwell.model.records import ChangeOutcome, RecordFilter
from stepwell.model.states import RunStatus
from stepwell.stores.base.backups import EPOCHS_SKIPPED, NUMBERS_SKIPPED
from stepwell.stores.postgres.fences import fence
from stepwell.stores.postgres.store import PostgresStore
from stepwell.virtual.clock import ManualClock
from tests.servers.cleared import cleared_url


@pytest.fixture
def url() -> str:
    return cleared_url()


@pytest_asyncio.fixture
async def scene(url: str) -> AsyncIterator[Scene]:
    store = PostgresStore(system_environment(), url)
    await store.open()
    scene = Scene(store, ManualClock())
    await scene.register()
    yield scene
    await store.close()


async def test_a_row_that_cannot_be_read_stops_no_listing_and_no_run(scene: Scene, url: str) -> None:
    turn = await scene.begin("r1")
    for record_id in ("t1", "t2", "t3"):
        await turn.commit(opened=(opening(record_id, labels=("a",), due_at=Instant(5)),))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update stepwell.records set labels = array[null] where record_id = 't2'")

    records = scene.store.records
    for listed in (
        await records.list_records(RecordFilter("task", order="oldest"), limit=9),
        await records.due(["task"], limit=9),
    ):
        first, broken, last = listed
        assert [first, last] == [await stored(scene, "t1"), await stored(scene, "t3")]
        assert "Expected `str`, got `null`" in broken.damage
        assert broken[:7] == (first.number + 1, "task", "t2", 1, first.state, (), 5)
    with pytest.raises(CorruptRecordError, match="task 't2' cannot be read"):
        await records.find("task", "t2")
    await turn.end()
    assert await scene.status("r1") is RunStatus.COMPLETED
    assert await records.count(RecordFilter("task", is_open=True), limit=9) == 0
    await scene.store.workers.retire(scene.incarnation)
    await scene.store.transfers.seal("m1", "there")
    with pytest.raises(CorruptRecordError):
        await scene.store.transfers.pack("records:", limit=9)


async def test_a_run_that_cannot_be_read_is_claimed_with_the_change_that_wakes_it(scene: Scene, url: str) -> None:
    for run_id in ("r1", "r2"):
        await scene.waiting(run_id, wait_signal("go"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update stepwell.payloads set tags = '[5]' where run = 2")
    signals = tuple(new_signal(f"s {run_id}", run_id) for run_id in ("r1", "r2"))
    one = new_change("c1", new_record("t1"), signals=signals)

    [changed] = await scene.store.records.change([one], scene.claimant())

    assert [(each.run.run_id, bool(each.run.damage)) for each in changed.claimed] == [("r1", False), ("r2", True)]
    assert [each.woke for each in changed.delivered] == [True, True]


async def test_of_several_runs_that_end_in_one_batch_each_closes_its_records(scene: Scene) -> None:
    turns = [await scene.begin(f"r{n}") for n in range(4)]
    for turn in turns[1:3]:
        await turn.commit(opened=(opening(turn.run_id), opening(f"{turn.run_id} stays", end_state=None)))

    await scene.store.runs.apply([turn.next(move=End(RunStatus.COMPLETED)) for turn in turns])

    assert [await scene.status(turn.run_id) for turn in turns] == [RunStatus.COMPLETED] * 4
    left = await scene.store.records.list_records(RecordFilter("task", is_open=True, order="oldest"), limit=9)
    assert [record.record_id for record in left] == ["r1 stays", "r2 stays"]


async def test_a_restored_database_uses_no_number_and_no_version_of_a_record_again(scene: Scene, url: str) -> None:
    await change(scene, "c1", new_record("t1"))

    fence(url)

    assert (await change(scene, "c2", new_record("t1"), 1)).outcome is ChangeOutcome.STALE
    assert (await stored(scene, "t1")).version == 1 + EPOCHS_SKIPPED
    await change(scene, "c3", new_record("t2"))
    assert (await stored(scene, "t2")).number > NUMBERS_SKIPPED
