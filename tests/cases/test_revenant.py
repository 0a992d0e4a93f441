"""Revenant's cases: keys, signals, sagas, children, chains."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from stepwell import (
    Break,
    ChildFailed,
    Context,
    Continue,
    Failure,
    JoinError,
    Retry,
    RunCancelled,
    RunFailed,
    step,
    workflow,
)
from stepwell.clock import Instant, to_instant
from stepwell.engine.records import Draft, NewLine, RecordKind, Records
from stepwell.engine.schedule_records import ScheduleBody
from stepwell.errors import InvalidKeyError, InvalidOptionError, RollbackIncomplete
from stepwell.model.records import NewRecord, NewRecordEvent, RecordChange
from stepwell.model.schedules import Spec
from stepwell.model.states import ScheduleState
from stepwell.model.ticks import CronRule, cron_rule, local, ticks_between
from stepwell.sinks import EmittedEvent, handler
from stepwell.stores.base.views import RunFilter
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

ONCE = Retry(max_attempts=1)


@workflow
async def waiting(ctx: Context, name: str = "go") -> Any:
    return (await ctx.receive(name)).payload


@workflow
async def trivial(ctx: Context) -> str:
    return "done"


@workflow
async def wants_a_day(ctx: Context, day: datetime) -> None:
    return None


async def test_rv_01_steps_are_recorded_once_in_order_and_the_last_output_is_the_runs(harness: Harness, ledger: Ledger):
    @workflow
    async def chain(ctx: Context) -> str:
        for name in ("A", "B", "C"):
            last = await ctx.step(name, ledger.body(name, f"{name}'s output"))
        return last

    worker = await harness.worker(chain)
    run = await worker.start(chain)
    await harness.drain()

    assert [(e.seq, e.path, e.value) for e in await harness.history(run)] == [
        (1, "A", "A's output"),
        (2, "B", "B's output"),
        (3, "C", "C's output"),
    ]
    view = await harness.status(run)
    assert (view.status, view.output) == ("completed", "C's output")
    assert ledger.lines == ["A", "B", "C"]


async def test_rv_03_starting_an_active_key_again_gives_its_run_and_writes_nothing(harness: Harness):
    worker = await harness.worker(waiting)
    first = await worker.start(waiting, key="Order-42")
    await harness.drain()
    before = await worker.engine.runs.detail(first.run_id)

    again = await worker.start(waiting, key=" ORDER-42 ")
    await harness.drain()

    assert (again.run_id, again.is_new, again.same_input) == (first.run_id, False, True)
    assert await worker.engine.runs.detail(first.run_id) == before
    assert len(await worker.engine.runs.list()) == 1


async def test_rv_04_an_ended_run_answers_for_its_key_within_the_window(harness: Harness):
    worker = await harness.worker(trivial)
    first = await worker.start(trivial, key="k")
    await harness.advance("1m")

    within = await worker.start(trivial, key="k", dedup="1440m")
    outside = await worker.start(trivial, key="k", dedup=0)

    assert (within.run_id, within.is_new) == (first.run_id, False)
    assert (outside.run_id != first.run_id, outside.is_new) == (True, True)


async def test_rv_06_a_blank_key_is_refused_and_nothing_is_stored(harness: Harness):
    worker = await harness.worker(trivial)

    for key in ("", "   ", "k" * 201):
        with pytest.raises(InvalidKeyError):
            await worker.start(trivial, key=key)
    assert await worker.engine.runs.list() == []


async def test_rv_06_an_enormous_window_still_works(harness: Harness):
    worker = await harness.worker(trivial)
    first = await worker.start(trivial, key="k", dedup=timedelta.max)
    await harness.advance("1h")

    assert (await worker.start(trivial, key="k", dedup=10**15)).run_id == first.run_id


async def test_rv_07_a_start_for_active_runs_only_begins_anew_after_the_end(harness: Harness):
    worker = await harness.worker(trivial, waiting)
    first = await worker.start(trivial, key="singleton", dedup=0)
    await harness.drain()
    second = await worker.start(waiting, key="singleton", dedup=0)
    third = await worker.start(waiting, key="singleton", dedup=0)

    assert (second.is_new, third.is_new) == (True, False)
    assert first.run_id != second.run_id == third.run_id


async def test_rv_09_a_signal_that_came_twice_while_the_step_ran_is_consumed_with_it(harness: Harness):
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    @workflow
    async def observes(ctx: Context) -> list[bool]:
        await ctx.receive("begin")
        seen = ctx.signals.has("X")
        await ctx.step("work", work)
        return [seen, ctx.signals.has("X")]

    worker = await harness.worker(observes)
    run = await worker.start(observes)
    await worker.signal(run.run_id, "X")
    await worker.signal(run.run_id, "begin")
    await harness.drain()
    await worker.signal(run.run_id, "X")
    await harness.drain()
    assert len((await worker.engine.runs.detail(run.run_id)).signals) == 2
    gate.set()
    await harness.drain()

    assert await harness.result(run) == [True, False]
    assert await worker.engine.signals.list_unread() == []


async def test_rv_10_probing_what_is_absent_does_not_consume_what_comes_later(harness: Harness, ledger: Ledger):
    @workflow
    async def probes(ctx: Context) -> list[Any]:
        first = ctx.signals.latest("Y")
        await ctx.step("completes", ledger.body("completes"))
        await ctx.sleep("pause", "1h")
        second = ctx.signals.latest("Y")
        await ctx.step("later", ledger.body("later"))
        return [bool(first), first is None, second.payload if second else None]

    worker = await harness.worker(probes)
    run = await worker.start(probes)
    await harness.advance("10m")
    await worker.signal(run.run_id, "Y", 7)
    await harness.advance("1h")

    assert await harness.result(run) == [False, False, 7]


async def test_rv_12_a_dedup_key_counts_per_run(harness: Harness):
    worker = await harness.worker(waiting)
    one = await worker.start(waiting, "other")
    two = await worker.start(waiting, "other")
    told = [str(await worker.signal(one.run_id, "paid", dedup_key="event-7")) for _ in range(3)]
    told.append(str(await worker.signal(two.run_id, "paid", dedup_key="event-7")))

    assert told == ["delivered", "duplicate", "duplicate", "delivered"]
    for run in (one, two):
        assert len((await worker.engine.runs.detail(run.run_id)).signals) == 1


async def test_rv_13_a_signal_without_a_run_is_held_and_delivered_oldest_first(harness: Harness):
    @workflow
    async def listener(ctx: Context) -> list[int]:
        await ctx.sleep("first", "1h")
        return [(await ctx.receive("m")).payload for _ in range(3)]

    worker = await harness.worker(listener)
    told = [str(await worker.signal("k", "m", number, if_missing="hold")) for number in (1, 2)]
    held = await worker.wire.store.views.list_held(limit=10)
    run = await worker.start(listener, key="K")
    await worker.signal("k", "m", 3)
    await harness.advance("1h")

    assert told == ["held", "held"]
    assert [(item.key, item.signal.name) for item in held] == [("k", "m"), ("k", "m")]
    assert await harness.result(run) == [1, 2, 3]
    assert await worker.wire.store.views.list_held(limit=10) == []


@dataclass
class Booking:
    seat: str
    price: int


async def test_rv_16_a_rejection_after_a_step_undoes_it_with_its_own_output(harness: Harness, ledger: Ledger):
    async def book(seat: str) -> Booking:
        ledger.note(f"book {seat}")
        return Booking(seat, 7)

    async def cancel_booking(seat: str, booking: Booking) -> None:
        ledger.note(f"cancel {seat} {booking.price}")

    @workflow
    async def trip(ctx: Context, seat: str) -> None:
        await ctx.step(step(book, compensate=cancel_booking), seat)
        if (await ctx.receive("approve", "reject")).name == "reject":
            ctx.fail("rejected")

    worker = await harness.worker(trip)
    run = await worker.start(trip, "12A")
    await harness.drain()
    await worker.signal(run.run_id, "reject")
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.message) == ("compensated", "rejected")
    assert ledger.lines == ["book 12A", "cancel 12A 7"]


class Saga:
    """Four steps that can be undone, and a fifth that fails; the undo of the third fails while there is an outage."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.has_outage = True
        self.fails = True

    def undo(self, number: int) -> Any:
        async def compensate() -> None:
            self.ledger.note(f"undo {number}")
            if number == 3 and self.has_outage:
                raise ConnectionError("the stock API is away")

        compensate.__qualname__ = f"undo_{number}"
        return step(compensate, retry=ONCE).fn if number != 3 else compensate

    def build(self) -> Any:
        undos = {number: self.undo(number) for number in range(1, 5)}

        @workflow
        async def saga(ctx: Context) -> None:
            for number in range(1, 5):
                body = step(self.ledger.body(f"do {number}"), compensate=undos[number])
                await ctx.step(f"do {number}", body)
            if self.fails:
                await ctx.step("do 5", step(self.ledger.failing("do 5"), retry=ONCE))
            await ctx.receive("never")

        return saga


async def test_rv_18_a_stalled_rollback_keeps_the_rest_and_is_resumed_once(harness: Harness, ledger: Ledger):
    plan = Saga(ledger)
    saga = plan.build()
    worker = await harness.worker(saga)
    run = await worker.start(saga, key="trip")
    await harness.advance("10m")

    with pytest.raises(RollbackIncomplete, match="3 effects are not undone") as caught:
        await harness.result(run)
    assert caught.value.remaining == 3
    forward = ["do 1", "do 2", "do 3", "do 4", "do 5"]
    assert ledger.lines == [*forward, "undo 4", "undo 3", "undo 3", "undo 3"]
    assert not (await worker.start(saga, key="trip")).is_new
    view = await harness.status(run)
    assert view.failure.causes["run"].summary == "ValueError: do 5 failed"

    plan.has_outage = False
    resumed = [await worker.do(worker.engine.repairs.resume_rollback(run.run_id)) for _ in range(2)]
    await harness.advance("10m")

    view = await harness.status(run)
    assert resumed == [True, False]
    assert (view.status, view.failure.summary) == ("compensated", "ValueError: do 5 failed")
    assert ledger.lines[9:] == ["undo 3", "undo 2", "undo 1"]
    (undone,) = [entry for entry in await harness.history(run) if entry.path == "do 3~undo"]
    assert [tried.error for tried in undone.failed_attempts] == ["ConnectionError: the stock API is away"] * 3


async def test_rv_19_a_cancel_whose_undo_failed_and_was_resumed_ends_cancelled(harness: Harness, ledger: Ledger):
    plan = Saga(ledger)
    plan.fails = False
    saga = plan.build()
    worker = await harness.worker(saga)
    run = await worker.start(saga)
    await harness.drain()
    assert await worker.do(worker.engine.cancel(run.run_id, "no longer wanted"))
    await harness.advance("10m")
    assert (await harness.status(run)).status == "compensation_failed"

    plan.has_outage = False
    await worker.do(worker.engine.repairs.resume_rollback(run.run_id))
    await harness.advance("10m")

    with pytest.raises(RunCancelled, match="no longer wanted"):
        await harness.result(run)
    assert (await harness.status(run)).status == "cancelled"
    assert ledger.counts["undo 1"] == ledger.counts["undo 2"] == ledger.counts["undo 4"] == 1


async def test_rv_21_a_planned_failure_runs_once_and_keeps_its_reason_and_data(harness: Harness, ledger: Ledger):
    error = Failure("  out of stock – sorry  ", {"sku": "X-1", "left": 0})

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("pick", step(ledger.failing("pick", error=error), retry=Retry(max_attempts=5)))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1h")

    with pytest.raises(RunFailed) as caught:
        await harness.result(run)
    failure = caught.value.failure
    assert (failure.message, failure.trace) == ("  out of stock – sorry  ", "")
    assert failure.data == {"sku": "X-1", "left": 0}
    assert ledger.counts == {"pick": 1}


def test_rv_21_a_blank_reason_is_refused():
    with pytest.raises(InvalidOptionError, match="needs a reason"):
        Failure("  ")


async def test_rv_22_an_ordinary_exception_without_retries_fails_at_once(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step("call", step(ledger.failing("call"), retry=ONCE))

    worker = await harness.worker(order)
    run = await worker.start(order)
    await harness.advance("1h")

    assert ((await harness.status(run)).status, ledger.counts) == ("failed", {"call": 1})


async def test_rv_24_a_retrying_branch_is_not_disturbed_by_its_siblings_end(harness: Harness, ledger: Ledger):
    policy = Retry(max_attempts=3, initial="1h", factor=1, max_delay="1h", jitter=0)

    async def retrying(ctx: Context) -> int:
        return (await ctx.try_step("call", step(ledger.failing("call", times=2), retry=policy))).attempts

    async def sibling(ctx: Context) -> int:
        await ctx.sleep("pause", "30m")
        await ctx.step("work", ledger.body("sibling"))
        return 0

    @workflow
    async def both(ctx: Context) -> dict[str, int]:
        return await ctx.join("both", {"retrying": retrying, "sibling": sibling})

    worker = await harness.worker(both)
    run = await worker.start(both)
    started = harness.clock.now()
    await harness.advance("45m")
    assert ledger.lines == ["call", "sibling"]
    (wait,) = (await worker.engine.runs.detail(run.run_id)).history.waits
    assert (wait.kind, wait.due_at) == ("retry", started + 3_600_000_000)
    await harness.advance("75m")

    assert await harness.result(run) == {"retrying": 3, "sibling": 0}
    assert ledger.counts == {"call": 3, "sibling": 1}


async def test_rv_25_a_join_gives_a_map_by_branch(harness: Harness, ledger: Ledger):
    @workflow
    async def split(ctx: Context) -> dict[str, str]:
        return await ctx.join(
            "split",
            {
                "P": lambda c: c.step("work", ledger.body("P", "p")),
                "Q": lambda c: c.step("work", ledger.body("Q", "q")),
            },
        )

    worker = await harness.worker(split)
    run = await worker.start(split)
    await harness.drain()

    assert (await harness.status(run)).output == {"P": "p", "Q": "q"}


async def test_rv_27_one_signal_reaches_one_of_two_branches(harness: Harness):
    async def listen(ctx: Context) -> Any:
        return [message.payload for message in await ctx.receive_many("m", timeout="1h")]

    @workflow
    async def both(ctx: Context) -> dict[str, list[int]]:
        return await ctx.join("both", {"a": listen, "b": listen})

    worker = await harness.worker(both)
    run = await worker.start(both)
    await harness.drain()
    await worker.signal(run.run_id, "m", 7)
    await harness.advance("1h")

    assert sorted((await harness.result(run)).values()) == [[], [7]]


async def test_rv_27_two_branches_look_and_one_sees_the_signal(harness: Harness, ledger: Ledger):
    async def look(ctx: Context) -> bool:
        seen = ctx.signals.has("m")
        await ctx.step("work", ledger.act)
        return seen

    @workflow
    async def both(ctx: Context) -> dict[str, bool]:
        await ctx.receive("begin")
        return await ctx.join("both", {"a": look, "b": look})

    worker = await harness.worker(both)
    run = await worker.start(both)
    await worker.signal(run.run_id, "m", 7)
    await worker.signal(run.run_id, "begin")
    await harness.drain()

    assert sorted((await harness.result(run)).values()) == [False, True]


async def test_rv_27_a_branch_that_waits_releases_its_claim(harness: Harness, ledger: Ledger):
    async def yields(ctx: Context) -> list[bool]:
        first = ctx.signals.has("m")
        await ctx.sleep("yield", "2h")
        return [first, ctx.signals.has("m")]

    async def looks(ctx: Context) -> bool:
        await ctx.sleep("first", "1h")
        seen = ctx.signals.has("m")
        await ctx.step("work", ledger.act)
        return seen

    @workflow
    async def both(ctx: Context) -> dict[str, Any]:
        await ctx.receive("begin")
        return await ctx.join("both", {"a": yields, "b": looks})

    worker = await harness.worker(both)
    run = await worker.start(both)
    await worker.signal(run.run_id, "m", 7)
    await worker.signal(run.run_id, "begin")
    await harness.drain()
    await harness.takeover(worker, both)
    await harness.advance("3h")

    assert await harness.result(run) == {"a": [True, False], "b": True}


async def test_rv_28_a_once_value_holds_over_retries_and_is_new_in_another_visit(harness: Harness, ledger: Ledger):
    def produce() -> float:
        ledger.note("produced")
        return random.random()

    seen: list[float] = []

    async def visit(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        seen.append(await ctx.once("ref", produce))
        await ctx.sleep("pause", "1h")
        seen.append(await ctx.once("again", lambda: seen[-1]))
        return Continue(turn + 1) if turn == 0 else Break(turn)

    @workflow
    async def visits(ctx: Context) -> int:
        return await ctx.loop("visits", visit, 0)

    worker = await harness.worker(visits)
    run = await worker.start(visits)
    await harness.advance("30m")
    await harness.takeover(worker, visits)
    await harness.advance("2h")

    assert await harness.result(run) == 1
    assert ledger.counts == {"produced": 2}
    assert len(set(seen)) == 2


async def test_rv_30_a_chain_of_runs_has_one_completed_event(harness: Harness):
    told: list[tuple[str, str, int]] = []

    async def note(event: EmittedEvent) -> None:
        told.append((event.name, event.run_id, event.payload["generation"]))

    @workflow
    async def chain(ctx: Context, left: int) -> str:
        await ctx.sleep("rest", "2s")
        if left:
            ctx.continue_as_new(left - 1)
        return "done"

    worker = await harness.worker(chain, sinks=[handler(note)], lifecycle=True)
    await worker.start(chain, 3, key="chain")
    await harness.advance("1m")

    assert told == [("stepwell.run.completed", (await harness.status("chain")).run_id, 4)]


async def test_rv_31_a_chain_is_followed_by_key_and_exact_by_id(harness: Harness):
    @workflow
    async def poller(ctx: Context, round: int) -> str:
        if round < 2:
            ctx.continue_as_new(round + 1)
        await ctx.receive("stop")
        return f"round {round}, generation {ctx.generation}"

    worker = await harness.worker(poller)
    run = await worker.start(poller, 0, key="poll")
    await harness.drain()

    by_key, by_id = await harness.status("POLL"), await harness.status(run.run_id)
    assert (by_key.status, by_key.generation, by_key.input) == ("waiting", 3, 2)
    assert (by_id.status, by_id.generation, by_id.input) == ("continued", 1, 0)
    assert not (await worker.start(poller, 0, key="poll")).is_new
    await worker.signal(run.run_id, "stop")
    await harness.drain()
    assert await harness.result(run) == "round 2, generation 3"


@pytest.mark.parametrize("is_good", [True, False])
async def test_rv_33_a_parent_that_is_reentered_has_one_child(harness: Harness, ledger: Ledger, is_good: bool):
    @workflow
    async def child(ctx: Context, amount: int) -> int:
        await ctx.sleep("work", "5h")
        if not is_good:
            raise ValueError("child is broken")
        return amount * 2

    @workflow
    async def parent(ctx: Context) -> str:
        try:
            return f"success {await ctx.child(child, 21, key='c')}"
        except ChildFailed as error:
            return f"{error.status}: {error.failure.message}"

    worker = await harness.worker(parent, child)
    run = await worker.start(parent)
    for _ in range(3):
        worker = await harness.takeover(worker, parent, child)
    await harness.advance("5h")

    assert await harness.result(run) == ("success 42" if is_good else "failed: child is broken")
    assert len(await worker.engine.runs.list(RunFilter(parent=run.run_id))) == 1


async def test_rv_33_a_foreign_active_run_with_the_childs_key_is_an_error(harness: Harness):
    @workflow
    async def parent(ctx: Context) -> str:
        try:
            await ctx.child(trivial, key="taken")
        except ChildFailed as error:
            return error.failure.type
        return "ran"

    worker = await harness.worker(parent, trivial, waiting)
    await worker.start(waiting, key="taken")
    run = await worker.start(parent)
    await harness.drain()

    assert await harness.result(run) == "AlreadyExistsError"


async def test_rv_34_a_parent_of_three_goes_on_when_all_have_finished(harness: Harness, ledger: Ledger):
    async def heard(ctx: Context) -> str:
        message = await ctx.receive("note")
        await ctx.step("heard", ledger.body(f"heard {message.payload}"))
        return str(message.payload)

    @workflow
    async def parent(ctx: Context) -> dict[str, Any]:
        branches: dict[str, Any] = {
            name: lambda c, name=name: c.child(waiting, f"finish {name}", key=name) for name in "abc"
        }
        done = await ctx.join("all", {**branches, "side": heard})
        await ctx.step("after", ledger.body("after"))
        return done

    worker = await harness.worker(parent, waiting)
    run = await worker.start(parent)
    await harness.drain()
    await worker.signal("a", "finish a", 1)
    await harness.drain()
    assert ((await harness.status(run)).status, ledger.lines) == ("waiting", [])
    await worker.signal(run.run_id, "note", "hello")
    await harness.drain()
    assert ((await harness.status(run)).status, ledger.lines) == ("waiting", ["heard hello"])
    await worker.signal("b", "finish b", 2)
    await worker.signal("c", "finish c", 3)
    await harness.drain()

    assert await harness.result(run) == {"a": 1, "b": 2, "c": 3, "side": "hello"}
    assert ledger.lines == ["heard hello", "after"]


async def test_rv_25_one_failing_branch_undoes_what_the_others_completed(harness: Harness, ledger: Ledger):
    async def release() -> None:
        ledger.note("release")

    async def good(ctx: Context) -> None:
        await ctx.step("reserve", step(ledger.body("reserve"), compensate=release))

    async def bad(ctx: Context) -> None:
        await ctx.sleep("pause", "1m")
        await ctx.step("charge", step(ledger.failing("charge"), retry=ONCE))

    @workflow
    async def split(ctx: Context) -> None:
        await ctx.join("split", {"good": good, "bad": bad}, on_error="fail_fast")

    worker = await harness.worker(split)
    run = await worker.start(split)
    await harness.advance("1h")

    view = await harness.status(run)
    assert (view.status, view.failure.type) == ("compensated", JoinError.__name__)
    assert ledger.lines == ["reserve", "charge", "release"]


# --- schedules ---


async def test_rv_39_a_broken_schedule_has_its_own_error_and_the_good_one_fires(harness: Harness):
    worker = await harness.worker(trivial, wants_a_day)
    records = Records(worker.engine._backend, RecordKind.SCHEDULE, ScheduleBody)

    async def put(name: str, spec: Spec) -> None:
        """As another machine, or other code, may have stored it."""
        now = worker.engine.now()
        body = ScheduleBody(name, spec, now, now + 60_000_000)
        draft = Draft(state=ScheduleState.ACTIVE, body=body, lines=(NewLine("created"),), due_at=Instant(now + 1))
        await worker.do(records.change(name, lambda it: draft))

    await put("february", Spec(CronRule("0 0 31 2 *"), "trivial"))
    await put("mars", Spec(CronRule("* * * * *", "Mars/Olympus"), "trivial"))
    await put("unfit", Spec(CronRule("* * * * *"), "wants_a_day", "someday"))
    await put("unknown", Spec(CronRule("* * * * *"), "gone"))
    damaged = NewRecord("schedule", "json", "active", b"j{not json", (), Instant(worker.engine.now() + 60_000_000))
    change = RecordChange("x", 0, damaged, (NewRecordEvent("created"),))
    await worker.do(worker.wire.store.records.change([change]))
    await worker.do(worker.engine.schedules.create("good", workflow=trivial, cron="* * * * *"))
    await harness.advance("10m")

    runs = await worker.do(worker.engine.runs.list())
    assert ([run.status for run in runs], {run.workflow for run in runs}) == (["completed"] * 10, {"trivial"})
    stuck = {one.name: one.problem.message for one in await worker.do(worker.engine.schedules.list(cannot_fire=True))}
    unfit = stuck.pop("unfit")
    assert stuck == {
        "february": "cron '0 0 31 2 *' cannot be read: Bad day-of-month",
        "mars": "there is no time zone 'Mars/Olympus'",
        "unknown": "there is no workflow 'gone'.",
    }
    assert ("datetime" in unfit, "someday" in unfit) == (True, False)
    assert {one.kind for one in (await worker.do(worker.engine.schedules.get("unfit"))).outcomes} == {"failed"}
    assert (await worker.do(worker.engine.schedules.get("json"))).unreadable
    assert await worker.do(worker.engine.schedules.list_late()) == []  # they have left the queue


def test_rv_40_two_oclock_in_new_york_over_2026():
    rule = cron_rule("0 2 * * *", "America/New_York")
    begin, end = (to_instant(datetime.fromisoformat(f"{year}-01-01T00:00:00-05:00")) for year in (2026, 2027))
    ticks = list(ticks_between(rule, begin, end))
    shown = [local(tick, "America/New_York") for tick in ticks]

    assert len(ticks) == 365
    assert all(one < two for one, two in pairwise(ticks))
    assert [f"{one:%m-%d %H:%M}" for one in shown if one.hour != 2] == ["03-08 03:00"]
    assert len([one for one in shown if one.month == 11 and one.day == 1]) == 1
    tokyo = cron_rule("0 2 * * *", "Asia/Tokyo")
    assert {f"{local(tick, 'Asia/Tokyo'):%H:%M}" for tick in ticks_between(tokyo, begin, end)} == {"02:00"}
    assert cron_rule("0 2 * * *", "  ") == CronRule("0 2 * * *", "UTC")
