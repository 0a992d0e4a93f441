"""A transition that fails at any of its statements changes nothing and can be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell.conformance.scene import FIRST, Scene, child_of, new_run, new_signal, place, step, wait_child, wait_signal
from stepwell.environment import Environment
from stepwell.model.commits import End, Park
from stepwell.model.states import RunStatus
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.runners import InlineRunner
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock


class Crash(BaseException):
    pass


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


def whole(database: SqliteDatabase) -> dict[str, list[Any]]:
    """Every row of every table."""
    tables: list[Any] = database.connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    return {name: database.connection.execute(f'select * from "{name}"').fetchall() for (name,) in tables}


@pytest.mark.parametrize("act", list(ACTS))
async def test_a_transition_that_crashes_at_any_statement_changes_nothing(
    act: str, environment: Environment, clock: ManualClock
) -> None:
    database = SqliteDatabase(":memory:")
    store = SqliteStore(environment, ":memory:", runner=InlineRunner(database))
    await store.open()
    scene = Scene(store, clock)
    await scene.register()
    turns = await furnish(scene)
    await scene.create("due")
    before = whole(database)
    for number in range(2, 300):  # the first one begins the transaction
        left = [number]

        def crash(_: Any, sql: str, __: Any, left: list[int] = left) -> bool:
            left[0] -= 1
            if left[0] == 0 and not sql.startswith("commit"):
                raise Crash
            return True

        database.connection.exec_trace = crash
        try:
            await ACTS[act](scene, turns)
        except Crash:
            database.connection.exec_trace = None
            assert whole(database) == before
        else:
            break
    else:
        pytest.fail("the act never came to its end")
    database.connection.exec_trace = None
    assert number > 3
    assert whole(database) != before
    assert await store.views.orphans() == []
    await store.close()


async def test_a_missing_worker_row_counts_as_dead(environment: Environment, clock: ManualClock) -> None:
    database = SqliteDatabase(":memory:")
    store = SqliteStore(environment, ":memory:", runner=InlineRunner(database))
    await store.open()
    scene = Scene(store, clock)
    await scene.register()
    await scene.begin("r1")
    database.connection.execute("delete from stepwell_workers")

    assert await store.views.has_stranded()
    assert await scene.rescue() == ["r1"]
    await store.close()
