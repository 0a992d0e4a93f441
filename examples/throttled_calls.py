"""Calls to an API that answers "429 Too Many Requests" and whose answers get lost; still every payout is made once.

You learn: a step body that takes a `StepContext` first gets an `idempotency_key`, the same for every attempt at
this step and for no other step. Send it to the API, and repeating a call is harmless. `RetryAfter` waits
exactly as long as the API asks before the next attempt; after any other error, `Retry` decides.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, Retry, RetryAfter, StepContext, step, workflow


class TooManyRequestsError(Exception):
    def __init__(self, retry_after: str) -> None:
        super().__init__(f"429 Too Many Requests, try again after {retry_after}")
        self.retry_after = retry_after


class FakeApi:
    """Rejects every third call, loses every fourth answer, and makes at most one payout for one key."""

    def __init__(self) -> None:
        self.retry_after = "1m"
        self.calls = 0
        self.payouts: Counter[str] = Counter()

    def pay_out(self, person: str, *, idempotency_key: str) -> str:
        self.calls += 1
        if self.calls % 3 == 0:
            print("  429, too many requests")
            raise TooManyRequestsError(self.retry_after)
        if idempotency_key not in self.payouts:
            self.payouts[idempotency_key] += 1
            print(f"  paid out to {person}")
        if self.calls % 4 == 0:
            print("  the answer is lost")
            raise ConnectionError("the connection was closed")
        return f"receipt for {person}"


API = FakeApi()


@step(retry=Retry(max_attempts=10))
async def pay_out(ctx: StepContext, person: str) -> str:
    print(f"{person}: attempt {ctx.attempt}")
    try:
        return API.pay_out(person, idempotency_key=ctx.idempotency_key)
    except TooManyRequestsError as error:
        raise RetryAfter(error.retry_after) from error


@workflow
async def pay_everybody(ctx: Context, people: list[str]) -> list[str]:
    return [await ctx.step(f"pay-out-{person}", pay_out, person) for person in people]


async def main() -> None:
    API.retry_after = "300ms"
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/payouts.db", workflows=[pay_everybody]) as engine:
            run = await engine.start(pay_everybody, ["Ann", "Bob", "Cem", "Dua", "Eve"])
            receipts = await run.result()
            print(f"{API.calls} calls, {len(receipts)} receipts, {API.payouts.total()} payouts")


if __name__ == "__main__":
    asyncio.run(main())
