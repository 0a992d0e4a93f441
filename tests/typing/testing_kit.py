# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of the test kit. `make check` reads this file with mypy and pyright."""

from __future__ import annotations

from typing import assert_type

from stepwell import Context, workflow
from stepwell.testing import CrashReport, Kit, KitRun, SyncKit, SyncRun, kit


@workflow
async def greet(ctx: Context, name: str) -> int:
    return len(name)


@workflow
async def tick(ctx: Context) -> str:
    return "tock"


async def coroutine(stepwell: Kit) -> None:
    run = await stepwell.start(greet, "ann")
    assert_type(run, KitRun[int])
    assert_type(await run.result(), int)
    assert_type(await (await stepwell.run(tick)).result(), str)
    assert_type(run.assert_ran("a").assert_not_ran("b"), KitRun[int])
    assert_type(await run.until_waiting(), KitRun[int])
    assert_type(await stepwell.crash_everywhere(greet, "ann"), CrashReport)


def plain(stepwell: SyncKit) -> None:
    run = stepwell.start(greet, "ann")
    assert_type(run, SyncRun[int])
    assert_type(run.until("a").result(), int)
    assert_type(stepwell.run(tick).result(), str)
    with kit() as made:
        assert_type(made, SyncKit)


async def block() -> None:
    async with kit() as made:
        assert_type(made, Kit)
