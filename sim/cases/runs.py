"""Names that are used again, and runs that send to, start and wait for other runs."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from sim.cases.case import Case, Tried, did, kit_of
from stepwell import Context, Request, Retry, done, step, workflow

COUNT = Request[int, int]("count")
TRIED = Retry(max_attempts=4, initial="1m")


async def _pack(item: str) -> str:
    did(f"packed {item}")
    return item.upper()


def _branch(item: str) -> Callable[[Context], Awaitable[str]]:
    return lambda ctx: ctx.step(_pack, item)


@workflow
async def packing(ctx: Context) -> list[str]:
    """Calls the same step, sleep and join again and again."""
    packed = []
    for item in ("tea", "salt", "rice"):
        packed.append(await ctx.step("pack", _pack, item))
        await ctx.sleep("pack", "1m")
        both = await ctx.join("both", {name: _branch(f"{item} {name}") for name in "ab"})
        packed += both.values()
    return packed


@workflow
async def counting(ctx: Context) -> list[int]:
    """Adds up what it is sent, and answers with the sum, until a question is 0."""
    total, got = 0, []
    while True:
        message = await ctx.receive("add", COUNT)
        if message.name == "add":
            total += message.payload
            got.append(message.payload)
        else:
            await message.reply(total)
            if message.payload == 0:
                return got


@workflow
async def telling(ctx: Context) -> list[Any]:
    """Starts a run, sends to it, asks it, and waits for its end; then it cancels another one."""
    other = await ctx.start(counting)
    for number in (1, 2, 3):
        await ctx.signal(other, "add", number)
    asked = await ctx.ask(other, COUNT, 1)
    await ctx.sleep("a while", "5m")
    await ctx.signal(other, "add", 10)
    asked += await ctx.ask(other, COUNT, 0)
    ended = await ctx.wait_any("end", ended=done(other))
    idle = await ctx.start("counting")
    await ctx.cancel(idle)
    cancelled = await ctx.wait_any("end", ended=done(idle))
    return [asked, ended.value.value, cancelled.value.status]


async def _unpack(item: str) -> None:
    did(f"unpacked {item}")


@step(name="pack", compensate=_unpack)
async def _pack_for_now(item: str) -> str:
    return await _pack(item)


@workflow
async def unlucky(ctx: Context, good: int) -> str:
    """Fails after its step, until attempt number `good`."""
    packed = await ctx.step(_pack_for_now, f"tea {ctx.attempt}")
    await ctx.sleep("a while", "1m")
    if ctx.attempt < good:
        raise ConnectionError("the shop does not answer")
    return packed


@workflow
async def insisting(ctx: Context) -> list[str]:
    """Waits for runs that need several attempts."""
    child = await ctx.child(unlucky, 2, retry=TRIED)
    other = await ctx.start(unlucky, 3, retry=TRIED)
    return [child, (await ctx.wait_any("end", ended=done(other))).value.value]


_CALLS = itertools.count()


@workflow
async def forgetful(ctx: Context) -> int:
    """Passes other arguments whenever its code runs again."""
    for _ in range(2):
        await ctx.step("pack", _pack, str(next(_CALLS)))
    await ctx.sleep("a while", "1h")
    return 1


def _replayed() -> Iterator[Tried]:
    """The code runs again after each wait, so the run is paused."""
    with kit_of("yield") as kit:
        run = kit.start(forgetful).ended()
        failure = kit.wait(kit.engine.status(run.run_id)).failure
    noticed = failure is not None and "other arguments" in failure.message
    yield Tried("the code runs again", "yield", "" if noticed else "nobody noticed")


PLAYS = {"arguments that differ in a replay": _replayed}
CASES = {
    "names that are used again": Case(
        packing,
        output=[
            *("TEA", "TEA A", "TEA B", "SALT", "SALT A", "SALT B", "RICE", "RICE A", "RICE B"),
        ],
        done=frozenset(f"packed {item}{branch}" for item in ("tea", "salt", "rice") for branch in ("", " a", " b")),
    ),
    "a run that is tried again": Case(
        unlucky,
        input=3,
        output="TEA 3",
        done=("packed tea 1", "unpacked tea 1", "packed tea 2", "unpacked tea 2", "packed tea 3"),
        options={"retry": TRIED},
    ),
    "a parent of runs that are tried again": Case(
        insisting,
        output=["TEA 2", "TEA 3"],
        done=("packed tea 1", "unpacked tea 1", "packed tea 2", "unpacked tea 2", "packed tea 3"),
    ),
    "a run that tells others": Case(telling, output=[22, [1, 2, 3, 10], "cancelled"]),
}
