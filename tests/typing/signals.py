# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of signals. `make check` reads this file with mypy and pyright."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_type

from stepwell import Absent, Cancel, Context, Engine, Message, Request, Signal, SyncEngine, signal, workflow


@dataclass
class Approval:
    by: str


approve = Signal[Approval]("approve")
price = Signal[int | None]("price")
review = Request[Approval, bool]("review", check=lambda approval: approval.by != "")


@workflow
async def waits(ctx: Context, until: datetime) -> str:
    message = await ctx.receive(approve)
    assert_type(message, Message[Approval])
    assert_type(message.payload.by, str)
    assert_type(await ctx.receive(approve, until=until, default=None, name="a"), Message[Approval] | None)
    assert_type(await ctx.receive(price, timeout="1h", name="b"), Message[int | None])
    assert_type(await ctx.receive(approve, "other", name="c"), Message[Any])
    assert_type(await ctx.receive("other"), Message[Any])
    assert_type(await ctx.receive(approve, price, name="e"), Message[Approval] | Message[int | None])
    assert_type(await ctx.receive_many(approve, count=3, name="d"), list[Message[Approval]])
    assert_type(await ctx.receive(review), Message[Approval])
    latest = ctx.signals.latest(approve)
    assert_type(latest, Message[Approval] | Absent)
    if latest:
        assert_type(latest, Message[Approval])
    assert_type(ctx.signals.all(price), list[Message[int | None]])
    assert_type(ctx.signals.has(approve), bool)
    await ctx.wait_any(approved=signal(approve), other=signal("other"))
    await message.reply(True)
    return message.payload.missing  # type: ignore[attr-defined]


async def main(until: datetime) -> None:
    async with Engine("memory:", workflows=[waits]) as engine:
        run = await engine.runs.signal_or_start(waits, until, approve, Approval("ann"), key="k")
        assert_type(await run.result(), str)
        await engine.signal("k", approve, Approval("ann"))
        await run.signal(approve, Approval("ann"))
        await engine.signal("k", price, None)
        await engine.signal("k", "anything", 7)
        await engine.signal("k", Cancel("late"))
        assert_type(await engine.ask("k", review, Approval("ann"), timeout="3s"), bool)
        assert_type(await run.ask(review, Approval("ann")), bool)
        await engine.signal("k", approve, 7)  # type: ignore[misc]
        await engine.signal("k", approve)  # type: ignore[call-overload]
        await engine.ask("k", review, "ann")  # type: ignore[misc]
    with SyncEngine("memory:", workflows=[waits]) as sync:
        assert_type(sync.ask("k", review, Approval("ann")), bool)
        sync.signal("k", approve, 7)  # type: ignore[misc]
