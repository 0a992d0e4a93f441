"""stepwell itself, through its public names, with the settings that everybody gets."""

from __future__ import annotations

from typing import Any

from bench.peers.drivers.notes import NOTES
from bench.peers.drivers.workloads import main
from stepwell import Context, Engine, Start, WorkerSettings, Workflow, step, workflow


@step
async def tick(number: int) -> int:
    """The smallest step there is."""
    return number + 1


@step
async def note(run: str, number: int) -> int:
    """A step that can be counted."""
    return NOTES.step(run, number)


numbered, noting = tick, note


@workflow
async def sequence(ctx: Context, steps: int) -> int:
    """Trivial steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(numbered, number)
    return number


@workflow
async def noted(ctx: Context, steps: int) -> int:
    """As `sequence`, and each is noted."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(noting, ctx.run_id, number)
    return number


@workflow
async def waiting(ctx: Context, _: int) -> None:
    """Waits for a signal, then one step."""
    NOTES.reaches(ctx.run_id)
    await ctx.receive("go")
    await ctx.step(tick, 0)


@workflow
async def sleeping(ctx: Context, seconds: int) -> None:
    """Sleeps."""
    NOTES.sleeps(ctx.run_id)
    await ctx.sleep("nap", seconds)
    NOTES.wakes(ctx.run_id)


@workflow
async def long(ctx: Context, steps: int) -> int:
    """As `sequence`, and then it waits for a signal."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(numbered, number)
    NOTES.reaches(ctx.run_id)
    await ctx.receive("go")
    return number


WORKFLOWS: dict[str, Workflow[Any, Any]] = {one.name: one for one in (sequence, noted, waiting, sleeping, long)}


class Stepwell:
    """An engine with a worker."""

    waits_at_once = 1 << 20

    async def open(self, order: dict[str, Any]) -> None:
        self._engine = Engine(
            order["url"],
            workflows=list(WORKFLOWS.values()),
            worker=True,
            settings=WorkerSettings(**order.get("settings", {})),
        )
        await self._engine.__aenter__()

    async def close(self) -> None:
        await self._engine.__aexit__(None, None, None)

    async def start(self, kind: str, run: str, argument: int) -> None:
        await self._engine.start(WORKFLOWS[kind], argument, run_id=run)

    async def run(self, kind: str, run: str, argument: int) -> None:
        await self.start(kind, run, argument)
        await self.result(run)

    async def start_many(self, kind: str, runs: list[str], argument: int) -> None:
        """One call for all."""
        await self._engine.runs.start_many(WORKFLOWS[kind], [Start(argument, run_id=run) for run in runs])

    async def result(self, run: str) -> None:
        await self._engine.result(run)

    async def signal(self, run: str) -> None:
        await self._engine.signal(run, "go")


if __name__ == "__main__":
    main(Stepwell())
