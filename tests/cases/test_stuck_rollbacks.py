"""A rollback that stopped inside a compensation of several operations goes on once what stopped it is mended."""

from __future__ import annotations

from stepwell import Context, Fatal, Rollback, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


class Shop:
    """An order whose compensation asks somebody, and then pays back through an interface that is away."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.is_away = True

    async def refund(self) -> str:
        self.ledger.note("refund")
        if self.is_away:
            raise Fatal("the bank is away")
        return "refunded"


async def test_a_step_inside_a_compensation_is_tried_again_when_the_rollback_is_resumed(
    harness: Harness, ledger: Ledger
):
    shop = Shop(ledger)

    async def undo_charge(ctx: Context) -> None:
        await ctx.step("tell", lambda: ledger.note("tell"))
        tried = await ctx.try_step("ask", step(_refuse))
        assert not tried.ok
        await ctx.step("refund", shop.refund)

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("charge", step(lambda: ledger.note("charge"), compensate=undo_charge))
        raise Rollback("not wanted")

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("10m")
    assert (await harness.status(run)).status == "compensation_failed"

    shop.is_away = False
    assert await worker.do(worker.engine.repairs.resume_rollback(run.run_id))
    await harness.advance("10m")

    assert (await harness.status(run)).status == "compensated"
    assert ledger.lines == ["charge", "tell", "refund", "refund"]


def _refuse() -> None:
    raise Fatal("no")


async def test_a_child_of_a_compensation_is_tried_again_when_the_rollback_is_resumed(harness: Harness, ledger: Ledger):
    shop = Shop(ledger)

    @workflow
    async def payback(ctx: Context) -> None:
        await ctx.step("refund", shop.refund)

    async def undo_charge(ctx: Context) -> None:
        await ctx.child(payback)

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("charge", step(lambda: ledger.note("charge"), compensate=undo_charge))
        raise Rollback("not wanted")

    worker = await harness.worker(order, payback)
    run = await worker.start(order)
    await harness.advance("10m")
    assert (await harness.status(run)).status == "compensation_failed"

    shop.is_away = False
    assert await worker.do(worker.engine.repairs.resume_rollback(run.run_id))
    await harness.advance("10m")

    assert (await harness.status(run)).status == "compensated"
    assert ledger.lines == ["charge", "refund", "refund"]
