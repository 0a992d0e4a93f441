"""Branches, items and iterations that write to variables outside, answer questions, or are cancelled; sets of tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from sim.cases.case import Case, did
from stepwell import Break, Context, Continue, step, workflow
from stepwell.testing import scripts
from stepwell.testing.sync import SyncKit, SyncRun


async def _same(number: int) -> int:
    return number


@workflow
async def collecting(ctx: Context) -> int:
    """Items and branches that write to a variable of the code around them."""
    seen: dict[str, int] = {}

    async def item(inner: Context, number: int) -> None:
        seen[f"item {number}"] = await inner.step("look", _same, number)

    async def branch(inner: Context) -> None:
        seen["branch"] = await inner.step("look", _same, 9)

    await ctx.map("items", item, range(3))
    await ctx.join("branches", {"one": branch})
    await ctx.receive("go")
    return len(seen)


@workflow
async def counting(ctx: Context) -> int:
    """Iterations that write to a variable of the code around them."""
    seen: list[int] = []

    async def body(inner: Context, number: int) -> Any:
        seen.append(await inner.step("look", _same, number))
        return Break(None) if number == 2 else Continue(number + 1)

    await ctx.loop("numbers", body, 0)
    await ctx.receive("go")
    return len(seen)


@workflow
async def racing(ctx: Context) -> int:
    """A race that writes to a variable of the code around it."""
    seen: list[int] = []

    async def branch(inner: Context) -> None:
        seen.append(await inner.step("look", _same, 1))

    await ctx.race("first", {"only": branch})
    await ctx.receive("go")
    return len(seen)


async def _handle(number: int) -> int:
    did(f"handled {number}")
    return number


@workflow
async def waiting_for_tasks(ctx: Context) -> list[int]:
    """`asyncio.wait` gives sets of tasks."""
    tasks = [asyncio.create_task(ctx.step(f"load{number}", _same, number)) for number in range(8)]
    finished, _ = await asyncio.wait(tasks)
    handled: list[int] = []
    for task in finished:
        handled.append(await ctx.step(_handle, task.result()))
        if len(handled) == 4:
            await ctx.receive("go")
    return sorted(handled)


@workflow
async def answering(ctx: Context) -> str:
    """A message that is received outside and answered in an iteration, and one that is answered in a branch."""

    async def ask(name: str) -> None:
        message = await ctx.receive(name)

        async def body(inner: Context, number: int) -> Any:
            await message.reply("yes")
            return Break(None)

        await ctx.loop(f"answer {name}", body, 0)

    await ask("question")
    message = await ctx.receive("another")

    async def branch(inner: Context) -> None:
        await message.reply("no")

    await ctx.join("answer", {"one": branch})
    end = await ctx.receive("end")
    return str(end.payload)


def _ask(name: str) -> Any:
    def act(kit: SyncKit, run: SyncRun[Any], /) -> None:
        did(f"{name}: {run.ask(name, timeout='5s')}")

    return act


async def _release(name: str, result: str) -> None:
    did(f"released {name}")


@step(compensate=_release)
async def _reserve(name: str) -> str:
    return name


async def _last_long() -> None:
    await asyncio.sleep(30)


@workflow
async def giving_up(ctx: Context) -> None:
    """A branch out of which the cancellation of a task comes."""

    async def branch(inner: Context) -> None:
        task = asyncio.create_task(inner.step(_last_long))
        await inner.sleep("a moment", "50ms")
        task.cancel()
        await task

    await ctx.step(_reserve, "a")
    await ctx.join("both", {"one": branch})


@workflow
async def giving_up_items(ctx: Context) -> None:
    """The same, out of an item of a map."""

    async def item(inner: Context, number: int) -> None:
        raise asyncio.CancelledError

    await ctx.step(_reserve, "b")
    await ctx.map("items", item, range(2))


CASES = {
    "branches that write outside": Case(collecting, output=4, script=(scripts.send("go"),)),
    "iterations that write outside": Case(counting, status="paused", is_swept=False),
    "a race that writes outside": Case(racing, status="paused", is_swept=False),
    "sets of tasks": Case(
        waiting_for_tasks,
        output=[*range(8)],
        done=frozenset(f"handled {number}" for number in range(8)),
        script=(scripts.send("go"),),
    ),
    "replies in branches": Case(
        answering,
        output="done",
        done=("question: yes", "another: no"),
        script=(_ask("question"), _ask("another"), scripts.send("end", "done")),
    ),
    "a branch that is cancelled": Case(giving_up, status="compensated", done=("released a",)),
    "items that are cancelled": Case(giving_up_items, status="compensated", done=("released b",)),
}
