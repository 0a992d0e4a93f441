"""Workflows that are over soon, but not before whoever started them may be gone."""

from __future__ import annotations

import asyncio

from stepwell import Context, SyncContext, workflow


async def wait_a_little(number: int) -> int:
    await asyncio.sleep(0.005)
    return number


def same(number: int) -> int:
    return number


@workflow
async def brief(ctx: Context, number: int) -> int:
    first = await ctx.step("first", wait_a_little, number)
    await ctx.sleep("nap", "30ms")
    return await ctx.step("second", same, first)


@workflow
def plainly_brief(ctx: SyncContext, number: int) -> int:
    first = ctx.step("first", same, number)
    ctx.sleep("nap", "30ms")
    return ctx.step("second", same, first)


FLOWS = (brief, plainly_brief)
