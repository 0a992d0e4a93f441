"""A shopping cart, as in Temporal's e-commerce tutorial: change it, look at it, and remind whoever forgets it.

Changes and the checkout are requests, so the customer gets the new cart or the reason why not. Looking is the published
state: it needs no worker. A cart that nobody touches for a day gets one mail.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from stepwell import Context, Engine, Request, StepContext, WaitTimeout, workflow
from stepwell.errors import AskRefused

Items = dict[str, int]


@dataclass(frozen=True)
class Cart:
    customer: str
    patience: str = "1d"


@dataclass(frozen=True)
class Change:
    product: str
    count: int = 1


change = Request[Change, Items]("change")
checkout = Request[str, str]("checkout")


def changed(items: Items, by: Change) -> Items:
    counts = {**items, by.product: items.get(by.product, 0) + by.count}
    return {product: count for product, count in counts.items() if count > 0}


async def send_reminder(customer: str, items: Items) -> None:
    print(f"{customer}: your cart misses you, with {sum(items.values())} things in it")


async def place_order(ctx: StepContext, customer: str, items: Items, address: str) -> str:
    return f"{sum(items.values())} things to {address}"


@workflow
async def cart(ctx: Context, given: Cart) -> str:
    items: Items = {}
    patience: str | None = given.patience
    while True:
        ctx.state["items"] = items
        try:
            message = await ctx.receive(change, checkout, timeout=patience if items else None)
        except WaitTimeout:
            patience = None  # one mail is enough
            await ctx.step(send_reminder, given.customer, items)
            continue
        match message.payload:
            case Change() as wanted:
                items = changed(items, wanted)
                await message.reply(items)
            case _ if not items:
                await message.refuse("the cart is empty")
            case address:
                order = await ctx.step(place_order, given.customer, items, address)
                await message.reply(order)
                return order


async def main() -> None:
    async with Engine("memory://", workflows=[cart]) as engine:
        print(await engine.ask_or_start(cart, Cart("ann", "50ms"), change, Change("tea", 2), key="ann"))
        try:
            await engine.ask_or_start(cart, Cart("bob"), checkout, "1 Bob Street", key="bob")
        except AskRefused as refused:
            print(refused.title)
        await asyncio.sleep(0.3)
        print(await engine.ask("ann", change, Change("tea", -1)), await engine.state("ann", "items"))
        print(await engine.ask("ann", checkout, "1 Ann Street"))


if __name__ == "__main__":
    asyncio.run(main())
