"""Blocks with a clean-up, effects that are undone, and handlers: the same live, replayed, and after every crash."""

from __future__ import annotations

import asyncio

from sim.cases.case import Case, did
from stepwell import Context, Fatal, Retry, Rollback, Signal, step, workflow
from stepwell.testing import scripts

_NOTE = Signal[str]("note")


async def _act(what: str) -> str:
    did(what)
    return what


async def _release(what: str) -> None:
    did(f"release {what}")


async def _delete(path: str) -> None:
    did(f"delete {path}")


async def _refund(order: str, payment: str | None) -> None:
    did(f"refund {order}: {payment}")


@step(compensate=_refund, undo="always", retry=Retry(max_attempts=1))
async def _charge(order: str) -> str:
    did(f"charge {order}")
    if order == "bad":
        raise Fatal("charged or not?")
    return f"paid {order}"


@workflow
async def holding(ctx: Context) -> str:
    """Blocks that are left in every way but by a cancel."""

    async def slow(inner: Context) -> None:
        async with inner.cleanup(_release, "branch"):
            await inner.receive("never")

    async def quick(inner: Context) -> None:
        await inner.sleep("nap", "5m")

    async with ctx.cleanup("release run", _release, "run"):
        await ctx.race("race", {"slow": slow, "quick": quick})
        try:
            async with asyncio.timeout(60), ctx.cleanup("release late", _release, "late"):
                await ctx.receive("never")
        except TimeoutError:
            await ctx.step("late", _act, "late")
        await ctx.sleep("nap", "5m")
    await ctx.step("end", _act, "end")
    return "done"


@workflow
async def cancelled(ctx: Context) -> None:
    """A block that the run is cancelled in."""
    async with ctx.cleanup("release done", _release, "done"):
        await ctx.step("work", _act, "work")
    async with ctx.cleanup(_release, "run"):
        await ctx.receive("never")


@workflow
async def packing(ctx: Context, order: str) -> str:
    """A child that is undone."""
    await ctx.sleep("nap", "1m")
    return f"parcel {order}"


@workflow
async def selling(ctx: Context) -> None:
    """Everything that can be undone besides steps that succeeded."""
    await ctx.step("first", _charge, "good")
    await ctx.compensate_with(_delete, "file")
    await ctx.child(packing, "piano", compensate=_delete)
    tried = await ctx.try_step("second", _charge, "bad")
    assert not tried.ok
    await ctx.sleep("nap", "5m")
    raise Rollback("enough")


@workflow
async def handling(ctx: Context) -> list[str]:
    """Handlers that are in progress when the code ends."""
    found: list[str] = []

    async def on_note(inner: Context, text: str) -> None:
        found.append(text)
        await inner.sleep("think", "5m")
        await inner.step("note", _act, f"note {text}")

    ctx.handle(_NOTE, on_note)
    await ctx.receive("close")
    await ctx.step("closed", _act, "closed")
    return found


CASES = {
    "blocks that are left": Case(
        holding,
        output="done",
        done=frozenset({"release branch", "release late", "late", "release run", "end"}),
    ),
    "a block in a run that is cancelled": Case(
        cancelled, status="cancelled", done=("work", "release done", "release run"), script=(scripts.cancel(),)
    ),
    "effects of every kind": Case(
        selling,
        status="compensated",
        done=("charge good", "charge bad", "refund bad: None", "delete piano", "delete file", "refund good: paid good"),
    ),
    "handlers in progress": Case(
        handling,
        output=["a", "b"],
        done=frozenset({"closed", "note a", "note b"}),
        script=(scripts.send("note", "a"), scripts.send("note", "b"), scripts.send("close")),
    ),
}
