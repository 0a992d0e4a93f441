"""One rule for children whose awaiting code is cancelled: they are cancelled too, in whichever form that happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, JoinError, done, timer, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


@workflow
async def kid(ctx: Context) -> str:
    await ctx.sleep("long", "1d")
    return "grown"


async def short(ctx: Context) -> str:
    await ctx.sleep("short", "1h")
    return "short"


async def fails(ctx: Context) -> str:
    await ctx.sleep("short", "1h")
    raise ValueError("no")


async def waits(ctx: Context) -> str:
    return await ctx.child(kid)


async def by_task(ctx: Context) -> None:
    task = asyncio.create_task(ctx.child(kid))
    await ctx.sleep("short", "1h")
    task.cancel()


async def by_outcome(ctx: Context) -> None:
    task = asyncio.create_task(ctx.child(kid).outcome())
    await ctx.sleep("short", "1h")
    task.cancel()


async def by_race(ctx: Context) -> None:
    await ctx.race("first", {"child": waits, "short": short})


async def by_fail_fast(ctx: Context) -> None:
    try:
        await ctx.join("both", {"child": waits, "fails": fails}, on_error="fail_fast")
    except JoinError:
        pass


async def by_fail_fast_map(ctx: Context) -> None:
    async def item(inner: Context, number: int) -> str:
        return await (waits(inner) if number else fails(inner))

    try:
        await ctx.map("both", item, range(2), on_error="fail_fast")
    except JoinError:
        pass


async def by_group(ctx: Context) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.child(kid))
            group.create_task(fails(ctx))
    except* ValueError:
        pass


FORMS: list[Any] = [by_task, by_outcome, by_race, by_fail_fast, by_fail_fast_map, by_group]


@pytest.mark.parametrize("form", FORMS)
async def test_a_child_is_cancelled_with_the_code_that_awaits_it(harness: Harness, form: Any) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        await form(ctx)
        await ctx.receive("go")
        return "done"

    worker = await harness.worker(parent, kid)
    client = await harness.client()
    run = await worker.start(parent)
    await harness.advance("10m")
    detail = await worker.engine.runs.detail(run.run_id)
    assert [child.status.value for child in detail.children] == ["waiting"]
    await harness.advance("1h")
    worker = await harness.takeover(worker, parent, kid)
    await client.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == "done"
    detail = await client.engine.runs.detail(run.run_id)
    assert [child.status.value for child in detail.children] == ["cancelled"]


async def test_a_child_that_is_cancelled_at_once_never_begins(harness: Harness) -> None:
    async def at_once(ctx: Context) -> str:
        return "at once"

    @workflow
    async def parent(ctx: Context) -> str:
        task = asyncio.create_task(ctx.child(kid))
        await asyncio.sleep(0)
        task.cancel()
        return str((await ctx.race("first", {"child": waits, "other": at_once})).value)

    worker = await harness.worker(parent, kid)
    run = await worker.start(parent)
    await harness.drain()

    assert await harness.result(run) == "at once"
    assert (await worker.engine.runs.detail(run.run_id)).children == ()


async def test_gather_lets_the_siblings_of_a_failure_go_on_as_asyncio_does(harness: Harness) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        child = asyncio.create_task(ctx.child(kid))
        try:
            await asyncio.gather(child, fails(ctx))
        except ValueError:
            return await child
        return "nothing failed"

    worker = await harness.worker(parent, kid)
    run = await worker.start(parent)
    await harness.advance("2h")
    await harness.takeover(worker, parent, kid)
    await harness.advance("1d")

    assert await harness.result(run) == "grown"


async def test_a_combined_wait_only_watches_a_child(harness: Harness, ledger: Ledger) -> None:
    @workflow
    async def parent(ctx: Context) -> list[str]:
        child = ctx.child(kid)
        first = await ctx.wait_any("w", ended=done(child), late=timer("1h"))
        return [first.label, await child]

    worker = await harness.worker(parent, kid)
    run = await worker.start(parent)
    await harness.advance("2h")
    await harness.takeover(worker, parent, kid)
    await harness.advance("1d")

    assert await harness.result(run) == ["late", "grown"]
