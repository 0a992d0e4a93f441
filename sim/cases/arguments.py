"""Bodies that change what they were given."""

from __future__ import annotations

from sim.cases.case import Case, did
from stepwell import Context, Retry, Rollback, StepContext, step, workflow


async def _unsend(orders: list[str], count: int) -> None:
    did(f"unsent {orders}, {count} of them")


@step(retry=Retry(max_attempts=3, initial="10ms"), compensate=_unsend)
async def _send_all(info: StepContext, orders: list[str]) -> int:
    count = 0
    while orders:
        order = orders.pop()
        if info.attempt == 1 and order == "b":
            raise OSError("connection reset")
        did(f"sent {order}")
        count += 1
    return count


@workflow
async def shipping(ctx: Context, orders: list[str]) -> None:
    """A body that consumes its list, fails half-way, and is undone."""
    await ctx.step(_send_all, orders)
    raise Rollback("changed my mind")


async def _add(numbers: list[int]) -> None:
    numbers.append(1)


@workflow
async def counting(ctx: Context) -> int:
    """Code that looks at what it gave to a body."""
    numbers: list[int] = []
    await ctx.step(_add, numbers)
    await ctx.sleep("a while", "1s")
    return len(numbers)


CASES = {
    "a body that consumes its argument": Case(
        shipping,
        status="compensated",
        input=["a", "b", "c"],
        done=("sent c", "sent b", "sent a", "unsent ['a', 'b', 'c'], 3 of them"),
    ),
    "a body that adds to its argument": Case(counting, output=0),
}
