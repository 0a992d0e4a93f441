"""What `stepwell why` prints, at 80 and at 200 columns. `WRITE_GOLDEN=1` writes the files in `why/` anew: read them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stepwell import Context, Retry, step, workflow
from stepwell.cli.commands.explanations import _words
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings
from stepwell.engine.handles import Handle
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger

FILES = Path(__file__).parent / "why"


@workflow
async def approval(ctx: Context) -> str:
    return str(await ctx.receive("approve", "reject", timeout="2d"))


@workflow
async def trivial(ctx: Context) -> str:
    return "done"


Scene = Callable[[Harness, Ledger], Awaitable[tuple[Node, str]]]


async def _settled(harness: Harness, node: Node, run: Handle[object]) -> tuple[Node, str]:
    await harness.advance("1m")
    return node, run.run_id


async def signal(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    worker = await harness.worker(approval)
    return await _settled(harness, worker, await worker.start(approval, deadline="7d"))


async def paused_by_a_person(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    worker = await harness.worker(approval)
    run = await worker.start(approval)
    await harness.drain()
    await worker.do(worker.engine.holds.pause(run.run_id, by="ann", reason="the bank is down until tomorrow morning"))
    return worker, run.run_id


async def paused_by_changed_code(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    @workflow(name="order")
    async def before(ctx: Context) -> None:
        await ctx.step("reserve", ledger.body("reserve"))
        await ctx.receive("go")

    @workflow(name="order")
    async def after(ctx: Context) -> None:
        await ctx.step("check the customer", ledger.body("check"))
        await ctx.step("reserve", ledger.body("reserve"))
        await ctx.receive("go")

    worker = await harness.worker(before)
    run = await worker.start(before)
    await harness.drain()
    worker = await harness.deploy(worker, after)
    await worker.signal(run.run_id, "go")
    return await _settled(harness, worker, run)


async def rollback_incomplete(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("reserve", step(ledger.body("reserve"), compensate=ledger.failing("release the stock")))
        raise ValueError("the card was declined")

    worker = await harness.worker(order)
    return await _settled(harness, worker, await worker.start(order))


async def no_worker(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    client = await harness.client()
    return client, (await client.start(trivial)).run_id


async def child_waits(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.child(approval)

    worker = await harness.worker(order, approval)
    return await _settled(harness, worker, await worker.start(order))


async def several_waits(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.join(
            "both",
            {
                "pause": lambda c: c.sleep("cool off", "2d"),
                "answer": lambda c: c.receive("approve"),
                "event": lambda c: c.topic("Shipped", where={"order": "42"}),
            },
        )

    worker = await harness.worker(order)
    return await _settled(harness, worker, await worker.start(order))


async def failed(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("charge", step(ledger.failing("charge"), retry=Retry(max_attempts=1)))

    worker = await harness.worker(order)
    return await _settled(harness, worker, await worker.start(order))


async def completed(harness: Harness, ledger: Ledger) -> tuple[Node, str]:
    worker = await harness.worker(trivial)
    return await _settled(harness, worker, await worker.start(trivial))


SCENES: tuple[Scene, ...] = (
    signal,
    paused_by_a_person,
    paused_by_changed_code,
    rollback_incomplete,
    no_worker,
    child_waits,
    several_waits,
    failed,
    completed,
)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("scene", SCENES, ids=lambda one: one.__name__)
async def test_why_reads_well_and_says_nothing_twice(
    harness: Harness, ledger: Ledger, scene: Scene, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("stepwell.cli.output._is_terminal", lambda: True)
    node, run_id = await scene(harness, ledger)
    found = await node.do(node.engine.explain(run_id))

    lines = list(_words(found, Output(Settings())))

    file = FILES / f"{scene.__name__}-{width}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert "\n".join(lines) + "\n" == file.read_text(encoding="utf-8")
    for cause in found.chain:
        assert " ".join(" ".join(lines).split()).count(cause.sentence) == 1
    commands = {one.as_command() for one in found.next}
    assert all(len(line) <= width or line.strip() in commands for line in lines)
