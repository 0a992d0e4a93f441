"""`ctx.signals`: what is seen is recorded, and consumed with the work that used it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Break, Context, Continue, Retry, RunFailed, Signal, StepFailed, step, workflow
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger
from tests.replay.sweep import Program, sweep

ONCE = Retry(max_attempts=1)
count = Signal[int]("count")


async def pending(node: Node, run_id: str) -> list[Any]:
    """The payloads in the mailbox, as the store has them."""
    detail = await node.engine.runs.detail(run_id)
    return [int(signal.payload[1:]) for signal in detail.signals]


# --- what is seen ---


async def test_looks_show_the_newest_all_of_them_or_an_absent_object(harness: Harness) -> None:
    @workflow
    async def looks(ctx: Context) -> list[Any]:
        await ctx.receive("go")
        absent = ctx.signals.latest("none")
        newest, every = ctx.signals.latest(count), ctx.signals.all("count")
        return [
            bool(absent),
            absent is None,
            absent.name,
            ctx.signals.has("none"),
            ctx.signals.has("count"),
            newest.payload if newest else None,
            [each.payload for each in every],
            [(each.name, each.payload) for each in ctx.signals.all()],
        ]

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    for name, payload in (("count", 1), ("other", 2), ("count", 3), ("go", None)):
        await worker.signal(run.run_id, name, payload)
    await harness.drain()

    both = [["count", 1], ["other", 2], ["count", 3]]
    assert await harness.result(run) == [False, False, "none", False, True, 3, [1, 3], both]


async def test_a_replay_sees_what_was_seen_and_not_what_came_later(harness: Harness) -> None:
    @workflow
    async def looks(ctx: Context) -> list[int]:
        first = [each.payload for each in ctx.signals.all("count")]
        await ctx.receive("go")
        second = [each.payload for each in ctx.signals.all("count")]
        return [len(first), *first, *second]

    worker = await harness.worker(looks)
    client = await harness.client()
    run = await worker.start(looks, key="k")
    await harness.drain()
    await client.signal("k", "count", 1)
    await client.signal("k", "go")
    worker = await harness.takeover(worker, looks)
    await harness.drain()

    assert await harness.result(run) == [0, 1]


# --- what is consumed, and when ---


async def test_a_step_consumes_all_pending_signals_of_the_names_that_were_seen(harness: Harness) -> None:
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    @workflow
    async def looks(ctx: Context) -> list[Any]:
        await ctx.receive("go")
        seen = ctx.signals.latest("count")
        ctx.signals.has("other")
        await ctx.step("work", work)
        again = ctx.signals.latest("count")
        await ctx.receive("end")
        return [seen and seen.payload, bool(again), ctx.signals.has("other")]

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    await worker.signal(run.run_id, "count", 1)
    await worker.signal(run.run_id, "go")
    await harness.drain()
    await worker.signal(run.run_id, "count", 2)  # the same signal again, while the step runs
    await worker.signal(run.run_id, "other", 3)  # this one was looked for before it came
    await harness.drain()
    assert await pending(worker, run.run_id) == [1, 2, 3]

    gate.set()
    await harness.drain()
    assert await pending(worker, run.run_id) == [3]
    await worker.signal(run.run_id, "end")
    await harness.drain()
    assert await harness.result(run) == [1, False, True]


async def test_sleeping_waiting_and_retrying_consume_nothing(harness: Harness, ledger: Ledger) -> None:
    flaky = step(ledger.failing("flaky", times=1), retry=Retry(max_attempts=2, initial="1h", jitter=0))

    @workflow
    async def looks(ctx: Context) -> bool:
        await ctx.receive("go")
        ctx.signals.latest("count")
        await ctx.sleep("nap", "1h")
        await ctx.receive("more")
        await ctx.step("flaky", flaky)
        await ctx.receive("end")
        return True

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    for name, payload in (("count", 1), ("go", 0)):
        await worker.signal(run.run_id, name, payload)
    await harness.advance("2h")
    assert await pending(worker, run.run_id) == [1]
    await worker.signal(run.run_id, "more", 0)
    await harness.advance("30m")
    assert ledger.lines == ["flaky"]
    assert await pending(worker, run.run_id) == [1]
    await harness.advance("1h")
    assert ledger.lines == ["flaky", "flaky"]
    assert await pending(worker, run.run_id) == []
    await worker.signal(run.run_id, "end", 0)
    await harness.drain()
    assert await harness.result(run) is True


async def test_a_step_that_failed_for_good_and_a_run_that_failed_have_used_nothing(
    harness: Harness, ledger: Ledger
) -> None:
    @workflow
    async def looks(ctx: Context) -> None:
        await ctx.receive("go")
        ctx.signals.latest("count")
        try:
            await ctx.step("bad", step(ledger.failing("bad"), retry=ONCE))
        except StepFailed:
            ctx.fail("no")

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    for name, payload in (("count", 1), ("go", 0)):
        await worker.signal(run.run_id, name, payload)
    await harness.drain()

    with pytest.raises(RunFailed):
        await harness.result(run)
    assert [view.payload for view in await worker.engine.signals.list_unread(run.run_id)] == [1]


async def test_what_was_only_looked_at_is_unread_at_the_end_of_the_run(harness: Harness) -> None:
    @workflow
    async def looks(ctx: Context) -> int:
        await ctx.receive("go")
        return len(ctx.signals.all("count"))

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    for name, payload in (("count", 1), ("other", 9), ("count", 2), ("go", 0)):
        await worker.signal(run.run_id, name, payload)
    await harness.drain()

    assert await harness.result(run) == 2
    assert [view.payload for view in await worker.engine.signals.list_unread(run.run_id)] == [1, 9, 2]


async def test_what_was_only_looked_at_moves_along_with_continue_as_new(harness: Harness, ledger: Ledger) -> None:
    batches: list[list[int]] = []

    async def note(batch: list[int]) -> None:
        batches.append(batch)

    @workflow
    async def batch(ctx: Context) -> int:
        got: list[int] = []
        if ctx.generation == 1:
            await ctx.receive("begin")
        while len(got) < 2:
            message = await ctx.receive(count, timeout="1s", default=None, name="more")
            if message is None:
                break
            got.append(message.payload)
        await ctx.step("note", note, got)
        if ctx.signals.has("count"):
            ctx.continue_as_new()
        return len(got)

    worker = await harness.worker(batch)
    await worker.start(batch, key="batch")
    for number in range(5):
        await worker.signal("batch", "count", number)
    await worker.signal("batch", "begin")
    await harness.advance("1m")

    assert [number for each in batches for number in each] == [0, 1, 2, 3, 4]
    assert await worker.engine.signals.list_unread() == []


async def test_the_end_of_an_iteration_or_branch_consumes_nothing(harness: Harness) -> None:
    async def body(ctx: Context, seen: list[int]) -> Continue[list[int]] | Break[list[int]]:
        await ctx.receive("tick")
        seen = [*seen, len(ctx.signals.all("count"))]
        return Break(seen) if len(seen) == 3 else Continue(seen)

    async def branch(ctx: Context) -> int:
        return len(ctx.signals.all("count"))

    @workflow
    async def looks(ctx: Context) -> list[int]:
        nothing: list[int] = []
        rounds = await ctx.loop("rounds", body, nothing)
        branches = await ctx.join("branches", {"one": branch})
        return [*rounds, branches["one"], len(await ctx.receive_many("count"))]

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    for counts in (2, 0, 1):
        for _ in range(counts):
            await worker.signal(run.run_id, "count", 1)
        await worker.signal(run.run_id, "tick")
        await harness.drain()

    assert await harness.result(run) == [2, 2, 3, 3, 3]


# --- branches ---


async def test_two_branches_never_get_the_same_signal(harness: Harness, ledger: Ledger) -> None:
    async def look(ctx: Context) -> int:
        seen = ctx.signals.latest("count")
        await ctx.step("work", ledger.act)
        return seen.payload if seen else 0

    @workflow
    async def looks(ctx: Context) -> dict[str, int]:
        await ctx.receive("go")
        return await ctx.join("both", {"a": look, "b": look})

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    await worker.signal(run.run_id, "count", 7)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == {"a": 7, "b": 0}
    assert await worker.engine.signals.list_unread() == []


async def test_a_branch_that_waits_gives_its_claim_up(harness: Harness, ledger: Ledger) -> None:
    async def waits(ctx: Context) -> list[bool]:
        first = ctx.signals.has("count")
        await ctx.sleep("nap", "1h")
        return [first, ctx.signals.has("count")]

    async def comes_later(ctx: Context) -> list[bool]:
        first = ctx.signals.has("count")
        await ctx.sleep("short", "30m")
        second = ctx.signals.has("count")
        await ctx.step("work", ledger.act)
        return [first, second]

    @workflow
    async def looks(ctx: Context) -> dict[str, list[bool]]:
        await ctx.receive("go")
        return await ctx.join("both", {"a": waits, "b": comes_later})

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    await worker.signal(run.run_id, "count", 7)
    await worker.signal(run.run_id, "go")
    await harness.drain()
    worker = await harness.deploy(worker, looks)
    await harness.advance("2h")

    assert await harness.result(run) == {"a": [True, False], "b": [True, True]}


async def test_a_receive_elsewhere_gets_nothing_that_a_running_branch_has_seen(
    harness: Harness, ledger: Ledger
) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    async def look(ctx: Context) -> int:
        seen = ctx.signals.latest("count")
        await ctx.step("work", slow)
        return seen.payload if seen else 0

    async def receive(ctx: Context) -> int:
        return int((await ctx.receive("count")).payload)

    @workflow
    async def looks(ctx: Context) -> dict[str, int]:
        await ctx.receive("go")
        return await ctx.join("both", {"a": look, "b": receive})

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    await worker.signal(run.run_id, "count", 7)
    await worker.signal(run.run_id, "go")
    await harness.drain()
    assert "both/b/count" not in await harness.paths(run)
    gate.set()
    await harness.drain()
    await worker.signal(run.run_id, "count", 8)
    await harness.drain()

    assert await harness.result(run) == {"a": 7, "b": 8}


async def test_code_that_waits_for_another_branch_does_not_hold_a_signal_from_it(harness: Harness) -> None:
    """Everything stands still: nobody may keep a signal that somebody waits for, or the run would spin or hang."""

    @workflow
    async def looks(ctx: Context) -> list[int]:
        done = asyncio.Event()

        async def look(inner: Context) -> int:
            seen = inner.signals.latest("count")
            await done.wait()
            return seen.payload if seen else 0

        async def receive(inner: Context) -> int:
            message = await inner.receive("count")
            done.set()
            return int(message.payload)

        await ctx.receive("go")
        both = await ctx.join("both", {"a": look, "b": receive})
        return [both["a"], both["b"]]

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    await worker.signal(run.run_id, "count", 7)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == [7, 7]


async def test_a_branch_that_lost_has_used_nothing(harness: Harness, ledger: Ledger) -> None:
    async def loses(ctx: Context) -> str:
        ctx.signals.latest("count")
        await ctx.sleep("long", "1d")
        return "lost"

    async def wins(ctx: Context) -> str:
        await ctx.sleep("short", "1h")
        return "won"

    @workflow
    async def looks(ctx: Context) -> list[Any]:
        await ctx.receive("go")
        winner = await ctx.race("race", {"a": loses, "b": wins})
        seen = ctx.signals.latest("count")
        return [winner.value, seen and seen.payload]

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    await worker.signal(run.run_id, "count", 7)
    await worker.signal(run.run_id, "go")
    await harness.advance("2h")

    assert await harness.result(run) == ["won", 7]


# --- faults ---


def watchful(ledger: Ledger) -> Program:
    async def item(ctx: Context, number: int) -> int:
        seen = ctx.signals.all("extra")
        await ctx.step("use", ledger.act, len(seen))
        return len(seen)

    async def body(ctx: Context, state: int) -> Continue[int] | Break[int]:
        seen = len(ctx.signals.all("other"))
        await ctx.once("use", lambda: seen)
        await ctx.sleep("nap", "1s")
        return Break(state + seen) if state + seen >= 2 else Continue(state + seen)

    @workflow
    async def program(ctx: Context) -> list[Any]:
        await ctx.receive("go")
        latest = ctx.signals.latest("count")
        await ctx.step("first", ledger.act)
        gone = ctx.signals.has("count")
        await ctx.receive("more")
        items = await ctx.map("items", item, range(2), limit=2)
        total = await ctx.loop("until", body, 0)
        return [latest.payload if latest else None, gone, sum(items), total, len(ctx.signals.all())]

    script: tuple[tuple[Any, str, Any], ...] = (
        ("1s", "count", 1),
        (0, "count", 2),
        (0, "go", None),
        ("2s", "extra", 3),
        (0, "more", None),
        ("2s", "other", 1),
        ("3s", "other", 1),
    )
    return Program(program, script=script, lasts="20s")


@pytest.mark.parametrize("mode", ["live", "yield"])
async def test_looks_survive_every_fault(mode: str) -> None:
    outcome = await sweep(watchful, mode)

    assert outcome.output == [2, False, 1, 2, 0]
