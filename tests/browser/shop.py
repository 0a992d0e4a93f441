"""Workflows that leave runs in every status, for the pages to show."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from stepwell import App, Context, Fatal, Retry, Signal, Trigger, Workflow, step, workflow
from stepwell.sinks import EmittedEvent, handler

NAME_POISON = "<img src=x onerror=alert(1)>"  # a name has no slash
POISON = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@dataclass(frozen=True)
class Order:
    customer: str
    amount: int


class CardDeclined(Exception):
    """The bank declined the card."""


async def release(order: Order, reservation: str) -> None:
    if order.customer == "stuck":
        raise Fatal("the stock API answered 503")


@step(compensate=release)
async def reserve_stock(order: Order) -> str:
    await asyncio.sleep(0.01)
    return f"reservation for {order.customer}"


async def void(order: Order, authorisation: str) -> None:
    """Undo `authorise`."""


@step(compensate=void)
async def authorise(order: Order) -> str:
    return f"authorisation of {order.amount}"


@step(retry=Retry(max_attempts=3, initial="20ms", max_delay="30ms"))
async def charge_card(order: Order) -> str:
    if order.amount > 100:
        raise CardDeclined(f"insufficient funds for {order.amount}")
    return f"{order.amount} EUR"


@step
async def ship(order: Order) -> str:
    return f"parcel for {order.customer}"


async def pay(ctx: Context, order: Order) -> str:
    await ctx.step(authorise, order)
    return await ctx.step(charge_card, order)


@workflow
async def order_fulfilment(ctx: Context, order: Order) -> str:
    """Take an order from payment to parcel."""
    await ctx.step(reserve_stock, order)
    await ctx.join("payment", {"card": lambda branch: pay(branch, order)})
    return await ctx.step(ship, order)


@workflow(signals=[Signal[dict[str, Any]]("approve"), "note"])
async def approval(ctx: Context, order: Order) -> str:
    """Wait for a decision about an order."""
    await ctx.step(reserve_stock, order)
    decision = await ctx.receive("approve", timeout="3d", name="decision")
    return f"approved: {decision.payload}"


@step(retry=Retry(max_attempts=5, initial="12h", max_delay="24h"))
async def push() -> None:
    raise ConnectionError("HTTP 429 Too Many Requests from api.crm.example")


@workflow
async def sync_contacts(ctx: Context) -> None:
    await ctx.step(push)


@workflow
async def reminder(ctx: Context) -> None:
    await ctx.sleep("until the reminder", "2d")


@step
async def thumbnail(number: int) -> int:
    if number == 23:
        raise Fatal("the picture is broken")
    return number * number


@workflow
async def make_thumbnails(ctx: Context, count: int) -> int:
    """Many items; one of them fails."""
    done = 0

    async def one(branch: Context, number: int) -> int:
        tried = await branch.try_step(thumbnail, number)
        return number if tried.ok else -1

    for result in await ctx.map("pictures", one, range(count)):
        done += result >= 0
    return done


@workflow
async def ledger(ctx: Context, name: str) -> str:
    await ctx.receive("closed", timeout="30d")
    return name


@workflow
async def close_books(ctx: Context) -> str:
    return await ctx.child(ledger, "de-2026-10", name="ledger")


@workflow
async def poll_orders(ctx: Context, round: int) -> None:
    if round < 1:
        await ctx.continue_as_new(round + 1)


@step
async def forever() -> None:
    await asyncio.Event().wait()


@workflow
async def long_import(ctx: Context) -> None:
    await ctx.step(forever)


@workflow
async def hostile(ctx: Context, text: str) -> str:
    async def fail() -> str:
        raise Fatal(text)

    return await ctx.step("read", fail)


@dataclass(frozen=True)
class Decision:
    approved: bool
    limit: float | None = None
    reason: str = ""


@step
async def read_file(name: str) -> str:
    return f"text of {name}"


DECIDE = Signal[Decision]("decide")


@workflow(signals=[DECIDE, "note"])
async def review(ctx: Context, name: str) -> str:
    """Publishes how far it is, and waits for a decision with a type."""
    words = ctx.stream("words")
    ctx.publish_state({"stage": "reading", "file": name})
    await words.append("begun")
    await ctx.step(reserve_stock, Order(name, 1))
    await ctx.step(read_file, name)
    ctx.publish_state({"stage": "waiting"})
    await words.append({"read": name})
    decision = await ctx.receive(DECIDE, timeout="3d", name="decision")
    await words.append("decided")
    return f"{decision.payload.approved}: {decision.payload.reason}"


@step
async def read_row(number: int) -> int:
    if number == 7_000:
        raise Fatal("the row is empty")
    return number


@workflow
async def import_rows(ctx: Context, count: int) -> int:
    """So many rows that a page can show only some of them."""

    async def one(branch: Context, number: int) -> bool:
        return (await branch.try_step(read_row, number)).ok

    return sum(await ctx.map("rows", one, range(count)))


@workflow
async def announce(ctx: Context, order: Order) -> str:
    """Tell the outside what happened to an order."""
    await ctx.emit("order.placed", {"customer": order.customer, "amount": order.amount})
    return "told"


@workflow
async def pack(ctx: Context, parcel: dict[str, Any]) -> str:
    """Started by an event."""
    return f"packed {parcel['order']}"


@workflow
async def courier(ctx: Context, order: str) -> str:
    """Wait for an event."""
    event = await ctx.topic("shipment.packed", where={"order": order}, timeout="30d")
    return str(event)


async def post(event: EmittedEvent) -> None:
    raise Fatal(f"the shop answered 503: {POISON}")


async def count(event: EmittedEvent) -> None:
    raise ConnectionError("the warehouse does not answer")


SINKS = [
    handler(post, name="shop", events="order.*"),
    handler(count, name="warehouse", events="order.*", retry=Retry(max_attempts=50, initial="12h", max_delay="24h")),
]
TRIGGERS = [Trigger("order.packed", start=pack, key="pack-{order}", name="pack orders")]

WORKFLOWS: list[Workflow[Any, Any]] = [
    order_fulfilment,
    approval,
    sync_contacts,
    reminder,
    make_thumbnails,
    ledger,
    close_books,
    poll_orders,
    long_import,
    hostile,
    review,
    import_rows,
    announce,
    pack,
    courier,
]
app = App(workflows=WORKFLOWS, sinks=SINKS, triggers=TRIGGERS)
