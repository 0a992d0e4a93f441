"""Rivet's cases: steps, loops, sleeps, messages, joins, races, rollback, changed code."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from stepwell import (
    Break,
    Context,
    Continue,
    Fatal,
    JoinError,
    RaceError,
    Retry,
    Rollback,
    RunFailed,
    RunPaused,
    StepFailed,
    WaitTimeout,
    step,
    workflow,
)
from stepwell.clock import to_datetime
from stepwell.model.locations import format_path
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger


async def test_ri_01_a_completed_step_is_not_called_again(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> int:
        paid = await ctx.step("charge", ledger.body("charge", 7))
        await ctx.sleep("pause", "3d")
        return paid

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()
    await harness.takeover(worker, order)
    await harness.advance("3d")

    assert await harness.result(run) == 7
    assert ledger.lines == ["charge"]


async def test_ri_02_a_step_that_returned_none_is_not_called_again(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> str:
        nothing = await ctx.step("notify", ledger.body("notify", None))
        await ctx.sleep("pause", "1h")
        return f"got {nothing}"

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()
    await harness.takeover(worker, order)

    assert await harness.result(run) == "got None"
    assert ledger.lines == ["notify"]


async def test_ri_04_a_failing_step_with_a_long_backoff_waits_until_then(harness: Harness, ledger: Ledger):
    policy = Retry(max_attempts=6, initial="1m", factor=2, max_delay="5m", jitter=0)

    @workflow
    async def order(ctx: Context) -> str:
        return await ctx.step("call", step(ledger.failing("call", times=5, value="ok"), retry=policy))

    worker = await harness.worker(order)
    run = await worker.start(order)
    waited = []
    for _ in range(5):
        await harness.drain()
        view = await harness.status(run)
        assert view.status == "waiting"
        assert view.wake_at is not None
        now = to_datetime(harness.clock.now())
        waited.append((view.wake_at - now) / timedelta(minutes=1))
        await harness.advance(view.wake_at - now - timedelta(seconds=1))
        assert (await harness.status(run)).status == "waiting"
        await harness.advance("1s")

    assert waited == [1, 2, 4, 5, 5]
    assert await harness.result(run) == "ok"
    assert ledger.counts == {"call": 6}


async def test_ri_05_a_fatal_error_is_not_retried(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("charge", ledger.failing("charge", error=Fatal("card stolen")))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1h")

    view = await harness.status(run)
    assert (view.status, view.failure.summary, ledger.counts) == ("failed", "Fatal: card stolen", {"charge": 1})


async def test_ri_05_a_rollback_from_a_step_is_not_retried_and_undoes(harness: Harness, ledger: Ledger):
    async def release() -> None:
        ledger.note("release")

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("reserve", step(ledger.body("reserve"), compensate=release))
        await ctx.step("charge", ledger.failing("charge", error=Rollback("no money")))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1h")

    assert (await harness.status(run)).status == "compensated"
    assert ledger.lines == ["reserve", "charge", "release"]


async def test_ri_07_retry_lets_an_exhausted_step_run_again(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> str:
        await ctx.step("reserve", ledger.body("reserve"))
        return await ctx.step("charge", ledger.failing("charge", times=3, value="paid"))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1m")
    assert (await harness.status(run)).status == "failed"
    assert ledger.counts == {"reserve": 1, "charge": 3}

    assert await worker.do(worker.engine.repairs.retry(run.run_id))
    await harness.advance("1m")

    assert await harness.result(run) == "paid"
    assert ledger.counts == {"reserve": 1, "charge": 4}


async def test_ri_07_retry_of_a_run_that_has_not_failed_does_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> str:
        await ctx.step("reserve", ledger.body("reserve"))
        await ctx.sleep("pause", "1h")
        return "done"

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()
    before = await harness.status(run)

    assert not await worker.do(worker.engine.repairs.retry(run.run_id))
    assert await harness.status(run) == before
    await harness.advance("1h")
    assert not await worker.do(worker.engine.repairs.retry(run.run_id))
    assert (await harness.result(run), ledger.lines) == ("done", ["reserve"])


async def test_ri_08_a_step_longer_than_its_timeout_fails_without_retry(harness: Harness, ledger: Ledger):
    async def slow() -> None:
        ledger.note("slow")
        await asyncio.sleep(60)

    @workflow
    async def order(ctx: Context) -> str:
        try:
            await ctx.step(step(slow, timeout="5s"))
        except TimeoutError as error:
            return f"{error.failure.type} after {error.attempts}" if isinstance(error, StepFailed) else "other"
        return "not reached"

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("5s")

    assert await harness.result(run) == "TimeoutError after 1"
    assert ledger.lines == ["slow"]


async def test_ri_08_a_timeout_is_retried_if_the_policy_says_so(harness: Harness, ledger: Ledger):
    async def slow() -> str:
        ledger.note("slow")
        if len(ledger.lines) < 3:
            await asyncio.sleep(60)
        return "made it"

    @workflow
    async def order(ctx: Context) -> str:
        return await ctx.step(step(slow, timeout="5s", retry=Retry(on_timeout=True, initial="2s", jitter=0)))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("16s")

    assert await harness.result(run) == "made it"
    assert ledger.counts == {"slow": 3}


async def test_ri_10_the_same_name_twice_in_one_scope_is_numbered(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("notify", ledger.body("first"))
        await ctx.step("notify", ledger.body("second"))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.result(run)

    assert [entry.path for entry in await harness.history(run)] == ["notify", "notify#2"]
    assert ledger.lines == ["first", "second"]


async def test_ri_10_the_same_name_twice_in_one_scope_stops_a_run_with_unique_names(harness: Harness, ledger: Ledger):
    @workflow(names="unique")
    async def order(ctx: Context) -> None:
        await ctx.step("notify", ledger.body("first"))
        await ctx.step("notify", ledger.body("second"))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()

    with pytest.raises(RunPaused, match='share the name "notify"') as caught:
        await harness.result(run)
    assert caught.value.failure.code == "SW104"
    assert ledger.lines == ["first"]


async def test_ri_10_the_same_name_in_another_iteration_or_branch_is_fine(harness: Harness, ledger: Ledger):
    async def once_more(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step("notify", ledger.body(f"loop {turn}"))
        return Continue(turn + 1) if turn < 2 else Break(turn)

    async def left(ctx: Context) -> None:
        await ctx.step("notify", ledger.body("left"))

    async def right(ctx: Context) -> None:
        await ctx.step("notify", ledger.body("right"))

    @workflow
    async def order(ctx: Context) -> str:
        await ctx.step("notify", ledger.body("root"))
        await ctx.loop("rounds", once_more, 0)
        await ctx.join("both", {"left": left, "right": right})
        return "done"

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()

    assert await harness.result(run) == "done"
    assert ledger.lines == ["root", "loop 0", "loop 1", "loop 2", "left", "right"]


async def test_ri_11_a_step_where_a_sleep_was_recorded_stops_the_run(harness: Harness, ledger: Ledger):
    @workflow(name="order")
    async def before(ctx: Context) -> None:
        await ctx.sleep("x", "1m")
        await ctx.receive("go")

    @workflow(name="order")
    async def after(ctx: Context) -> None:
        await ctx.step("x", ledger.body("x"))
        await ctx.receive("go")

    worker = await harness.worker(before)
    run = await worker.start(before)
    await harness.advance("2m")
    worker = await harness.deploy(worker, after)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    with pytest.raises(RunPaused) as caught:
        await harness.result(run)
    assert caught.value.failure.code == "SW201"
    assert caught.value.why == "recorded: sleep x · now: step x"
    assert ledger.lines == []


async def test_ri_13_a_failing_attempt_is_recorded_with_its_error_and_no_value(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.try_step("call", step(ledger.failing("call", error=KeyError("sku")), retry=Retry(max_attempts=2)))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1m")

    (entry,) = await harness.history(run)
    assert (entry.status, entry.value, entry.attempts) == ("failed", None, 2)
    assert entry.failure.summary == "KeyError: 'sku'"
    assert "KeyError" in entry.failure.trace
    assert [(tried.number, tried.error) for tried in entry.failed_attempts] == [
        (1, "KeyError: 'sku'"),
        (2, "KeyError: 'sku'"),
    ]


async def test_ri_16_a_failing_join_or_race_can_be_handled(harness: Harness, ledger: Ledger):
    async def bad(ctx: Context) -> None:
        await ctx.step("call", step(ledger.failing("call"), retry=Retry(max_attempts=1)))

    @workflow
    async def order(ctx: Context) -> list[str]:
        handled = []
        try:
            await ctx.join("both", {"a": bad})
        except JoinError as error:
            handled.append(f"join {list(error.errors)}")
        await ctx.sleep("between", "1h")
        try:
            await ctx.race("first", {"b": bad})
        except RaceError as error:
            handled.append(f"race {list(error.errors)}")
        return handled

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1h")

    assert await harness.result(run) == ["join ['a']", "race ['b']"]


async def test_ri_16_a_sleep_inside_a_try_block_still_suspends(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> str:
        try:
            await ctx.step("before", ledger.body("before"))
            await ctx.sleep("pause", "3d")
            await ctx.step("after", ledger.body("after"))
        except Exception:
            return "swallowed"
        return "slept"

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("2d")
    assert (await harness.status(run)).status == "waiting"
    await harness.advance("1d")

    assert await harness.result(run) == "slept"
    assert ledger.lines == ["before", "after"]


async def test_ri_17_a_loop_counts_to_five_and_is_not_run_again(harness: Harness, ledger: Ledger):
    async def count(ctx: Context, counter: int) -> Continue[int] | Break[int]:
        await ctx.step("tick", ledger.body(f"tick {counter}"))
        return Break(counter) if counter == 5 else Continue(counter + 1)

    @workflow
    async def order(ctx: Context) -> int:
        counted = await ctx.loop("count", count, 0)
        await ctx.sleep("pause", "1h")
        return counted

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()
    await harness.takeover(worker, order)

    assert await harness.result(run) == 5
    assert ledger.counts == {f"tick {n}": 1 for n in range(6)}


def trims(worker: Node) -> list[tuple[str, str]]:
    """Every range that was deleted, as paths."""
    names: tuple[str, ...] = ()
    found = []
    for _, commit, _ in worker.wire.answers:
        names += commit.names
        found += [(format_path(first, names), format_path(end, names)) for first, end in commit.trims]
    return found


def counting_loop(ledger: Ledger, rounds: int, **options: Any) -> Any:
    async def tick(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step("tick", ledger.body("tick", turn))
        return Break(turn) if turn == rounds - 1 else Continue(turn + 1)

    @workflow
    async def looping(ctx: Context) -> int:
        return await ctx.loop("l", tick, 0, **options)

    return looping


async def test_ri_19_only_the_newly_expired_ranges_are_deleted(harness: Harness, ledger: Ledger):
    looping = counting_loop(ledger, 9, trim_every=3, keep=3)
    worker = await harness.worker(looping)
    run = await worker.start(looping)
    await harness.drain()

    assert await harness.result(run) == 8
    assert trims(worker) == [("l/~0", "l/~3"), ("l/~3", "l/~6")]
    assert await harness.paths(run) == ["l/~6/tick", "l/~7/tick", "l/~8/tick", "l"]


@pytest.mark.parametrize(("rounds", "deleted"), [(2, []), (6, [("l/~0", "l/~3")])])
async def test_ri_20_a_break_deletes_what_expired_since(
    harness: Harness, ledger: Ledger, rounds: int, deleted: list[tuple[str, str]]
):
    looping = counting_loop(ledger, rounds, trim_every=3, keep=3)
    worker = await harness.worker(looping)
    run = await worker.start(looping)
    await harness.drain()

    assert await harness.result(run) == rounds - 1
    assert trims(worker) == deleted


async def test_ri_22_a_loop_resumes_in_the_right_inner_iteration(harness: Harness, ledger: Ledger):
    async def inner(ctx: Context, at: tuple[int, int]) -> Continue[tuple[int, int]] | Break[None]:
        outer, turn = at
        await ctx.step("work", ledger.body(f"work {outer}.{turn}"))
        await ctx.sleep("pause", "1h")
        await ctx.step("rest", ledger.body(f"rest {outer}.{turn}"))
        return Continue((outer, turn + 1)) if turn < 1 else Break(None)

    async def left(ctx: Context) -> str:
        await ctx.sleep("pause", "1h")
        return await ctx.step("call", ledger.body("left", "l"))

    async def right(ctx: Context) -> str:
        await ctx.step("call", ledger.body("right"))
        await ctx.sleep("pause", "2h")
        return "r"

    async def outer(ctx: Context, turn: int) -> Continue[int] | Break[str]:
        await ctx.loop("inner", inner, (turn, 0))
        both = await ctx.join("both", {"left": left, "right": right})
        won = await ctx.race("first", {"left": left, "right": right})
        return Continue(turn + 1) if turn < 1 else Break(f"{both} {won.branch}")

    @workflow
    async def order(ctx: Context) -> str:
        return await ctx.loop("outer", outer, 0)

    worker = await harness.worker(order)
    run = await worker.start(order)
    for _ in range(12):
        await harness.advance("30m")
        worker = await harness.takeover(worker, order)

    assert await harness.result(run) == "{'left': 'l', 'right': 'r'} left"
    expected = {f"{what} {o}.{i}": 1 for what in ("work", "rest") for o in (0, 1) for i in (0, 1)}
    assert ledger.counts == {**expected, "left": 4, "right": 4}


async def test_ri_23_a_sleep_has_one_deadline_however_often_it_is_run(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> str:
        slept = await ctx.sleep("pause", "10s")
        return str(slept.woke_at - slept.due_at)

    worker = await harness.worker(order, hold_max=0)
    run = await worker.start(order)
    await harness.drain()
    first = await harness.status(run)
    assert first.status == "waiting"
    assert first.wake_at == first.created_at + timedelta(seconds=10)

    await harness.advance("5s")
    worker = await harness.deploy(worker, order, hold_max=0)
    await harness.drain()
    assert (await harness.status(run)).wake_at == first.wake_at

    await harness.advance("5s")
    assert await harness.result(run) == "0:00:00"
    assert (await harness.status(run)).wake_at is None


async def test_ri_25_a_message_is_received_once_whenever_it_came(harness: Harness, ledger: Ledger):
    async def busy() -> None:
        await asyncio.sleep(10)

    @workflow
    async def order(ctx: Context) -> list[str]:
        got = []
        for _ in range(3):
            got.append((await ctx.receive("m")).payload)
            await ctx.step(busy)
        got += [m.payload for m in await ctx.receive_many("m", timeout="1s")]
        return got

    worker = await harness.worker(order)
    await worker.signal("k", "m", "before", if_missing="hold")
    run = await worker.start(order, key="k")
    await harness.advance("5s")
    await worker.signal("k", "m", "while running")
    await harness.advance("1h")
    assert (await harness.status(run)).status == "waiting"
    await worker.signal("k", "m", "while waiting")
    await harness.advance("1h")

    assert await harness.result(run) == ["before", "while running", "while waiting"]


async def test_ri_26_waiting_for_two_names_ends_with_the_first_to_come(harness: Harness):
    @workflow
    async def order(ctx: Context) -> list[str]:
        first = await ctx.receive("a", "b")
        await ctx.sleep("pause", "1h")
        return [first.name, (await ctx.receive("a")).payload]

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()
    await worker.signal(run.run_id, "b", 1)
    await harness.drain()
    explained = await worker.engine.explain(run.run_id)
    assert explained.facts["waits"] == ["timer at pause"]
    await worker.signal(run.run_id, "a", "late")
    await harness.advance("1h")

    assert await harness.result(run) == ["b", "late"]


async def test_ri_28_a_timeout_is_an_empty_batch_or_an_error_also_when_rerun(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> list[Any]:
        batch = await ctx.receive_many("m", timeout="1m")
        try:
            await ctx.receive("n", timeout="1m")
        except WaitTimeout as error:
            missed = error.path
        await ctx.sleep("pause", "1d")
        return [batch, missed]

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("5m")
    await worker.signal(run.run_id, "m", "late")
    await worker.signal(run.run_id, "n", "late")
    await harness.takeover(worker, order)
    await harness.advance("1d")

    assert await harness.result(run) == [[], "n"]


async def test_ri_29_an_iteration_does_not_see_the_message_of_another(harness: Harness):
    async def listen(ctx: Context, seen: list[str]) -> Continue[list[str]] | Break[list[str]]:
        try:
            seen = [*seen, (await ctx.receive("m", timeout="1h")).payload]
        except WaitTimeout:
            seen = [*seen, "timeout"]
        return Break(seen) if len(seen) == 2 else Continue(seen)

    @workflow
    async def order(ctx: Context) -> list[str]:
        nothing: list[str] = []
        return await ctx.loop("l", listen, nothing)

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()
    await worker.signal(run.run_id, "m", "hello")
    await harness.advance("2h")

    assert await harness.result(run) == ["hello", "timeout"]


async def test_ri_31_the_branches_of_a_join_run_at_once_and_not_again(harness: Harness, ledger: Ledger):
    async def slow(name: str) -> str:
        ledger.note(f"{name} begins")
        await asyncio.sleep(5)
        ledger.note(f"{name} ends")
        return name.upper()

    @workflow
    async def order(ctx: Context) -> dict[str, str]:
        both = await ctx.join("both", {"a": lambda c: c.step(slow, "a"), "b": lambda c: c.step(slow, "b")})
        await ctx.sleep("pause", "1h")
        return both

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("5s")
    assert ledger.lines == ["a begins", "b begins", "a ends", "b ends"]
    await harness.takeover(worker, order)

    assert await harness.result(run) == {"a": "A", "b": "B"}
    assert len(ledger.lines) == 4


async def test_ri_32_the_other_branches_of_a_failing_join_still_finish(harness: Harness, ledger: Ledger):
    async def bad(ctx: Context) -> None:
        await ctx.step("call", step(ledger.failing("bad"), retry=Retry(max_attempts=1)))

    async def good(ctx: Context) -> str:
        await ctx.sleep("pause", "1h")
        return await ctx.step("call", ledger.body("good", "ok"))

    @workflow
    async def order(ctx: Context) -> list[str]:
        try:
            await ctx.join("both", {"good": good, "bad": bad})
        except JoinError as error:
            return [f"{name}: {str(cause).splitlines()[0]}" for name, cause in error.errors.items()]
        return []

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1h")

    assert await harness.result(run) == [
        "bad: SW451  step both/bad/call failed after 1 attempt: ValueError: bad failed"
    ]
    assert ledger.lines == ["bad", "good"]


async def test_ri_34_the_fast_branch_wins_and_nothing_is_left_of_the_slow_one(harness: Harness, ledger: Ledger):
    async def slow_body() -> None:
        ledger.note("slow begins")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ledger.note("slow is told to stop")
            raise
        ledger.note("slow ends")

    async def fast(ctx: Context) -> str:
        await ctx.sleep("pause", "10s")
        return "fast"

    async def slow(ctx: Context) -> str:
        await ctx.step("first", ledger.body("slow's first"))
        await ctx.step(slow_body)
        return "slow"

    @workflow
    async def order(ctx: Context) -> str:
        won = await ctx.race("first", {"slow": slow, "fast": fast})
        await ctx.sleep("pause", "1h")
        return f"{won.branch} {won.value}"

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("5m")
    assert ledger.lines == ["slow's first", "slow begins", "slow is told to stop"]
    assert await harness.paths(run) == ["first/fast/pause", "first"]
    await harness.takeover(worker, order)

    assert await harness.result(run) == "fast fast"
    assert len(ledger.lines) == 3


async def test_ri_35_a_late_success_beats_an_early_failure(harness: Harness, ledger: Ledger):
    async def bad(ctx: Context) -> str:
        return await ctx.step("call", step(ledger.failing("bad"), retry=Retry(max_attempts=1)))

    async def good(ctx: Context) -> str:
        await ctx.sleep("pause", "1h")
        return "good"

    @workflow
    async def order(ctx: Context) -> str:
        return (await ctx.race("first", {"bad": bad, "good": good})).branch

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1h")

    assert await harness.result(run) == "good"
    assert ledger.counts == {"bad": 1}
    assert await harness.paths(run) == ["first/good/pause", "first"]


async def test_ri_35_when_all_branches_fail_the_error_has_each(harness: Harness, ledger: Ledger):
    def bad(name: str) -> Any:
        body = step(ledger.failing(name), retry=Retry(max_attempts=1))
        return lambda ctx: ctx.step("call", body)

    @workflow
    async def order(ctx: Context) -> dict[str, str]:
        try:
            await ctx.race("first", {"a": bad("a"), "b": bad("b")})
        except RaceError as error:
            return {
                name: cause.failure.message for name, cause in error.errors.items() if isinstance(cause, StepFailed)
            }
        return {}

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()

    assert await harness.result(run) == {"a": "a failed", "b": "b failed"}


async def test_ri_37_a_rollback_to_a_checkpoint_that_was_not_passed_is_an_error(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("reserve", ledger.body("reserve"))
        raise Rollback(to="booked")

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()

    with pytest.raises(RunFailed, match="checkpoint 'booked'") as caught:
        await harness.result(run)
    assert caught.value.failure.code == "SW702"


async def test_ri_38_an_undo_that_is_done_is_not_repeated_after_an_eviction(harness: Harness, ledger: Ledger):
    async def undo_first() -> None:
        ledger.note("undo first")

    async def undo_second(ctx: Context) -> None:
        ledger.note("undo second begins") if not ctx.is_replaying else None
        await ctx.sleep("cool off", "1h")
        await ctx.step("undo", ledger.body("undo second"))

    async def undo_third() -> None:
        ledger.note("undo third")

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("first", step(ledger.body("first"), compensate=undo_first))
        await ctx.step("second", step(ledger.body("second"), compensate=undo_second))
        await ctx.step("third", step(ledger.body("third"), compensate=undo_third))
        raise ValueError("no")

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("10m")
    assert (await harness.status(run)).status == "compensating"
    assert ledger.lines[3:] == ["undo third", "undo second begins"]
    await harness.takeover(worker, order)

    assert (await harness.status(run)).status == "compensated"
    assert [line for line in ledger.lines[3:] if "begins" not in line] == ["undo third", "undo second", "undo first"]


async def test_ri_40_everything_removed_from_the_code_replays_if_declared(harness: Harness, ledger: Ledger):
    async def branch(ctx: Context) -> str:
        return await ctx.step("inside", ledger.body("inside", "ok"))

    async def rounds(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step("tick", ledger.body("tick"))
        return Break(turn) if turn == 2 else Continue(turn + 1)

    @workflow(name="order")
    async def before(ctx: Context) -> str:
        await ctx.step("a step", ledger.body("a step"))
        await ctx.loop("a loop", rounds, 0)
        await ctx.join("a join", {"one": branch, "two": branch})
        await ctx.race("a race", {"one": branch})
        await ctx.sleep("a sleep", "1s")
        await ctx.receive("a message")
        await ctx.receive("go")
        return "old"

    @workflow(name="order")
    async def after(ctx: Context) -> str:
        for name, kind in {
            "a step": "step",
            "a loop": "loop",
            "a join": "join",
            "a race": "race",
            "a sleep": "sleep",
            "a message": "receive",
        }.items():
            ctx.removed(name, kind)
        await ctx.receive("go")
        return "new"

    worker = await harness.worker(before)
    run = await worker.start(before)
    await worker.signal(run.run_id, "a message")
    await harness.advance("1m")
    effects = list(ledger.lines)
    worker = await harness.deploy(worker, after)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == "new"
    assert ledger.lines == effects


async def test_ri_40_a_version_gate_gives_old_runs_the_old_code_for_ever(harness: Harness, ledger: Ledger):
    @workflow(name="order")
    async def before(ctx: Context) -> str:
        await ctx.step("reserve", ledger.body("reserve"))
        await ctx.receive("go")
        return "old"

    @workflow(name="order")
    async def after(ctx: Context) -> str:
        version = ctx.version("with fraud check", 2)
        if version >= 2:
            await ctx.step("fraud", ledger.body("fraud"))
        await ctx.step("reserve", ledger.body("reserve"))
        await ctx.receive("go")
        await ctx.sleep("later", "2h")
        return f"version {version} and {ctx.version('late', 3)}"

    worker = await harness.worker(before)
    old = await worker.start(before)
    await harness.drain()
    worker = await harness.deploy(worker, after)
    fresh = await worker.start(after)
    await harness.drain()
    for run in (old, fresh):
        await worker.signal(run.run_id, "go")
    await harness.drain()
    await harness.takeover(worker, after)
    await harness.advance("1h")

    assert await harness.result(old) == "version 1 and 3"
    assert await harness.result(fresh) == "version 2 and 3"
    assert ledger.lines == ["reserve", "fraud", "reserve"]


async def test_ri_40_a_rewind_keeps_what_is_before_the_step_and_restarts_a_loop_whole(harness: Harness, ledger: Ledger):
    async def rounds(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step("tick", ledger.body("tick"))
        return Break(turn) if turn == 2 else Continue(turn + 1)

    @workflow(name="order")
    async def order(ctx: Context) -> str:
        await ctx.step("one", ledger.body("one"))
        await ctx.step("two", ledger.body("two"))
        await ctx.step("three", ledger.body("three"))
        await ctx.loop("a loop", rounds, 0)
        await ctx.receive("go")
        return "done"

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.drain()

    await worker.do(worker.engine.repairs.rewind(run.run_id, "a loop/~1/tick"))
    await harness.drain()
    assert [ledger.counts.get(name, 0) for name in ("one", "two", "three", "tick")] == [1, 1, 1, 6]

    await worker.do(worker.engine.repairs.rewind(run.run_id, "two"))
    await harness.drain()
    assert [ledger.counts.get(name, 0) for name in ("one", "two", "three", "tick")] == [1, 2, 2, 9]
    await worker.signal(run.run_id, "go")
    await harness.drain()
    assert await harness.result(run) == "done"
