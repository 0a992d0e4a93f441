"""Retry of a whole run: a failed attempt starts the next one, and everything follows to the last attempt."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Failure, Fatal, Retry, RunFailed, done, step, workflow
from stepwell.errors import ChildFailed, InvalidOptionError, RunCancelled
from tests.cases.harness import Harness

THRICE = Retry(max_attempts=3, initial="10s", jitter=0)


class Unlucky(Exception):
    pass


@workflow
async def unlucky(ctx: Context, good: int) -> dict[str, Any]:
    """Fails before its attempt number `good`."""
    if ctx.attempt < good:
        raise Unlucky(f"attempt {ctx.attempt}")
    return {"attempt": ctx.attempt}


@workflow(retry=THRICE)
async def thrice(ctx: Context, good: int) -> dict[str, Any]:
    if ctx.attempt < good:
        raise Unlucky(f"attempt {ctx.attempt}")
    return {"attempt": ctx.attempt}


async def chain(harness: Harness, run_id: str) -> list[Any]:
    """The attempts of a run, oldest first."""
    found = [await harness.status(run_id)]
    while found[-1].successor is not None:
        found.append(await harness.status(found[-1].successor))
    return found


async def test_a_failed_attempt_starts_the_next_by_the_policy(harness: Harness):
    worker = await harness.worker(unlucky)
    run = await worker.start(unlucky, 3, key="k", retry=THRICE)
    await harness.drain()

    waiting = await harness.status("k")
    assert (waiting.status, waiting.attempt, waiting.input) == ("pending", 2, 3)
    assert waiting.wake_at is not None
    assert (waiting.wake_at - waiting.created_at).total_seconds() == 10

    assert await harness.result(run) == {"attempt": 3}
    attempts = await chain(harness, run.run_id)
    assert [(one.status, one.attempt, one.key) for one in attempts] == [
        ("continued", 1, "k"),
        ("continued", 2, "k"),
        ("completed", 3, "k"),
    ]
    assert [one.failure.summary for one in attempts[:2]] == ["Unlucky: attempt 1", "Unlucky: attempt 2"]
    assert (attempts[2].created_at - attempts[1].created_at).total_seconds() == 10
    assert (await harness.status("k")).run_id == attempts[2].run_id


async def test_the_last_attempt_fails(harness: Harness):
    worker = await harness.worker(thrice)
    run = await worker.start(thrice, 9, key="k")

    with pytest.raises(RunFailed, match="attempt 3"):
        await harness.result(run)
    last = await harness.status("k")
    assert (last.status, last.attempt, last.generation) == ("failed", 3, 3)


async def test_the_policy_of_a_start_goes_before_that_of_the_workflow(harness: Harness):
    worker = await harness.worker(thrice)
    run = await worker.start(thrice, 2, retry=Retry(max_attempts=1))

    with pytest.raises(RunFailed, match="attempt 1"):
        await harness.result(run)


async def test_a_run_is_tried_without_a_limit(harness: Harness):
    worker = await harness.worker(unlucky)
    run = await worker.start(unlucky, 8, retry=Retry(max_attempts=None, initial="1s", max_delay="2s"))

    assert await harness.result(run) == {"attempt": 8}


async def test_attempts_survive_a_crash(harness: Harness):
    worker = await harness.worker(thrice)
    run = await worker.start(thrice, 3)
    await harness.drain()
    worker = await harness.takeover(worker, thrice)

    assert await harness.result(run) == {"attempt": 3}


@pytest.mark.parametrize("error", [Failure("sold out"), Fatal("never"), InvalidOptionError("wrong code")])
async def test_what_no_attempt_would_change_is_final(harness: Harness, error: Exception):
    @workflow(retry=THRICE)
    async def final(ctx: Context) -> None:
        raise error

    @workflow(retry=THRICE)
    async def final_step(ctx: Context) -> None:
        await ctx.step(body)

    async def body() -> None:
        raise error

    worker = await harness.worker(final, final_step)
    for flow in (final, final_step):
        run = await worker.start(flow)
        with pytest.raises(RunFailed):
            await harness.result(run)
        assert (await harness.status(run)).status == "failed"


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        (Retry(max_attempts=4, initial="1s", retry_on=(Unlucky,)), 4),
        (Retry(max_attempts=4, initial="1s", retry_on=(OSError,)), 1),
        (Retry(max_attempts=4, initial="1s", give_up_on=(Unlucky,)), 1),
    ],
)
@pytest.mark.parametrize("where", ["start", "workflow"])
async def test_the_types_of_a_policy_are_those_of_the_failed_step(
    harness: Harness, policy: Retry, attempts: int, where: str
):
    @step(retry=Retry(max_attempts=1))
    async def fails() -> None:
        raise Unlucky

    @workflow(retry=policy if where == "workflow" else None)
    async def failing(ctx: Context) -> None:
        await ctx.step(fails)

    worker = await harness.worker(failing)
    run = await worker.start(failing, **({"retry": policy} if where == "start" else {}))
    with pytest.raises(RunFailed):
        await harness.result(run)
    assert len(await chain(harness, run.run_id)) == attempts


async def test_a_failed_attempt_is_undone_before_the_next_begins(harness: Harness):
    log: list[str] = []

    async def undo() -> None:
        log.append("undo")

    @step(compensate=undo)
    async def take() -> None:
        log.append("take")

    @workflow(retry=THRICE)
    async def taking(ctx: Context) -> str:
        await ctx.step(take)
        if ctx.attempt == 1:
            raise Unlucky
        return "done"

    worker = await harness.worker(taking)
    run = await worker.start(taking)

    assert await harness.result(run) == "done"
    assert log == ["take", "undo", "take"]
    first, second = await chain(harness, run.run_id)
    assert (first.status, second.status, second.attempt) == ("continued", "completed", 2)


async def test_a_parent_waits_for_the_last_attempt_of_its_child(harness: Harness):
    @workflow
    async def parent(ctx: Context) -> list[Any]:
        got: list[Any] = [await ctx.child(unlucky, 2, retry=THRICE)]
        spawned = await ctx.spawn(thrice, 3)
        started = await ctx.start(unlucky, 3, retry=THRICE)
        for run_id in (spawned, started):
            got.append((await ctx.wait_any(end=done(run_id))).value.value)
        try:
            await ctx.child(thrice, 9, name="lost")
        except ChildFailed as error:
            got.append(error.failure.message if error.failure else "")
        return got

    worker = await harness.worker(parent, unlucky, thrice)
    run = await worker.start(parent)

    assert await harness.result(run) == [{"attempt": 2}, {"attempt": 3}, {"attempt": 3}, "attempt 3"]


async def test_signals_wait_for_the_next_attempt(harness: Harness):
    @workflow(retry=THRICE)
    async def told(ctx: Context) -> Any:
        if ctx.attempt == 1:
            raise Unlucky
        return (await ctx.receive("word")).payload

    worker = await harness.worker(told)
    run = await worker.start(told)
    await harness.drain()
    await worker.signal(run.run_id, "word", "hello")

    assert await harness.result(run) == "hello"


async def test_continuing_as_new_counts_attempts_afresh_and_previous_has_no_gap(harness: Harness):
    @workflow
    async def polls(ctx: Context, left: int) -> Any:
        if ctx.attempt == 1:
            raise Unlucky
        if left:
            ctx.continue_as_new(left - 1)
        return None if ctx.previous is None else ctx.previous.run_id

    worker = await harness.worker(polls)
    run = await worker.start(polls, 1, retry=THRICE)
    seen = await harness.result(run)

    attempts = await chain(harness, run.run_id)
    assert [one.attempt for one in attempts] == [1, 2, 1, 2]
    assert seen == attempts[1].run_id


async def test_a_waiting_attempt_is_explained_begun_early_and_cancelled(harness: Harness):
    worker = await harness.worker(unlucky)
    engine = worker.engine
    run = await worker.start(unlucky, 9, key="k", retry=Retry(max_attempts=5, initial="1h", jitter=0, max_delay="1h"))
    await harness.drain()

    [cause] = (await worker.do(engine.explain("k"))).chain
    assert cause.sentence == (
        f"attempt 2 of 5 begins in 60 minutes, because run {run.run_id} failed: Unlucky: attempt 1"
    )
    assert cause.next[0].verb == "wake"
    [first] = (await worker.do(engine.explain(run.run_id))).chain
    assert first.sentence.startswith("it failed, and its next attempt is run ")

    assert await worker.do(engine.runs.wake("k"))
    await harness.drain()
    assert (await harness.status("k")).attempt == 3
    await worker.do(engine.repairs.retry("k"))
    await harness.drain()
    assert (await harness.status("k")).attempt == 4

    assert await worker.do(engine.cancel("k"))
    with pytest.raises(RunCancelled):
        await harness.result(run)


async def test_no_attempt_begins_after_the_deadline(harness: Harness):
    worker = await harness.worker(unlucky)
    run = await worker.start(unlucky, 9, retry=THRICE, deadline="5s")

    with pytest.raises(RunFailed, match="attempt 1"):
        await harness.result(run)


async def test_a_policy_that_cannot_be_stored_is_refused(harness: Harness):
    worker = await harness.worker(unlucky)

    with pytest.raises(InvalidOptionError, match="retry_on of the retry policy is a function"):
        await worker.start(unlucky, 1, retry=Retry(retry_on=lambda error: True))
    with pytest.raises(InvalidOptionError, match="delay of the retry policy is a function"):
        await worker.start(unlucky, 1, retry=Retry(delay=lambda attempt, error: "1s"))
    with pytest.raises(InvalidOptionError, match="retry is 3"):
        await worker.start(unlucky, 1, retry=3)
    with pytest.raises(InvalidOptionError, match="did you mean max_attempts="):
        await worker.start(unlucky, 1, retry={"max_attempt": 3})
    assert await worker.do(worker.engine.runs.list()) == []


async def test_functions_of_the_workflows_policy_decide(harness: Harness):
    @workflow(retry=Retry(max_attempts=9, retry_on=lambda error: "2" not in str(error), delay=lambda n, error: n))
    async def choosy(ctx: Context) -> None:
        raise Unlucky(f"attempt {ctx.attempt}")

    worker = await harness.worker(choosy)
    run = await worker.start(choosy)

    with pytest.raises(RunFailed, match="attempt 2"):
        await harness.result(run)
    first, second = await chain(harness, run.run_id)
    assert (second.created_at - first.created_at).total_seconds() == 0
    assert (second.started_at - first.ended_at).total_seconds() == 1
