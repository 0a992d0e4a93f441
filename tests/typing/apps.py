# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of an application. `make check` reads this file with mypy and pyright."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from stepwell import App, Context, Engine, Handle, SyncContext, SyncEngine, WorkerSettings, Workflow, workflow
from stepwell.codec.json_codec import JsonCodec
from stepwell.worker.metrics import Metrics


@workflow
async def count(ctx: Context, number: int) -> str:
    return str(number)


@workflow
async def spell(ctx: Context, text: str) -> int:
    return len(text)


@workflow
def tick(ctx: SyncContext) -> None: ...


# Workflows of different types need no annotation, in any of the ways to list them.
app = App("sqlite:///shop.db", workflows=[count, spell, tick])
short = Engine("sqlite:///shop.db", workflows=[count, spell, tick])
blocking = SyncEngine("sqlite:///shop.db", workflows=[count, spell, tick])
flows = [count, spell, tick]
from_variable = App(workflows=flows)
LISTED = (count, spell, tick)
listed = App(workflows=LISTED)
added = App(workflows=[*LISTED, count])
full = App(
    "sqlite:///shop.db",
    workflows=LISTED,
    codec=JsonCodec(),
    offload=Path("blobs"),
    hooks=[Metrics()],
    settings=WorkerSettings(lease="30s", cache_max=10),
)


# What a workflow takes is still checked.
narrow: Workflow[int, str] = count
wrong: Workflow[str, str] = count  # type: ignore[assignment]


def plain(ctx: Context) -> None: ...


App(workflows=[plain])  # type: ignore[list-item]
App(offload="folder")  # type: ignore[arg-type]
app.url = "memory:"  # type: ignore[misc]


async def opened() -> None:
    engine = await Engine(app).open()
    assert_type(engine, Engine)
    assert_type(await engine.start(count, 1), Handle[str])
    await engine.start(count, "one")  # type: ignore[misc]
    await engine.close()


def opened_for_threads() -> None:
    engine = SyncEngine(app).open()
    assert_type(engine, SyncEngine)
    assert_type(engine.start(spell, "a").result(), int)
    engine.close()
