"""Typed signals, deadlines and defaults: fresh, replayed, and with a fault at every call to the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepwell import Context, InvalidInputError, RunFailed, Signal, done, signal, timer, workflow
from stepwell.errors import InvalidNameError, InvalidOptionError
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.sweep import Program, sweep


@dataclass
class Approval:
    by: str
    amount: int = 0


def _positive(approval: Approval) -> None:
    if approval.amount < 0:
        raise ValueError("amount is below 0")


approve = Signal[Approval]("approve", check=_positive)
count = Signal[int]("count")


def typed(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        first = await ctx.receive(approve, timeout="1m")
        many = await ctx.receive_many(count, count=3)
        late = await ctx.receive(approve, timeout="1s", default="nobody", name="late")
        either = await ctx.wait_any(got=signal(approve), late=timer("1m"))
        done = await ctx.step("after", ledger.act, first.payload.amount)
        payload = either.value.payload
        return [type(first.payload).__name__, [each.payload for each in many], late, payload.by, done]

    script: tuple[tuple[Any, str, Any], ...] = (
        ("1s", "approve", "not an approval"),
        (0, "approve", {"by": "ann", "amount": -1}),
        (0, "approve", {"by": "ann", "amount": 3}),
        ("1s", "count", 7),
        ("5s", "approve", {"nobody": True}),
        (0, "approve", {"by": "bo"}),
    )
    return Program(program, script=script, lasts="10s")


@pytest.mark.parametrize("mode", ["live", "yield"])
async def test_typed_signals_survive_every_fault_and_what_does_not_fit_never_reaches_the_code(mode: str) -> None:
    outcome = await sweep(typed, mode)

    assert outcome.output == ["Approval", [7], "nobody", "bo", 3]


async def test_a_payload_that_does_not_fit_is_refused_at_the_sender_with_all_violations(harness: Harness) -> None:
    @workflow
    async def waits(ctx: Context) -> str:
        return (await ctx.receive(approve)).payload.by

    worker = await harness.worker(waits)
    run = await worker.start(waits)
    await harness.drain()

    with pytest.raises(InvalidInputError) as refused:
        await worker.do(worker.engine.signal(run.run_id, approve, {"by": 7, "amount": "x"}))  # type: ignore[misc]
    assert refused.value.code == "SW310"
    assert len(refused.value.violations) == 2
    assert "approve" in refused.value.where
    with pytest.raises(InvalidInputError, match="amount is below 0") as refused:
        await worker.do(worker.engine.signal(run.run_id, approve, Approval("ann", -1)))
    assert refused.value.fix

    detail = await worker.engine.runs.detail(run.run_id)
    assert detail.signals == ()
    await worker.do(worker.engine.signal(run.run_id, approve, Approval("ann")))
    await harness.drain()
    assert await harness.result(run) == "ann"


async def test_what_a_plain_sender_sends_wrongly_is_set_aside_with_the_reason(harness: Harness) -> None:
    @workflow
    async def waits(ctx: Context) -> str:
        return (await ctx.receive(approve)).payload.by

    worker = await harness.worker(waits)
    run = await worker.start(waits)
    await worker.signal(run.run_id, "approve", {"by": 7})
    await worker.signal(run.run_id, "approve", {"by": "ann", "amount": -3})
    await harness.drain()

    assert (await harness.status(run)).status == "waiting"
    first, second = await worker.engine.signals.list_unread(run.run_id)
    assert first.payload == {"by": 7}
    assert "by" in first.reason
    assert second.reason == "amount is below 0"
    await worker.signal(run.run_id, "approve", {"by": "bo"})
    await harness.drain()
    assert await harness.result(run) == "bo"


async def test_until_is_a_point_in_time_and_a_default_replaces_the_timeout(harness: Harness) -> None:
    @workflow
    async def waits(ctx: Context) -> list[Any]:
        soon = ctx.now() + timedelta(hours=1)
        first = await ctx.receive("a", until=soon, default=None)
        past = await ctx.receive("a", until=soon, default=0, name="past")
        return [first, past, ctx.now() - soon < timedelta(seconds=2)]

    worker = await harness.worker(waits)
    run = await worker.start(waits)
    await harness.advance("59m")
    assert (await harness.status(run)).status == "waiting"
    worker = await harness.deploy(worker, waits)
    await harness.advance("2m")

    assert await harness.result(run) == [None, 0, True]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda ctx: ctx.receive("a", timeout="1s", until=datetime.now(UTC)), InvalidOptionError, "both"),
        (lambda ctx: ctx.receive("a", default=1), InvalidOptionError, "no deadline"),
        (lambda ctx: ctx.receive("a", until=datetime(2030, 1, 1)), InvalidOptionError, "no time zone"),
        (lambda ctx: ctx.receive(" "), InvalidNameError, "signal name"),
        (lambda ctx: ctx.receive(""), InvalidNameError, "signal name"),
        (lambda ctx: ctx.receive(7), InvalidOptionError, "not a signal"),
        (lambda ctx: ctx.signals.latest(""), InvalidNameError, "signal name"),
        (lambda ctx: ctx.wait_any(a=signal("")), InvalidNameError, "signal name"),
    ],
)
async def test_a_receive_that_can_have_no_meaning_fails_the_run_at_once(
    harness: Harness, call: Any, error: type[Exception], words: str
) -> None:
    @workflow
    async def wrong(ctx: Context) -> None:
        await call(ctx)

    worker = await harness.worker(wrong)
    run = await worker.start(wrong)
    await harness.drain()

    with pytest.raises(RunFailed, match=words) as failed:
        await harness.result(run)
    assert failed.value.failure is not None
    assert failed.value.failure.code == error.code  # type: ignore[attr-defined]
    assert await harness.history(run) == []


def test_a_signal_needs_a_usable_name() -> None:
    for name in ("", " ", "a/b", "~a"):
        with pytest.raises(InvalidNameError, match="signal name"):
            Signal[int](name)
    assert repr(count) == "<signal count>"


# --- what does not fit starts no deadline anew ---


@pytest.mark.parametrize("form", ["wait_any", "receive", "receive_many", "child"])
async def test_a_signal_that_does_not_fit_starts_no_deadline_anew(harness: Harness, form: str) -> None:
    @workflow
    async def kid(ctx: Context) -> None:
        await ctx.sleep("long", "1d")

    @workflow
    async def waits(ctx: Context) -> str:
        match form:
            case "wait_any":
                return (await ctx.wait_any("w", answer=signal(count), late=timer("3s"))).label
            case "child":
                late = ctx.wait_any("w", answer=signal(count), ended=done(ctx.child(kid)), late=timer("3s"))
                return (await late).label
            case "receive":
                return "late" if await ctx.receive(count, timeout="3s", default=None) is None else "answer"
            case _:
                return "answer" if await ctx.receive_many(count, timeout="3s") else "late"

    worker = await harness.worker(waits, kid)
    client = await harness.client()
    run = await worker.start(waits)
    for _ in range(3):
        await harness.advance("900ms")
        await client.signal(run.run_id, "count", "not a number")
    await harness.advance("500ms")

    assert (await harness.status(run)).status == "completed"
    assert await harness.result(run) == "late"


@pytest.mark.parametrize("form", ["wait_any", "receive"])
async def test_a_signal_that_does_not_fit_does_not_start_max_suspend_anew(harness: Harness, form: str) -> None:
    @workflow
    async def waits(ctx: Context) -> None:
        if form == "receive":
            await ctx.receive(count)
        else:
            await ctx.wait_any("w", answer=signal(count), other=signal("other"))

    worker = await harness.worker(waits)
    client = await harness.client()
    run = await worker.start(waits, max_suspend="3s")
    for _ in range(3):
        await harness.advance("900ms")
        await client.signal(run.run_id, "count", "not a number")
    await harness.advance("500ms")

    view = await harness.status(run)
    assert (view.status, view.failure and view.failure.code) == ("failed", "SW472")
