"""Chains, groups and chords, as in Celery's canvas: one task after the other, many at once, and one for all results.

A canvas is ordinary code here: a chain is two lines, a group is a map, and what follows a chord is the next line.
"""

from __future__ import annotations

import asyncio

from stepwell import Context, Engine, JoinError, Retry, step, workflow


@step(retry=Retry(max_attempts=3, initial="1s"))
async def add(x: int, y: int) -> int:
    return x + y


@step(retry=Retry(max_attempts=3, initial="1s"))
async def total(numbers: list[int]) -> int:
    return sum(numbers)


async def report(problem: str) -> str:
    return f"failed: {problem}"


@workflow
async def chain(ctx: Context, x: int) -> int:
    """`(add.s(x, 4) | add.s(8) | add.s(16))()`."""
    number = await ctx.step(add, x, 4)
    number = await ctx.step(add, number, 8)
    return await ctx.step(add, number, 16)


@workflow
async def chord(ctx: Context, count: int) -> int | str:
    """`chord(add.s(i, i) for i in range(count))(total.s())`, with `link_error`."""
    try:
        doubled = await ctx.map("doubled", lambda ctx, i: ctx.step(add, i, i), range(count))
    except JoinError as error:
        return await ctx.step(report, error.title)
    return await ctx.step(total, doubled)


@workflow
async def chain_of_groups(ctx: Context) -> int:
    """A group of chains in a chain: chains are children, with a history each."""
    first = await ctx.children(chain, [1, 2, 3])
    return await ctx.child(chain, await ctx.step(total, first))


async def main() -> None:
    async with Engine("memory://", workflows=[chain, chord, chain_of_groups]) as engine:
        print(await (await engine.start(chain, 4)).result())
        print(await (await engine.start(chord, 10)).result())
        print(await (await engine.start(chain_of_groups)).result())


if __name__ == "__main__":
    asyncio.run(main())
