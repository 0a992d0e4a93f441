# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of undoing. `make check` reads this file with mypy and pyright."""

from __future__ import annotations

from typing import assert_type

from stepwell import Context, Engine, Handle, SyncContext, step, workflow


async def refund(order: str, payment: int | None) -> None: ...


@step(compensate=refund, undo="always")
async def charge(order: str) -> int:
    return 1


step(charge, undo="sometimes")  # type: ignore[call-overload]


async def delete(path: str, *, force: bool = False) -> None: ...


async def delete_slowly(ctx: Context, path: str) -> None: ...


@workflow
async def pack(ctx: Context, order: str) -> str:
    return order


@workflow
async def sell(ctx: Context, order: str) -> int:
    assert_type(await ctx.compensate_with(delete, "a"), None)
    await ctx.compensate_with("delete b", delete, "b")
    await ctx.compensate_with(delete_slowly, "c")
    await ctx.compensate_with(delete, 1)  # type: ignore[call-overload]
    assert_type(await ctx.child(pack, order, compensate=delete), str)
    async with ctx.cleanup(delete, "lock"):
        assert_type(await ctx.step(charge, order), int)
    async with ctx.cleanup("release", delete, "lock"):
        return 1


@workflow
def plainly(ctx: SyncContext) -> None:
    assert_type(ctx.compensate_with(delete, "a"), None)
    with ctx.cleanup(delete, "lock"):
        assert_type(ctx.step(charge, "x"), int)


async def undo(engine: Engine) -> None:
    assert_type(await engine.compensate("order-1", reason="returned"), Handle[None])
