"""Steps that are called directly, and context variables: what workflow code may not depend on."""

from __future__ import annotations

import asyncio
import contextvars
import decimal
from typing import Any

import pytest

from stepwell import Context, RunPaused, SyncContext, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

_TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")


async def paused(harness: Harness, flow: Any) -> RunPaused:
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")
    with pytest.raises(RunPaused) as caught:
        await harness.result(run)
    return caught.value


async def test_a_step_that_workflow_code_calls_directly_is_refused_with_the_line_to_write(
    harness: Harness, ledger: Ledger
):
    @step
    async def charge(order: int) -> None:
        ledger.note("charged")

    @workflow
    async def flow(ctx: Context) -> None:
        try:
            await charge(42)  # type: ignore[misc]
        except Exception:
            ledger.note("swallowed")

    error = await paused(harness, flow)

    assert "workflow code called step 'charge' directly" in str(error)
    assert "write await ctx.step(charge, ...)" in str(error)
    assert "charged" not in ledger.lines


async def test_so_is_one_that_a_branch_or_a_task_of_it_calls(harness: Harness, ledger: Ledger):
    @step
    def charge() -> None:
        ledger.note("charged")

    async def branch(ctx: Context) -> None:
        async def task() -> None:
            charge()

        await asyncio.create_task(task())

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.join("j", {"a": branch})

    assert "write await ctx.step(charge)" in str(await paused(harness, flow))
    assert ledger.lines == []


async def test_so_is_one_that_a_plain_workflow_calls(harness: Harness, ledger: Ledger):
    @step
    def charge(order: int) -> None:
        ledger.note("charged")

    @workflow
    def flow(ctx: SyncContext) -> None:
        charge(42)

    assert "write ctx.step(charge, ...)" in str(await paused(harness, flow))
    assert ledger.lines == []


async def test_elsewhere_a_step_is_the_function_that_it_is(harness: Harness, ledger: Ledger):
    @step
    async def charge(order: int) -> int:
        return order + 1

    @step
    def price(order: int) -> int:
        return order * 10

    async def both(order: int) -> int:
        return price(await charge(order))  # type: ignore[misc]

    @step(compensate=lambda order, result: ledger.note(f"undone {price(order)}"))
    def reserve(order: int) -> int:
        return price(order)

    @workflow
    async def flow(ctx: Context) -> int:
        found = await ctx.step(both, 1)
        assert await ctx.once("priced", lambda: price(3)) == 30
        await ctx.step(reserve, found)
        raise RuntimeError("enough")

    assert await charge(1) == 2  # type: ignore[misc]
    assert price(2) == 20
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")
    assert (await harness.status(run)).status == "compensated"
    assert ledger.lines == ["undone 200"]


async def test_workflow_code_sees_no_context_variable_of_the_process_that_runs_it(harness: Harness, ledger: Ledger):
    def look(where: str) -> None:
        ledger.note(f"{where}: {_TENANT.get()} {decimal.getcontext().prec}")

    async def undo(_: None) -> None:
        await asyncio.sleep(0)

    async def branch(ctx: Context) -> None:
        look("branch")
        _TENANT.set("of the branch")

    @workflow
    async def flow(ctx: Context) -> str:
        look("code")
        await ctx.join("j", {"a": branch})
        await ctx.receive("go")
        return _TENANT.get()

    @workflow
    def plain(ctx: SyncContext) -> str:
        look("plain")
        ctx.receive("go")
        return _TENANT.get()

    worker = await harness.worker(flow, plain)
    _TENANT.set("of the caller")
    with decimal.localcontext() as context:
        context.prec = 3
        runs = [await worker.start(one) for one in (flow, plain)]
        await harness.advance("1m")
    worker = await harness.takeover(worker, flow, plain)
    for run in runs:
        await worker.signal(run.run_id, "go")
    await harness.advance("1m")

    assert [await harness.result(run) for run in runs] == ["none", "none"]
    assert {line.partition(": ")[2] for line in ledger.lines} == {"none 28"}


async def test_every_attempt_at_a_body_sees_what_its_worker_sees(harness: Harness, ledger: Ledger):
    async def body() -> None:
        ledger.note(_TENANT.get())
        if len(ledger.lines) < 3:
            raise RuntimeError("again")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(body)

    worker = await harness.worker(flow)
    _TENANT.set("of the caller")
    run = await worker.do(worker.engine.start(flow))
    await harness.advance("1m")

    await harness.result(run)
    assert ledger.lines == ["none"] * 3
