"""The store's time over restarts, processes, and clocks that are set back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stepwell.clock import Instant
from stepwell.conformance.scene import LEASE, Scene, new_run, wait_timer
from stepwell.environment import Environment
from stepwell.stores.base.timeline import AHEAD_MAX, EXCESS, FLOOR_LAG
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock
from tests.unit.stores.sqlite.conftest import OpenStore


async def _instants(store: SqliteStore, *run_ids: str) -> list[int]:
    return [run.created_at for run in await store.views.find_many(run_ids) if run is not None]


async def test_time_continues_above_stored_instants_after_a_restart(
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
    assert third <= first + FLOOR_LAG + EXCESS


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


async def test_a_process_that_only_reads_learns_of_later_instants(open_store: OpenStore, clock: ManualClock) -> None:
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


# --- a clock that was set back ---


async def _now(store: SqliteStore) -> int:
    """The instant of a transaction."""
    return await store._runner.write(lambda tx: tx.now)


async def test_a_clock_that_is_set_back_does_not_stop_time(open_store: OpenStore, clock: ManualClock) -> None:
    store = await open_store()
    before = await _now(store)
    clock.jump_back("4m")
    clock.advance("10s")

    assert abs(await _now(store) - before - 10_000_000) <= EXCESS
    assert abs(store.now() - before - 10_000_000) <= EXCESS


async def test_time_that_is_more_than_five_minutes_ahead_runs_at_half_speed_until_the_clock_has_caught_up(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = await open_store()
    before = await _now(store)
    clock.jump_back("1h")
    await _now(store)
    clock.advance("20m")
    slow = await _now(store) - before
    clock.advance("98m")
    still = await _now(store) - before
    clock.advance("10m")
    caught_up = await _now(store)
    clock.advance("1m")

    assert abs(slow - 600_000_000) <= EXCESS
    assert abs(still - 3_540_000_000) <= EXCESS  # a minute ahead, which is within the five minutes
    assert caught_up == clock.now() - 60_000_000
    assert await _now(store) == clock.now()


async def test_processes_on_one_file_agree_about_the_time_while_the_clock_is_behind(
    open_store: OpenStore, clock: ManualClock
) -> None:
    one, two = await open_store(), await open_store()
    before = await _now(one)
    clock.jump_back("2m")

    instants = []
    for n in range(400):
        clock.advance("1ms")
        instants.append(await _now((one, two)[n % 2]))

    assert instants == sorted(instants)
    assert abs(instants[-1] - before - 400_000) <= EXCESS


async def test_time_continues_between_two_processes_of_one_boot(
    environment: Environment, clock: ManualClock, open_store: OpenStore, file: Path
) -> None:
    first = SqliteStore(environment, file)
    await first.open()
    before = await _now(first)
    await first.close()
    clock.jump_back("3m")
    clock.advance("1m")

    later = await open_store()

    assert abs(later.now() - before - 60_000_000) <= EXCESS


async def test_after_a_boot_time_continues_above_all_shown_instants(
    open_store: OpenStore, clock: ManualClock, environment: Environment, file: Path
) -> None:
    first = SqliteStore(environment, file)
    await first.open()
    await _now(first)
    clock.advance("9ms")
    shown = await _now(first)
    await first.close()
    booted = ManualClock(clock.jump_back("1h"))
    booted.boot = "the next"

    again = SqliteStore(replace(environment, clock=booted), file)
    await again.open()
    begun = await _now(again)
    booted.advance("10s")
    went_on = await _now(again) - begun
    await again.close()

    assert shown <= begun <= shown + FLOOR_LAG + 2 * EXCESS
    assert abs(went_on - 5_000_000) <= EXCESS


async def test_a_clock_that_is_behind_costs_no_further_writes(open_store: OpenStore, clock: ManualClock) -> None:
    store = await open_store()
    changes = store._runner.database.connection.total_changes
    await _now(store)
    clock.jump_back(f"{AHEAD_MAX + 1_000_000}us")
    await _now(store)
    before = changes()
    for _ in range(9):
        clock.advance("1ms")
        await _now(store)

    assert changes() == before


async def test_the_timer_and_the_lease_of_a_dead_worker_end_while_the_clock_is_behind(
    open_store: OpenStore, clock: ManualClock
) -> None:
    scene = Scene(await open_store(), clock)
    await scene.register()
    sleeper = await scene.begin("r1")
    due = Instant(clock.now() + 5_000_000)
    await sleeper.park(wait_timer(due), wake_at=due)
    await scene.begin("r2")
    clock.jump_back("1d")
    await scene.register("w2")
    clock.advance(2 * LEASE / 1_000_000 + 10)
    await scene.register("w3")

    assert await scene.rescue() == ["r2"]
    assert {turn.claimed.run.run_id for turn in await scene.claim("w3")} == {"r1", "r2"}
