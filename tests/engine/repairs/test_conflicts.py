"""Repairs of runs that change meanwhile, and repairs whose answer was lost."""

from __future__ import annotations

import pytest

from stepwell import Engine
from stepwell.errors import (
    RepairConflictError,
    StoreUnavailableError,
)
from stepwell.model.amendments import Amended, Amendment
from tests.engine.repairs.scene import (
    World,
    fails,
    three,
)


class Between:
    """What happens between an engine and its store when a repair is asked for."""

    def __init__(self, engine: Engine, *, stale: int = 0, lost: int = 0) -> None:
        self._engine, self._stale, self._lost = engine, stale, lost
        self.asked: list[Amendment] = []
        self._amend = engine._backend.store.runs.amend
        engine._backend.store.runs.amend = self.amend  # type: ignore[method-assign]

    async def amend(self, amendment: Amendment) -> Amended:
        self.asked.append(amendment)
        if self._stale > 0:
            self._stale -= 1
            return Amended.STALE
        answer = await self._amend(amendment)
        if self._lost > 0:
            self._lost -= 1
            raise StoreUnavailableError("the answer was lost")
        return answer


async def test_a_run_that_changed_meanwhile_is_planned_anew_a_few_times(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        between = Between(engine, stale=2)
        assert (await engine.repairs.rewind(run.run_id, "b")).is_applied
        assert len({one.amendment_id for one in between.asked}) == 3
        await fails(run)
        Between(engine, stale=99)
        with pytest.raises(RepairConflictError, match="SW410"):
            await engine.repairs.rewind(run.run_id, "b")
        assert (await run.status()).status == "failed"


async def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        between = Between(engine, lost=2)

        assert (await engine.repairs.skip(run.run_id, "b", "given")).is_applied

        assert len(between.asked) == 3
        assert len(set(between.asked)) == 1
        assert await run.result("60s") == ["a 1", "given", "c 1"]
        assert [act.verb for act in await engine.runs.list_acts(run.run_id)] == ["skip"]
