"""What only the memory store promises: shared hints, a snapshot, and transitions that fail without a trace."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

import pytest

from stepwell.conformance.clock import ManualClock
from stepwell.conformance.scene import FIRST, Scene, child_of, new_run, new_signal, place, step, wait_child, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.conformance.suite import StoreSuite
from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import RunId, SystemIds
from stepwell.model.commits import End, Park
from stepwell.model.states import RunStatus
from stepwell.stores.base.wakeups import Hint
from stepwell.stores.memory.database import MemoryDatabase
from stepwell.stores.memory.store import MemoryStore
from stepwell.stores.memory.transaction import Transaction


class Crash(BaseException):
    pass


async def open_scene(database: MemoryDatabase | None = None) -> tuple[Scene, MemoryStore]:
    clock = ManualClock()
    store = MemoryStore(Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor()), database)
    await store.open()
    scene = Scene(store, clock)
    await scene.register()
    return scene, store


def test_no_test_of_the_suite_hides_another():
    parts = [part for part in StoreSuite.__mro__ if part.__module__.startswith("stepwell.conformance")]
    names = [name for part in parts for name in vars(part) if name.startswith("test_") or not name.startswith("_")]

    assert [name for name, times in Counter(names).items() if times > 1] == []


async def test_every_handle_of_a_database_hears_the_same_hints_until_it_is_closed():
    scene, store = await open_scene()
    _, other = await open_scene(store.database)
    heard: dict[str, list[Hint]] = {"store": [], "other": []}
    store.wakeups.listen(heard["store"].append)
    other.wakeups.listen(heard["other"].append)

    await (await scene.begin("r1")).end()
    assert heard["store"] == heard["other"] != []

    await other.close()
    await scene.create("r2")
    assert len(heard["store"]) > len(heard["other"])


async def test_a_missing_worker_row_counts_as_dead():
    scene, store = await open_scene()
    await scene.begin("r1")
    store.database.workers.clear()

    assert await store.views.has_stranded()
    assert await scene.rescue() == ["r1"]


async def test_the_database_gives_the_same_snapshot_as_the_views():
    scene, store = await open_scene()
    await furnish(scene)
    await scene.send("s9", "nobody", hold=True)
    await scene.cancel("waiting")

    assert store.database.snapshot() == await snapshot(store)


async def furnish(scene: Scene) -> dict[str, Any]:
    """A family, a held signal and a run that waits."""
    await scene.send("held", "k", hold=True)
    parent = await scene.begin("parent", key="p")
    child = await scene.begin_child(parent, "child", FIRST)
    await child.record("a", undo=b"u")
    await child.commit(move=None, waits=(wait_signal("x"),))
    other = await scene.begin_child(parent, "other", place(1))
    await parent.park(wait_child(FIRST))
    waiting = await scene.begin("waiting")
    await waiting.park(wait_signal("go"))
    owner = await scene.begin("owner", key="o")
    await scene.send("s1", "owner")
    return {"child": child, "other": other, "owner": owner}


ACTS: dict[str, Callable[[Scene, dict[str, Any]], Awaitable[object]]] = {
    "create": lambda scene, _: scene.store.runs.create([new_run("n1", key="k"), new_run("n2")], scene.claimant()),
    "deliver": lambda scene, _: scene.store.signals.deliver(
        [new_signal("s2", "waiting"), new_signal("s3", "p"), new_signal("s4", "owner", dedup_key="d")], scene.claimant()
    ),
    "end": lambda _, turns: turns["child"].end(),
    "continue": lambda _, turns: turns["owner"].commit(
        consumed=(2,), move=End(RunStatus.CONTINUED, successor=new_run("next"))
    ),
    "write": lambda scene, turns: turns["owner"].commit(
        names=("a", "b"),
        entries=(step(1, place(0)), step(2, place(1))),
        trims=((place(0), place(1)),),
        children=(child_of("owner", "born", FIRST, key="k"), child_of("owner", "failed", place(1), key="p")),
        waits=(wait_child(place(1)),),
        move=Park(None),
        claimant=scene.claimant(),
    ),
    "cancel": lambda scene, _: scene.cancel("parent"),
    "claim": lambda scene, _: scene.claim(),
    "relinquish": lambda scene, _: scene.store.runs.relinquish(scene.incarnation, ()),
    "retire": lambda scene, _: scene.store.workers.retire(scene.incarnation),
}


def whole(database: MemoryDatabase) -> dict[str, Any]:
    """Every table and index, without the empty places that merely looking leaves behind."""
    names = [name for name in database.__slots__ if name not in ("hubs", "ready", "signals_sent", "times")]
    tables = {name: deepcopy(getattr(database, name)) for name in names}
    return {
        name: {key: value for key, value in table.items() if value != {}} if isinstance(table, dict) else table
        for name, table in tables.items()
    }


@pytest.mark.parametrize("act", list(ACTS))
async def test_a_transition_that_crashes_at_any_write_leaves_no_trace(act: str, monkeypatch: pytest.MonkeyPatch):
    def crash_at(number: int) -> None:
        writes = iter(range(1, 10_000))
        for name in ("put", "drop", "_assign"):
            write = getattr(plain, name)

            def crashing(self: Transaction, *args: Any, write: Any = write) -> None:
                if next(writes) == number:
                    raise Crash
                write(self, *args)

            monkeypatch.setattr(Transaction, name, crashing)

    plain = type("Plain", (), {name: getattr(Transaction, name) for name in ("put", "drop", "_assign")})
    scene, store = await open_scene()
    turns = await furnish(scene)
    await scene.create("due")
    before, due = whole(store.database), await store.views.next_wake(["flow@1"])
    for number in range(1, 200):
        crash_at(number)
        try:
            await ACTS[act](scene, turns)
        except Crash:
            assert whole(store.database) == before
            assert await store.views.next_wake(["flow@1"]) == due
        else:
            break
    else:
        pytest.fail("the act never came to its end")
    assert number > 2
    assert whole(store.database) != before
    assert await store.views.orphans() == []


async def test_a_run_is_still_found_by_its_definition_after_a_failed_claim(monkeypatch: pytest.MonkeyPatch):
    scene, store = await open_scene()
    await scene.create("r1")
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr("stepwell.stores.memory.runs.read_inbox", crash)
        await scene.claim()

    assert (await scene.claim_only("r1")).fence.epoch == 1
    assert await store.views.find(RunId("r1")) is not None


def crash(*_: object) -> None:
    raise Crash
