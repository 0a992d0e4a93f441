"""Sending, holding, redelivering, starting with a signal, and cancelling by one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepwell import (
    Cancel,
    Context,
    Engine,
    InvalidInputError,
    NotFoundError,
    Request,
    Signal,
    SyncEngine,
    WorkerSettings,
    step,
    workflow,
)
from stepwell.codec import Encrypted, JsonCodec, Keys
from stepwell.errors import AskRefused, InvalidKeyError, InvalidNameError, InvalidOptionError, UnknownWorkflowError
from stepwell.model.signals import Delivery
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


@dataclass
class Item:
    sku: str


add = Signal[Item]("add")
total = Request[None, int]("total")


@workflow
async def cart(ctx: Context, owner: str) -> list[str]:
    items: list[str] = []
    while True:
        message = await ctx.receive(add, "checkout", total)
        if message.name == "checkout":
            return [owner, *items]
        if message.name == "total":
            await message.reply(len(items))
        else:
            items.append(message.payload.sku)


@workflow(unread="discard")
async def careless(ctx: Context) -> None:
    await ctx.receive("end")


@workflow
async def careful(ctx: Context, how: str = "") -> None:
    await ctx.receive("end")
    if how == "fail":
        ctx.fail("no")


# --- signal or start ---


async def test_the_first_signal_starts_the_run_and_the_others_reach_it(harness: Harness) -> None:
    worker = await harness.worker(cart)
    send = worker.engine.runs.signal_or_start

    first = await worker.do(send(cart, "ann", add, Item("pen"), key="Cart-1"))
    second = await worker.do(send("cart", "bo", add, Item("ink"), key="cart-1"))
    await harness.drain()
    assert (first.is_new, second.is_new, second.run_id) == (True, False, first.run_id)
    assert (first.same_input, second.same_input) == (True, False)
    await worker.signal("cart-1", "checkout")
    await harness.drain()
    assert await harness.result(first) == ["ann", "pen", "ink"]

    again = await worker.do(send(cart, "ann", "checkout", key="cart-1"))
    await harness.drain()
    assert again.is_new
    assert await harness.result(again) == ["ann"]


async def test_of_many_at_once_one_starts_the_run_and_nothing_is_lost(harness: Harness) -> None:
    workers = [await harness.worker(cart) for _ in range(2)]
    client = await harness.client()
    nodes = [*workers, client] * 4

    handles = await asyncio.gather(
        *(
            node.do(node.engine.runs.signal_or_start(cart, "ann", add, Item(str(number)), key="k"))
            for number, node in enumerate(nodes)
        )
    )
    await harness.drain()
    await client.signal("k", "checkout")
    await harness.drain()

    assert [handle.is_new for handle in handles].count(True) == 1
    assert sorted((await harness.result(handles[0]))[1:], key=int) == [str(n) for n in range(12)]


async def test_bad_input_to_signal_or_start_stores_nothing(harness: Harness) -> None:
    worker = await harness.worker(cart)
    send: Any = worker.engine.runs.signal_or_start
    for arguments, key, error in (
        ((cart, 7, add, Item("pen")), "k", InvalidInputError),
        ((cart, "ann", add, {"sku": 7}), "k", InvalidInputError),
        ((cart, "ann", " ", None), "k", InvalidNameError),
        ((cart, "ann", add, Item("pen")), "k" * 201, InvalidKeyError),
        ((cart, "ann", add, Item("pen")), " ", InvalidKeyError),
        (("cartt", "ann", add, Item("pen")), "k", UnknownWorkflowError),
    ):
        with pytest.raises(error) as refused:
            await worker.do(send(*arguments, key=key))
        assert refused.value.code
        assert refused.value.why or refused.value.fix
    assert await worker.engine.runs.list() == []
    assert await worker.engine.signals.list_held() == []


# --- targets and names ---


async def test_a_signal_to_a_key_over_200_characters_or_with_a_blank_name_is_refused(harness: Harness) -> None:
    worker = await harness.worker(cart)
    run = await worker.start(cart, "ann")
    with pytest.raises(InvalidKeyError, match="not usable") as error:
        await worker.signal("k" * 201, "checkout", if_missing="hold")
    assert (error.value.code, error.value.why) == ("SW406", "a key has 1 to 200 characters")
    for name in ("", "  ", "a/b", 7):
        with pytest.raises((InvalidNameError, InvalidOptionError), match="signal"):
            await worker.signal(run.run_id, name)
    with pytest.raises(InvalidNameError):
        await worker.do(worker.engine.ask(run.run_id, ""))
    assert (await worker.engine.runs.detail(run.run_id)).signals == ()
    assert await worker.engine.signals.list_held() == []


async def test_a_workflow_that_declares_its_signals_refuses_other_names_and_checks_plain_ones(harness: Harness) -> None:
    @workflow(signals=[add, total, "end"])
    async def declares(ctx: Context) -> list[str]:
        message = await ctx.receive(add)
        await (await ctx.receive(total)).reply(1)
        await ctx.receive("end")
        return [message.payload.sku]

    worker = await harness.worker(declares)
    run = await worker.start(declares, key="k")
    for send in (
        worker.engine.signal("k", "ad", {"sku": "pen"}),
        worker.engine.ask("k", Signal[Item]("ad"), Item("pen")),
        worker.engine.runs.signal_or_start(declares, None, "ad", key="k"),
    ):
        with pytest.raises(NotFoundError, match=r"there is no signal 'ad'\. Did you mean 'add'") as error:
            await worker.do(send)
        assert error.value.fix == "workflow declares takes: add, total, end"
    with pytest.raises(InvalidInputError) as refused:
        await worker.signal("k", "add", {"sku": 7})
    assert refused.value.violations
    assert (await worker.engine.runs.detail(run.run_id)).signals == ()

    await worker.signal("k", "add", {"sku": "pen"})
    await worker.signal("somebody else", "anything", 1, if_missing="hold")
    assert await worker.do(worker.engine.ask("k", "total")) == 1
    await worker.signal("k", "end")
    await harness.drain()
    assert await harness.result(run) == ["pen"]


async def test_an_unknown_target_is_told_with_the_nearest_ones(harness: Harness) -> None:
    worker = await harness.worker(cart)
    await worker.start(cart, "ann", key="order-42")
    with pytest.raises(NotFoundError, match=r"no active run 'order-43'\. Did you mean 'order-42'") as error:
        await worker.signal("order-43", "checkout")
    assert "hold" in error.value.fix


# --- held, unread, refused ---


async def test_held_signals_are_listed_and_delivered_by_hand_to_another_run(harness: Harness) -> None:
    worker = await harness.worker(cart)
    run = await worker.start(cart, "ann", key="right")
    for sku in ("pen", "ink"):
        await worker.do(worker.engine.signal("Wrong", add, Item(sku), if_missing="hold"))
    await worker.signal("other", "checkout", if_missing="hold")

    held = await worker.engine.signals.list_held("WRONG")
    assert [(one.target, one.name, one.payload, one.is_held, one.reason) for one in held] == [
        ("wrong", "add", {"sku": "pen"}, True, ""),
        ("wrong", "add", {"sku": "ink"}, True, ""),
    ]
    assert len(await worker.engine.signals.list_held()) == 3
    assert len(await worker.engine.signals.list_held(limit=1)) == 1

    assert await worker.do(worker.engine.signals.redeliver(held)) == [Delivery.MISSING] * 2
    assert await worker.do(worker.engine.signals.redeliver(held, to="right")) == [Delivery.DELIVERED] * 2
    assert await worker.do(worker.engine.signals.redeliver(held[0], to="right")) == [Delivery.MISSING]
    await harness.drain()
    await worker.signal("right", "checkout")
    await harness.drain()
    assert await harness.result(run) == ["ann", "pen", "ink"]
    assert [one.target for one in await worker.engine.signals.list_held()] == ["other"]


async def test_what_nobody_read_is_kept_or_discarded_as_the_workflow_says(harness: Harness) -> None:
    worker = await harness.worker(careless, careful)
    for flow, options in ((careless, ""), (careful, ""), (careful, "fail")):
        run = await worker.start(flow, options or None, key=f"{flow.name}{options}")
        await worker.signal(run.run_id, "note", 1)
        await worker.signal(run.run_id, "end")
        await harness.drain()

    assert await worker.engine.signals.list_unread("careless") == []
    [kept] = await worker.engine.signals.list_unread("careful")
    assert (kept.name, kept.payload, kept.is_held, kept.reason) == ("note", 1, False, "")
    assert len(await worker.engine.signals.list_unread()) == 2

    following = await worker.start(careful, key="following")
    assert await worker.do(worker.engine.signals.redeliver(kept, to="following")) == [Delivery.DELIVERED]
    assert len((await worker.engine.runs.detail(following.run_id)).signals) == 1


def test_an_unknown_policy_for_unread_signals_is_refused() -> None:
    async def flow(ctx: Context) -> None: ...

    with pytest.raises(InvalidOptionError, match="unread of workflow 'flow' is 'lose'") as error:
        workflow(name="flow", unread="lose")(flow)  # type: ignore[call-overload]
    assert error.value.fix
    with pytest.raises(InvalidNameError, match="signal name"):
        workflow(signals=["ok", " "])(flow)


# --- cancel ---


async def test_a_cancel_signal_cancels_and_is_never_in_the_mailbox(harness: Harness, ledger: Ledger) -> None:
    async def undo(result: Any) -> None:
        ledger.note("undone")

    @workflow
    async def takes_anything(ctx: Context) -> str:
        await ctx.step("work", step(ledger.body("done"), compensate=undo))
        return (await ctx.receive()).name

    worker = await harness.worker(takes_anything)
    for compensate, lines in ((True, ["done", "undone"]), (False, ["done"])):
        ledger.lines.clear()
        run = await worker.start(takes_anything)
        await harness.drain()
        assert await worker.signal(run.run_id, Cancel("late", compensate=compensate)) is Delivery.DELIVERED
        await harness.drain()
        view = await harness.status(run)
        assert (view.status, view.reason) == ("cancelled", "late")
        assert ledger.lines == lines
        assert (await worker.engine.runs.detail(run.run_id)).signals == ()
        assert await worker.signal(run.run_id, Cancel()) is Delivery.DUPLICATE

    completed = await worker.start(takes_anything)
    await worker.signal(completed.run_id, "go")
    await harness.drain()
    assert await worker.signal(completed.run_id, Cancel(), if_missing="drop") is Delivery.MISSING
    assert await worker.signal("nobody", Cancel(), if_missing="drop") is Delivery.MISSING
    with pytest.raises(NotFoundError, match="active run") as error:
        await completed.signal(Cancel())
    assert error.value.fix == "it is completed, and there is nothing to cancel"


async def test_a_cancel_signal_cannot_be_held_and_a_second_one_changes_nothing(harness: Harness) -> None:
    slow = asyncio.Event()

    async def work() -> None:
        await slow.wait()

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step("work", step(work, compensate=work))

    worker = await harness.worker(busy)
    run = await worker.start(busy)
    await harness.drain()
    with pytest.raises(InvalidOptionError, match="cannot be held"):
        await worker.signal(run.run_id, Cancel(), if_missing="hold")
    with pytest.raises(NotFoundError):
        await worker.signal("nobody", Cancel())
    assert await worker.signal(run.run_id, Cancel()) is Delivery.DELIVERED
    assert await worker.signal(run.run_id, Cancel()) is Delivery.DUPLICATE
    slow.set()
    await harness.drain()
    assert (await harness.status(run)).status == "cancelled"


# --- under encryption, and without asyncio ---


async def test_signals_questions_looks_and_redelivery_work_under_encryption(tmp_path: Path) -> None:
    @workflow
    async def secretive(ctx: Context) -> list[Any]:
        seen = ctx.signals.latest(add)
        first = await ctx.receive(add)
        asked = await ctx.receive(total)
        await asked.reply(3)
        again = await ctx.receive(total, name="again")
        await again.refuse("no")
        return [seen and seen.payload.sku, first.payload.sku]

    url = f"sqlite:///{tmp_path}/secret.db"
    codec = Encrypted(JsonCodec(), keys=Keys("k1", {"k1": bytes(32)}))
    settings = WorkerSettings(mode="yield")
    async with Engine(url, workflows=[secretive], codec=codec, settings=settings) as engine:
        await engine.signal("wrong", add, Item("fountain"), if_missing="hold")
        run = await engine.runs.signal_or_start(secretive, None, add, Item("ink"), key="right")
        assert await engine.signals.redeliver(await engine.signals.list_held("wrong"), to="right") == [
            Delivery.DELIVERED
        ]
        assert await engine.ask("right", total, None, timeout="60s") == 3
        with pytest.raises(AskRefused, match="no"):
            await run.ask(total, None, timeout="60s")
        assert await run.result("60s") == ["ink", "ink"]
        [left] = await engine.signals.list_unread("right")
        assert left.payload != {"sku": "fountain"}
    assert b"fountain" not in (tmp_path / "secret.db").read_bytes()


def test_the_same_verbs_without_asyncio() -> None:
    with SyncEngine("memory:", workflows=[cart]) as engine:
        run = engine.runs.signal_or_start(cart, "ann", add, Item("pen"), key="k")
        assert engine.ask("k", total, None, timeout="60s") == 1
        assert run.ask(total, None, timeout="60s") == 1
        with pytest.raises(InvalidInputError):
            engine.signal("k", add, {"sku": 7})  # type: ignore[misc]
        engine.signal("other", "checkout", if_missing="hold")
        [held] = engine.signals.list_held("other")
        assert engine.signals.redeliver(held, to="k") == [Delivery.DELIVERED]
        assert run.result("60s") == ["ann", "pen"]
        assert engine.signals.list_unread() == []
        other = engine.start(cart, "bo")
        other.signal(Cancel("late"))
        assert other.status().status == "cancelled"
