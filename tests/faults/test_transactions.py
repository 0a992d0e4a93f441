"""A worker that lost its run writes none of the author's rows; and a store that lets it is noticed."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

import pytest

from sim.sabotage.transactions import rows_before_the_fence
from stepwell.conformance.scene import Scene
from stepwell.conformance.transactions import Insert
from stepwell.environment import Environment, system_environment
from stepwell.model.commits import Release, Verdict
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock


@pytest.mark.parametrize("is_sabotaged", [False, True])
async def test_rows_of_a_worker_that_lost_its_run(is_sabotaged: bool) -> None:
    system, clock = system_environment(), ManualClock()
    store = SqliteStore(Environment(clock, system.ids, system.random, system.executor), ":memory:")
    await store.open()
    await store.transactions.run(lambda tx: tx.execute("create table coins (n integer)"))
    scene = Scene(store, clock)
    await scene.register()
    turn = await scene.begin("r1")
    await turn.commit(names=("a",), move=Release())
    await scene.claim_only("r1")
    work = Insert(turn.next(), 7)

    with ExitStack() as stack:
        for target, attribute, replacement in rows_before_the_fence() if is_sabotaged else ():
            stack.enter_context(patch.object(target, attribute, replacement))
        performed = await store.transactions.perform(work.commit, work, is_blocking=False)

    assert performed.applied is not None
    assert performed.applied.verdict is Verdict.FENCED
    rows = await store.transactions.run(lambda tx: tx.execute("select n from coins"))
    assert rows == ([(7,)] if is_sabotaged else [])
    await store.close()
