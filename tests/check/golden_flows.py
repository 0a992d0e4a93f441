"""The workflows of the golden histories, one for each primitive. They are never changed: a new one is added instead."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from stepwell import (
    Break,
    BusinessHours,
    Context,
    Continue,
    Event,
    Fatal,
    Retry,
    Rollback,
    StepContext,
    StepFailed,
    SyncContext,
    WaitTimeout,
    Workflow,
    done,
    signal,
    step,
    timer,
    topic,
    workflow,
)
from stepwell.errors import InvalidOptionError


@dataclass
class Order:
    customer: str
    amount: int


async def tell(order: Order) -> Order:
    return order


async def untell(order: Order) -> None:
    return None


async def refuse() -> None:
    raise Fatal("refused")


async def away() -> None:
    raise ConnectionError("away")


async def long(info: StepContext) -> None:
    info.progress(3, 10, unit="rows", note="a note")
    await info.checkpoint({"row": 3})
    raise ConnectionError("away")


async def untell_durably(ctx: Context, order: Order) -> None:
    await ctx.step("first", tell, order)
    await ctx.receive("allow")


class Shipped(Event):
    order: str


@workflow
async def helper(ctx: Context, number: int) -> int:
    await ctx.sleep("nap", "1s")
    return number


@workflow
async def steps(ctx: Context, order: Order) -> None:
    await ctx.step(tell, order)
    await ctx.step(step(tell, name="numbered", repeat=True), order)
    await ctx.step(step(tell, name="numbered", repeat=True), order)
    await ctx.step(step(tell, name="once only", at_most_once=True), order)
    try:
        await ctx.step("refuse", refuse)
    except StepFailed:
        await ctx.try_step("refuse again", refuse)
    await asyncio.gather(ctx.step("left", tell, order), ctx.step("right", tell, order))
    await ctx.receive("go")


@workflow
async def retried(ctx: Context, order: Order) -> None:
    await ctx.step("before", tell, order)
    await ctx.step(step(away, retry=Retry(max_attempts=5, initial="1h")))


@workflow
async def long_step(ctx: Context, order: Order) -> None:
    await ctx.step(step(long, retry=Retry(max_attempts=5, initial="1h")))


@workflow
async def undone(ctx: Context, order: Order) -> None:
    await ctx.step(step(tell, compensate=untell_durably), order)
    await ctx.step(step(tell, name="second", compensate=untell), order)
    raise ValueError("no")


@workflow
async def once(ctx: Context, order: Order) -> None:
    await ctx.once("mark", lambda: "a mark")
    await ctx.rollback_checkpoint("line")
    await ctx.receive("go")


@workflow
async def sleeps(ctx: Context, order: Order) -> None:
    await ctx.sleep("short", "1s")
    await ctx.sleep("long", "30d")


@workflow
async def receives(ctx: Context, order: Order) -> None:
    await ctx.receive("one")
    await ctx.receive_many("many")
    await ctx.receive("never", timeout="1s", default=None)
    await ctx.receive("go", "stop", timeout="30d")


@workflow
async def observes(ctx: Context, order: Order) -> None:
    await ctx.receive("one")
    ctx.signals.latest("many")
    await ctx.step("after", tell, order)
    await ctx.receive("go")


@workflow
async def answers(ctx: Context, order: Order) -> None:
    message = await ctx.receive("question")
    await message.reply({"yes": True})
    await ctx.receive("go")


@workflow
async def topics(ctx: Context, order: Order) -> None:
    await ctx.topic("news")
    await ctx.topic(Shipped, where={"order": "42"})


@workflow
async def joins(ctx: Context, order: Order) -> None:
    async def left(inner: Context) -> Order:
        return await inner.step("x", tell, order)

    async def waits(inner: Context) -> None:
        await inner.step("x", tell, order)
        await inner.receive("go")

    await ctx.join("both", {"left": left, "right": left})
    await ctx.join("open", {"left": left, "right": waits})


@workflow
async def races(ctx: Context, order: Order) -> None:
    async def quick(inner: Context) -> Order:
        return await inner.step("x", tell, order)

    async def slow(inner: Context) -> None:
        await inner.receive("go")

    await ctx.race("over", {"quick": quick, "slow": slow})
    await ctx.race("open", {"slow": slow, "slower": slow})


@workflow
async def maps(ctx: Context, order: Order) -> None:
    async def one(inner: Context, number: int) -> int:
        await inner.step("x", tell, order)
        return number

    async def waits(inner: Context, number: int) -> int:
        if number == 2:
            await inner.receive("go")
        return number

    await ctx.map("over", one, range(3), limit=2)
    await ctx.map("open", waits, range(4), limit=2)


async def turn(ctx: Context, number: int) -> Continue[int] | Break[int]:
    await ctx.step("x", tell, Order("Ann", number))
    return Break(number) if number == 2 else Continue(number + 1)


async def long_turn(ctx: Context, number: int) -> Continue[int] | Break[int]:
    await ctx.step("x", tell, Order("Ann", number))
    if number == 7:
        await ctx.receive("go")
    return Continue(number + 1)


@workflow
async def loops(ctx: Context, order: Order) -> None:
    await ctx.loop("over", turn, 0)
    await ctx.loop("open", long_turn, 0, trim_every=3, keep=2)


@workflow
async def children(ctx: Context, order: Order) -> None:
    await ctx.child(helper, 1)
    await ctx.children(helper, [1, 2], name="many")
    spawned = await ctx.spawn(helper, 3, name="spawned")
    await ctx.wait_any("end", over=done(spawned))
    await ctx.receive("go")


@workflow
async def late_helper(ctx: Context, number: int) -> int:
    await ctx.receive("never")
    return number


@workflow
async def open_child(ctx: Context, order: Order) -> None:
    await asyncio.gather(ctx.child(late_helper, 1), ctx.step("beside", tell, order))


@workflow
async def first_of(ctx: Context, order: Order) -> None:
    await ctx.wait_any("one", came=signal("one"), late=timer("30d"))
    await ctx.wait_any("two", came=topic("news"), late=timer("1s"))
    await ctx.wait_any("three", came=signal("go"), late=timer("30d"))


@workflow
async def versions(ctx: Context, order: Order) -> None:
    if ctx.version("gate", 3) >= 2 and ctx.patched("patch"):
        await ctx.step("new", tell, order)
    await ctx.receive("go")


@workflow
async def shows(ctx: Context, order: Order) -> None:
    ctx.state["so far"] = 1
    await ctx.emit("told", {"order": 42})
    await ctx.stream("log").append("a line")
    await ctx.receive("go")


@workflow
async def describes(ctx: Context, order: Order) -> None:
    ctx.set_title("Order for Ann")
    ctx.set_attributes(region="eu", amount=Decimal("42.10"), vip=True, due=datetime(2026, 12, 1, tzinfo=UTC), old=1)
    await ctx.step(tell, order)
    ctx.set_attributes(amount=43, old=None)
    ctx.add_tags("vip", team="shop")
    ctx.remove_tags("vip")
    try:
        ctx.set_attributes(region=1)
    except InvalidOptionError:
        ctx.set_attributes(region="us")
    await ctx.receive("go")


@workflow
async def continued(ctx: Context, number: int) -> None:
    await ctx.step("x", tell, Order("Ann", number))
    if number == 0:
        ctx.continue_as_new(1)
    await ctx.receive("go")


@workflow
def plain(ctx: SyncContext, order: Order) -> None:
    ctx.step(tell, order)
    ctx.sleep("short", "1s")
    ctx.join("both", {"left": lambda inner: inner.step("x", tell, order)})
    ctx.receive("go")


Input = Callable[[], Any]
ORDER = Order("Ann", 42)


# What each is started with, and what it is sent, one after the other, before it is written down.
@workflow
async def numbers(ctx: Context, order: Order) -> None:
    for number in range(3):
        await ctx.step(tell, order)
        await ctx.step("long", step(tell, retry=Retry(max_attempts=1)), Order("a" * 40, number))
        await ctx.sleep("tell", "1s")
        await ctx.join("both", {"a": lambda c: c.step(tell, order), "b": lambda c: c.step(tell, order)})
        await ctx.child(helper, number)
    await ctx.receive("go")


@workflow
async def tells(ctx: Context, order: Order) -> None:
    started = await ctx.start(helper, 1)
    await ctx.signal("nobody", "hello", order.customer)
    await ctx.cancel(started, "not needed")
    await ctx.publish("other news", order.amount)
    await ctx.wait_any("end", over=done(started))
    await ctx.wait_any("later", over=done(await ctx.start(late_helper, 1)))


async def unhelp(number: int, result: int) -> None:
    return None


async def unrefuse() -> None:
    return None


ALWAYS = step(tell, name="always", compensate=untell, undo="always")


@workflow
async def effects(ctx: Context, order: Order) -> None:
    await ctx.compensate_with(untell, order)
    async with ctx.cleanup("left", untell, order):
        await ctx.step(ALWAYS, order)
    await ctx.child(helper, 1, compensate=unhelp)
    with contextlib.suppress(StepFailed):
        await ctx.step(step(refuse, compensate=unrefuse, undo="always"))
    async with ctx.cleanup("open", untell, order):
        await ctx.receive("go")
    raise Rollback("no longer wanted")


@workflow
async def handles(ctx: Context, order: Order) -> None:
    async def answer(ctx: Context, question: Any) -> str:
        await ctx.step(tell, order)
        return order.customer

    ctx.handle("question", answer)
    await ctx.sleep("nap", "1s")
    await ctx.receive("go")


@workflow
async def limits(ctx: Context, order: Order) -> None:
    await asyncio.sleep(1)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await ctx.receive("never")
    async with asyncio.timeout(100):
        await ctx.step(tell, order)
    await ctx.sleep_business("review", 0, BusinessHours({"mon-sun": "00:00-24:00"}, zone="UTC"))
    async with asyncio.timeout(3600):
        await ctx.receive("go")


@workflow
async def answerer(ctx: Context) -> None:
    message = await ctx.receive("question")
    await message.reply(message.payload)
    await ctx.receive("close")


@workflow
async def asks(ctx: Context, order: Order) -> None:
    other = await ctx.start("answerer", key="other", headers={"user": "ann"})
    await ctx.ask(other, "question", order.amount)
    with contextlib.suppress(WaitTimeout):
        await ctx.ask("other", "question", order.customer, timeout="1s")
    await ctx.ask(other, "question", order.customer)


FLOWS: dict[str, tuple[Workflow[Any, Any], Any, tuple[str, ...]]] = {
    "steps": (steps, ORDER, ()),
    "retried": (retried, ORDER, ()),
    "long_step": (long_step, ORDER, ()),
    "undone": (undone, ORDER, ()),
    "once": (once, ORDER, ()),
    "sleeps": (sleeps, ORDER, ()),
    "receives": (receives, ORDER, ("one", "many")),
    "observes": (observes, ORDER, ("many", "one")),
    "answers": (answers, ORDER, ("?question",)),
    "topics": (topics, ORDER, ("!news",)),
    "joins": (joins, ORDER, ()),
    "races": (races, ORDER, ()),
    "maps": (maps, ORDER, ()),
    "loops": (loops, ORDER, ()),
    "children": (children, ORDER, ()),
    "open_child": (open_child, ORDER, ()),
    "first_of": (first_of, ORDER, ("one",)),
    "versions": (versions, ORDER, ()),
    "shows": (shows, ORDER, ()),
    "describes": (describes, ORDER, ()),
    "continued": (continued, 0, ()),
    "plain": (plain, ORDER, ()),
    "numbers": (numbers, ORDER, ()),
    "tells": (tells, ORDER, ()),
    "effects": (effects, ORDER, ()),
    "handles": (handles, ORDER, ("?question",)),
    "limits": (limits, ORDER, ()),
    "asks": (asks, ORDER, ()),
    "effects_ended": (effects, ORDER, ("go",)),
    "handles_ended": (handles, ORDER, ("?question", "go")),
    "limits_ended": (limits, ORDER, ("go",)),
    "numbers_ended": (numbers, ORDER, ("go",)),
    "steps_ended": (steps, ORDER, ("go",)),
    "undone_ended": (undone, ORDER, ("allow",)),
    "joins_ended": (joins, ORDER, ("go",)),
    "races_ended": (races, ORDER, ("go",)),
    "maps_ended": (maps, ORDER, ("go",)),
    "children_ended": (children, ORDER, ("go",)),
    "first_of_ended": (first_of, ORDER, ("one", "go")),
    "plain_ended": (plain, ORDER, ("go",)),
}
