# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of handlers. `make check` reads this file with mypy and pyright."""

from __future__ import annotations

from typing import assert_type

from stepwell import Context, Request, Signal, SyncContext, workflow
from stepwell.replay.primitives.handle import Handling

reserve = Request[int, str]("reserve")
note = Signal[str]("note")


async def on_reserve(ctx: Context, seat: int) -> str:
    return f"seat {seat}"


async def on_note(ctx: Context, text: str) -> None: ...


def check(seat: int) -> None: ...


def plainly(ctx: SyncContext, seat: int) -> str:
    return f"seat {seat}"


@workflow
async def theatre(ctx: Context) -> None:
    assert_type(ctx.handle(reserve, on_reserve, validate=check), Handling)
    ctx.handle(note, on_note, at_end="cancel")
    ctx.handle("reserve", on_reserve)
    ctx.handle(note, on_reserve)  # type: ignore[arg-type]
    ctx.handle(note, on_note, at_end="later")  # type: ignore[call-overload]


@workflow
def plain_theatre(ctx: SyncContext) -> None:
    assert_type(ctx.handle(reserve, plainly), Handling)
