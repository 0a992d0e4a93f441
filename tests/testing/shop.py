"""Workflows that the tests of the kit are about."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell import Context, Event, Fatal, Retry, Signal, StepContext, SyncContext, step, workflow


@dataclass(frozen=True)
class Order:
    customer: str
    amount: int = 42


class CardDeclined(Exception):
    """What the bank says."""


class Shipped(Event):
    customer: str


approve = Signal[str]("approve")


async def release(order: Order, reservation: str) -> None:
    """Undo a reservation."""


@step(compensate=release)
async def reserve(order: Order) -> str:
    return f"reservation of {order.customer}"


async def refund(order: Order) -> None:
    """Undo a charge."""


@step(retry=Retry(max_attempts=3, initial="10s"), timeout="30s", compensate=refund)
async def charge(order: Order) -> str:
    return f"{order.amount} EUR"


@step
def ship(order: Order) -> str:
    if order.customer == "nobody":
        raise Fatal("there is no such address")
    return f"parcel for {order.customer}"


@step
async def remind(order: Order) -> None:
    """Write to the customer."""


async def pay(ctx: Context, order: Order) -> str:
    return await ctx.step(charge, order)


@workflow
async def fulfil(ctx: Context, order: Order) -> str:
    """Reserve, charge, wait for an approval with a reminder after three days, ship."""
    await ctx.step(reserve, order)
    await ctx.join("payment", {"card": lambda branch: pay(branch, order)})
    message = await ctx.receive(approve, timeout="3d", default=None, name="first")
    if message is None:
        await ctx.step(remind, order)
        message = await ctx.receive(approve, timeout="4d", name="second")
    await ctx.emit("approved", {"by": message.payload})
    return await ctx.step(ship, order)


@workflow
async def quick(ctx: Context, order: Order) -> str:
    await ctx.step(reserve, order)
    await ctx.step(charge, order)
    return await ctx.step(ship, order)


@workflow
def plain(ctx: SyncContext, order: Order) -> str:
    ctx.step(reserve, order)
    ctx.sleep("pause", "1h")
    return ctx.step(ship, order)


@workflow
async def parent(ctx: Context, order: Order) -> str:
    parcel = await ctx.child(quick, order)
    return f"child: {parcel}"


@workflow
async def follow(ctx: Context, customer: str) -> str:
    event = await ctx.topic(Shipped, where={"customer": customer})
    return f"{event.customer} has it"


@workflow
async def rounds(ctx: Context, left: int) -> str:
    await ctx.step("count", remind, Order("ann", left))
    if left > 0:
        ctx.continue_as_new(left - 1)
    return "done"


@step
async def import_rows(ctx: StepContext, rows: int) -> int:
    done = ctx.state or 0
    while done < rows:
        done += 1
        await ctx.checkpoint(done)
        ctx.progress(done, rows, unit="rows")
        if ctx.should_yield():
            ctx.yield_(done)
    ctx.emit("imported", {"rows": done})
    return done
