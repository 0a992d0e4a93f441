"""What is told of runs: each thing once, whoever executes them, and nothing that was before."""

from __future__ import annotations

from pathlib import Path

from stepwell import Context, Engine, Fatal, Retry, step, workflow
from stepwell.cli.dev.feed import Feed
from stepwell.cli.dev.lines import Event
from stepwell.environment import system_environment
from stepwell.wiring import open_store


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


async def _told_of(tmp_path: Path, *, before: int) -> tuple[Engine, Feed, list[Event]]:
    environment = system_environment()
    store = open_store(f"sqlite:///{tmp_path}/feed.db", environment)
    told: list[Event] = []
    engine = Engine(store, workflows=[quick, failing, stubborn], environment=environment)
    await engine.__aenter__()
    for handle in [await engine.start(quick, number, key=f"old-{number}") for number in range(before)]:
        await handle.result()
    feed = Feed(store, told.append)
    await feed.begin()
    return engine, feed, told


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
    assert told[-1].words.startswith("↶ run order-1 failed, undone")


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
