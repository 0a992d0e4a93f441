# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of ordinary user code. `make check` reads this file with mypy and pyright."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from stepwell import Break, Context, Continue, Engine, Handle, Message, Retry, Start, StepContext, Tried, step, workflow
from stepwell.ids import RunId


@dataclass
class Order:
    id: str


@dataclass
class Payment:
    amount: int


async def refund(order: Order, payment: Payment) -> None: ...


@step(retry=Retry(max_attempts=5), timeout="30s", compensate=refund)
async def charge(order: Order, *, currency: str = "EUR") -> Payment:
    return Payment(1)


@step
def pack(order: Order) -> int:
    return 1


@step
async def notify(info: StepContext, order: Order) -> str:
    return info.idempotency_key


async def plain(number: int) -> str:
    return str(number)


@workflow
async def checkout(ctx: Context, order: Order) -> Payment:
    payment = await ctx.step(charge, order, currency="USD")
    assert_type(payment, Payment)
    assert_type(await ctx.step(pack, order), int)
    assert_type(await ctx.step(notify, order), str)
    assert_type(await ctx.step("named", plain, 1), str)
    assert_type(await ctx.step(charge.options(timeout="5s"), order), Payment)
    assert_type(await ctx.try_step(charge, order), Tried[Payment])
    assert_type(await ctx.receive("approve"), Message)
    assert_type(await ctx.child(nothing), int)
    assert_type(await ctx.child(checkout, order), Payment)

    async def branch(inner: Context) -> int:
        return await inner.step(pack, order)

    assert_type(await ctx.join("both", {"a": branch, "b": branch}), dict[str, int])

    async def body(inner: Context, count: int) -> Continue[int] | Break[str]:
        return Break("done") if count > 3 else Continue(count + 1)

    assert_type(await ctx.loop("count", body, 0), str)
    await ctx.step(charge, 1)  # type: ignore[call-overload]
    await ctx.child(checkout, 1)  # type: ignore[misc]
    assert_type(await ctx.child(checkout, order, key="k", on_parent_close="cancel"), Payment)
    assert_type(await ctx.spawn(nothing, on_parent_close="cancel", name="other"), RunId)
    await ctx.child(nothing, on_parent_close="kill")  # type: ignore[call-overload]
    return payment


@workflow
async def nothing(ctx: Context) -> int:
    return 1


async def main() -> None:
    async with Engine("memory:", workflows=[checkout, nothing]) as engine:
        assert_type(await engine.start(checkout, Order("1")), Handle[Payment])
        assert_type(await (await engine.start(nothing)).result(), int)
        await engine.start(checkout, 1)  # type: ignore[misc]
        assert_type(
            await engine.start(checkout, Order("1"), priority=1, tags={"vip"}, deadline="1h", on_conflict="replace"),
            Handle[Payment],
        )
        assert_type(await engine.start_debounced(checkout, Order("1"), key="k", quiet="5s"), Handle[Payment])
        assert_type(
            await engine.start_many(checkout, [Start(Order("1"), priority=9)], tags={"a": "b"}), list[Handle[Payment]]
        )
        await engine.start(checkout, Order("1"), priority="high")  # type: ignore[call-overload]
        await engine.start(nothing, prio=1)  # type: ignore[call-overload]
        await engine.start_debounced(checkout, 1, key="k", quiet="5s")  # type: ignore[misc]
        await engine.start(checkout)  # type: ignore[arg-type]
    assert_type(pack(Order("1")), int)
