"""Signals, questions and events: sent by the test, read by runs, and what reaches nobody."""

from __future__ import annotations

import pytest

from stepwell import Context, NotFoundError, Request, workflow
from stepwell.testing import Kit, Stuck, SyncKit
from tests.testing.shop import Order, Shipped, approve, follow, fulfil, quick

price = Request[str, int]("price")


@workflow
async def seller(ctx: Context) -> str:
    while True:
        message = await ctx.receive(price, "close")
        if message.name == "close":
            return "closed"
        await message.reply(len(message.payload))


@workflow
async def counting(ctx: Context) -> int:
    count = 0
    while (await ctx.receive("tick", "stop")).name == "tick":
        count += 1
    return count


async def test_a_signal_is_read_when_the_run_is_driven(stepwell: Kit):
    run = await (await stepwell.start(fulfil, Order("ann"))).until_waiting()
    await run.signal(approve, "mia")
    run.assert_waiting_on("approve")

    assert await run.result() == "parcel for ann"
    run.assert_emitted("approved", {"by": "mia"}).assert_no_pending()


async def test_a_run_answers_a_question(stepwell: Kit):
    run = await stepwell.start(seller)

    assert await run.ask(price, "lamp") == 4


async def test_a_question_that_nobody_answers_fails_at_once(stepwell: Kit):
    run = await stepwell.start(follow, "ann")

    with pytest.raises(Stuck, match="the run will never answer"):
        await run.ask("price", "lamp")


def test_a_plain_test_asks_without_await(stepwell: SyncKit):
    run = stepwell.start(seller)

    assert run.ask(price, "lamp") == 4


async def test_an_event_reaches_who_waits_for_it(stepwell: Kit):
    ann = await stepwell.start(follow, "ann")
    bob = await stepwell.start(follow, "bob")
    await stepwell.settle()

    assert await stepwell.emit(Shipped("bob")) == 1
    assert await bob.result() == "bob has it"
    ann.assert_waiting_on("Shipped")


async def test_what_reaches_nobody_is_listed(stepwell: Kit):
    run = await stepwell.run(quick, Order("ann"), key="order-1")
    await stepwell.engine.signal("order-2", "hurry", if_missing="hold")
    with pytest.raises(NotFoundError):
        await run.signal("hurry")
    await stepwell.emit("weather", {"rain": True})
    late = await stepwell.start(quick, Order("bob"))
    await late.signal("hurry", 7)
    await late.result()

    unrouted = stepwell.unrouted()
    assert [(signal.name, signal.target) for signal in unrouted.signals] == [
        ("hurry", "order-2"),
        ("hurry", late.run_id),
    ]
    assert unrouted.events == [("weather", {"rain": True})]


async def test_what_is_delivered_twice_is_read_twice(stepwell: Kit):
    stepwell.deliver_twice()
    run = await stepwell.start(counting)
    await run.signal("tick")
    stepwell.deliver_twice(on=False)
    await run.signal("stop")

    assert await run.result() == 2


async def test_a_dedup_key_makes_a_second_delivery_harmless(stepwell: Kit):
    stepwell.deliver_twice()
    run = await stepwell.start(counting)
    await run.signal("tick", dedup_key="1")
    await run.signal("stop", dedup_key="2")

    assert await run.result() == 1
    run.assert_no_pending()


def test_a_plain_test_has_every_other_verb_of_the_engine(stepwell: SyncKit):
    stepwell.wait(stepwell.engine.signal("order-2", "hurry", if_missing="hold"))

    assert [signal.name for signal in stepwell.wait(stepwell.engine.signals.list_held("order-2"))] == ["hurry"]


async def test_a_cancel_undoes_what_was_done(stepwell: Kit):
    run = await (await stepwell.start(fulfil, Order("ann"))).until_waiting()
    assert await run.cancel("changed her mind")
    await run.ended()

    run.assert_status("cancelled", why="changed her mind").assert_undone("reserve", "payment/card/charge")
