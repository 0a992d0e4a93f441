"""Compensations of every kind of callable, which wait, look, tell the time and start children like other code."""

from __future__ import annotations

import functools

from sim.cases.case import Case, did
from stepwell import Context, Fatal, Retry, Rollback, step, workflow
from stepwell.testing import scripts


async def _number(number: int) -> int:
    return number


def _cancel_room(room: int, number: int, result: int) -> None:
    did(f"cancel room {room}")


class _Account:
    def __init__(self, name: str) -> None:
        self._name = name

    def refund(self, number: int, result: int) -> None:
        """Undo a charge."""
        did(f"refund {self._name}")


_STRIPE, _PAYPAL = _Account("stripe"), _Account("paypal")
_ROOMS = [functools.partial(_cancel_room, room) for room in (101, 102)]


@workflow
async def booking(ctx: Context) -> None:
    """Compensations that share their qualified names."""
    await ctx.step(step(_number, name="a", compensate=lambda number, result: did("undo a")), 1)
    await ctx.step(step(_number, name="b", compensate=lambda number, result: did("undo b")), 2)
    await ctx.step(step(_number, name="c", compensate=_STRIPE.refund), 3)
    await ctx.step(step(_number, name="d", compensate=_PAYPAL.refund), 4)
    for index, room in enumerate(_ROOMS):
        await ctx.step(step(_number, name=f"room{index}", compensate=room), 5)
    ctx.fail("changed my mind")


async def _note(what: str) -> None:
    did(what)


@step(retry=Retry(max_attempts=1))
async def _fail() -> None:
    raise Fatal("it does not work")


async def _undo_by_mail(ctx: Context, name: str, result: str) -> None:
    latest = ctx.signals.latest("seen")
    await ctx.step("look", _note, f"saw {latest.payload if latest else 'nothing'}")
    soon = await ctx.receive("keep", timeout="400ms", default=None)
    await ctx.step("soon", _note, f"received {soon.payload if soon else 'nothing'}")
    later = await ctx.receive("other", timeout="2s", default=None)
    await ctx.step("later", _note, f"received {later.payload if later else 'nothing'}")


@step(compensate=_undo_by_mail)
async def _reserve(name: str) -> str:
    return name


@workflow
async def reading(ctx: Context) -> None:
    """A compensation that reads the mailbox."""
    await ctx.step(_reserve, "a")
    await ctx.receive("go")
    await ctx.step(_fail)


async def _undo_by_clock(ctx: Context, name: str, result: str) -> None:
    began = ctx.now()
    await ctx.sleep("cool off", "3s")
    await ctx.step("after", _note, f"slept for {round((ctx.now() - began).total_seconds())} s")


@step(compensate=_undo_by_clock)
async def _rent(name: str) -> str:
    return name


@workflow
async def telling_time(ctx: Context) -> None:
    """A compensation that tells the time before it waits and after."""
    await ctx.step(_rent, "a")
    await ctx.sleep("a while", "5s")
    await ctx.step(_fail)


@workflow
async def refunding(ctx: Context, amount: str) -> str:
    """What a compensation starts."""
    await ctx.step("give back", _note, f"refunded {amount}")
    return "refunded"


async def _undo_by_child(ctx: Context, amount: str, result: str) -> None:
    await ctx.child(refunding, amount)


@step(compensate=_undo_by_child)
async def _charge(amount: str) -> str:
    return amount


@workflow
async def ordering(ctx: Context) -> None:
    """A run that is rolled back at its deadline, by a child."""
    await ctx.step(_charge, "10 EUR")
    await ctx.receive("paid")


@workflow
async def undoing(ctx: Context) -> None:
    """Rolled back in a claim that has replayed the code, and in one that has not."""
    await ctx.step(_charge, "5 EUR")
    await ctx.step(_rent, "a")
    raise Rollback("enough")


CASES = {
    "compensations that share a name": Case(
        booking,
        status="compensated",
        done=("cancel room 102", "cancel room 101", "refund paypal", "refund stripe", "undo b", "undo a"),
    ),
    "a compensation that reads the mailbox": Case(
        reading,
        status="compensated",
        done=("saw 0", "received 1", "received 2"),
        script=(scripts.send("seen", 0), scripts.send("keep", 1), scripts.send("other", 2), scripts.send("go")),
    ),
    "a compensation that tells the time": Case(telling_time, status="compensated", done=("slept for 3 s",)),
    "a child of a compensation": Case(
        ordering, status="compensated", done=("refunded 10 EUR",), options={"deadline": "1s"}
    ),
    "compensations as workflow code": Case(undoing, status="compensated", done=("slept for 3 s", "refunded 5 EUR")),
}
