"""The kit without pytest: in blocks, and in a test case of unittest."""

from __future__ import annotations

import asyncio
import unittest

import pytest

from stepwell.testing import Kit, KitClosedError, SyncKit, WorkflowTestCase, kit
from tests.testing.shop import Order, approve, fulfil, quick


def test_a_block_of_plain_code():
    with kit() as made:
        assert isinstance(made, SyncKit)
        assert made.run(quick, Order("ann")).result() == "parcel for ann"


def test_a_block_of_a_coroutine():
    async def main() -> str:
        async with kit(store="sqlite") as made:
            assert isinstance(made, Kit)
            return await (await made.run(quick, Order("ann"))).result()

    assert asyncio.run(main()) == "parcel for ann"


def test_kits_may_stand_inside_each_other():
    with kit() as outer, kit() as inner:
        outer.start(fulfil, Order("ann"))
        inner.clock.advance(days=1)
        inner.run(quick, Order("ann"))

        assert outer.clock.now() < inner.clock.now()
        assert [run.workflow for run in outer.world.list_runs()] == ["fulfil"]


class TestOfUnittest(WorkflowTestCase):
    async def test_it_is_collected_by_pytest_too(self) -> None:
        run = await self.stepwell.start(fulfil, Order("ann"))
        await run.signal(approve, "mia")
        assert await run.result() == "parcel for ann"


def test_a_test_case_of_unittest_has_a_kit_for_each_test():
    class Case(WorkflowTestCase):
        async def test_holds(self) -> None:
            assert await (await self.stepwell.run(quick, Order("ann"))).result() == "parcel for ann"

        async def test_fails(self) -> None:
            (await self.stepwell.run(quick, Order("ann"))).assert_output("a pigeon")

        async def test_never_crashes(self) -> None:
            self.stepwell.crash_at("chrage")
            await self.stepwell.run(quick, Order("ann"))

    outcomes = {}
    for name in ("test_holds", "test_fails", "test_never_crashes"):
        result = unittest.TestResult()
        Case(name).run(result)
        outcomes[name] = "\n".join(text for _, text in (*result.failures, *result.errors))

    assert outcomes["test_holds"] == ""
    assert "└─ ✓ ship" in outcomes["test_fails"]
    assert "never happened" in outcomes["test_never_crashes"]


def test_a_kit_that_was_kept_says_what_to_do():
    with kit() as made:
        run = made.run(quick, Order("ann"))

    for use in (lambda: made.start(quick, Order("bob")), run.result, run.tree, lambda: run.assert_status("completed")):
        with pytest.raises(KitClosedError, match="Use the fixture `stepwell` in each test"):
            use()
