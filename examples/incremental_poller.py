"""A poller that never ends and misses no change: each round reads what changed since the previous round began.

You learn: `ctx.continue_as_new` ends a run and begins the next one of the same key in one commit, so the
history of an endless workflow stays small. `ctx.previous` has the times of the previous run. A round reads from
the start of the previous round up to its own start: rounds have no gaps and no overlap, also
across a crash or a long stop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, WaitTimeout, workflow


@dataclass(frozen=True)
class Change:
    at: datetime
    text: str


CHANGES: list[Change] = []  # another system writes these
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Poll:
    every: str = "15m"
    copied: int = 0


async def read_changes(since: datetime, until: datetime) -> list[Change]:
    return [change for change in CHANGES if since <= change.at < until]


async def copy_changes(changes: list[Change]) -> None:
    for change in changes:
        print(f"copied {change.text}")


@workflow
async def poll_changes(ctx: Context, poll: Poll) -> str:
    since = ctx.previous.started_at if ctx.previous else BEGINNING
    until = ctx.now()  # nothing has happened yet, so this is when this run started
    changes = await ctx.step(read_changes, since, until)
    await ctx.step(copy_changes, changes)
    copied = poll.copied + len(changes)
    try:
        await ctx.receive("stop", timeout=poll.every)
    except WaitTimeout:
        ctx.continue_as_new(replace(poll, copied=copied))
    return f"stopped after {copied} changes"


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/poller.db", workflows=[poll_changes]) as engine:
            run = await engine.start(poll_changes, Poll(every="300ms"), key="poller")
            for number in range(1, 9):
                CHANGES.append(Change(datetime.now(UTC), f"change {number}"))
                await asyncio.sleep(0.15)
            await asyncio.sleep(1.5)  # a few more rounds, for the last changes
            await engine.signal("poller", "stop")
            print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
