"""One run over several processes, each of which does a part of it: `python halves.py URL NUMBER`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from stepwell import Context, Engine, workflow

PARTS = 3
NAMES = ("dan", "ann", "cyd", "bob")


async def greet(name: str) -> str:
    await asyncio.sleep(0)
    return name


@workflow
async def halves(ctx: Context, tags: dict[str, list[str]]) -> list[Any]:
    # As they come out of `wait`: a set, whose order is that of the tasks' own numbers.
    tasks = {asyncio.ensure_future(ctx.step(f"greet-{name}", greet, name)) for name in NAMES}
    done, _ = await asyncio.wait(tasks)
    names = [task.result() for task in done]
    asked = [(await ctx.receive(f"part-{number}")).payload for number in range(PARTS)]
    return [sorted(names), asked, tags]


async def main(url: str, number: int) -> Any:
    """Come to the wait of this number, and tell; or, at the last, to the end."""
    async with Engine(url, workflows=[halves]) as engine:
        if number == 0:
            await engine.start(halves, {"tags": ["x", "y", "z"]}, key="one")
        if number > 0:
            await engine.signal("one", f"part-{number - 1}", str(number - 1))
        if number == PARTS:
            return await engine.result("one", timeout="60s")
        while not await here(engine, number):  # noqa: ASYNC110  it is recorded by the worker beside us
            await asyncio.sleep(0.01)
        return "waiting"


async def here(engine: Engine, number: int) -> bool:
    """Whether everything before this wait is recorded, and the run waits."""
    view = await engine.status("one")
    entries = await engine.runs.history("one")
    return view is not None and view.status == "waiting" and len(entries) == len(NAMES) + number


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2])))))
