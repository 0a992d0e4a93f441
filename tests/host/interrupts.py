"""Ctrl-C at each turn of a program's event loop, one after the other: `python interrupts.py FOLDER EVERY`.

The interrupt cancels the main task wherever it waits at that turn, as the first Ctrl-C does under `asyncio.run`. Every
EVERY-th turn is tried, on a database of its own, until the program ends before its turn comes. Afterwards another
engine goes on with each database, and what was acknowledged must be there.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepwell import Context, Engine, SyncContext, WorkerSettings, workflow

SETTINGS = WorkerSettings(lease="1s", sweep_every="200ms")
PATIENCE = "60s"


def double(number: int) -> int:
    return number * 2


async def add(number: int, more: int) -> int:
    await asyncio.sleep(0)
    return number + more


@workflow
async def tells(ctx: Context, number: int) -> list[int]:
    doubled = await ctx.step("double", double, number)
    more = (await ctx.receive("more")).payload
    await ctx.sleep("nap", "5ms")
    return [doubled, await ctx.step("add", add, doubled, more)]


@workflow
def plain(ctx: SyncContext, number: int) -> list[int]:
    return [ctx.step("double", double, number), ctx.step("again", double, number)]


FLOWS = (tells, plain)
EXPECTED = {"tells": [2, 7], "plain": [2, 2]}


@dataclass
class Story:
    """What was acknowledged before an interrupt."""

    url: str
    started: list[str] = field(default_factory=list)
    is_signalled: bool = False
    results: dict[str, list[int]] = field(default_factory=dict)

    async def tell(self) -> None:
        """The program that is interrupted."""
        async with Engine(self.url, workflows=FLOWS, settings=SETTINGS) as engine:
            run = await engine.start(tells, 1, key="tells")
            self.started.append("tells")
            await engine.signal("tells", "more", 5, dedup_key="one")
            self.is_signalled = True
            other = await engine.start(plain, 1, key="plain")
            self.started.append("plain")
            self.results["tells"] = await run.result(timeout=PATIENCE)
            self.results["plain"] = await other.result(timeout=PATIENCE)

    async def go_on(self) -> Iterator[str]:
        """What another engine finds wrong with what was acknowledged."""
        async with Engine(self.url, workflows=FLOWS, settings=SETTINGS) as engine:
            missing = [key for key in self.started if await engine.status(key) is None]
            if "tells" in self.started:
                await engine.signal("tells", "more", 5, dedup_key="one")  # a duplicate, if it was acknowledged
            ends = {key: await engine.result(key, timeout=PATIENCE) for key in self.started if key not in missing}
            sent = [entry.value for entry in await engine.runs.history("tells")] if "tells" in ends else []
        wrong = [f"{key} was acknowledged and is lost" for key in missing]
        wrong += [f"{key} ended with {end}" for key, end in ends.items() if end != EXPECTED[key]]
        wrong += [f"{key} gave {given} first" for key, given in self.results.items() if given != ends.get(key)]
        if len([value for value in sent if isinstance(value, list)]) > 1:
            wrong.append(f"the signal was received twice: {sent}")
        return iter(wrong)


class CountingLoop(asyncio.SelectorEventLoop):
    """Interrupts its process at one of its turns."""

    moment = 0
    turns = 0

    def _run_once(self) -> None:
        self.turns += 1
        if self.turns == self.moment:
            signal.raise_signal(signal.SIGINT)
        super()._run_once()  # type: ignore[misc]


def interrupt(story: Story, turn: int) -> bool:
    """Run the program with an interrupt at this turn of its loop; whether that turn came."""

    def loop() -> CountingLoop:
        made = CountingLoop()
        made.moment = turn
        return made

    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(story.tell())
    except KeyboardInterrupt:
        return True
    return False


async def all_at_once(work: list[Coroutine[Any, Any, Iterator[str]]]) -> list[str]:
    """What everybody finds, a few at a time."""
    some = asyncio.Semaphore(8)

    async def one(coroutine: Coroutine[Any, Any, Iterator[str]]) -> list[str]:
        async with some:
            return list(await coroutine)

    return [line for found in await asyncio.gather(*map(one, work)) for line in found]


def main(folder: Path, every: int) -> dict[str, Any]:
    """The whole sweep; its figures."""
    stories: list[Story] = []
    slowest = 0.0
    moment = 1
    while True:
        story = Story(f"sqlite:///{folder}/{moment}.db")
        began = time.monotonic()
        has_come = interrupt(story, moment)
        slowest = max(slowest, time.monotonic() - began)
        stories.append(story)
        if not has_come:
            break
        moment += every
    wrong = asyncio.run(all_at_once([story.go_on() for story in stories]))
    gc.collect()
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    return {
        "interrupts": len(stories) - 1,
        "acknowledged": sum(len(story.started) + story.is_signalled + len(story.results) for story in stories),
        "wrong": wrong,
        "slowest": round(slowest, 2),
        "threads": threads,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
