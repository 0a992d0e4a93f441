"""A durable agent, as in the samples of Restate, DBOS and Temporal: a model calls tools until it has an answer.

A plain `while` loop is enough: steps of the same name are numbered. The tools of one turn run side by side, and a tool
is any function: here one is a child workflow, and one waits for a person.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from stepwell import Context, Engine, Retry, step, workflow


@dataclass(frozen=True)
class Call:
    tool: str
    argument: str


@dataclass(frozen=True)
class Turn:
    calls: list[Call] = field(default_factory=list)
    answer: str = ""


@step(retry=Retry(max_attempts=5), timeout="2m")
async def ask_model(messages: list[str]) -> Turn:
    """A fake model with a plan; a real one is a call over the network."""
    match len(messages):
        case 1:
            return Turn([Call("weather", "Oslo"), Call("research", "hotels in Oslo")])
        case 3:
            return Turn([Call("book", "the Grand")])
        case _:
            return Turn(answer=f"{messages[-1]}, and {messages[1]}")


async def weather(city: str) -> str:
    return f"it is sunny in {city}"


async def search(topic: str, page: int) -> str:
    return f"{topic}, page {page}"


@workflow
async def research(ctx: Context, topic: str) -> str:
    pages = [await ctx.step(search, topic, page) for page in (1, 2)]
    return f"{len(pages)} pages about {topic}"


async def book(hotel: str) -> str:
    print(f"booking {hotel}")
    return f"I booked {hotel}"


async def use(ctx: Context, call: Call) -> str:
    match call.tool:
        case "weather":
            return await ctx.step(weather, call.argument)
        case "research":
            return await ctx.child(research, call.argument)
        case "book":
            approval = await ctx.receive("approve", timeout="7d", default=None)
            return await ctx.step(book, call.argument) if approval else "nobody has approved it"
        case other:
            return f"there is no tool {other}"


@workflow
async def agent(ctx: Context, question: str) -> str:
    messages = [question]
    while True:
        turn = await ctx.step(ask_model, messages)
        if turn.answer:
            return turn.answer
        messages += await ctx.map("tools", use, turn.calls)


async def main() -> None:
    async with Engine("memory://", workflows=[agent, research]) as engine:
        run = await engine.start(agent, "Where can I sleep in Oslo?", key="trip")
        await engine.signal("trip", "approve")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
