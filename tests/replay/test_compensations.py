"""Which compensation runs, what it gets, and what it sees: what the code passed, the same on every replay."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from stepwell import Break, Context, Continue, Retry, Rollback, StepContext, SyncContext, WaitTimeout, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

LEDGERS: list[Ledger] = []


@pytest.fixture(autouse=True)
def noted(ledger: Ledger) -> Ledger:
    LEDGERS.append(ledger)
    return ledger


def note(line: str) -> None:
    LEDGERS[-1].note(line)


async def act(x: int) -> int:
    return x


def cancel_room(room: int, x: int, out: int) -> None:
    note(f"cancel {room}")


class Account:
    def __init__(self, name: str) -> None:
        self.name = name

    def refund(self, x: int, out: int) -> None:
        note(f"undo {self.name}")


class Undoer:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: int, out: int) -> None:
        note(f"undo {self.name}")


def closure(name: str) -> Any:
    def undo(x: int, out: int) -> None:
        note(f"undo {name}")

    return undo


KINDS: dict[str, Any] = {
    "lambdas": [lambda x, out: note("undo 0"), lambda x, out: note("undo 1"), lambda x, out: note("undo 2")],
    "bound methods": [Account(str(n)).refund for n in range(3)],
    "partials": [functools.partial(Undoer.__call__, Undoer(str(n))) for n in range(3)],
    "closures": [closure(str(n)) for n in range(3)],
    "callable objects": [Undoer(str(n)) for n in range(3)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("takeover", [False, True])
async def test_the_compensation_that_the_code_passed_is_the_one_that_runs(
    harness: Harness, ledger: Ledger, kind: str, takeover: bool
):
    @workflow
    async def flow(ctx: Context) -> None:
        for number, undo in enumerate(KINDS[kind]):
            await ctx.step(step(act, name=f"s{number}", compensate=undo), number)
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    if takeover:
        worker = await harness.takeover(worker, flow)
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("2h")

    assert (await harness.status(run)).status == "cancelled"
    assert ledger.lines == ["undo 2", "undo 1", "undo 0"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rollback_stops_at_a_compensation_that_nothing_can_find_again(
    harness: Harness, ledger: Ledger, kind: str
):
    async def loser(ctx: Context) -> None:
        for number, undo in enumerate(KINDS[kind]):
            await ctx.step(step(act, name=f"s{number}", compensate=undo), number)
        await ctx.receive("never")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.race("first", {"loser": loser, "winner": lambda c: c.sleep("pause", "1m")})
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2m")
    worker = await harness.takeover(worker, flow)
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("2h")

    view = await harness.status(run)
    assert (view.status, ledger.lines) == ("compensation_failed", [])
    assert view.failure is not None
    assert "first/loser/s2" in view.failure.message
    assert "at the top of a module" in view.failure.fix


async def first_undo(x: int, out: int) -> None:
    note(f"first undo {x}")


async def second_undo(x: int, out: int) -> None:
    note(f"second undo {x}")


@pytest.mark.parametrize("takeover", [False, True])
async def test_a_named_compensation_of_a_lost_branch_is_found_by_its_name(
    harness: Harness, ledger: Ledger, takeover: bool
):
    async def loser(ctx: Context) -> None:
        await ctx.step(step(act, name="a", compensate=first_undo), 1)
        await ctx.step(step(act, name="b", compensate=step(second_undo, retry=Retry(max_attempts=2))), 2)
        await ctx.receive("never")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.race("first", {"loser": loser, "winner": lambda c: c.sleep("pause", "1m")})
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2m")
    if takeover:
        worker = await harness.takeover(worker, flow)
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("2h")

    assert (await harness.status(run)).status == "cancelled"
    assert ledger.lines == ["second undo 2", "first undo 1"]


async def test_changed_code_undoes_with_what_it_passes_now(harness: Harness, ledger: Ledger):
    def build(undo: Any) -> Any:
        @workflow(name="flow")
        async def flow(ctx: Context) -> None:
            await ctx.step(step(act, name="a", compensate=undo), 1)
            await ctx.receive("go")

        return flow

    worker = await harness.worker(build(first_undo))
    run = await worker.start("flow")
    await harness.drain()
    worker = await harness.takeover(worker, build(second_undo))
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("2h")

    assert ledger.lines == ["second undo 1"]


# --- what bodies and compensations get ---


@dataclass
class Order:
    items: list[str]
    notes: dict[str, list[int]] = field(default_factory=dict)


ONE = Retry(max_attempts=3, initial="10ms")


async def test_every_attempt_and_the_compensation_get_what_the_code_passed(harness: Harness, ledger: Ledger):
    attempts = []

    async def undo(orders: list[str], count: int) -> None:
        note(f"unsend {orders}")

    @step(retry=ONE, compensate=undo)
    async def send(orders: list[str]) -> int:
        attempts.append(list(orders))
        while orders:
            orders.pop()
            if len(attempts) == 1:
                raise OSError("connection reset")
        return 3

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(send, ["a", "b", "c"])
        raise Rollback("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    assert (await harness.status(run)).status == "compensated"
    assert attempts == [["a", "b", "c"]] * 2
    assert ledger.lines == ["unsend ['a', 'b', 'c']"]


def change(value: Any) -> str:
    """What an ordinary body does to what it gets."""
    kind = type(value).__name__
    if isinstance(value, Order):
        value.items.append("x")
        value.notes.setdefault("n", []).append(1)
        value.notes = {}
    elif isinstance(value, list):
        for one in value:
            if isinstance(one, Order):
                one.items.clear()
        value.append("x")
    elif isinstance(value, dict):
        value["x"] = 1
    elif isinstance(value, set):
        value.add("x")
    return kind


MUTABLE: dict[str, Any] = {
    "a list": lambda: ["a"],
    "a dict": lambda: {"a": [1]},
    "a set": lambda: {"a"},
    "a record": lambda: Order(["a"], {"n": [0]}),
    "records in a list": lambda: [Order(["a"])],
    "a record beside what is no data": lambda: [Order(["a"]), threading.Lock()],
}


@pytest.mark.parametrize("what", MUTABLE)
@pytest.mark.parametrize("is_keyword", [False, True])
async def test_code_sees_nothing_of_what_a_body_does_to_its_arguments(harness: Harness, what: str, is_keyword: bool):
    kinds = []

    async def body(value) -> str:
        return change(value)

    @workflow
    async def flow(ctx: Context) -> str:
        passed = MUTABLE[what]()
        kinds.append(type(passed).__name__)
        kind = await (ctx.step(body, value=passed) if is_keyword else ctx.step(body, passed))
        await ctx.sleep("pause", "1h")
        fresh = MUTABLE[what]()
        is_same = passed[:1] == fresh[:1] and len(passed) == len(fresh) if isinstance(passed, list) else passed == fresh
        return f"{kind} {is_same}"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2h")

    assert await harness.result(run) == f"{kinds[0]} True"


async def test_a_body_gets_the_very_object_if_it_is_no_data(harness: Harness):
    @dataclass
    class Client:
        lock: Any
        calls: int = 0

    client, lock, seen = Client(threading.Lock()), threading.Lock(), []

    def body(client: Client, lock: Any, *, both: Any) -> None:
        seen.extend([client, lock, *both])
        client.calls += 1

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(body, client, lock, both=[client, lock])

    worker = await harness.worker(flow)
    await harness.result(await worker.start(flow))

    assert [id(one) for one in seen] == [id(client), id(lock), id(client), id(lock)]
    assert client.calls == 1


async def test_a_step_that_could_not_be_undone_is_not_done(harness: Harness, ledger: Ledger):
    async def body(lock: Any) -> None:
        note("done")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(body, compensate=first_undo), threading.Lock())

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    assert ((await harness.status(run)).status, ledger.lines) == ("failed", [])


# --- what a compensation sees ---


@pytest.mark.parametrize("takeover", [False, True])
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_compensation_sees_the_same_mailbox_whenever_it_begins(
    harness: Harness, ledger: Ledger, takeover: bool, is_cancelled: bool
):
    async def undo(ctx: Context, x: int) -> None:
        early = await ctx.receive("early", timeout="400ms", default=None)
        await ctx.step("n1", ledger.body(f"early {early and early.payload}"))
        late = await ctx.receive("late", timeout="1d", default=None)
        await ctx.step("n2", ledger.body(f"late {late and late.payload}"))

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(act, compensate=undo), 1)
        await ctx.receive("go")
        raise Rollback("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await worker.signal(run.run_id, "early", 1)
    await harness.drain()
    if is_cancelled:
        await worker.do(worker.engine.cancel(run.run_id))
    else:
        await worker.signal(run.run_id, "go")
    await harness.advance("2s")
    if takeover:
        worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "late", 2)
    await harness.advance("1m")

    assert (await harness.status(run)).status == ("cancelled" if is_cancelled else "compensated")
    assert ledger.lines == ["early 1", "late 2"]


async def test_a_compensation_does_not_get_an_event_that_the_code_has_received(harness: Harness, ledger: Ledger):
    async def undo(ctx: Context, x: int) -> None:
        try:
            event = await ctx.topic("news", since="all", timeout="1m")
        except WaitTimeout:
            event = "none"
        note(f"undo got {event}")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(act, compensate=undo), 1)
        await ctx.topic("news", since="all", name="first")
        raise ValueError("as planned")

    worker = await harness.worker(flow)
    await worker.publish("news", 1, retain="1d")
    run = await worker.start(flow)
    await harness.advance("2h")

    assert (await harness.status(run)).status == "compensated"
    assert ledger.lines == ["undo got none"]


async def test_a_child_of_a_compensation_has_no_deadline_of_the_run(harness: Harness, ledger: Ledger):
    @workflow
    async def refund(ctx: Context, x: int) -> None:
        await ctx.sleep("pause", "1h")
        await ctx.step("refund", ledger.body(f"refund {x}"))

    async def undo(ctx: Context, x: int) -> None:
        await ctx.child(refund, x)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(act, compensate=undo), 1)
        await ctx.receive("paid")

    worker = await harness.worker(flow, refund)
    run = await worker.start(flow, deadline="1m")
    await harness.advance("2h")

    assert ((await harness.status(run)).status, ledger.lines) == ("compensated", ["refund 1"])


async def test_the_time_in_a_compensation_is_the_same_on_every_replay(harness: Harness, ledger: Ledger):
    seen: dict[str, list[Any]] = {"a": [], "b": [], "a later": []}

    def undo(name: str) -> Any:
        async def run(ctx: Context, x: int) -> None:
            seen[name].append(ctx.now())
            await ctx.sleep("cool off", "1h")
            await ctx.step("undo", ledger.body(name))
            if name == "a":
                seen["a later"].append(ctx.now())
                await ctx.sleep("again", "1h")

        return run

    @workflow
    async def flow(ctx: Context) -> Any:
        await ctx.step(step(act, name="b", compensate=undo("b")), 1)
        await ctx.step(step(act, name="plain", compensate=first_undo), 1)
        await ctx.step(step(act, name="a", compensate=undo("a")), 1)
        await ctx.sleep("wait", "3h")
        raise Rollback("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("3h")
    for _ in range(6):
        worker = await harness.takeover(worker, flow)
        await harness.advance("1h")

    assert (await harness.status(run)).status == "compensated"
    assert {name: len(set(times)) for name, times in seen.items()} == {"a": 1, "b": 1, "a later": 1}
    started = (await harness.status(run)).created_at
    assert timedelta(hours=3) <= seen["a"][0] - started < timedelta(hours=5)
    assert seen["a"][0] < seen["a later"][0] < seen["b"][0]


async def test_the_key_of_an_undo_is_not_that_of_any_step(harness: Harness):
    keys = []

    async def undo(info: StepContext) -> None:
        keys.append(info.idempotency_key)

    async def body(info: StepContext) -> None:
        keys.append(info.idempotency_key)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("charge~undo", body)
        await ctx.step("charge", step(body, compensate=undo))
        raise Rollback("no")

    worker = await harness.worker(flow)
    await worker.start(flow)
    await harness.advance("1m")

    assert len(set(keys)) == len(keys) == 3


async def test_a_plain_workflow_is_undone_by_what_it_passed(harness: Harness, ledger: Ledger):
    @workflow
    def flow(ctx: SyncContext) -> None:
        for number, undo in enumerate(KINDS["closures"]):
            ctx.step(step(act, name=f"s{number}", compensate=undo), number)
        ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    worker = await harness.takeover(worker, flow)
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("2h")

    assert ledger.lines == ["undo 2", "undo 1", "undo 0"]


async def test_a_closure_of_a_trimmed_iteration_is_never_taken_for_another(harness: Harness, ledger: Ledger):
    async def body(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step(step(act, name="s", compensate=closure(str(turn))), turn)
        await (ctx.receive("go") if turn == 2 else ctx.sleep("pause", "15m"))
        return Break(turn) if turn == 3 else Continue(turn + 1)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.loop("l", body, 0, trim_every=1, keep=0)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("35m")
    worker = await harness.takeover(worker, flow)
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("2h")

    view = await harness.status(run)
    assert (view.status, ledger.lines) == ("compensation_failed", ["undo 2"])
    assert view.failure is not None
    assert view.failure.path == "l/~1/s"


async def test_a_compensation_that_a_call_leaves_without_a_value_is_rejected_before_the_body_runs(
    harness: Harness, ledger: Ledger
):
    async def charge(order: str, amount: int = 1) -> str:
        ledger.note("charged")
        return "receipt"

    def refund(order: str, amount: int, receipt: str) -> None:
        ledger.note("refunded")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(charge, compensate=refund), "order-1")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2h")

    view = await harness.status(run)
    assert (view.status, ledger.lines) == ("failed", [])
    assert view.failure is not None
    assert view.failure.message.endswith("compensation refund does not fit step 'charge'")
    assert view.failure.why == "it needs 3 values and gets 2: the 1 argument of this call, then the result"
    assert view.failure.fix == (
        "pass all arguments: ctx.step(charge, order, amount); or give the parameters of refund defaults"
    )


async def test_a_compensation_with_a_context_needs_no_value_for_it(harness: Harness, ledger: Ledger):
    async def refund(ctx: Context, order: int, receipt: int) -> None:
        ledger.note(f"refunded {order}")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(act, compensate=refund), 7)
        raise Rollback("changed my mind")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2h")

    assert (await harness.status(run)).status == "compensated"
    assert ledger.lines == ["refunded 7"]
