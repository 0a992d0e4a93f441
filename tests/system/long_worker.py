"""A worker with long and transactional steps, to be killed: `python -m tests.system.long_worker FOLDER`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from stepwell import Context, Engine, StepContext, Transaction, WorkerSettings, step, workflow

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
DATABASE, LEDGER = "long.db", "pages.txt"
SETTINGS = WorkerSettings(lease="300ms", sweep_every="50ms", stalls_max=10_000)


def note(line: str) -> None:
    """One line that outlives the process."""
    ledger = os.open(FOLDER / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(ledger, f"{line}\n".encode())
    os.close(ledger)


async def load(info: StepContext, pages: int) -> int:
    page = info.state_as(int, 0)
    note(f"from {page}")
    while page < pages:
        await asyncio.sleep(0.002)
        page += 1
        await info.checkpoint(page)
        note(f"kept {page}")
        if page % 20 == 0:
            info.yield_(page)
    return page


@step(transaction=True)
def book(tx: Transaction, number: int) -> int:
    tx.execute("insert into bookings (number) values (?)", (number,))
    time.sleep(0.001)
    tx.execute("insert into bookings (number) values (?)", (-number,))
    return number


@workflow
async def paging(ctx: Context, pages: int) -> int:
    return await ctx.step(load, pages)


@workflow
async def booking(ctx: Context, count: int) -> int:
    for number in range(1, count + 1):
        await ctx.step(f"book{number}", book, number)
    return count


async def main() -> None:
    async with Engine(f"sqlite:///{FOLDER / DATABASE}", workflows=[paging, booking], settings=SETTINGS):
        note("up")
        await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(main())
