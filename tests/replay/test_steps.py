"""Steps: what they may be, what they know, how their failures come back."""

from __future__ import annotations

import asyncio
import functools
import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import (
    ChildFailed,
    Context,
    JoinError,
    Retry,
    RetryAfter,
    RunFailed,
    StepContext,
    StepFailed,
    step,
    workflow,
)
from stepwell.errors import InvalidOptionError, UnserialisableError
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

ONCE = Retry(max_attempts=1)


async def outcome(harness: Harness, flow: Any, *others: Any, takeover: bool = True) -> Any:
    """The result of a workflow that waits for "go", before and after a takeover."""
    worker = await harness.worker(flow, *others)
    run = await worker.start(flow)
    await harness.advance("10m")
    if takeover:
        worker = await harness.takeover(worker, flow, *others)
    await worker.signal(run.run_id, "go", if_missing="drop")
    await harness.advance("1m")
    return await harness.result(run)


class Adder:
    """Something with a method that is used as a step."""

    def __init__(self, by: int) -> None:
        self.by = by

    async def add(self, number: int) -> int:
        return number + self.by

    def __call__(self, number: int) -> int:
        return number + 2 * self.by


async def test_any_callable_can_be_a_step(harness: Harness):
    def blocking(number: int) -> int:
        return number * 3

    async def scaled(number: int, factor: int = 1) -> int:
        return number * factor

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        found = [
            await ctx.step(blocking, 2),
            await ctx.step("lambda", lambda: 7),
            await ctx.step("method", Adder(5).add, 1),
            await ctx.step("callable", Adder(5), 1),
            await ctx.step("partial", functools.partial(scaled, factor=4), 2),
            await ctx.step(scaled, 2, factor=5),
        ]
        await ctx.receive("go")
        return found

    assert await outcome(harness, flow) == [6, 7, 6, 11, 8, 10]


async def test_options_of_one_call_do_not_change_the_step(harness: Harness, ledger: Ledger):
    @step(retry=ONCE)
    async def call() -> None:
        ledger.note("call")
        raise ConnectionError("again")

    @workflow
    async def flow(ctx: Context) -> list[int]:
        patient = call.options(name="patient", retry=Retry(max_attempts=4, initial="1ms"))
        tried = [await ctx.try_step(patient), await ctx.try_step(call)]
        return [each.attempts for each in tried]

    assert await outcome(harness, flow, takeover=False) == [4, 1]


async def test_a_body_knows_its_attempt_path_and_key(harness: Harness):
    seen: list[StepContext] = []

    async def call(info: StepContext, value: int) -> int:
        seen.append(info)
        if info.attempt < 3:
            raise RetryAfter("5s")
        return value

    @workflow
    async def flow(ctx: Context) -> int:
        return (await ctx.join("both", {"a": lambda c: c.step(call, 7)}))["a"]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    assert await harness.result(run) == 7
    assert [(info.attempt, info.is_final_attempt, info.path) for info in seen] == [
        (1, False, "both/a/call"),
        (2, False, "both/a/call"),
        (3, True, "both/a/call"),
    ]
    assert {(info.run_id, info.workflow, info.idempotency_key) for info in seen} == {
        (run.run_id, "flow", f"{run.run_id}:both/a/call")
    }


async def test_retry_after_sets_the_next_delay(harness: Harness):
    times = []

    async def call() -> None:
        times.append(harness.clock.now())
        if len(times) < 3:
            raise RetryAfter("90s")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(call, retry=Retry(initial="1ms")))

    worker = await harness.worker(flow)
    await worker.start(flow)
    await harness.advance("10m")

    assert [(b - a) / 1e6 for a, b in itertools.pairwise(times)] == [90, 90]


async def test_attempts_survive_a_crash(harness: Harness, ledger: Ledger):
    policy = Retry(max_attempts=4, initial="1h", factor=1, max_delay="1h", jitter=0)

    @workflow
    async def flow(ctx: Context) -> int:
        return (await ctx.try_step("call", step(ledger.failing("call"), retry=policy))).attempts

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    for _ in range(3):
        worker = await harness.takeover(worker, flow)

    assert await harness.result(run) == 4
    assert ledger.counts == {"call": 4}


async def test_deferred_steps_share_the_next_commit(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> int:
        later = step(ledger.act, durability="deferred")
        for number in range(10):
            await ctx.step("later", later, number)
        return int(await ctx.step("now", ledger.act, 10))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == 10
    assert [len(commit.entries) for _, commit, _ in worker.wire.answers] == [11]
    assert len(await harness.history(run)) == 11


async def test_the_time_of_a_deferred_step_is_durable_before_an_effect_is_told_of_it(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> int:
        later = step(ledger.act, durability="deferred")
        await ctx.step("later", later, 0)
        return int(await ctx.step("now", ledger.act, ctx.now().microsecond))

    worker = await harness.worker(flow)
    await worker.start(flow)
    await harness.drain()

    assert [len(commit.entries) for _, commit, _ in worker.wire.answers] == [1, 1]


async def test_an_at_most_once_step_is_never_run_again_after_a_crash(harness: Harness, ledger: Ledger):
    async def transfer() -> str:
        ledger.note("transfer")
        if not ledger.counts.get("recovered"):
            worker.crash()
            await asyncio.sleep(0)
        return "sent"

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            return await ctx.step(step(transfer, at_most_once=True))
        except StepFailed as error:
            return f"{error.failure.code} after {error.attempts}"

    worker = await harness.worker(flow)
    client = await harness.client()
    run = await client.start(flow)
    await harness.drain()
    await harness.takeover(worker, flow)

    assert await harness.result(run) == "SW461 after 1"
    assert ledger.lines == ["transfer"]


async def test_an_unknown_outcome_reaches_the_code_after_what_was_recorded_before_it(harness: Harness, ledger: Ledger):
    async def transfer() -> None:
        await asyncio.sleep(3600)

    @workflow
    async def flow(ctx: Context) -> list[str]:
        order: list[str] = []

        async def pay(ctx: Context) -> None:
            await ctx.try_step(step(transfer, at_most_once=True))
            order.append("pay")

        async def mark(ctx: Context) -> None:
            await ctx.rollback_checkpoint("mark")
            order.append("mark")

        await ctx.join("j", {"pay": pay, "mark": mark})
        await ctx.receive("go")
        return order

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")

    assert await harness.result(run) == ["mark", "pay"]  # as every later replay sees it


@pytest.mark.parametrize("verb", ["skip", "retry"])
async def test_an_operator_decides_about_an_at_most_once_step_whose_outcome_is_unknown(
    harness: Harness, ledger: Ledger, verb: str
):
    async def transfer() -> str:
        ledger.note("transfer")
        if ledger.counts["transfer"] == 1:
            worker.crash()
            await asyncio.sleep(0)
        return "sent"

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(step(transfer, at_most_once=True))

    worker = await harness.worker(flow)
    client = await harness.client()
    run = await client.start(flow)
    await harness.drain()
    await harness.takeover(worker, flow)
    with pytest.raises(RunFailed) as unknown:
        await harness.result(run)
    if verb == "skip":
        await client.do(client.engine.repairs.skip(run.run_id, "transfer", "known"))
    else:
        await client.do(client.engine.repairs.retry(run.run_id))
    await harness.drain()

    assert unknown.value.fix_in_commands == (
        f"check whether it took effect; if it did: stepwell skip --result=JSON {run.run_id} transfer; "
        f"if it did not, run it again: stepwell retry {run.run_id}"
    )
    assert await harness.result(run) == {"skip": "known", "retry": "sent"}[verb]
    assert ledger.counts["transfer"] == {"skip": 1, "retry": 2}[verb]


async def test_an_at_most_once_step_is_recorded_before_it_runs_and_not_retried(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        sent = await ctx.step("send", step(ledger.body("send", "ok"), at_most_once=True))
        failing = step(ledger.failing("fail"), at_most_once=True, retry=Retry(max_attempts=5))
        return [sent, (await ctx.try_step("fail", failing)).attempts]

    assert await outcome(harness, flow, takeover=False) == ["ok", 1]
    assert ledger.counts == {"send": 1, "fail": 1}


class Declined(Exception):
    """An error of the author's own."""


class Rich(Exception):
    """An error that needs its arguments."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code

    def __str__(self) -> str:
        return f"rich {self.code}"


class Strict(Exception):
    """An error that cannot be made without its arguments."""

    def __new__(cls, code: int) -> Strict:
        return super().__new__(cls, code)


class Unknown(Exception):
    """An error that no step declares."""


RAISED: dict[str, tuple[Exception, type[Exception]]] = {
    "a builtin": (KeyError("sku"), KeyError),
    "its base class": (KeyError("sku"), LookupError),
    "an OS error": (FileNotFoundError(2, "gone"), OSError),
    "a Unicode error": (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), UnicodeDecodeError),
    "a declared one": (Declined("no"), Declined),
    "one that needs arguments": (Rich(7, "x"), Rich),
    "one that is strict about them": (Strict(7), Strict),
    "any": (Unknown("?"), StepFailed),
}


@pytest.mark.parametrize("name", RAISED)
async def test_the_except_clause_that_caught_a_failure_catches_its_replay(harness: Harness, name: str):
    error, caught = RAISED[name]
    seen = []

    async def call() -> None:
        raise error

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(step(call, retry=ONCE, raises=[Declined, Rich, Strict]))
        except caught as failure:
            seen.append((isinstance(failure, StepFailed), type(failure).__name__, str(failure)))
        await ctx.receive("go")
        return "caught"

    assert await outcome(harness, flow) == "caught"
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0][0]


async def test_failures_of_branches_and_children_are_caught_alike_on_replay(harness: Harness, ledger: Ledger):
    seen = []

    @workflow
    async def child(ctx: Context) -> None:
        raise KeyError("in the child")

    async def branch(ctx: Context) -> None:
        raise IndexError("in the branch")

    @workflow
    async def flow(ctx: Context) -> str:
        found = []
        try:
            await ctx.join("j", {"b": branch})
        except JoinError as error:
            found.append(f"{isinstance(error.errors['b'], IndexError)} {error.errors['b']}")
        try:
            await ctx.child(child)
        except ChildFailed as failed:
            found.append(f"{failed.status} {failed.failure and failed.failure.summary}")
        seen.append(found)
        await ctx.receive("go")
        return "caught"

    assert await outcome(harness, flow, child) == "caught"
    assert len(seen) == 2
    assert seen[0] == seen[1]


@dataclass
class Session:
    token: str
    socket: Any


async def test_a_result_that_cannot_be_stored_fails_at_once_with_path_and_type(harness: Harness, ledger: Ledger):
    async def connect() -> Session:
        ledger.note("connect")
        return Session("t", object())

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(step(connect, retry=Retry(max_attempts=5)))
        except StepFailed as error:
            return f"{error.failure.type}|{error.failure.message}|{error.failure.path}"
        return "stored"

    kind, message, _ = (await outcome(harness, flow, takeover=False)).split("|")
    assert kind == UnserialisableError.__name__
    assert "connect" in message
    assert ledger.counts == {"connect": 1}


async def test_a_policy_whose_own_function_fails_is_final(harness: Harness, ledger: Ledger):
    def broken(attempt: int, error: Exception) -> str:
        raise ZeroDivisionError("in the policy")

    @workflow
    async def flow(ctx: Context) -> str:
        tried = await ctx.try_step("call", step(ledger.failing("call"), retry=Retry(delay=broken)))
        return str(tried.error and tried.error.summary)

    assert await outcome(harness, flow, takeover=False) == "ZeroDivisionError: in the policy"
    assert ledger.counts == {"call": 1}


async def test_a_body_may_raise_anything(harness: Harness, ledger: Ledger):
    class Odd(BaseException):
        pass

    async def odd() -> None:
        raise Odd("odd")

    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def leaving() -> None:
        raise SystemExit(3)

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        return [(await ctx.try_step(each)).error.type for each in (odd, cancelled, leaving)]

    assert await outcome(harness, flow, takeover=False) == ["Odd", "RuntimeError", "SystemExit"]


async def test_a_step_inside_a_step_is_just_a_call(harness: Harness, ledger: Ledger):
    @step
    async def inner() -> str:
        ledger.note("inner")
        return "in"

    @step
    async def outer() -> str:
        return f"{await inner.fn()} out"

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(outer)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == "in out"
    assert await harness.paths(run) == ["outer"]


def test_a_durability_that_does_not_exist_is_refused_when_the_step_is_made():
    async def body() -> None: ...

    for make in (lambda value: step(body, durability=value), lambda value: step(body).options(durability=value)):
        with pytest.raises(InvalidOptionError) as caught:
            make("defered")
        assert caught.value.fix == 'use "normal" or "deferred"'
