"""One database with a run in every state that an operator meets, made in virtual time: the same at every run."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwell import Context, Fatal, Retry, step, workflow
from stepwell.clock import Instant
from stepwell.testing.base import KitOptions
from stepwell.testing.kits import Kit
from stepwell.testing.world import Options


@dataclass(frozen=True)
class Order:
    customer: str
    amount: int


class Code:
    """What a deployment changes."""

    is_new = False
    card_works = False


async def reserve(order: Order) -> str:
    return f"shelf-{order.amount}"


async def release(order: Order) -> None:
    return None


async def invoice(order: Order) -> str:
    return f"invoice for {order.customer}"


async def void_invoice(order: Order) -> None:
    raise Fatal("the ledger of October is closed")


async def charge(order: Order) -> str:
    if Code.card_works:
        return "receipt-1"
    raise ValueError(f"card of {order.customer} was declined: the bank answered 402 insufficient funds")


async def ship(order: Order) -> str:
    raise ConnectionError("parcel service answered 503")


async def price(item: int) -> int:
    if item == 2:
        raise Fatal("item 2 has no price")
    return item * 10


ONCE = Retry(max_attempts=1)


@workflow
async def label(ctx: Context, order: Order) -> str:
    return await ctx.step("print", invoice, order)


@workflow
async def checkout(ctx: Context, order: Order) -> dict[str, Any]:
    shelf = await ctx.step("reserve", reserve, order)
    answer = await ctx.receive("approve", "reject", timeout="3d")
    printed = await ctx.child(label, order)
    return {"shelf": shelf, "answer": answer.name, "label": printed}


@workflow
async def payment(ctx: Context, order: Order) -> str:
    await ctx.step("reserve", reserve, order)
    return await ctx.step(step(charge, name="charge", retry=Retry(max_attempts=2, initial="1s", jitter=0)), order)


@workflow
async def booking(ctx: Context, order: Order) -> str:
    await ctx.step(step(reserve, name="reserve", compensate=release), order)
    return await ctx.step(step(charge, name="charge", retry=ONCE), order)


@workflow
async def billing(ctx: Context, order: Order) -> str:
    await ctx.step(step(reserve, name="reserve", compensate=release), order)
    await ctx.step(step(invoice, name="invoice", compensate=void_invoice), order)
    await ctx.step(step(reserve, name="pack", compensate=release), order)
    return await ctx.step(step(charge, name="charge", retry=ONCE), order)


@workflow
async def cooling_off(ctx: Context, order: Order) -> None:
    await ctx.step("reserve", reserve, order)
    await ctx.sleep("cooling-off", "14d")


@workflow
async def delivery(ctx: Context, order: Order) -> str:
    await ctx.step(step(reserve, name="reserve", compensate=release), order)
    retry = Retry(max_attempts=50, initial="1h", factor=1, jitter=0)
    return await ctx.step(step(ship, name="ship", retry=retry), order)


@workflow
async def loyalty(ctx: Context, order: Order) -> None:
    await ctx.step("award" if Code.is_new else "points", reserve, order)
    await ctx.receive("redeem")


async def price_one(ctx: Context, item: int) -> int:
    return await ctx.step("price", price, item)


@workflow
async def pricing(ctx: Context, items: list[int]) -> list[int]:
    return await ctx.map("prices", price_one, items)


@workflow
async def parcel(ctx: Context, order: Order) -> str:
    event = await ctx.receive("picked-up")
    return str(event.payload)


@workflow
async def shipment(ctx: Context, order: Order) -> str:
    return await ctx.child(parcel, order, key=f"parcel-{order.amount}")


KEYS = {
    "completed": "order-41",
    "failed": "order-42",
    "compensated": "order-43",
    "rollback incomplete": "order-44",
    "signal": "order-45",
    "timer": "order-46",
    "retry": "order-47",
    "paused by a person": "order-48",
    "paused by changed code": "order-49",
    "child": "order-50",
    "fan-out": "order-51",
    "cancelled": "order-52",
    "retried": "order-53",
    "no worker": "order-54",
}


async def _tell(kit: Kit) -> None:
    engine = kit.engine

    async def begin(flow: Any, key: str, given: Any = None, **options: Any) -> None:
        order = Order("ann", 42) if given is None else given
        await kit.start(flow, order, key=key, **options)
        await kit.settle()
        await kit.clock.advance("7s")

    await begin(checkout, "order-41", tags={"team": "shop"})
    await kit.wait(engine.signal("order-41", "approve", {"by": "bea", "note": "fine"}))
    await kit.settle()
    await begin(payment, "order-42")
    await begin(booking, "order-43")
    await begin(billing, "order-44")
    await begin(checkout, "order-45", Order("bea", 900))
    await begin(cooling_off, "order-46")
    await begin(delivery, "order-47")
    await begin(checkout, "order-48", Order("cem", 100))
    await kit.wait(engine.holds.pause("order-48", by="dana", reason="the customer disputes the price"))
    await begin(loyalty, "order-49")
    await begin(shipment, "order-50")
    await begin(pricing, "order-51", [1, 2, 3])
    await begin(checkout, "order-52", Order("eve", 100))
    await kit.wait(engine.cancel("order-52", reason="ordered twice", by="dana"))
    await begin(payment, "order-53", Order("fay", 7))
    Code.card_works = True
    await kit.wait(engine.repairs.redrive("order-53", by="dana", reason="the bank is back"))
    await kit.settle()
    Code.card_works = False
    await kit.wait(engine.bulks.start("pause", "key:order-999", by="dana"))
    await kit.settle()
    await kit.clock.advance("7s")
    await kit.wait(engine.runs.start_by_name("report", 3, {"month": "2025-12"}, key="order-54"))
    Code.is_new = True
    await kit.wait(engine.signal("order-49", "unexpected"))
    await kit.wait(engine.signal("order-49", "redeem"))
    await kit.settle()


def write_story(folder: Path) -> tuple[Path, Instant]:
    """Make the database in a folder; its file, and the time in it. A live worker serves all workflows but `report`."""
    Code.is_new = Code.card_works = False
    own = folder / "kit"
    own.mkdir()
    options = KitOptions(store="sqlite", folder=own, nondeterminism="off", world=Options())

    async def make() -> Instant:
        kit = Kit(options, name="the story")
        try:
            await _tell(kit)
            for part in own.iterdir():  # before the worker leaves
                shutil.copy(part, folder / part.name.replace("stepwell-test", "shop"))
            return kit.world.store.now()
        finally:
            kit.close(is_checked=False)

    now = asyncio.run(make())
    return folder / "shop.db", now
