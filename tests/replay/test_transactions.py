"""Transactional steps: rows and record together, and a fault at every call to the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from stepwell import Context, Retry, Rollback, RunFailed, StepFailed, Transaction, step, workflow
from stepwell.errors import TransactionError
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES, without_transactions
from tests.replay.sweep import Execution, Fault, FaultKind, Moment, Program, reference

TWICE = Retry(max_attempts=2, initial="10ms")
CREATE = "create table if not exists coins (id integer primary key, who text not null, n integer not null)"


@pytest_asyncio.fixture
async def harness(mode: str) -> AsyncIterator[Harness]:
    harness = Harness(STORES["sqlite"](), mode)
    yield harness
    await harness.close()


async def rows_of(node: Node, sql: str = "select who, n from coins order by id") -> list[tuple[Any, ...]]:
    return await node.wire.behind.transactions.run(lambda tx: (tx.execute(CREATE), tx.execute(sql))[1])


@step(transaction=True)
async def pay(tx: Transaction, who: str, n: int) -> int:
    tx.execute(CREATE)
    tx.execute("insert into coins (who, n) values (?, ?)", (who, n))
    return int(tx.execute("select sum(n) from coins where who = ?", (who,))[0][0])


@step(transaction=True)
def pay_sync(tx: Transaction, who: str, n: int) -> int:
    tx.execute(CREATE)
    tx.execute("insert into coins (who, n) values (:who, :n)", {"who": who, "n": n})
    return n


@step(transaction=True)
async def take_back(tx: Transaction, who: str, n: int) -> None:
    tx.execute("insert into coins (who, n) values (?, ?)", (who, -n))


def payments(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[int]:
        first = await ctx.step("first", pay, "ann", 5)
        await ctx.step("between", ledger.act)
        second = await ctx.step("second", pay_sync, "ann", 7)
        await ctx.sleep("nap", "1s")
        return [first, second, await ctx.step("third", pay, "ann", 1)]

    return Program(program, lasts="1m")


def at_once(ledger: Ledger) -> Program:
    async def branch(ctx: Context, number: int) -> int:
        await ctx.step("before", ledger.act)
        return await ctx.step("pay", pay_sync, f"b{number}", number)

    @workflow
    async def program(ctx: Context) -> list[int]:
        return await ctx.map("all", branch, range(3))

    return Program(program, lasts="1m")


def taken_back(ledger: Ledger) -> Program:
    paid = pay.options(compensate=take_back)

    @workflow
    async def program(ctx: Context) -> None:
        await ctx.step("one", paid, "bob", 3)
        await ctx.step("two", paid, "bob", 4)
        raise Rollback("enough")

    return Program(program, lasts="1m")


SWEEPS: dict[str, tuple[Any, str, Any, list[tuple[Any, ...]]]] = {
    "payments": (payments, "completed", [5, 7, 13], [("ann", 5), ("ann", 7), ("ann", 1)]),
    "at once": (at_once, "completed", [0, 1, 2], [("b0", 0), ("b1", 1), ("b2", 2)]),
    "taken back": (taken_back, "compensated", None, [("bob", 3), ("bob", 4), ("bob", -4), ("bob", -3)]),
}


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize("kind", ["crash", "lost", "pause"])
async def test_a_fault_at_any_call_changes_nothing_and_rows_are_written_once(mode: str, name: str, kind: FaultKind):
    build, status, output, rows = SWEEPS[name]
    expected, calls = await reference(build, mode, "sqlite")
    assert (expected.status, expected.output) == (status, output)
    moments: tuple[Moment, ...] = ("before", "after") if kind != "pause" else ("before",)
    for fault in [Fault(kind, moment, number) for moment in moments for number in range(1, calls + 1)]:
        execution = Execution(build, mode, "sqlite", fault)
        outcome = await execution.run()
        found = await rows_of(execution.harness.nodes[0])
        assert outcome[:3] == expected[:3], f"{fault}: {outcome}"
        assert execution.repeated == set(), f"{fault}: durable steps ran again"
        assert sorted(found) == sorted(rows), f"{fault}: {found}"


async def test_a_transactional_step_takes_along_what_is_before_it(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> int:
        await ctx.step("before", ledger.act)
        return await ctx.step(pay, "ann", 5)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == 5
    applied = [commit for _, commit, _ in harness.answers]
    assert [[entry.seq for entry in commit.entries] for commit in applied] == [[1, 2], []]


async def test_a_body_that_fails_leaves_no_row_and_is_tried_again(harness: Harness):
    tries = 0

    @step(transaction=True, retry=TWICE)
    async def flaky(tx: Transaction) -> int:
        nonlocal tries
        tries += 1
        tx.execute(CREATE)
        tx.execute("insert into coins (who, n) values ('x', ?)", (tries,))
        if tries == 1:
            raise ValueError("once")
        return tries

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step(flaky)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    assert await harness.result(run) == 2
    assert await rows_of(worker) == [("x", 2)]
    [entry] = await harness.history(run)
    assert (entry.attempts, [tried.error for tried in entry.failed_attempts]) == (2, ["ValueError: once"])


async def test_a_body_that_fails_for_good_leaves_no_row(harness: Harness):
    @step(transaction=True, retry=TWICE)
    def bad(tx: Transaction) -> None:
        tx.execute(CREATE)
        tx.execute("insert into coins (who, n) values ('x', 1)")
        raise ValueError("always")

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(bad)
        except StepFailed as error:
            return f"{error.failure.type} after {error.attempts}"
        return "done"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    assert (await harness.result(run), await rows_of(worker)) == ("ValueError after 2", [])


async def test_a_result_that_cannot_be_stored_leaves_no_row(harness: Harness):
    @step(transaction=True)
    async def strange(tx: Transaction) -> Any:
        tx.execute(CREATE)
        tx.execute("insert into coins (who, n) values ('x', 1)")
        return object()

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(strange)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    with pytest.raises(RunFailed, match="the result of `strange`"):
        await harness.result(run)
    assert await rows_of(worker) == []


async def test_a_body_that_waits_is_refused_and_leaves_no_row(harness: Harness):
    @step(transaction=True)
    async def slow(tx: Transaction) -> None:
        tx.execute(CREATE)
        tx.execute("insert into coins (who, n) values ('x', 1)")
        await asyncio.sleep(1)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(slow)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    with pytest.raises(RunFailed, match="transactional step `slow` waits for something outside its transaction"):
        await harness.result(run)
    assert await rows_of(worker) == []
    [entry] = await harness.history(run)
    assert entry.attempts == 1


async def test_a_body_may_catch_what_is_refused_and_go_on(harness: Harness):
    @step(transaction=True)
    async def stubborn(tx: Transaction) -> str:
        tx.execute(CREATE)
        tx.execute("insert into coins (who, n) values ('x', 1)")
        try:
            tx.execute("commit")
        except TransactionError as error:
            return f"{error.code} at {error.where}"
        return "committed"

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(stubborn)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert (await harness.result(run), await rows_of(worker)) == ("SW132 at commit", [("x", 1)])


async def test_results_that_came_meanwhile_reach_the_code_after_it(harness: Harness, ledger: Ledger):
    seen: list[str] = []

    @workflow
    async def flow(ctx: Context) -> list[str]:
        async def note(name: str, operation: Any) -> None:
            await operation
            seen.append(name)

        await asyncio.gather(
            note("a", ctx.step("a", ledger.act)),
            note("pay", ctx.step("pay", pay, "ann", 1)),
            note("b", ctx.step("b", ledger.act)),
        )
        first = list(seen)
        seen.clear()
        await ctx.sleep("nap", "1h")
        return first

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2h")

    order = await harness.result(run)
    assert [path for path in await harness.paths(run) if path != "nap"] == order


async def test_a_cancel_before_it_prevents_the_step(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.sleep("nap", "1h")
        await ctx.step(pay, "ann", 1)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("2h")

    assert ((await harness.status(run)).status, await rows_of(worker)) == ("cancelled", [])


async def test_a_store_without_transactions_refuses_with_the_fix(mode: str):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(pay, "ann", 1)

    harness = Harness(without_transactions(STORES["sqlite"]()), mode)
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    with pytest.raises(RunFailed, match="the plain store has no transactional steps") as caught:
        await harness.result(run)
    failure = caught.value.failure
    assert (failure.code, failure.path, failure.attempts, "sqlite:///" in failure.fix) == ("SW133", "pay", 1, True)
    await harness.close()
