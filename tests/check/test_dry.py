"""Dry replay: which recordings a changed code could go on with, and what is said of those it could not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, step, workflow
from stepwell.check import dry, histories
from stepwell.check.dry import Divergence, Fits
from stepwell.model.states import RunStatus
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.check.recordings import begun, record


def paying(ledger: Ledger, names: list[str], *, wait: str = "approve") -> Any:
    """A workflow with these steps before a wait, and one after it."""

    @workflow(name="pay")
    async def pay(ctx: Context) -> str:
        for name in names:
            await ctx.step(name, ledger.body(name))
        await ctx.receive(wait)
        return await ctx.step("ship", ledger.body("ship", "shipped"))

    return pay


async def test_the_code_that_recorded_a_run_fits_it(harness: Harness, ledger: Ledger):
    recording = await begun(harness, paying(ledger, ["reserve", "charge"]))

    assert dry.replay(paying(ledger, ["reserve", "charge"]), recording) == Fits(waits=("approve",))
    assert ledger.lines == ["reserve", "charge"]


@pytest.mark.parametrize(
    ("names", "where", "recorded", "now"),
    [
        (["reserve", "bill"], "charge", "step charge", "it asks for bill"),
        (["fraud", "reserve", "charge"], "reserve", "step reserve, step charge", "it asks for fraud"),
        (["reserve"], "charge", "step charge", "it waits for a signal at approve"),
    ],
)
async def test_what_no_longer_fits_is_told_side_by_side(
    harness: Harness, ledger: Ledger, names: list[str], where: str, recorded: str, now: str
):
    recording = await begun(harness, paying(ledger, ["reserve", "charge"]))

    found = dry.replay(paying(ledger, names), recording)

    assert isinstance(found, Divergence)
    assert (found.code, found.path, found.recorded, found.now) == ("SW201", where, recorded, now)
    assert ledger.lines == ["reserve", "charge"]
    assert "version=2" in found.words


async def test_another_order_of_what_is_recorded_fits(harness: Harness, ledger: Ledger):
    recording = await begun(harness, paying(ledger, ["reserve", "charge"]))

    assert isinstance(dry.replay(paying(ledger, ["charge", "reserve"]), recording), Fits)


async def test_what_is_new_beyond_the_record_fits_and_is_not_done(harness: Harness, ledger: Ledger):
    made: list[str] = []

    @workflow(name="pay")
    async def longer(ctx: Context) -> str:
        await ctx.step("reserve", ledger.body("reserve"))
        await asyncio.gather(ctx.receive("approve"), ctx.once("mark", lambda: made.append("mark")))
        return "done"

    recording = await begun(harness, paying(ledger, ["reserve"]))

    assert dry.replay(longer, recording) == Fits(waits=("approve",))
    assert made == []


async def test_a_wait_that_is_passed_by_does_not_fit(harness: Harness, ledger: Ledger):
    recording = await begun(harness, paying(ledger, ["reserve"]))

    found = dry.replay(paying(ledger, ["reserve"], wait="allow"), recording)

    assert isinstance(found, Divergence)
    assert found.recorded == "a wait for a signal at approve"
    assert found.now == "it waits for a signal at allow"


async def test_the_fixes_for_a_renamed_wait_are_those_of_a_wait(harness: Harness, ledger: Ledger):
    gone = "-".join(["former", "wait"])  # not in this file as it is: so it is taken for a name that is gone
    recording = await begun(harness, paying(ledger, ["reserve"], wait=gone))

    found = dry.replay(paying(ledger, ["reserve"], wait="allow"), recording)

    assert isinstance(found, Divergence)
    assert found.fixes[:2] == (
        f"keep its name: name='{gone}' for the new one",
        f'if it was removed on purpose, declare it where it was: ctx.removed("{gone}", "receive")',
    )


async def test_a_wait_that_is_declared_removed_fits(harness: Harness, ledger: Ledger):
    @workflow(name="pay")
    async def hasty(ctx: Context) -> str:
        await ctx.step("reserve", ledger.body("reserve"))
        ctx.removed("approve", "receive")
        return await ctx.step("ship", ledger.body("ship", "shipped"))

    recording = await begun(harness, paying(ledger, ["reserve"]))

    assert dry.replay(hasty, recording) == Fits(asks=("ship",))


async def test_a_value_that_no_longer_fits_its_annotation_is_found(harness: Harness):
    def flow(kind: type) -> Any:
        async def answer():
            return "many"

        answer.__annotations__["return"] = kind

        @workflow(name="count")
        async def count(ctx: Context) -> None:
            await ctx.step(step(answer))
            await ctx.receive("go")

        return count

    recording = await begun(harness, flow(str))

    assert isinstance(dry.replay(flow(str), recording), Fits)
    found = dry.replay(flow(int), recording)
    assert isinstance(found, Divergence)
    assert (found.path, found.recorded) == ("answer", "b'j\"many\"'")


@pytest.mark.parametrize("on_error", ["wait_all", "fail_fast"])
async def test_the_result_of_an_item_counts_before_its_map_has_ended(harness: Harness, on_error: Any):
    def mapping(kind: type, gives: Any) -> Any:
        async def ask(ctx: Context, name: str) -> Any:
            if name != "known":
                await ctx.receive(name)
            return gives

        ask.__annotations__["return"] = kind

        @workflow(name="mapping")
        async def flow(ctx: Context) -> None:
            await ctx.map("ask", ask, ["known", "unknown"], on_error=on_error)

        return flow

    recording = await begun(harness, mapping(int, 1))
    found = dry.replay(mapping(str, "1"), recording)

    assert isinstance(dry.replay(mapping(int, 1), recording), Fits)
    assert isinstance(found, Divergence)
    assert (found.code, found.path) == ("SW201", "ask/~0")


async def test_the_input_counts_as_recorded(harness: Harness):
    def flow(kind: type) -> Any:
        async def order(ctx, given):
            await ctx.receive("go")

        order.__annotations__ = {"ctx": Context, "given": kind, "return": None}
        return workflow(name="order")(order)

    recording = await begun(harness, flow(str), "many")

    assert isinstance(dry.replay(flow(str), recording), Fits)
    assert isinstance(dry.replay(flow(int), recording), Divergence)


async def test_an_ended_run_is_replayed_to_its_end(harness: Harness, ledger: Ledger):
    flow = paying(ledger, ["reserve"])
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await worker.signal(run.run_id, "approve")
    await harness.drain()
    recording = await record(harness, run)

    assert recording.run.status == "completed"
    assert dry.replay(flow, recording) == Fits(is_ended=True)
    assert isinstance(dry.replay(paying(ledger, ["charge"]), recording), Divergence)


async def test_a_compensated_run_is_replayed_without_its_undoing(harness: Harness, ledger: Ledger):
    async def undo() -> None:
        ledger.note("undo")

    @workflow
    async def doomed(ctx: Context) -> None:
        await ctx.step("reserve", step(ledger.body("reserve"), compensate=undo))
        raise ValueError("no")

    recording = await begun(harness, doomed)

    assert recording.run.status == "compensated"
    assert dry.replay(doomed, recording) == Fits(is_ended=True)


async def test_a_likely_cause_is_told_from_the_source(harness: Harness, ledger: Ledger):
    @workflow(name="shop")
    async def before(ctx: Context) -> None:
        await ctx.step("take the money", ledger.body("pay"))
        await ctx.receive("go")

    @workflow(name="shop")
    async def after(ctx: Context) -> None:
        await ctx.step("look at it first", ledger.body("look"))
        await ctx.step("take the money", ledger.body("pay"))
        await ctx.receive("go")

    found = dry.replay(after, await begun(harness, before))

    assert isinstance(found, Divergence)
    assert found.cause == "look at it first was inserted before take the money after this run had passed it"
    assert found.fixes[0] == 'guard what is new: if ctx.version("look at it first", 2) >= 2: ...'


async def test_code_that_breaks_down_is_a_divergence_and_no_crash(harness: Harness, ledger: Ledger):
    recording = await begun(harness, paying(ledger, ["reserve"]))

    @workflow(name="pay")
    async def broken(ctx: Context) -> str:
        raise KeyError("reserve")

    found = dry.replay(broken, recording)

    assert isinstance(found, Divergence)
    assert found.now == "it raises KeyError: 'reserve'"


async def test_a_recording_from_a_file_is_replayed_as_from_the_store(harness: Harness, ledger: Ledger):
    flow = paying(ledger, ["reserve", "charge"])
    recording = await begun(harness, flow)
    again = histories.load(histories.dump(recording))

    assert dry.replay(flow, again) == dry.replay(flow, recording)
    assert dry.replay(paying(ledger, ["charge"]), again) == dry.replay(paying(ledger, ["charge"]), recording)


async def test_what_a_cancelled_run_waited_for_before_does_not_matter(harness: Harness, ledger: Ledger):
    async def undo() -> None:
        ledger.note("undo")

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("reserve", step(ledger.body("reserve"), compensate=undo))
        await ctx.receive("go")

    recording = await begun(harness, order)
    for status, cause in (("paused", "cancelled"), ("compensating", "cancelled"), ("cancelling", None)):
        undoing = recording._replace(run=recording.run._replace(status=RunStatus(status), cause=cause))
        assert dry.replay(order, undoing) == Fits(asks=("reserve~undo",))
