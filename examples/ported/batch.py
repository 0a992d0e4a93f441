"""A batch, as in the fan-out samples of DBOS, Inngest and Temporal: many items, some at a time, one summary.

`ctx.map` is the queue and its limit. Each item has a place of its own in the history, so a crash repeats only the items
that were under way, and one bad item does not lose the others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from stepwell import Context, Engine, Fatal, Retry, step, workflow


@dataclass(frozen=True)
class Summary:
    emails: int
    failed: list[str]


@step(retry=Retry(max_attempts=3))
async def load_page(number: int) -> list[str]:
    return [f"user-{number}{letter}" for letter in "abc"] if number < 3 else []


@step(retry=Retry(max_attempts=3, initial="10ms"))
async def send_email(user: str) -> str:
    if user == "user-1b":
        raise Fatal("the address is not valid")
    return f"sent to {user}"


async def try_to_send(ctx: Context, user: str) -> bool:
    return (await ctx.try_step(send_email, user)).ok


@workflow
async def newsletter(ctx: Context) -> Summary:
    users: list[str] = []
    while page := await ctx.step(load_page, len(users) // 3):
        users += page
    sent = await ctx.map("emails", try_to_send, users, limit=4)
    failed = [user for user, is_sent in zip(users, sent, strict=True) if not is_sent]
    return Summary(sum(sent), failed)


async def main() -> None:
    async with Engine("memory://", workflows=[newsletter]) as engine:
        run = await engine.start(newsletter, key="november")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
