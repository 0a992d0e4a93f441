"""Who waits for the result of a run that continues as new hears of other runs while it looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from sim.cases.case import Tried
from sim.cases.stage import Stage
from stepwell import Context, workflow
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind


@workflow
async def chain(ctx: Context, links: int) -> int:
    """Continues as new until no link is left."""
    await ctx.receive("go")
    if links:
        ctx.continue_as_new(links - 1)
    return links


async def _follow(stage: Stage, kind: HintKind) -> str:
    told: list[RunId] = []

    def slowly(store: Store) -> Store:
        """A store that takes a while to tell about a run that has continued, and hints at all runs meanwhile."""
        find: Callable[[str], Any] = store.views.find

        async def find_slowly(target: str) -> Run | None:
            run: Run | None = await find(target)
            if run is not None and run.status is RunStatus.CONTINUED:
                store.wakeups.notify(Hint(kind, tuple(told)))  # type: ignore[attr-defined]
            await asyncio.sleep(0.02)
            return run

        store.views.find = find_slowly  # type: ignore[method-assign]
        return store

    async with stage.engine("worker", [chain], through=slowly) as engine:
        handles = [await engine.start(chain, links) for links in (1, 0)]
        told += [handle.run_id for handle in handles]
        results = [asyncio.ensure_future(handle.result()) for handle in handles]
        await asyncio.sleep(0.1)
        for handle in handles:
            await handle.signal("go")
            await asyncio.sleep(0.1)
        view = await engine.status(handles[0].run_id)
        if view.successor is not None:
            await engine.signal(view.successor, "go")
        found = await asyncio.gather(*results, return_exceptions=True)
    return "" if found == [0, 0] else f"results: {found}"


def following() -> Iterator[Tried]:
    """The result of a chain is found, whatever is heard meanwhile."""
    for kind in HintKind:
        with Stage() as stage:
            yield Tried(f"a hint {kind.name} about several runs", "live", stage.play(_follow(stage, kind)))


PLAYS: dict[str, Any] = {"the result of a chain": following}
