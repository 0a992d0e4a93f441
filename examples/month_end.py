"""The books of two offices are closed on the last evening of the month, by the clocks of each.

You learn: several schedules of one workflow, each with its own input and zone; `L` is the last day of a month; a start
by hand for a month that cannot wait; an overlap that is refused.
"""

from __future__ import annotations

import asyncio

from stepwell import Context, Engine, cron, workflow

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


async def close_ledger(office: str) -> str:
    return f"the books of {office} are closed"


@workflow(
    schedule=[
        cron("0 22 L * *", tz=BERLIN, input="Berlin", name="month end Berlin", jitter="30s"),
        cron("0 22 L * *", tz=NEW_YORK, input="New York", name="month end New York"),
    ]
)
async def close_books(ctx: Context, office: str) -> str:
    await ctx.receive("approve", timeout="2d")
    return await ctx.step(close_ledger, office)


async def main() -> None:
    async with Engine("memory://", workflows=[close_books]) as engine:
        for schedule in reversed(await engine.schedules.list()):
            [tick] = await engine.schedules.next(schedule.name, 1)
            print(f"{schedule.name}: {schedule.when}; next at {tick.local_time[11:16]} by its own clocks")
        begun = await engine.schedules.trigger("month end Berlin", by="ann")
        assert begun.run_id is not None
        second = await engine.schedules.trigger("month end Berlin", by="bo")
        print(f"a second one is refused: {second.note}")
        await engine.signal(begun.run_id, "approve")
        print(await engine.result(begun.run_id))


if __name__ == "__main__":
    asyncio.run(main())
