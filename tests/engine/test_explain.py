"""Why is it not moving? One sentence for every status and every kind of wait."""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell import Context, Retry, step, workflow
from stepwell.advice import in_commands
from stepwell.views import Explanation
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger

ONCE = Retry(max_attempts=1)


@workflow
async def trivial(ctx: Context) -> str:
    return "done"


@workflow
async def listening(ctx: Context, names: list[str]) -> None:
    await ctx.receive(*names)


async def explained(node: Node, run: Any) -> tuple[str, str]:
    """The sentence without its beginning, and what to do."""
    found: Explanation = await node.engine.explain(run.run_id)
    view = await node.engine.status(run.run_id)
    assert view is not None
    assert found.status == view.status
    beginning = f"{view.workflow} run {run.run_id} "
    assert found.sentence.startswith(beginning)
    return found.sentence.removeprefix(beginning), in_commands(found.next)


async def test_a_completed_run(harness: Harness):
    worker = await harness.worker(trivial)
    run = await worker.start(trivial)
    await harness.drain()

    assert await explained(worker, run) == ("has completed.", "")


async def test_a_failed_run(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("charge", step(ledger.failing("charge"), retry=ONCE))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await explained(worker, run) == (
        "has failed: ValueError: charge failed (at charge).",
        f"stepwell retry {run.run_id}",
    )


async def test_a_run_that_was_undone(harness: Harness, ledger: Ledger):
    async def undo() -> None:
        ledger.note("undo")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("one", step(ledger.body("one"), compensate=undo))
        raise ValueError("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await explained(worker, run) == (
        "has failed and is compensated: ValueError: no.",
        f"stepwell show {run.run_id}",
    )


async def test_a_run_that_could_not_be_undone(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("one", step(ledger.body("one"), compensate=ledger.failing("undo one")))
        raise ValueError("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    sentence, following = await explained(worker, run)
    assert sentence.startswith("has an incomplete rollback: 1 effect is not undone; ")
    assert "ValueError: undo one failed (at one~undo)" in sentence
    assert following == f"fix the cause, then: stepwell rollback resume {run.run_id}"


async def test_a_cancelled_run(harness: Harness):
    worker = await harness.worker(listening)
    quiet, told = await worker.start(listening, ["a"]), await worker.start(listening, ["a"])
    await harness.drain()
    await worker.do(worker.engine.cancel(quiet.run_id))
    await worker.do(worker.engine.cancel(told.run_id, "not wanted"))

    assert await explained(worker, quiet) == ("was cancelled.", "")
    assert await explained(worker, told) == ("was cancelled: not wanted.", f"stepwell show {told.run_id}")


async def test_a_continued_run(harness: Harness):
    @workflow
    async def flow(ctx: Context, round: int) -> None:
        if round == 0:
            ctx.continue_as_new(1)

    worker = await harness.worker(flow)
    run = await worker.start(flow, 0)
    await harness.drain()
    successor = (await harness.status(run)).successor

    assert await explained(worker, run) == (f"has ended: it continues as run {successor}.", f"stepwell why {successor}")


async def test_a_paused_run(harness: Harness, ledger: Ledger):
    @workflow(names="unique")
    async def flow(ctx: Context) -> None:
        await ctx.step("x", ledger.body("x"))
        await ctx.step("x", ledger.body("x"))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    sentence, following = await explained(worker, run)
    assert sentence.startswith("is paused: DuplicateLocationError: two operations in one scope share the name")
    assert sentence.endswith(" (at x).")
    assert following == f"deploy code that fits this run; or: stepwell resume {run.run_id}"
    [note] = (await worker.engine.explain(run.run_id)).notes
    assert note == "It continues by itself once a worker with code that fits it starts."


async def test_a_run_without_a_worker(harness: Harness):
    client = await harness.client()
    run = await client.start(trivial)

    assert await explained(client, run) == (
        "is pending: no worker for trivial version 1 is alive, and no other worker is alive either.",
        "stepwell worker MODULE",
    )


async def test_a_run_that_a_busy_worker_will_take(harness: Harness):
    async def slow() -> None:
        await asyncio.sleep(60)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(slow)

    worker = await harness.worker(flow, runs_max=1)
    await worker.start(flow)
    run = await worker.start(flow)
    await harness.advance("1s")

    assert await explained(worker, run) == (
        f"is pending: it is due, and waits for a free slot on worker {worker.process.name}.",
        "to add a worker: stepwell worker MODULE",
    )


async def test_a_run_that_is_running_or_whose_worker_died(harness: Harness):
    async def slow() -> None:
        await asyncio.sleep(600)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(slow)

    worker = await harness.worker(flow, lease="10s")
    client = await harness.client()
    run = await worker.start(flow)
    await harness.advance("1s")
    assert await explained(client, run) == (
        f"is running: worker {worker.process.name} executes it.",
        f"stepwell watch {run.run_id}",
    )

    worker.crash()
    await harness.advance("11s")
    ended = "2023-11-14 22:13:"
    sentence, following = await explained(client, run)
    assert sentence.startswith(f"is running: its worker {worker.process.name} died: its lease expired at {ended}")
    assert " UTC; the next worker to look takes it over; no worker for flow version 1 is alive" in sentence
    assert following == "stepwell worker MODULE"
    dead, missing = (await client.do(client.engine.explain(run.run_id))).chain
    assert sentence == f"is running: {dead.sentence}; {missing.sentence}."


async def test_a_delayed_run(harness: Harness):
    worker = await harness.worker(trivial)
    run = await worker.start(trivial, delay="3h")
    await harness.drain()

    assert await explained(worker, run) == ("is pending: it begins in 3 hours.", f"stepwell watch {run.run_id}")


async def test_a_run_that_sleeps(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.sleep("cool-off", "3d")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await explained(worker, run) == (
        "is waiting: its timer cool-off fires in 3 days (2023-11-17 22:13:20 UTC).",
        f"stepwell watch {run.run_id}",
    )


async def test_a_run_that_waits_for_signals(harness: Harness):
    @workflow
    async def deadline(ctx: Context) -> None:
        await ctx.receive("approve", timeout="90m")

    worker = await harness.worker(listening, deadline)
    two, anything, soon = (
        await worker.start(listening, ["a", "b"]),
        await worker.start(listening, []),
        await worker.start(deadline),
    )
    await harness.drain()

    assert await explained(worker, two) == (
        "is waiting: it needs a signal 'a' or 'b' at a|b.",
        f"stepwell signal {two.run_id} a; stepwell signal {two.run_id} b",
    )
    assert await explained(worker, anything) == (
        "is waiting: it needs a signal of any name at receive.",
        f"stepwell signal {anything.run_id} NAME",
    )
    assert (await explained(worker, soon))[0] == (
        "is waiting: it needs a signal 'approve' at approve; it gives up in 90 minutes (2023-11-14 23:43:20 UTC)."
    )


async def test_a_run_that_waits_for_its_child_or_for_the_next_attempt(harness: Harness, ledger: Ledger):
    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.child(listening, ["x"])

    @workflow
    async def retrying(ctx: Context) -> None:
        policy = Retry(initial="10m", max_delay="10m", jitter=0)
        await ctx.step("charge", step(ledger.failing("charge"), retry=policy))

    worker = await harness.worker(parent, listening, retrying)
    waiting, failing = await worker.start(parent), await worker.start(retrying)
    await harness.drain()

    [child] = (await worker.engine.explain(waiting.run_id)).facts["active_children"]
    assert await explained(worker, waiting) == (
        f"is waiting: its child {child} (listening) at listening is waiting.",
        f"stepwell signal {child} x",
    )
    assert (await explained(worker, failing))[0] == (
        "is waiting: it retries charge in 10 minutes (2023-11-14 22:23:20 UTC), after ValueError: charge failed."
    )


async def test_a_run_with_several_reasons_to_wait_names_them_all(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.join("both", {"a": lambda c: c.sleep("nap", "2d"), "b": lambda c: c.receive("go")})

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    sentence, following = await explained(worker, run)
    assert sentence.startswith("is waiting: its timer both/a/nap fires in 2 days")
    assert sentence.endswith("; it needs a signal 'go' at both/b/go.")
    assert following == f"stepwell watch {run.run_id}; stepwell signal {run.run_id} go"


async def test_a_run_that_is_being_undone_or_cancelled(harness: Harness, ledger: Ledger):
    async def undo(ctx: Context) -> None:
        await ctx.sleep("cool off", "3h")

    @workflow
    async def flow(ctx: Context, fails: bool) -> None:
        await ctx.step("one", step(ledger.body("one"), compensate=undo))
        if fails:
            raise ValueError("no")
        await ctx.receive("never")

    worker = await harness.worker(flow)
    failing, waiting = await worker.start(flow, True), await worker.start(flow, False)
    await harness.drain()
    assert (await explained(worker, failing))[0].startswith("is rolling back: its timer one~undo/cool off fires")

    await worker.shutdown()
    client = await harness.client()
    harness.nodes.remove(worker)
    await client.do(client.engine.cancel(waiting.run_id))
    assert (await harness.status(waiting)).status == "cancelling"
    assert (await explained(client, waiting))[0] == (
        "is being cancelled: no worker for flow version 1 is alive, and no other worker is alive either."
    )


async def test_a_run_that_has_little_time(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow, deadline="5h")
    await harness.drain()

    told = await worker.engine.explain(run.run_id)
    assert told.sentence.endswith("is waiting: it needs a signal 'go' at go.")
    assert told.notes == ("It fails if it has not ended in 5 hours.",)
    assert told.facts["deadline_at"] == (await harness.status(run)).deadline_at


async def test_a_run_whose_start_is_debounced(harness: Harness):
    @workflow
    async def flow(ctx: Context, number: int) -> None:
        await ctx.receive("go")

    worker = await harness.worker(flow)
    await worker.start(flow, 1, key="doc")
    run = await worker.do(worker.engine.runs.start_debounced(flow, 2, key="doc", quiet="5s"))

    told = await worker.engine.explain(run.run_id)
    assert told.sentence.endswith("is pending: it begins in 5.0 s, unless another start postpones it.")
    await harness.advance("10s")
    told = await worker.engine.explain(run.run_id)
    assert told.sentence.endswith("is pending: the key 'doc' belongs to another run, which has not ended.")
