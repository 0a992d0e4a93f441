"""A report for each night, and for the nights before there was a schedule.

You learn: a schedule in the code of its workflow, a time zone, what a run knows of its tick, and a backfill: it says
first what it would start, and a night whose report is there starts none.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from stepwell import Context, Engine, cron, workflow


@dataclass(frozen=True)
class Night:
    day: date
    since: datetime


async def count_orders(since: datetime, until: datetime) -> int:
    return round((until - since).total_seconds() / 3_600)


@workflow(
    schedule=cron(
        "0 2 * * *",
        tz="Europe/Berlin",
        input={"day": "{{fire_date}}", "since": "{{previous_fire_time}}"},
        name="nightly",
    )
)
async def report(ctx: Context, night: Night) -> str:
    assert ctx.schedule is not None
    orders = await ctx.step(count_orders, night.since, ctx.schedule.fire_time)
    return f"{night.day}: {orders} orders"


async def main() -> None:
    async with Engine("memory://", workflows=[report]) as engine:
        until = datetime.now(UTC)
        since = until - timedelta(days=3)
        planned = await engine.schedules.backfill("nightly", since, until, dry_run=True)
        print(f"{planned.new} nights have no report")
        filled = await engine.schedules.backfill("nightly", since, until, by="ann")
        for tick in filled.ticks:
            result = await engine.result(tick.run_id)
            print(result.partition(": ")[2])
        again = await engine.schedules.backfill("nightly", since, until)
        print(f"{again.new} nights have no report now")


if __name__ == "__main__":
    asyncio.run(main())
