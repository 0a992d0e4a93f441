"""The store's time over restarts, processes, and clocks that are set back."""

from __future__ import annotations

from pathlib import Path

from stepwell.conformance.clock import ManualClock
from stepwell.conformance.scene import new_run
from stepwell.environment import Environment
from stepwell.stores.sqlite.database import FLOOR_LAG, SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from tests.unit.stores.sqlite.conftest import OpenStore


async def _instants(store: SqliteStore, *run_ids: str) -> list[int]:
    return [run.created_at for run in await store.views.find_many(run_ids) if run is not None]


async def test_time_goes_on_above_what_was_written_before_a_restart(
    environment: Environment, clock: ManualClock, file: Path
) -> None:
    store = SqliteStore(environment, file)
    await store.open()
    await store.runs.create([new_run("r1")])
    clock.advance("9999us")  # too little for the floor to be stored again
    await store.runs.create([new_run("r2")])
    await store.close()
    clock.jump_back("1h")

    again = SqliteStore(environment, file)
    await again.open()
    opened_at = again.now()
    await again.runs.create([new_run("r3")])
    first, second, third = await _instants(again, "r1", "r2", "r3")
    await again.close()

    assert first < second <= opened_at <= third
    assert third <= first + FLOOR_LAG


async def test_time_does_not_creep_while_the_clock_is_behind(open_store: OpenStore, clock: ManualClock) -> None:
    one, two = await open_store(), await open_store()
    await one.runs.create([new_run("r0")])
    clock.jump_back("1h")

    for n in range(1, 9):
        await (one, two)[n % 2].runs.create([new_run(f"r{n}")])

    instants = await _instants(one, *(f"r{n}" for n in range(9)))
    assert instants == sorted(instants)
    assert instants[-1] <= instants[0] + FLOOR_LAG


async def test_the_floor_is_not_written_with_every_commit(open_store: OpenStore, clock: ManualClock) -> None:
    store = await open_store()
    changes = store._runner.database.connection.total_changes

    async def rows_written(run_id: str) -> int:
        before = changes()
        await store.runs.create([new_run(run_id)])
        return changes() - before

    await rows_written("r1")
    at_once = await rows_written("r2")
    clock.advance("11ms")
    later = await rows_written("r3")

    assert later == at_once + 1


async def test_a_process_that_only_reads_hears_of_later_instants(open_store: OpenStore, clock: ManualClock) -> None:
    one, two = await open_store(), await open_store()
    clock.advance("1h")
    await one.runs.create([new_run("r1")])
    shown = one.now()
    clock.jump_back("2h")

    assert two._runner.has_changed()

    assert two.now() >= shown


def test_one_database_shows_one_time_to_all_its_handles(clock: ManualClock) -> None:
    database, ahead = SqliteDatabase(":memory:"), ManualClock()
    database.open(clock)
    ahead.advance("1h")

    assert database.now(ahead) == ahead.now()
    assert database.now(clock) == ahead.now()
