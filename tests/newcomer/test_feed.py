"""What is told of runs: each thing once, whoever executes them, and nothing that was before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from stepwell import Context, Engine, Fatal, Handle, Retry, step, workflow
from stepwell.addresses import open_store
from stepwell.cli.dev.feed import Feed
from stepwell.cli.dev.lines import Event
from stepwell.environment import system_environment


@workflow
async def quick(ctx: Context, number: int) -> int:
    return number


async def release(number: int) -> None: ...


@step(compensate=release)
async def reserve(number: int) -> str:
    return "reserved"


@step(retry=Retry(max_attempts=2, initial="10ms"))
async def charge(number: int) -> str:
    raise ValueError("no funds")


@step
async def refuse(number: int) -> str:
    raise Fatal("not today")


@workflow
async def failing(ctx: Context, number: int) -> str:
    await ctx.step(reserve, number)
    return await ctx.step(charge, number)


@workflow
async def stubborn(ctx: Context, number: int) -> str:
    return await ctx.step(refuse, number)


class Gate:
    """Where a step waits; each test has one of its own loop."""

    def __init__(self) -> None:
        self.begun, self.is_open = asyncio.Event(), asyncio.Event()


gates: list[Gate] = []


@step
async def wait_for_it(number: int) -> int:
    gates[-1].begun.set()
    await gates[-1].is_open.wait()
    return number


@workflow
async def gated(ctx: Context, number: int) -> None:
    await ctx.step(wait_for_it, number)
    await ctx.receive("go")


@workflow
async def hostile(ctx: Context) -> None:
    await ctx.receive("`touch evil`")


async def _told_of(tmp_path: Path, *, before: int) -> tuple[Engine, Feed, list[Event]]:
    environment = system_environment()
    store = open_store(f"sqlite:///{tmp_path}/feed.db", environment)
    told: list[Event] = []
    engine = Engine(store, workflows=[quick, failing, stubborn, gated, hostile], environment=environment)
    await engine.__aenter__()
    for handle in [await engine.start(quick, number, key=f"old-{number}") for number in range(before)]:
        await handle.result()
    feed = Feed(store, told.append)
    await feed.begin()
    return engine, feed, told


async def _until(handle: Handle[Any], status: str) -> None:
    async with asyncio.timeout(60):
        while True:
            if (await handle.status()).status == status:
                return
            await asyncio.sleep(0.01)


async def test_a_new_run_is_told_once_and_old_ones_never(tmp_path: Path) -> None:
    engine, feed, told = await _told_of(tmp_path, before=130)

    for number in range(3):
        await (await engine.start(quick, number, key=f"new-{number}")).result()
    for _ in range(3):
        await feed.look()
    await engine.shutdown()

    assert [(event.name, event.run_name) for event in told] == [
        (name, f"new-{number}") for number in range(3) for name in ("started", "run")
    ]


async def test_attempts_an_undo_and_the_end_are_told_in_their_order(tmp_path: Path) -> None:
    engine, feed, told = await _told_of(tmp_path, before=0)

    handle = await engine.start(failing, 1, key="order-1")
    while not (await handle.status()).is_ended:
        await feed.look()
    await feed.look()
    await engine.shutdown()

    # That it is being undone may be over before anybody looks.
    names = [event.name for event in told if event.facts.get("status") != "compensating"]
    assert names == ["started", "step", "retry", "failed", "undo", "run"]
    assert "attempt 1 failed: ValueError: no funds" in told[2].words
    assert told[-1].words.startswith("↶ run order-1 compensated")


async def test_who_paused_a_run_is_told_when_it_is_asked_for_and_when_the_run_pauses(tmp_path: Path) -> None:
    engine, feed, told = await _told_of(tmp_path, before=0)
    gates.append(Gate())
    handle = await engine.start(gated, 1, key="order-1")
    await gates[-1].begun.wait()

    await engine.holds.pause("order-1", by="ann", reason="a look at it")
    for _ in range(2):
        await feed.look()
    gates[-1].is_open.set()
    await _until(handle, "paused")
    for _ in range(2):
        await feed.look()
    await engine.holds.resume("order-1", by="ann")
    await _until(handle, "waiting")
    await engine.holds.pause("order-1", by="ben")
    for _ in range(2):
        await feed.look()
    await engine.holds.resume("order-1", by="ann")
    await engine.signal("order-1", "go", None)
    await handle.result()
    await feed.look()
    await engine.shutdown()

    assert [event.name for event in told] == ["started", "held", "step", "waiting", "run", "run", "receive", "run"]
    assert told[1].words == "‖ run order-1 pauses after its running steps: paused by ann: a look at it"
    assert "paused; after a resume: waiting for signal 'go'" in told[3].words
    assert told[4].words.endswith("order-1 paused by ann: a look at it  → stepwell resume order-1")
    assert told[5].words.endswith("order-1 paused by ben  → stepwell resume order-1")


async def test_a_pause_that_is_withdrawn_is_reported_as_a_resume(tmp_path: Path) -> None:
    engine, feed, told = await _told_of(tmp_path, before=0)
    gates.append(Gate())
    await engine.start(gated, 1, key="order-1")
    await gates[-1].begun.wait()

    await engine.holds.pause("order-1")
    await feed.look()
    await engine.holds.resume("order-1")
    await feed.look()
    gates[-1].is_open.set()
    await engine.shutdown()

    assert [event.words for event in told[1:]] == [
        "‖ run order-1 pauses after its running steps: paused",
        "▶ run order-1 resumed",
    ]


async def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    engine, feed, told = await _told_of(tmp_path, before=0)

    handle = await engine.start(stubborn, 1, key="order-1")
    while not (await handle.status()).is_ended:
        await feed.look()
    await feed.look()
    await engine.shutdown()

    assert [event.name for event in told] == ["started", "failed", "run"]
    assert told[-1].facts["status"] == "failed"
    assert "not today" in told[-1].words


async def test_a_key_and_a_signal_that_a_shell_would_obey_are_quoted_in_suggested_commands(tmp_path: Path) -> None:
    engine, feed, told = await _told_of(tmp_path, before=0)
    handle = await engine.start(hostile, key="$(touch evil)")
    await _until(handle, "waiting")
    await feed.look()
    await engine.shutdown()

    assert told[-1].words.endswith(f"→ stepwell signal {handle.run_id} '`touch evil`'")
