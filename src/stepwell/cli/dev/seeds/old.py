"""What the shop's code was earlier: versions that runs still need, and a step that had another name."""

from __future__ import annotations

from typing import Any

from stepwell import Context, Workflow, workflow
from stepwell.cli.dev.seeds.shop import APPROVE, Order, charge_card, order_fulfilment, read_prices, reserve_stock

# The code of version 8 is that of version 7 with another number: nothing that is shown differs but the number.
order_fulfilment_7: Workflow[Any, Any] = workflow(name="order_fulfilment", version=7, signals=[APPROVE])(
    order_fulfilment.fn
)


@workflow(name="order_fulfilment", version=6, signals=[APPROVE])
async def order_fulfilment_6(ctx: Context, order: Order) -> str:
    """Take an order, as before there were carriers to choose from."""
    reservation = await ctx.step(reserve_stock, order)
    return await ctx.step(charge_card, order, reservation)


@workflow(name="price_update")
async def price_update_before(ctx: Context, region: str) -> int:
    """The step had another name."""
    count = await ctx.step("load prices", read_prices, region)
    await ctx.receive("release")
    return count


@workflow(name="supplier_onboarding", version=1)
async def supplier_onboarding_1(ctx: Context, supplier: str) -> str:
    """No worker serves this version any more."""
    await ctx.sleep("first week", "7d")
    return supplier


@workflow
async def stock_take(ctx: Context, shelf: str) -> str:
    """Count what is on a shelf. The newer code no longer has it, but a schedule still starts it."""
    return await ctx.step("count", count_shelf, shelf)


async def count_shelf(shelf: str) -> str:
    """Count a shelf."""
    return f"{len(shelf)} on {shelf}"
