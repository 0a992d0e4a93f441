# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of time in workflow code, and of moving it. `make check` reads this file."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import assert_type

from stepwell import BusinessHours, Context, Handle, Slept, SyncContext, SyncHandle, workflow
from stepwell.views import Rescheduled

office = BusinessHours({"mon-fri": "09:00-17:00"}, zone="Europe/Berlin", holidays=[date(2026, 12, 25)])
BusinessHours({"mon": "09:00-17:00"})  # type: ignore[call-arg]


async def price() -> int:
    return 1


@workflow
async def waits(ctx: Context) -> None:
    assert_type(await ctx.sleep_business("review", 8, office), Slept)
    assert_type(await ctx.sleep_business("review", timedelta(hours=1), office), Slept)
    assert_type(await asyncio.wait_for(ctx.step(price), 60), int)
    ctx.sleep_business("review", 8, "office")  # type: ignore[arg-type]


@workflow
def plain(ctx: SyncContext) -> None:
    assert_type(ctx.sleep_business("review", "8h", office), Slept)


async def steer(run: Handle[None], other: SyncHandle[None]) -> None:
    assert_type(await run.wake(), bool)
    assert_type(await run.reschedule("nap", delay="1h"), Rescheduled)
    assert_type(other.reschedule(delay="1h"), Rescheduled)
    assert_type(other.wake(), bool)
