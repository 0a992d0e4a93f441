"""A program that uses an engine as users do, and prints what came of it as one line of JSON:
`python errands.py URL [--loop uvloop] [--debug] [--no-collector]`.

It needs nothing but the package, so that any interpreter can run it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import sys
from dataclasses import dataclass
from typing import Any

from stepwell import (
    Context,
    Engine,
    Retry,
    RunFailed,
    StepContext,
    SyncContext,
    SyncEngine,
    WorkerSettings,
    step,
    workflow,
)

# What every host must print, but for its own name.
EXPECTED = {
    "order": [["a", "b"], "A", 3, "paid", "after nap"],
    "plain": [1, 4, 9],
    "refused": "compensated",
    "undone": ["second", "first"],
    "blocking": [0, 10, 20],
    "optimised": False,
}
PATIENCE = "60s"


@dataclass(frozen=True, slots=True)
class Item:
    name: str


undone: list[str] = []


async def upper(item: Item) -> str:
    await asyncio.sleep(0)
    return item.name.upper()


@step(retry=Retry(max_attempts=5, initial="1ms"))
def third_time(info: StepContext) -> int:
    if info.attempt < 3:
        raise ConnectionError("not yet")
    return info.attempt


@workflow
async def part(ctx: Context, name: str) -> str:
    return await ctx.step("say", lambda: name)


@workflow
async def order(ctx: Context, item: Item) -> list[Any]:
    parts = list(await asyncio.gather(*(ctx.child(part, name, name=name) for name in "ab")))
    name = await ctx.step("upper", upper, item)
    attempts = await ctx.step(third_time)
    paid = (await ctx.receive("paid")).payload
    await ctx.sleep("nap", "20ms")
    return [parts, name, attempts, paid, "after nap"]


def square(number: int) -> int:
    return number * number


@workflow
def plain(ctx: SyncContext, count: int) -> list[int]:
    return [ctx.step(f"square-{number}", square, number) for number in range(1, count + 1)]


def undo(name: str, _: None) -> None:
    undone.append(name)


@step(compensate=undo)
def book(name: str) -> None:
    """Nothing but a name to be undone."""


@workflow
async def refused(ctx: Context) -> None:
    await ctx.step("first", book, "first")
    await ctx.step("second", book, "second")
    ctx.fail("sold out")


@step
def ten_times(number: int) -> int:
    return number * 10


@workflow
async def tens(ctx: Context, number: int) -> int:
    return await ctx.step(ten_times, number)


FLOWS = (part, order, plain, refused, tens)


async def asynchronous(url: str) -> dict[str, Any]:
    """The errands of an asynchronous engine; in yield mode, so that code is run again from its history."""
    async with Engine(url, workflows=FLOWS, settings=WorkerSettings(mode="yield")) as engine:
        first = await engine.start(order, Item("a"), key="order")
        second = await engine.start(plain, 3)
        third = await engine.start(refused)
        await engine.signal("order", "paid", "paid")
        try:
            await third.result(timeout=PATIENCE)
        except RunFailed as error:
            status = error.status
        return {
            "order": await first.result(timeout=PATIENCE),
            "plain": await second.result(timeout=PATIENCE),
            "refused": status,
            "undone": undone,
        }


def blocking(url: str) -> list[int]:
    """The errands of a blocking one, on the same database."""
    with SyncEngine(url, workflows=FLOWS) as engine:
        return [run.result(timeout=PATIENCE) for run in [engine.start(tens, number) for number in range(3)]]


def main() -> None:
    """Read the command line, run the errands, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--debug", action="store_true", help="asyncio's debug mode")
    parser.add_argument("--no-collector", action="store_true")
    options = parser.parse_args()
    if options.no_collector:
        gc.disable()
    factory = None
    if options.loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(debug=options.debug or None, loop_factory=factory) as runner:
        told = runner.run(asynchronous(options.url))
        loop = type(runner.get_loop()).__module__.partition(".")[0]
    told |= {"blocking": blocking(options.url), "optimised": sys.flags.optimize > 0}
    print(json.dumps(told | {"loop": loop, "python": platform.python_version()}))


if __name__ == "__main__":
    main()
