"""The pages that hot transitions write: each page of the log costs about as much as a statement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from stepwell.clock import Instant
from stepwell.conformance.records import change, new_record
from stepwell.conformance.scene import Scene, new_run, new_signal, wait_signal
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.writer import Writer
from stepwell.virtual.clock import ManualClock
from tests.unit.stores.sqlite.conftest import OpenStore

Pages = Callable[[Awaitable[object]], Awaitable[int]]


@pytest.fixture
def database(file: Path) -> SqliteDatabase:
    return SqliteDatabase(str(file))


@pytest.fixture
async def scene(open_store: OpenStore, clock: ManualClock, database: SqliteDatabase) -> Scene:
    store: SqliteStore = await open_store(runner=Writer(database))
    scene = Scene(store, clock)
    await scene.register()
    return scene


@pytest.fixture
def pages(database: SqliteDatabase) -> Pages:
    """How many pages are written to the log meanwhile."""

    async def count(work: Awaitable[object]) -> int:
        before, _ = database.connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
        await work
        after, _ = database.connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
        return after - before

    return count


async def test_a_step_writes_its_entry_and_its_run(scene: Scene, pages: Pages) -> None:
    turn = await scene.begin("r1")
    await turn.record("first")

    assert await pages(turn.record("second")) == 3  # and a new name, which a repeated step does not have


async def test_a_signal_that_wakes_a_run_does_not_make_it_due_first(scene: Scene, pages: Pages) -> None:
    await scene.waiting("r1", wait_signal("go"))
    await scene.waiting("r2", wait_signal("go"))

    claimed = await pages(scene.store.signals.deliver([new_signal("s1", "r1")], scene.claimant()))
    woken = await pages(scene.store.signals.deliver([new_signal("s2", "r2")]))

    # The signal with its two indexes, and the run; by its status, or by when it is due.
    assert (claimed, woken) == (5, 5)


async def test_a_change_of_a_record_writes_few_pages_beside_those_of_its_signal(scene: Scene, pages: Pages) -> None:
    task = new_record("t1", labels=("a", "b"), due_at=Instant(9), end_state="gone")
    await scene.waiting("r1", wait_signal("go"))
    await change(scene, "c1", task)

    noted = await pages(change(scene, "c2", task, 1))
    closed = task._replace(state="done", is_open=False)
    decided = await pages(change(scene, "c3", closed, 2, signals=(new_signal("s1", "r1"),)))

    # The record and its history; by state, by when it is due, by when it was closed, and by label; and the signal.
    assert (noted, decided) == (2, 7 + 5)


async def test_a_start_writes_the_run_and_what_finds_it(scene: Scene, pages: Pages) -> None:
    await scene.begin("r1")

    started = await pages(scene.store.runs.create([new_run("r2")], scene.claimant()))

    # Run, payload; by id, definition and status.
    assert started == 5


async def test_the_clock_is_stored_when_it_has_moved(scene: Scene, clock: ManualClock, pages: Pages) -> None:
    turn = await scene.begin("r1")
    await turn.record("first")

    at_once = await pages(turn.record("second"))
    clock.advance("11ms")
    later = await pages(turn.record("third"))

    assert later == at_once + 1
