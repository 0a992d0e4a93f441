# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of ordinary user code. `make check` reads this file with mypy and pyright."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from stepwell import (
    Arrived,
    Break,
    Context,
    Continue,
    Engine,
    Event,
    Handle,
    Message,
    Outcome,
    Retry,
    Start,
    StepContext,
    SyncContext,
    SyncEngine,
    Tried,
    done,
    signal,
    step,
    timer,
    topic,
    workflow,
)
from stepwell.ids import RunId
from stepwell.replay.sync_context import SyncStream
from stepwell.views import StreamItem, StreamReset


@dataclass
class Order:
    id: str


@dataclass
class Payment:
    amount: int


class Shipped(Event):
    order: str
    parcels: int = 1


async def refund(order: Order, payment: Payment) -> None: ...


@step(retry=Retry(max_attempts=5), timeout="30s", compensate=refund)
async def charge(order: Order, *, currency: str = "EUR") -> Payment:
    return Payment(1)


@step
def pack(order: Order) -> int:
    return 1


@step
async def notify(info: StepContext, order: Order) -> str:
    await info.stream("tokens").append(order.id)
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
    assert_type(await ctx.topic(Shipped, where={"order": order.id}, since="start", timeout="1h"), Shipped)
    assert_type(await ctx.topic("shipped"), Any)
    child = ctx.child(nothing)
    first = await ctx.wait_any(a=signal("go"), b=topic(Shipped), c=timer("1h"), d=done(child))
    assert_type(first, Arrived)
    await ctx.topic(Order)  # type: ignore[type-var]
    await ctx.topic(Shipped, since="ever")  # type: ignore[call-overload]
    await ctx.wait_any(a="go")  # type: ignore[arg-type]
    await ctx.step(charge, 1)  # type: ignore[call-overload]
    await ctx.child(checkout, 1)  # type: ignore[misc]
    assert_type(await ctx.child(checkout, order, key="k", on_parent_close="cancel"), Payment)
    assert_type(await ctx.spawn(nothing, on_parent_close="cancel", name="other"), RunId)
    await ctx.child(nothing, on_parent_close="kill")  # type: ignore[call-overload]
    return payment


@workflow
async def nothing(ctx: Context) -> int:
    return 1


@workflow
def plain_checkout(ctx: SyncContext, order: Order) -> Payment:
    payment = ctx.step(charge, order, currency="USD")
    assert_type(payment, Payment)
    assert_type(ctx.step(pack, order), int)
    assert_type(ctx.step(notify, order), str)
    assert_type(ctx.step("named", plain, 1), str)
    assert_type(ctx.try_step(charge, order), Tried[Payment])
    assert_type(ctx.receive("approve"), Message)
    assert_type(ctx.once("ref", lambda: 1), int)
    assert_type(ctx.child(nothing), int)
    assert_type(ctx.child(checkout, order), Payment)
    assert_type(ctx.child_outcome(checkout, order), Outcome[Payment])
    assert_type(ctx.child(checkout, order, key="k", on_parent_close="cancel"), Payment)
    assert_type(ctx.spawn(nothing, on_parent_close="cancel", name="other"), RunId)
    assert_type(ctx.children(checkout, [order], on_parent_close="cancel"), list[Payment])
    ctx.child(nothing, on_parent_close="kill")  # type: ignore[call-overload]

    def branch(inner: SyncContext) -> int:
        return inner.step(pack, order)

    assert_type(ctx.join("both", {"a": branch, "b": branch}), dict[str, int])

    def item(inner: SyncContext, number: int) -> str:
        return str(number)

    assert_type(ctx.map("all", item, [1, 2]), list[str])

    def body(inner: SyncContext, count: int) -> Continue[int] | Break[str]:
        return Break("done") if count > 3 else Continue(count + 1)

    assert_type(ctx.loop("count", body, 0), str)
    ctx.publish_state(payment)
    ctx.state["progress"] = 0.5
    assert_type(ctx.stream("tokens"), SyncStream)
    ctx.stream("tokens").append("word")
    ctx.step(charge, 1)  # type: ignore[call-overload]
    ctx.child(checkout, 1)  # type: ignore[misc]
    return payment


@workflow(name="plain", version=2)
def plain_nothing(ctx: SyncContext) -> int:
    return 1


async def main() -> None:
    async with Engine("memory:", workflows=[checkout, nothing]) as engine:
        assert_type(await engine.start(checkout, Order("1")), Handle[Payment])
        assert_type(await (await engine.start(nothing)).result(), int)
        assert_type(await engine.publish(Shipped("1"), deliver="one", retain="7d"), int)
        await engine.publish(Shipped(1))  # type: ignore[arg-type]
        await engine.publish("shipped", deliver="some")  # type: ignore[arg-type]
        await engine.on(Shipped, start=checkout, key="order")
        assert_type(await engine.start(plain_checkout, Order("1")), Handle[Payment])
        assert_type(await (await engine.start(plain_nothing)).result(), int)
        await engine.start(plain_checkout, 1)  # type: ignore[misc]
        await engine.start(checkout, 1)  # type: ignore[misc]
        assert_type(
            await engine.start(checkout, Order("1"), priority=1, tags={"vip"}, deadline="1h", on_conflict="replace"),
            Handle[Payment],
        )
        assert_type(await engine.runs.start_debounced(checkout, Order("1"), key="k", quiet="5s"), Handle[Payment])
        assert_type(
            await engine.runs.start_many(checkout, [Start(Order("1"), priority=9)], tags={"a": "b"}),
            list[Handle[Payment]],
        )
        await engine.start(checkout, Order("1"), priority="high")  # type: ignore[call-overload]
        await engine.start(nothing, prio=1)  # type: ignore[call-overload]
        await engine.runs.start_debounced(checkout, 1, key="k", quiet="5s")  # type: ignore[misc]
        await engine.start(checkout)  # type: ignore[arg-type]
        run = await engine.start(checkout, Order("1"))
        assert_type(await run.state(as_type=Payment), Payment | None)
        assert_type(await engine.runs.state("key", "progress", as_type=float), float | None)
        async for item in run.stream("tokens", as_type=str):
            assert_type(item, StreamItem[str] | StreamReset)
        run.stream("tokens", after="1")  # type: ignore[call-overload]
    with SyncEngine("memory:") as blocking:
        assert_type(blocking.runs.state("key", as_type=Payment), Payment | None)
        for each in blocking.runs.stream("key", "tokens", as_type=str):
            assert_type(each, StreamItem[str] | StreamReset)
    assert_type(pack(Order("1")), int)
