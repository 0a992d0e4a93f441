"""A counter, as in Restate's virtual objects: state under a key, changed by one request at a time.

The object is a run that has the key. It begins with the first request, and continues as new after a hundred. Reading
needs no worker.
"""

from __future__ import annotations

import asyncio

from stepwell import Context, Engine, Request, workflow

add = Request[int, int]("add")
reset = Request[None, int]("reset")


@workflow
async def counter(ctx: Context, count: int) -> None:
    ctx.state["count"] = count
    for _ in range(100):
        message = await ctx.receive(add, reset)
        count = 0 if message.payload is None else count + message.payload
        ctx.state["count"] = count
        await message.reply(count)
    ctx.continue_as_new(count)


async def main() -> None:
    async with Engine("memory://", workflows=[counter]) as engine:
        for number in (1, 2, 3):
            print(await engine.ask_or_start(counter, 0, add, number, key="visits"))
        print(await engine.state("visits", "count"))
        print(await engine.ask("visits", reset, None))


if __name__ == "__main__":
    asyncio.run(main())
