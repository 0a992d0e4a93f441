"""Recorded runs go on with the code at hand, or the test says which do not and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell import Context, workflow
from stepwell.errors import HistoryFileError
from stepwell.testing import SyncKit
from tests.testing.shop import Order, approve, charge, fulfil, plain, quick, reserve, ship


@workflow(name="quick")
async def quick_renamed(ctx: Context, order: Order) -> str:
    await ctx.step("book", reserve, order)
    await ctx.step(charge, order)
    return await ctx.step(ship, order)


@workflow(name="quick")
async def quick_longer(ctx: Context, order: Order) -> str:
    await ctx.step(reserve, order)
    await ctx.step(charge, order)
    parcel = await ctx.step(ship, order)
    await ctx.step("thank", reserve, order)
    return parcel


def test_runs_that_were_exported_go_on_with_the_same_code(stepwell: SyncKit, tmp_path: Path):
    stepwell.run(quick, Order("ann")).export(tmp_path / "ended.json")
    stepwell.run(quick, Order("nobody")).export(tmp_path / "undone.json")
    stepwell.start(quick, Order("bob")).step().export(tmp_path / "begun.json")
    stepwell.start(fulfil, Order("ann")).until_waiting().export(tmp_path / "waiting.json")
    stepwell.start(plain, Order("ann")).until_waiting().export(tmp_path / "plain.json")

    assert stepwell.assert_replays(quick, tmp_path / "*.json") == 3
    assert stepwell.assert_replays(fulfil, tmp_path / "*.json") == 1
    assert stepwell.assert_replays(plain, tmp_path / "plain.json") == 1


def test_code_that_goes_on_longer_still_fits(stepwell: SyncKit, tmp_path: Path):
    stepwell.start(quick, Order("bob")).step().export(tmp_path / "begun.json")

    assert stepwell.assert_replays(quick_longer, tmp_path / "*.json") == 1


def test_a_renamed_step_is_told_with_both_sides(stepwell: SyncKit, tmp_path: Path):
    stepwell.start(quick, Order("bob")).step().export(tmp_path / "begun.json")

    with pytest.raises(AssertionError) as caught:
        stepwell.assert_replays(quick_renamed, tmp_path / "*.json")
    text = str(caught.value)
    assert "1 of 1 recorded runs do not continue with this code" in text
    assert "begun.json" in text
    assert "recorded step reserve" in text
    assert "book" in text


def test_files_of_other_workflows_are_no_proof(stepwell: SyncKit, tmp_path: Path):
    stepwell.run(quick, Order("ann")).export(tmp_path / "ended.json")

    with pytest.raises(AssertionError, match=r"no recorded run of fulfil@1 is in .*; the files have runs of quick@1"):
        stepwell.assert_replays(fulfil, tmp_path / "*.json")


def test_a_pattern_without_files_is_a_mistake(stepwell: SyncKit, tmp_path: Path):
    with pytest.raises((AssertionError, HistoryFileError)):
        stepwell.assert_replays(quick, tmp_path / "*.json")


def test_no_body_runs_while_recorded_runs_are_replayed(stepwell: SyncKit, tmp_path: Path):
    run = stepwell.start(fulfil, Order("ann")).until_waiting()
    run.signal(approve, "mia")
    run.export(tmp_path / "waiting.json")
    before = len(stepwell.world.begun)

    stepwell.assert_replays(fulfil, tmp_path / "waiting.json")
    assert len(stepwell.world.begun) == before
