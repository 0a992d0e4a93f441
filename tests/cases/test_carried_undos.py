"""What a run could undo when it continues as new: its successor can."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Rollback, StepContext, SyncContext, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

LEDGERS: list[Ledger] = []


@pytest.fixture(autouse=True)
def noted(ledger: Ledger) -> Ledger:
    LEDGERS.append(ledger)
    return ledger


async def refund(info: StepContext, month: int, paid: str) -> None:
    LEDGERS[-1].note(f"refund {paid}")
    LEDGERS[-1].keys.append(info.idempotency_key)


@step(compensate=refund)
async def charge(month: int) -> str:
    LEDGERS[-1].note(f"charge {month}")
    return f"month {month}"


async def call_off(ctx: Context, month: int) -> None:
    await ctx.sleep("notice", "1d")
    await ctx.step("tell", tell, month)


async def tell(month: int) -> None:
    LEDGERS[-1].note(f"called off {month}")


@step(compensate=call_off)
async def plan(month: int) -> None:
    LEDGERS[-1].note(f"plan {month}")


@workflow
async def rent(ctx: Context, month: int) -> None:
    await ctx.step(charge, month)
    await ctx.step(plan, month)
    if month < 3:
        ctx.continue_as_new(month + 1)
    await ctx.receive("burnt")
    raise Rollback("the flat burnt down")


@workflow(name="plain rent")
def plain_rent(ctx: SyncContext, month: int) -> None:
    ctx.step(charge, month)
    ctx.step(plan, month)
    if month < 3:
        ctx.continue_as_new(month + 1)
    ctx.receive("burnt")
    raise Rollback("the flat burnt down")


DONE = [f"{verb} {month}" for month in (1, 2, 3) for verb in ("charge", "plan")]
UNDONE = [line for month in (3, 2, 1) for line in (f"called off {month}", f"refund month {month}")]


async def last(harness: Harness, run: Any) -> Any:
    view = await harness.status(run)
    while view.successor is not None:
        view = await harness.status(view.successor)
    return view


@pytest.mark.parametrize("flow", [rent, plain_rent], ids=["async", "plain"])
@pytest.mark.parametrize("takeover", [False, True])
async def test_a_successor_undoes_what_its_predecessors_did(
    harness: Harness, ledger: Ledger, flow: Any, takeover: bool
):
    worker = await harness.worker(flow)
    run = await worker.start(flow, 1, key="k")
    await harness.drain()
    pending = [entry.path for entry in await worker.engine.runs.history("k") if entry.can_undo]
    if takeover:
        worker = await harness.takeover(worker, flow)
    await worker.signal("k", "burnt")
    for _ in range(5):
        await harness.advance("1d")
        if takeover:
            worker = await harness.takeover(worker, flow)

    assert (await last(harness, run)).status == "compensated"
    assert pending == ["~run1/charge", "~run1/plan", "~run2/charge", "~run2/plan", "charge", "plan"]
    assert ledger.lines == DONE + UNDONE
    assert len(set(ledger.keys)) == 3
    assert ledger.keys[-1] == f"{run.run_id}:charge/~undo"


async def test_a_cancel_undoes_the_whole_chain(harness: Harness, ledger: Ledger):
    worker = await harness.worker(rent)
    run = await worker.start(rent, 1, key="k")
    await harness.drain()
    await worker.do(worker.engine.cancel("k"))
    await harness.advance("5d")

    assert (await last(harness, run)).status == "cancelled"
    assert ledger.lines == DONE + UNDONE


async def test_a_run_may_give_up_what_it_could_undo(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context, month: int) -> None:
        await ctx.step(charge, month)
        if month < 3:
            ctx.continue_as_new(month + 1, compensations="drop" if month == 2 else "keep")
        raise Rollback("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow, 1)
    await harness.advance("1m")

    assert (await last(harness, run)).status == "compensated"
    assert ledger.lines == ["charge 1", "charge 2", "charge 3", "refund month 3"]


async def test_what_was_carried_is_no_part_of_the_code_that_follows(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context, month: int) -> list[str]:
        paid = await ctx.step(charge, month)
        if month < 2:
            ctx.continue_as_new(month + 1)
        await ctx.rollback_checkpoint("line")
        await ctx.receive("go")
        return [paid]

    worker = await harness.worker(flow)
    run = await worker.start(flow, 1, key="k")
    await harness.drain()
    worker = await harness.takeover(worker, flow)
    await worker.do(worker.engine.repairs.rewind("k", "/"))
    await harness.advance("1m")
    await worker.signal("k", "go")
    await harness.advance("1m")

    assert await harness.result(run) == ["month 2"]
    paths = [entry.path for entry in await worker.engine.runs.history("k")]
    assert paths == ["~run1/charge", "charge", "line", "go"]


async def test_a_rollback_to_a_checkpoint_leaves_the_predecessors_alone(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context, month: int) -> None:
        await ctx.step(charge, month)
        if month < 2:
            ctx.continue_as_new(month + 1)
        await ctx.rollback_checkpoint("line")
        await ctx.step("again", charge, 9)
        raise Rollback("no", to="line")

    worker = await harness.worker(flow)
    await worker.start(flow, 1)
    await harness.advance("1m")

    assert ledger.lines == ["charge 1", "charge 2", "charge 9", "refund month 9"]


async def test_continuing_is_refused_while_something_could_not_be_undone_any_more(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context, month: int) -> None:
        undo = step(charge, name="special", compensate=lambda month, paid: ledger.note(f"special refund {paid}"))
        await ctx.step(undo, month)
        ctx.continue_as_new(month + 1)

    worker = await harness.worker(flow)
    run = await worker.start(flow, 1)
    await harness.advance("1m")

    view = await harness.status(run)
    assert view.status == "compensated"
    assert view.failure is not None
    assert "would lose the compensation of special" in view.failure.message
    assert 'compensations="drop"' in view.failure.fix
    assert ledger.lines == ["charge 1", "special refund month 1"]


async def give_notice(ctx: Context, month: int) -> None:
    await ctx.step(charge, -month)
    await ctx.sleep("notice", "1d")
    await ctx.step("tell", tell, month)


@step(compensate=give_notice)
async def sign(month: int) -> None:
    LEDGERS[-1].note(f"sign {month}")


@workflow
async def lease(ctx: Context, month: int) -> None:
    await ctx.step(sign, month)
    if month < 2:
        ctx.continue_as_new(month + 1)
    await ctx.receive("burnt")
    raise Rollback("the flat burnt down")


async def test_a_compensation_of_a_predecessor_may_have_undoable_steps_of_its_own(harness: Harness, ledger: Ledger):
    worker = await harness.worker(lease)
    run = await worker.start(lease, 1, key="k")
    await harness.drain()
    await worker.signal("k", "burnt")
    for _ in range(4):
        await harness.drain()
        worker = await harness.takeover(worker, lease)
        await harness.advance("1d")
    await harness.drain()

    assert (await last(harness, run)).status == "compensated"
    assert ledger.lines == ["sign 1", "sign 2", "charge -2", "called off 2", "charge -1", "called off 1"]
    shown = {entry.path: entry.is_undone for entry in await worker.engine.runs.history("k")}
    assert {path: undone for path, undone in shown.items() if path == "sign"} == {"sign": True}
