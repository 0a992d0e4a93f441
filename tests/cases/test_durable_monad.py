"""durable-monad's cases: suspension, races between sending and waiting, recovery, retries, resources, whole stories."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from stepwell import Context, Fatal, Retry, RunFailed, StepFailed, WaitTimeout, step, workflow
from stepwell.clock import to_datetime
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


@workflow
async def trivial(ctx: Context) -> int:
    return 42


@workflow
async def waiting(ctx: Context, name: str = "go") -> Any:
    return (await ctx.receive(name)).payload


async def test_sc_01_a_trivial_workflow_succeeds_and_its_result_is_readable(harness: Harness):
    worker = await harness.worker(trivial)
    run = await worker.start(trivial)

    assert await harness.result(run) == 42
    assert (await harness.status(run)).output == 42


async def test_sc_02_a_suspended_run_has_no_result_and_an_unknown_one_no_status(harness: Harness):
    worker = await harness.worker(waiting)
    run = await worker.start(waiting)
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.output, view.is_ended) == ("waiting", None, False)
    assert await worker.engine.status("no-such-run") is None
    assert [found and found.run_id for found in await worker.engine.runs.find_many(["nobody", run.run_id])] == [
        None,
        run.run_id,
    ]


async def test_sc_04_a_workflow_that_raises_fails_with_its_error_kept(harness: Harness):
    @workflow
    async def broken(ctx: Context) -> None:
        raise LookupError("no such customer")

    worker = await harness.worker(broken)
    run = await worker.start(broken)
    await harness.drain()

    with pytest.raises(RunFailed, match="LookupError: no such customer") as caught:
        await harness.result(run)
    assert "raise LookupError" in caught.value.failure.trace


async def test_sc_05_a_run_resumes_with_the_value_it_waited_for(harness: Harness):
    worker = await harness.worker(waiting)
    run = await worker.start(waiting)
    await harness.drain()
    assert (await harness.status(run)).status == "waiting"
    await worker.signal(run.run_id, "go", {"amount": 7})
    await harness.drain()

    assert await harness.result(run) == {"amount": 7}


async def test_sc_07_a_timer_tells_when_it_was_due_and_when_it_fired(harness: Harness):
    times: list[Any] = []

    @workflow
    async def timed(ctx: Context) -> None:
        slept = await ctx.sleep("pause", "1h")
        times[:] = [slept.due_at, slept.woke_at]

    worker = await harness.worker(timed)
    started = to_datetime(harness.clock.now())
    run = await worker.start(timed)
    await harness.drain()
    assert (await harness.status(run)).status == "waiting"
    await worker.shutdown()
    harness.nodes.remove(worker)
    await harness.client()
    await harness.advance("3h")
    await harness.worker(timed)
    await harness.drain()

    assert await harness.result(run) is None
    assert times == [started + timedelta(hours=1), started + timedelta(hours=3)]


async def test_sc_08_a_signal_that_nobody_waits_for_yet_is_kept_for_the_wait_to_come(harness: Harness):
    @workflow
    async def late(ctx: Context) -> Any:
        await ctx.sleep("first", "1h")
        return (await ctx.receive("go")).payload

    worker = await harness.worker(late)
    run = await worker.start(late)
    await harness.drain()
    await worker.signal(run.run_id, "go", "early")
    await harness.advance("1h")

    assert await harness.result(run) == "early"


async def test_sc_13_a_signal_for_another_wait_is_kept_until_that_comes(harness: Harness):
    @workflow
    async def two(ctx: Context) -> list[Any]:
        return [(await ctx.receive("first")).payload, (await ctx.receive("second")).payload]

    worker = await harness.worker(two)
    run = await worker.start(two)
    await harness.drain()
    before = (await worker.engine.runs.detail(run.run_id)).run.epoch
    await worker.signal(run.run_id, "second", 2)
    await harness.drain()
    assert (await worker.engine.runs.detail(run.run_id)).run.epoch == before
    await worker.signal(run.run_id, "first", 1)
    await harness.drain()

    assert await harness.result(run) == [1, 2]


@pytest.mark.parametrize("policy", ["discard", "dead_letter"])
async def test_sc_14_what_a_cancelled_run_has_not_read_is_gone_or_listed(harness: Harness, policy: Any):
    @workflow(unread=policy)
    async def waits(ctx: Context) -> None:
        await ctx.receive("never")

    worker = await harness.worker(waits)
    run = await worker.start(waits, key="k")
    await harness.drain()
    await worker.signal("k", "event", 7)
    await worker.do(worker.engine.cancel("k"))
    await harness.drain()

    unread = await worker.engine.signals.list_unread()
    listed = [(one.target, one.run_status, one.name, one.payload) for one in unread]
    assert listed == ([] if policy == "discard" else [(run.run_id, "cancelled", "event", 7)])


async def test_sc_16_of_two_names_the_other_stays_pending(harness: Harness):
    @workflow
    async def either(ctx: Context) -> list[str]:
        first = await ctx.receive("a", "b")
        await ctx.receive("end")
        return [first.name, *[m.name for m in await ctx.receive_many(timeout=0)]]

    worker = await harness.worker(either)
    run = await worker.start(either)
    await harness.drain()
    await worker.signal(run.run_id, "b")
    await harness.drain()
    await worker.signal(run.run_id, "a")
    await harness.drain()
    assert [signal.name for signal in (await worker.engine.runs.detail(run.run_id)).signals] == ["a"]
    await worker.signal(run.run_id, "end")
    await harness.drain()

    assert await harness.result(run) == ["b", "a"]


@pytest.mark.parametrize("is_sent", [True, False])
async def test_sc_17_a_signal_or_a_timeout_whichever_is_first(harness: Harness, is_sent: bool):
    @workflow
    async def either(ctx: Context) -> str:
        try:
            await ctx.receive("go", timeout="1h")
            got = "signal"
        except WaitTimeout:
            got = "timeout"
        await ctx.sleep("rest", "1d")
        return got

    worker = await harness.worker(either)
    run = await worker.start(either)
    await harness.advance("30m")
    if is_sent:
        await worker.signal(run.run_id, "go")
    await harness.advance("2h")
    assert (await worker.engine.explain(run.run_id)).facts["waits"] == ["timer at rest"]
    await harness.advance("1d")

    assert await harness.result(run) == ("signal" if is_sent else "timeout")


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_sc_19_a_signal_sent_while_the_run_suspends_is_never_lost(harness: Harness, moment: str):
    worker = await harness.worker(waiting)
    client = await harness.client()
    sent: list[Any] = []

    async def send(name: str) -> None:
        if name == "runs.apply" and not sent:
            sent.append(await client.engine.signal("k", "go", "just now"))

    setattr(worker.wire, moment, send)
    run = await worker.start(waiting, key="k")
    await harness.drain()

    assert len(sent) == 1
    assert await harness.result(run) == "just now"


async def test_sc_20_a_timer_that_fires_while_the_run_is_cancelled_does_not_revive_it(harness: Harness, ledger: Ledger):
    @workflow
    async def timed(ctx: Context) -> None:
        await ctx.sleep("pause", "1h")
        await ctx.step("after", ledger.body("after"))

    worker = await harness.worker(timed)
    client = await harness.client()
    run = await worker.start(timed)
    await harness.drain()
    cancelled: list[bool] = []

    async def cancel(name: str) -> None:
        if name == "runs.claim" and not cancelled:
            cancelled.append(await client.engine.cancel(run.run_id, "too late"))

    worker.wire.before = cancel
    await harness.advance("3h")

    assert cancelled == [True]
    assert ((await harness.status(run)).status, ledger.lines) == ("cancelled", [])


async def test_sc_22_a_suspended_run_survives_a_restart_and_repeats_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> Any:
        await ctx.step("before", ledger.body("before"))
        return (await ctx.receive("go")).payload

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    worker.crash()
    worker = await harness.worker(flow)
    assert (await worker.do(worker.engine.workers.recover())).freed == 0
    assert (await harness.status(run)).status == "waiting"
    await worker.signal(run.run_id, "go", "on")
    await harness.drain()

    assert await harness.result(run) == "on"
    assert ledger.lines == ["before"]


async def test_sc_23_recovering_resumes_a_running_run_after_its_last_record(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        for name in ("first", "second", "third"):
            await ctx.step(name, ledger.body(name))
        return "done"

    worker = await harness.worker(flow, lease="10s")
    commits = 0

    async def die(name: str) -> None:
        nonlocal commits
        commits += name == "runs.apply"
        if commits == 2:
            worker.crash()

    worker.wire.after = die
    client = await harness.client()
    run = await client.start(flow)
    await harness.drain()
    assert (await harness.status(run)).status == "running"
    await harness.advance("11s")
    recovered = await client.engine.workers.recover()
    await harness.worker(flow)
    await harness.drain()

    assert recovered == (1, 0, 0)
    assert await harness.result(run) == "done"
    assert ledger.lines == ["first", "second", "third"]


async def test_sc_25_a_restart_loads_only_what_is_due(harness: Harness, ledger: Ledger):
    @workflow
    async def timed(ctx: Context, hours: int) -> str:
        await ctx.sleep("pause", f"{hours}h")
        return "woke"

    worker = await harness.worker(timed, waiting)
    listening = await worker.start(waiting)
    soon, later = await worker.start(timed, 1), await worker.start(timed, 9)
    await harness.drain()
    worker.crash()
    worker = await harness.worker(timed, waiting, sweep_every="10h")
    await harness.drain()
    report = await worker.do(worker.engine.workers.recover())
    assert (report, worker.wire.count("runs.load", "runs.claim")) == ((0, 0, 0), 0)

    await harness.advance("1h")
    assert await harness.result(soon) == "woke"
    assert worker.wire.count("runs.load") == 1
    await worker.signal(listening.run_id, "go", "on")
    await harness.drain()
    assert await harness.result(listening) == "on"
    assert worker.wire.count("runs.load") == 2
    assert (await harness.status(later)).status == "waiting"


async def test_sc_26_another_process_finds_the_function_by_its_name(harness: Harness, ledger: Ledger):
    def deploy() -> Any:
        @workflow(name="shared")
        async def flow(ctx: Context) -> str:
            await ctx.step("before", ledger.body("before"))
            await ctx.receive("go")
            return str(await ctx.step("after", ledger.body("after", "done")))

        return flow

    first = deploy()
    worker = await harness.worker(first)
    run = await worker.start(first)
    await harness.drain()
    await worker.shutdown()
    harness.nodes.remove(worker)
    other = await harness.worker(deploy())
    await other.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == "done"
    assert ledger.lines == ["before", "after"]


class Transient(Exception):
    pass


@dataclass
class Try:
    """A retry policy, the error of each attempt, and what is to be seen."""

    policy: Retry
    errors: list[Exception]
    executions: int
    seconds: list[float]


TRIES = {
    "two transient errors, then success": Try(
        Retry(max_attempts=3, initial="2s", jitter=0), [Transient(), Transient()], 3, [2, 4]
    ),
    "a final error": Try(Retry(max_attempts=5), [Fatal("no")], 1, []),
    "an error to give up on": Try(Retry(max_attempts=5, give_up_on=(Transient,)), [Transient()], 1, []),
    "a predicate that refuses": Try(Retry(max_attempts=5, retry_on=lambda error: False), [Transient()], 1, []),
    "a predicate that allows": Try(
        Retry(max_attempts=5, initial="3s", jitter=0, retry_on=(Transient,)), [Transient(), ValueError()], 2, [3]
    ),
    "a custom delay": Try(
        Retry(max_attempts=4, delay=lambda attempt, error: 10 * attempt), [Transient()] * 3, 4, [10, 20, 30]
    ),
    "doubled up to a cap": Try(
        Retry(max_attempts=6, initial="2s", max_delay="10s", jitter=0), [Transient()] * 6, 6, [2, 4, 8, 10, 10]
    ),
}


@pytest.mark.parametrize("name", TRIES)
async def test_sc_28_retries_follow_the_policy_and_are_not_repeated(harness: Harness, ledger: Ledger, name: str):
    case = TRIES[name]
    times: list[int] = []

    async def body() -> str:
        times.append(harness.clock.now())
        if len(times) <= len(case.errors):
            raise case.errors[len(times) - 1]
        return "ok"

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            got = await ctx.step(step(body, retry=case.policy))
        except StepFailed as error:
            got = f"failed after {error.attempts}"
        await ctx.receive("go")
        return got

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("5m")
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    is_failed = case.executions == len(case.errors)
    assert await harness.result(run) == (f"failed after {case.executions}" if is_failed else "ok")
    waited = [round((b - a) / 1e6, 1) for a, b in itertools.pairwise(times)]
    assert (len(times), waited) == (case.executions, case.seconds)


async def test_sc_31_a_resource_is_released_however_the_session_ends(harness: Harness, ledger: Ledger):
    @asynccontextmanager
    async def resource(name: str) -> AsyncIterator[None]:
        ledger.note(f"+{name}")
        try:
            yield
        finally:
            ledger.note(f"-{name}")

    @workflow
    async def succeeds(ctx: Context) -> None:
        async with resource("outer"), resource("inner"):
            await ctx.step("work", ledger.body("work"))

    @workflow
    async def fails(ctx: Context) -> None:
        async with resource("a"):
            raise ValueError("no")

    @workflow
    async def suspends(ctx: Context) -> None:
        async with resource("s"):
            await ctx.receive("go")

    @workflow
    async def continues(ctx: Context, round: int) -> None:
        async with resource(f"round {round}"):
            if round == 0:
                ctx.continue_as_new(1)

    worker = await harness.worker(succeeds, fails, suspends, continues)
    for flow, input in ((succeeds, None), (fails, None), (continues, 0)):
        await worker.start(flow, input)
        await harness.drain()
    assert ledger.lines == [
        *("+outer", "+inner", "work", "-inner", "-outer"),
        *("+a", "-a"),
        *("+round 0", "-round 0", "+round 1", "-round 1"),
    ]

    ledger.lines.clear()
    run = await worker.start(suspends)
    await harness.drain()
    await worker.shutdown()
    harness.nodes.remove(worker)
    assert ledger.lines == ["+s", "-s"]
    worker = await harness.worker(suspends)
    await worker.signal(run.run_id, "go")
    await harness.drain()
    assert ledger.lines == ["+s", "-s", "+s", "-s"]


async def test_sc_31_a_resource_that_cannot_be_acquired_fails_the_run(harness: Harness):
    @asynccontextmanager
    async def unavailable() -> AsyncIterator[None]:
        raise ConnectionError("no resource")
        yield

    @workflow
    async def flow(ctx: Context) -> None:
        async with unavailable():
            pass

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(RunFailed, match="ConnectionError: no resource"):
        await harness.result(run)


async def test_sc_32_a_branch_taken_by_chance_or_clock_is_taken_again(harness: Harness, ledger: Ledger):
    seen: list[tuple[float, str, str]] = []

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("first", ledger.body("first"))
        seen.append((ctx.random(), str(ctx.uuid()), ctx.now().isoformat()))
        name = "even" if int(ctx.random() * 1000) % 2 == 0 else "odd"
        await ctx.step(name, ledger.body(name))
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    for _ in range(3):
        worker = await harness.takeover(worker, flow)
        await worker.signal(run.run_id, "nobody waits for this")
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) is None
    assert len(ledger.lines) == 2
    assert len(seen) >= 2
    assert len(set(seen)) == 1


# --- whole stories ---


async def test_sc_34_onboarding_reminds_whoever_stays_inactive(harness: Harness, ledger: Ledger):
    async def mail(template: str, user: str) -> None:
        ledger.note(f"{template} to {user}")

    @workflow
    async def onboarding(ctx: Context, user: str) -> str:
        await ctx.step("welcome", mail, "welcome", user)
        try:
            await ctx.receive("active", timeout="2d")
        except WaitTimeout:
            await ctx.step("reminder", mail, "reminder", user)
            return "reminded"
        return "active"

    worker = await harness.worker(onboarding)
    ann = await worker.start(onboarding, "ann", key="ann")
    bob = await worker.start(onboarding, "bob", key="bob")
    await harness.advance("1d")
    await worker.signal("ann", "active")
    worker = await harness.takeover(worker, onboarding)
    await harness.advance("1d")

    assert (await harness.result(ann), await harness.result(bob)) == ("active", "reminded")
    assert ledger.lines == ["welcome to ann", "welcome to bob", "reminder to bob"]


@dataclass
class Account:
    name: str
    cycle: int = 0


async def test_sc_34_billing_goes_on_by_cycles_and_switches_to_dunning(harness: Harness, ledger: Ledger):
    async def charge(account: Account) -> bool:
        ledger.note(f"charge {account.cycle}")
        return account.cycle < 2

    @workflow
    async def dunning(ctx: Context, account: Account) -> str:
        for day in range(3):
            await ctx.sleep("day", "1d")
            if await ctx.step("retry", step(ledger.body(f"retry {day}", False))):
                return "paid"
        return f"{account.name} is closed in generation {ctx.generation}"

    @workflow
    async def billing(ctx: Context, account: Account) -> str:
        await ctx.sleep("cycle", "30d")
        if not await ctx.step(charge, account):
            ctx.continue_as_new(account, dunning)
        ctx.continue_as_new(Account(account.name, account.cycle + 1))

    settings: dict[str, Any] = {"lease": "10d", "sweep_every": "1d"}
    worker = await harness.worker(billing, dunning, **settings)
    run = await worker.start(billing, Account("acme"), key="acme")
    await harness.advance("45d")
    worker.crash()
    await harness.worker(billing, dunning, **settings)
    await harness.advance("50d")

    assert await harness.result(run) == "acme is closed in generation 4"
    assert ledger.lines == ["charge 0", "charge 1", "charge 2", "retry 0", "retry 1", "retry 2"]
    assert (await harness.status("acme")).workflow == "dunning"


async def test_sc_34_a_yearly_reminder_is_stopped_by_a_signal_after_a_restart(harness: Harness, ledger: Ledger):
    @workflow
    async def yearly(ctx: Context, year: int) -> str:
        try:
            await ctx.receive("stop", timeout="365d")
        except WaitTimeout:
            await ctx.step("remind", ledger.body(f"year {year}"))
            ctx.continue_as_new(year + 1)
        return f"stopped in year {year}"

    settings: dict[str, Any] = {"lease": "100d", "sweep_every": "30d"}
    worker = await harness.worker(yearly, **settings)
    run = await worker.start(yearly, 1, key="birthday")
    await harness.advance("400d")
    worker.crash()
    worker = await harness.worker(yearly, **settings)
    await harness.advance("400d")
    await worker.signal("birthday", "stop")
    await harness.drain()

    assert await harness.result(run) == "stopped in year 3"
    assert ledger.lines == ["year 1", "year 2"]
