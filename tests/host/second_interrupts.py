"""A second Ctrl-C while an engine shuts down after the first one: `python second_interrupts.py FOLDER EVERY POINTS`.

`asyncio.run` turns the second one into a `KeyboardInterrupt` wherever the program is. Python looks for it when it
enters a function, and after it has called one in C. Of the first POINTS of these points in the package, the first ones,
where the first interrupt leaves the program's own code, and every EVERY-th are tried. A program that does not end
prints where it hangs.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import stepwell
from stepwell import Context, Engine, WorkerSettings, workflow

SETTINGS = WorkerSettings(lease="1s", sweep_every="200ms")
PACKAGE = str(Path(stepwell.__file__).parent)
LEAVES = 8
HANGS_SECONDS = 8  # less than the usual grace time


async def last_long(number: int) -> int:
    await asyncio.sleep(60)
    return number


def block_long(number: int) -> int:
    time.sleep(60)
    return number


@workflow
async def lasting(ctx: Context, number: int) -> int:
    return await ctx.step("work", block_long if number % 2 else last_long, number)


@dataclass
class Interrupts:
    """The first interrupt cancels the program; the second one comes at a certain point after it."""

    point: int
    points: int = 0  # passed so far
    at: float | None = None

    def begin(self) -> None:
        """Press Ctrl-C once."""
        signal.raise_signal(signal.SIGINT)
        sys.setprofile(self._count)

    def _count(self, frame: FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        self.points += 1
        if self.points == self.point:
            sys.setprofile(None)
            self.at = time.monotonic()
            signal.raise_signal(signal.SIGINT)


async def program(url: str, interrupts: Interrupts) -> None:
    """Runs that execute while the program is interrupted."""
    async with Engine(url, workflows=[lasting], settings=SETTINGS) as engine:
        runs = [await engine.start(lasting, number) for number in range(3)]
        asyncio.get_running_loop().call_later(0.02, interrupts.begin)
        await runs[0].result()


def interrupt(url: str, point: int) -> float:
    """Run the program, interrupted twice; the seconds from the second interrupt to its end."""
    interrupts = Interrupts(point)
    faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True)
    try:
        asyncio.run(program(url, interrupts))
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
        faulthandler.cancel_dump_traceback_later()
    assert interrupts.at is not None, f"it ended after {interrupts.points} points, before point {point}"
    return time.monotonic() - interrupts.at


def main(folder: Path, every: int, points: int) -> dict[str, float]:
    """The whole sweep; its figures."""
    tried = [*range(1, LEAVES), *range(LEAVES, points, every)]
    took = [interrupt(f"sqlite:///{folder}/{point}.db", point) for point in tried]
    return {"interrupts": len(took), "slowest": max(took)}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
