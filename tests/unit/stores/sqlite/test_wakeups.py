"""Hints for changes by other processes."""

from __future__ import annotations

import asyncio

from stepwell.conformance.scene import new_run
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.stores.sqlite.store import SqliteStore
from tests.unit.stores.sqlite.conftest import OpenStore


async def _hear(store: SqliteStore, kind: HintKind) -> None:
    heard = asyncio.Event()
    stop = store.wakeups.listen(lambda hint: heard.set() if hint.kind is kind else None)
    await asyncio.wait_for(heard.wait(), 10)
    stop()


async def test_a_write_of_another_handle_sends_a_hint(open_store: OpenStore) -> None:
    one, two = await open_store(), await open_store()
    listening = asyncio.ensure_future(_hear(two, HintKind.CHANGED))
    await asyncio.sleep(0)

    await one.runs.create([new_run("r1")])

    await listening


async def test_an_own_write_does_not_count_as_a_change_of_others(open_store: OpenStore) -> None:
    store = await open_store()
    heard: list[Hint] = []
    store.wakeups.listen(heard.append)

    for n in range(5):
        await store.runs.create([new_run(f"r{n}")])
        await asyncio.sleep(0.01)

    assert {hint.kind for hint in heard} == {HintKind.READY}


async def test_the_counter_is_not_polled_without_listeners(open_store: OpenStore) -> None:
    store = await open_store()
    asked = 0

    def ask() -> bool:
        nonlocal asked
        asked += 1
        return False

    store._runner.has_changed = ask  # type: ignore[method-assign]
    await asyncio.sleep(0.03)
    assert asked == 0

    stop = store.wakeups.listen(lambda _: None)
    await asyncio.sleep(0.03)
    assert asked > 0

    stop()
    await asyncio.sleep(0.03)
    asked = 0
    await asyncio.sleep(0.05)
    assert asked == 0


async def test_the_watch_ends_with_the_store(open_store: OpenStore) -> None:
    store = await open_store()
    store.wakeups.listen(lambda _: None)
    await asyncio.sleep(0.005)

    await store.close()

    assert [task.get_name() for task in asyncio.all_tasks() if "sqlite" in task.get_name()] == []
