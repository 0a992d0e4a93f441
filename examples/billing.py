"""Subscription billing: a payment every 30 days; after a declined payment, three daily retries; then continue or end.

You learn: a subscription is one key that lives for years as a chain of short runs. `ctx.continue_as_new(input,
workflow)` continues it as *another* workflow, here from billing to dunning and back, in one commit. Signals
sent to the key reach the current run of the chain. An exception type that a step names in `give_up_on` can be
caught by its own name.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, Retry, StepContext, step, workflow


@dataclass(frozen=True)
class Subscription:
    customer: str
    cycle: int = 1
    period: str = "30d"
    retry_every: str = "1d"


class PaymentDeclinedError(Exception):
    """The bank declines; asking again at once would not help."""


class FakeBank:
    """Gives the answers it was configured with, then accepts; repeats its answer for a known key."""

    def __init__(self) -> None:
        self.next_answers: deque[bool] = deque()
        self.given_answers: dict[str, bool] = {}

    def accepts_payment(self, *, idempotency_key: str) -> bool:
        if idempotency_key not in self.given_answers:
            self.given_answers[idempotency_key] = self.next_answers.popleft() if self.next_answers else True
        return self.given_answers[idempotency_key]


BANK = FakeBank()


@step(retry=Retry(give_up_on=(PaymentDeclinedError,)))
async def charge(ctx: StepContext, subscription: Subscription) -> None:
    if not BANK.accepts_payment(idempotency_key=ctx.idempotency_key):
        print(f"{subscription.customer}: payment {subscription.cycle} declined")
        raise PaymentDeclinedError(f"payment {subscription.cycle} of {subscription.customer}")
    print(f"{subscription.customer}: payment {subscription.cycle} made")


async def close_account(subscription: Subscription) -> None:
    print(f"{subscription.customer}: account closed")


@workflow
async def billing(ctx: Context, subscription: Subscription) -> str:
    if await ctx.receive_many("cancel", timeout=subscription.period):
        return f"cancelled by {subscription.customer} in cycle {subscription.cycle}"
    try:
        await ctx.step(charge, subscription)
    except PaymentDeclinedError:
        ctx.continue_as_new(subscription, dunning)
    ctx.continue_as_new(replace(subscription, cycle=subscription.cycle + 1))


@workflow
async def dunning(ctx: Context, subscription: Subscription) -> str:
    for day in (1, 2, 3):
        await ctx.sleep(f"wait-{day}", subscription.retry_every)
        payment = await ctx.try_step(f"charge-{day}", charge, subscription)
        if payment.ok:
            ctx.continue_as_new(replace(subscription, cycle=subscription.cycle + 1), billing)
    await ctx.step(close_account, subscription)
    return f"closed in cycle {subscription.cycle}, not paid"


async def main() -> None:
    # Cycle 1 is paid, cycle 2 at the second retry, cycle 3 never.
    BANK.next_answers.extend([True, False, False, True, False, False, False, False])
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/billing.db", workflows=[billing, dunning]) as engine:
            subscription = Subscription("acme", period="300ms", retry_every="100ms")
            run = await engine.start(billing, subscription, key="acme")
            print(f"acme: {await run.result()}")


if __name__ == "__main__":
    asyncio.run(main())
