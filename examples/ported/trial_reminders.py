"""Reminders over days, as in Inngest's drip campaigns: sleep, look, remind, and stop when the user has bought.

`ctx.topic` waits for an event as `step.waitForEvent` does; the purchase wins over each pause, whenever it comes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from stepwell import Context, Engine, Event, WaitTimeout, workflow


class Purchased(Event):
    user: str
    plan: str


@dataclass(frozen=True)
class Trial:
    user: str
    pauses: tuple[str, ...] = ("3d", "7d", "4d")


async def send(user: str, text: str) -> None:
    print(f"to {user}: {text}")


@workflow
async def trial_reminders(ctx: Context, trial: Trial) -> str:
    await ctx.step(send, trial.user, "welcome")
    for number, pause in enumerate(trial.pauses, 1):
        try:
            bought = await ctx.topic(Purchased, where={"user": trial.user}, since="start", timeout=pause)
        except WaitTimeout:
            await ctx.step(send, trial.user, f"reminder {number}")
        else:
            await ctx.step(send, trial.user, f"thank you for buying {bought.plan}")
            return bought.plan
    return "no plan"


async def main() -> None:
    async with Engine("memory://", workflows=[trial_reminders]) as engine:
        ann = await engine.start(trial_reminders, Trial("ann", ("10ms", "30s")), key="ann")
        bob = await engine.start(trial_reminders, Trial("bob", ("10ms", "10ms")), key="bob")
        print(await bob.result())
        await engine.publish(
            Purchased(user="ann", plan="pro"), retain="1h"
        )  # also for a run that is sending a mail now
        print(await ann.result())


if __name__ == "__main__":
    asyncio.run(main())
