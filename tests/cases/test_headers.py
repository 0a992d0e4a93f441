"""Headers: carried from a start to its run, its steps, and every run that it starts."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, StepContext, done, workflow
from stepwell.errors import InvalidOptionError
from stepwell.sinks import EmittedEvent, handler
from tests.cases.harness import Harness

ANN = {"user": "ann", "tenant": "ünion"}


async def look(info: StepContext) -> dict[str, str]:
    return dict(info.headers)


@workflow
async def seen(ctx: Context) -> Any:
    return dict(ctx.headers)


@workflow
async def passing(ctx: Context, left: int) -> list[Any]:
    if left:
        ctx.continue_as_new(left - 1)
    await ctx.emit("looked")
    started = await ctx.start(seen, headers={"user": "bob", "more": "1"})
    spawned = await ctx.spawn("seen")
    found = [dict(ctx.headers), await ctx.step(look), await ctx.child(seen)]
    for run_id in (spawned, started):
        found.append((await ctx.wait_any(end=done(run_id))).value.value)
    return found


@pytest.mark.parametrize("left", [0, 2])
async def test_headers_reach_steps_children_and_continuations(harness: Harness, left: int):
    worker = await harness.worker(passing, seen)
    run = await worker.start(passing, left, headers=ANN)

    assert await harness.result(run) == [ANN, ANN, ANN, ANN, {"user": "bob", "tenant": "ünion", "more": "1"}]


async def test_headers_survive_a_crash(harness: Harness):
    @workflow
    async def waits(ctx: Context) -> Any:
        await ctx.receive("go")
        return [dict(ctx.headers), await ctx.step(look)]

    worker = await harness.worker(waits)
    run = await worker.start(waits, headers=ANN)
    await harness.drain()
    worker = await harness.takeover(worker, waits)
    await worker.signal(run.run_id, "go")

    assert await harness.result(run) == [ANN, ANN]
    assert (await harness.status(run)).headers == ANN


async def test_events_carry_the_headers_of_their_run(harness: Harness):
    got: list[EmittedEvent] = []

    async def note(event: EmittedEvent) -> None:
        got.append(event)

    worker = await harness.worker(passing, seen, sinks=[handler(note)])
    await harness.result(await worker.start(passing, 0, headers=ANN))
    await harness.drain()

    assert [event.headers for event in got] == [ANN]


async def test_a_start_that_finds_a_run_drops_its_headers(harness: Harness):
    @workflow
    async def waits(ctx: Context) -> Any:
        await ctx.receive("go")
        return dict(ctx.headers)

    worker = await harness.worker(waits)
    run = await worker.start(waits, key="k", headers=ANN)
    again = await worker.start(waits, key="k", headers={"user": "bob"})
    await worker.signal("k", "go")

    assert again.run_id == run.run_id
    assert await harness.result(run) == ANN


async def test_a_run_without_headers_has_none(harness: Harness):
    worker = await harness.worker(seen)

    assert await harness.result(run := await worker.start(seen)) == {}
    assert (await harness.status(run)).headers is None


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"user": 1}, "'user': 1 is not text"),
        ({"a b": "c"}, "the name 'a b' is blank, too long or has forbidden characters"),
        ({"a": "b\nc"}, "the value of 'a' has control characters"),
        ({f"n{n}": "" for n in range(33)}, "there are 33 of them"),
        ({"a": "x" * 8_000}, "they have 8,001 bytes"),
        ("user=ann", "they are a str"),
    ],
)
async def test_headers_that_cannot_be_stored_are_rejected(harness: Harness, headers: Any, why: str):
    worker = await harness.worker(seen)

    with pytest.raises(InvalidOptionError, match="these headers cannot be stored") as caught:
        await worker.start(seen, headers=headers)
    assert caught.value.why == why


async def test_the_code_cannot_change_them(harness: Harness):
    @workflow
    async def changes(ctx: Context) -> str:
        try:
            ctx.headers["user"] = "eve"  # type: ignore[index]
        except TypeError:
            return ctx.headers["user"]
        return ""

    worker = await harness.worker(changes)

    assert await harness.result(await worker.start(changes, headers=ANN)) == "ann"
