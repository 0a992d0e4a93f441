"""A payment, as in Restate's samples: an idempotent request, and a provider that answers now or calls back later.

The key of the start is the idempotency key of the client. Restate's awakeable is a signal here: the provider gets the
run's id and answers to it. A cancel before the answer cancels the payment there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from stepwell import Context, Engine, Failure, Retry, Signal, step, workflow


@dataclass(frozen=True)
class Payment:
    amount: int
    card: str


@dataclass(frozen=True)
class Verdict:
    status: Literal["succeeded", "declined"]


settled = Signal[Verdict]("settled")


@dataclass
class Provider:
    """A fake provider: it takes an idempotency key, and needs time for large amounts."""

    intents: dict[str, int] = field(default_factory=dict)

    def pay(self, payment: Payment, key: str) -> Verdict | None:
        self.intents[key] = payment.amount
        return Verdict("succeeded") if payment.amount < 100 else None

    def cancel(self, key: str) -> None:
        self.intents.pop(key, None)


provider = Provider()


async def cancel_payment(payment: Payment, callback: str) -> None:
    provider.cancel(callback)


@step(retry=Retry(max_attempts=5), compensate=cancel_payment, undo="always")
async def pay(payment: Payment, callback: str) -> Verdict | None:
    return provider.pay(payment, callback)


@workflow
async def payment(ctx: Context, given: Payment) -> str:
    verdict = await ctx.step(pay, given, ctx.run_id)
    if verdict is None:
        message = await ctx.receive(settled, timeout="7d")
        verdict = message.payload
    if verdict.status == "declined":
        raise Failure("the card was declined")
    return f"paid {given.amount} EUR"


async def main() -> None:
    async with Engine("memory://", workflows=[payment]) as engine:
        run = await engine.start(payment, Payment(20, "4242"), key="request-1")
        again = await engine.start(payment, Payment(20, "4242"), key="request-1")
        print(await run.result(), again.run_id == run.run_id)
        run = await engine.start(payment, Payment(500, "4242"), key="request-2")
        async for view in engine.watch(run.run_id):
            if view.status == "waiting":
                break
        await engine.signal(run.run_id, settled, Verdict("succeeded"))  # what the provider's webhook does
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
