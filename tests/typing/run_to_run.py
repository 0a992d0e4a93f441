# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of runs that start, ask and tell others: read by mypy and pyright in `make check`."""

from __future__ import annotations

from typing import Any, assert_type

from stepwell import Context, Request, Signal, SyncContext, done, step, workflow
from stepwell.ids import RunId

price = Request[str, int]("price")
paid = Signal[int]("paid")


@step(unique=True)
async def charge(amount: int) -> str:
    return str(amount)


@workflow
async def shop(ctx: Context, name: str) -> int:
    return len(name)


@workflow(names="unique")
async def customer(ctx: Context) -> None:
    assert_type(await ctx.start(shop, "corner", key="k", delay="1h", priority=3, version=1), RunId)
    assert_type(await ctx.start("shop", "corner"), RunId)
    run_id = await ctx.spawn(shop, "corner", tags={"a"}, deadline="1h", on_parent_close="cancel")
    assert_type(await ctx.child(shop, "corner", attributes={"region": "eu"}, title="Corner"), int)
    assert_type(await ctx.child("shop", "corner"), Any)
    assert_type(await ctx.ask("k", price, "tea", timeout="1h"), int)
    assert_type(await ctx.ask("k", "price", "tea"), Any)
    assert_type(await ctx.signal("k", paid, 3, if_missing="drop"), None)
    await ctx.cancel(run_id, "not needed", compensate=False)
    await ctx.publish("news", {"n": 1}, deliver="one", retain="1h")
    await ctx.wait_any(end=done(run_id), other=done("an id"))
    assert_type(await ctx.step(charge.options(fingerprint=False), 1), str)
    await ctx.start(shop, 1)  # type: ignore[misc]
    await ctx.start(shop, "corner", on_parent_close="cancel")  # type: ignore[call-overload]
    await ctx.ask("k", price, 1)  # type: ignore[misc]
    await ctx.signal("k", paid, "x")  # type: ignore[misc]
    await ctx.signal("k", paid, 1, if_missing="raise")  # type: ignore[call-overload]


@workflow
def plain(ctx: SyncContext) -> None:
    assert_type(ctx.start(shop, "corner"), RunId)
    assert_type(ctx.ask("k", price, "tea"), int)
    assert_type(ctx.signal("k", paid, 3), None)
    assert_type(ctx.child("shop", "corner"), Any)
    ctx.cancel("k")
    ctx.publish("news")


@workflow(names="some")  # type: ignore[call-overload]
async def wrong(ctx: Context) -> None: ...
