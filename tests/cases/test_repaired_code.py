"""After a repair, code must still come to all that was recorded before what the repair took out."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Fatal, Retry, StepFailed, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

ONCE = Retry(max_attempts=1)


class Shop:
    """Orders whose code changes from one deployment to the next."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.has_stock = False

    async def charge(self, name: str) -> str:
        self.ledger.note(name)
        return name

    async def ship(self) -> None:
        if not self.has_stock:
            raise Fatal("no stock")
        self.ledger.note("ship")

    def order(self, *charges: str) -> Any:
        """The code that charges so and then ships; of a failure it tells somebody."""

        @workflow(name="order")
        async def order(ctx: Context) -> list[str]:
            paid = [await ctx.step(name, self.charge, name) for name in charges]
            try:
                await ctx.step("ship", step(self.ship, retry=ONCE))
            except StepFailed:
                await ctx.step("apologise", self.ledger.body("apologise"))
                raise
            await ctx.receive("go")
            return paid

        return order


@pytest.fixture
def shop(ledger: Ledger) -> Shop:
    return Shop(ledger)


async def failed(harness: Harness, shop: Shop, *charges: str) -> tuple[Any, Any]:
    worker = await harness.worker(shop.order(*charges))
    run = await worker.start("order", key="k")
    await harness.advance("1m")
    assert (await harness.status(run)).status == "failed"
    shop.has_stock = True
    return worker, run


REPAIRS = {
    "retry": lambda engine: engine.repairs.retry("k"),
    "skip": lambda engine: engine.repairs.skip("k", "ship", None),
    "redrive": lambda engine: engine.repairs.redrive("k"),
    "rewind": lambda engine: engine.repairs.rewind("k", "ship"),
}


@pytest.mark.parametrize("repair", REPAIRS)
async def test_a_repaired_run_goes_on_with_the_same_code(harness: Harness, shop: Shop, repair: str):
    worker, run = await failed(harness, shop, "one", "two")
    await worker.do(REPAIRS[repair](worker.engine))
    await harness.advance("1m")
    worker = await harness.takeover(worker, shop.order("one", "two"))
    await worker.signal("k", "go")
    await harness.advance("1m")

    assert await harness.result(run) == ["one", "two"]
    assert shop.ledger.counts == {"one": 1, "two": 1, "apologise": 1} | ({} if repair == "skip" else {"ship": 1})


@pytest.mark.parametrize("repair", REPAIRS)
@pytest.mark.parametrize("charges", [("one",), ("one", "2"), ("one", "two", "three")])
async def test_changed_code_is_found_out_however_the_run_was_repaired(
    harness: Harness, shop: Shop, repair: str, charges: tuple[str, ...]
):
    worker, run = await failed(harness, shop, "one", "two")
    await worker.do(REPAIRS[repair](worker.engine))
    await harness.advance("1m")
    worker = await harness.takeover(worker, shop.order(*charges))
    await worker.signal("k", "go")
    await harness.advance("1m")

    view = await harness.status(run)
    assert view.status == "paused"
    assert view.failure is not None
    assert view.failure.code == "SW201"


async def test_code_that_was_changed_before_the_retry_repeats_nothing(harness: Harness, shop: Shop):
    worker, run = await failed(harness, shop, "one", "two")
    worker = await harness.takeover(worker, shop.order("one", "second"))
    await worker.do(worker.engine.repairs.retry("k"))
    await harness.advance("1m")

    assert (await harness.status(run)).status == "paused"
    assert shop.ledger.lines == ["one", "two", "apologise"]
