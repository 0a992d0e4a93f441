"""Workflows that the command line is tried on."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell import Context, Fatal, workflow


@dataclass(frozen=True)
class Order:
    customer: str
    amount: int


async def reserve(order: Order) -> str:
    return f"reserved for {order.customer}"


async def release(order: Order) -> None:
    return None


async def release_badly(order: Order) -> None:
    raise Fatal("the stock API is down")


async def refuse(order: Order) -> str:
    raise Fatal("card \x1b[31mdeclined\x1b[0m")


@workflow
async def checkout(ctx: Context, order: Order) -> dict[str, int | str]:
    text = await ctx.step("reserve", reserve, order)
    return {"text": text, "amount": order.amount}


@workflow
async def approval(ctx: Context) -> str:
    message = await ctx.receive("approve", "reject", timeout="1d")
    return f"{message.name}: {message.payload}"


@workflow
async def declined(ctx: Context, order: Order) -> str:
    return await ctx.step("charge", refuse, order)


@workflow
async def undone(ctx: Context, order: Order) -> str:
    from stepwell import step

    await ctx.step(step(reserve, name="reserve", compensate=release), order)
    return await ctx.step("charge", refuse, order)


@workflow
async def stuck(ctx: Context, order: Order) -> str:
    from stepwell import step

    await ctx.step(step(reserve, name="reserve", compensate=release_badly), order)
    return await ctx.step("charge", refuse, order)


@workflow(names="unique")
async def confused(ctx: Context, order: Order) -> str:
    await ctx.step("reserve", reserve, order)
    return await ctx.step("reserve", reserve, order)
