"""What a caller may get wrong: nothing is stored, and the error says what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepwell import (
    AlreadyExistsError,
    Context,
    Engine,
    Failure,
    InvalidInputError,
    NotFoundError,
    Retry,
    RetryAfter,
    RunFailed,
    Start,
    WorkerSettings,
    step,
    workflow,
)
from stepwell.addresses import open_store
from stepwell.errors import (
    DuplicateNameError,
    InvalidKeyError,
    InvalidNameError,
    InvalidOptionError,
    PayloadTooLargeError,
    StepwellError,
    UnknownWorkflowError,
    UnserialisableError,
)
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger


@dataclass
class Line:
    sku: str
    count: int


@dataclass
class Order:
    customer: str
    amount: int
    lines: list[Line]


@workflow
async def checkout(ctx: Context, order: Order) -> int:
    await ctx.receive("go")
    return order.amount


@workflow
async def no_input(ctx: Context) -> str:
    return "done"


async def nothing_is_stored(node: Node) -> None:
    assert await node.engine.runs.list() == []
    assert await node.wire.store.views.list_held(limit=5) == []


async def test_an_unknown_workflow_is_answered_with_the_nearest_names(harness: Harness):
    worker = await harness.worker(checkout, no_input)

    with pytest.raises(UnknownWorkflowError) as caught:
        await worker.start("chekout")
    assert caught.value.near == ("checkout",)
    assert str(caught.value).splitlines() == [
        "SW402  there is no workflow 'chekout'. Did you mean 'checkout'?",
        "  fix     known: checkout, no_input",
    ]
    await nothing_is_stored(worker)


async def test_an_unknown_run_is_answered_with_the_nearest_key_or_id(harness: Harness):
    worker = await harness.worker(checkout)
    run = await worker.start(checkout, Order("ann", 1, []), key="order-4711")

    verbs: dict[str, Any] = {
        "history": worker.engine.runs.history,
        "explain": worker.engine.explain,
        "result": worker.engine.result,
        "cancel": worker.engine.cancel,
        "retry": worker.engine.repairs.retry,
        "resume": worker.engine.holds.resume,
        "resume_rollback": worker.engine.repairs.resume_rollback,
        "detail": worker.engine.runs.detail,
        "evict": worker.engine.workers.evict,
    }
    for verb in verbs.values():
        with pytest.raises(NotFoundError, match="Did you mean 'order-4711'"):
            await verb("order-4712")
    with pytest.raises(NotFoundError) as caught:
        await worker.engine.runs.history(run.run_id[:13])
    assert caught.value.near == (run.run_id,)


async def test_an_input_of_the_wrong_type_lists_every_violation(harness: Harness):
    worker = await harness.worker(checkout)

    with pytest.raises(InvalidInputError) as caught:
        await worker.start(checkout, {"amount": "4O", "lines": [{"sku": "x", "count": 1}, {"sku": 7}]})
    text = " ".join(caught.value.violations)
    assert len(caught.value.violations) == 4, caught.value.violations
    for field in ("customer", "amount", "lines[1].sku", "lines[1].count"):
        assert field in text
    await nothing_is_stored(worker)


async def test_one_bad_input_of_many_stores_none(harness: Harness):
    worker = await harness.worker(checkout)

    with pytest.raises(InvalidInputError):
        await worker.do(worker.engine.runs.start_many(checkout, [Start(Order("ann", 1, [])), Start({"customer": 1})]))
    await nothing_is_stored(worker)


async def test_input_for_a_workflow_that_takes_none_is_refused(harness: Harness):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidInputError, match="takes no input"):
        await worker.start(no_input, 7)
    await nothing_is_stored(worker)


async def test_a_missing_input_is_refused_unless_there_is_a_default(harness: Harness):
    @workflow
    async def defaulted(ctx: Context, number: int = 7) -> int:
        return number

    worker = await harness.worker(checkout, defaulted)

    with pytest.raises(InvalidInputError):
        await worker.start(checkout)
    run = await worker.start(defaulted)
    await harness.drain()
    assert await harness.result(run) == 7


async def test_an_input_that_cannot_be_stored_is_refused(harness: Harness):
    @workflow
    async def anything(ctx: Context, value: Any) -> None: ...

    worker = await harness.worker(anything)

    for value in (object(), {"when": {1, object()}}, float("nan"), "\ud800", "\x00"):
        with pytest.raises(StepwellError) as caught:
            await worker.start(anything, value)
        assert isinstance(caught.value, (UnserialisableError, InvalidInputError))
    with pytest.raises(PayloadTooLargeError):
        await worker.start(anything, "x" * 50_000_000)
    await nothing_is_stored(worker)


@pytest.mark.parametrize("key", ["", "  ", "k" * 201, "a\x00b"])
async def test_a_key_without_use_is_refused(harness: Harness, key: str):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidKeyError):
        await worker.start(no_input, key=key)
    with pytest.raises(InvalidKeyError):
        await worker.signal(key, "go", if_missing="hold")
    await nothing_is_stored(worker)


@pytest.mark.parametrize("option", ["dedup", "delay"])
@pytest.mark.parametrize("value", [-1, "-1s", timedelta(seconds=-1), "soon", "", [], True])
async def test_durations_without_meaning_are_refused(harness: Harness, option: str, value: Any):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidOptionError, match=option):
        await worker.start(no_input, **{option: value})
    await nothing_is_stored(worker)


async def test_a_run_id_can_be_given_once_and_in_one_spelling(harness: Harness):
    worker = await harness.worker(no_input)
    run = await worker.start(no_input, run_id="mine")
    assert run.run_id == "mine"

    with pytest.raises(AlreadyExistsError, match="'mine' is taken"):
        await worker.start(no_input, run_id="mine")
    for bad in ("Mine", "a/b", ""):
        with pytest.raises(StepwellError):
            await worker.start(no_input, run_id=bad)
    assert len(await worker.engine.runs.list()) == 1


async def test_a_taken_key_can_be_an_error(harness: Harness):
    worker = await harness.worker(checkout)
    order = Order("ann", 1, [])
    first = await worker.start(checkout, order, key="k")

    with pytest.raises(AlreadyExistsError, match=first.run_id):
        await worker.start(checkout, order, key="K", on_conflict="raise")


async def test_another_input_under_the_same_key_is_reported(harness: Harness):
    worker = await harness.worker(checkout)
    await worker.start(checkout, Order("ann", 1, []), key="k")

    again = await worker.start(checkout, Order("bob", 2, []), key="k")
    assert (again.is_new, again.same_input) == (False, False)


async def test_equal_keys_in_one_batch_collapse(harness: Harness):
    worker = await harness.worker(no_input)
    handles = await worker.do(worker.engine.runs.start_many(no_input, [Start(key="a"), Start(key="b"), Start(key="A")]))

    assert [handle.is_new for handle in handles] == [True, True, False]
    assert handles[0].run_id == handles[2].run_id


async def test_a_signal_to_nobody_says_how_to_keep_it(harness: Harness):
    worker = await harness.worker(no_input)

    with pytest.raises(NotFoundError, match='if_missing="hold"'):
        await worker.signal("nobody", "go")
    assert str(await worker.signal("nobody", "go", if_missing="drop")) == "missing"
    with pytest.raises(InvalidOptionError, match="if_missing"):
        await worker.signal("nobody", "go", if_missing="later")
    with pytest.raises(InvalidNameError):
        await worker.signal("nobody", "a/b")
    with pytest.raises(UnserialisableError):
        await worker.signal("nobody", "go", object(), if_missing="hold")
    await nothing_is_stored(worker)


async def test_a_result_that_cannot_be_stored_fails_the_run_after_one_execution(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> Any:
        await ctx.step("work", ledger.body("work"))
        return {"session": object()}

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1h")

    with pytest.raises(RunFailed) as caught:
        await harness.result(run)
    failure = caught.value.failure
    assert failure.code == "SW301"
    assert "session" in failure.message + failure.why
    assert "object" in failure.message + failure.why
    assert ledger.counts == {"work": 1}


@pytest.mark.parametrize("duration", [-1, "-5s", timedelta(-1), "later"])
async def test_a_bad_duration_in_a_workflow_fails_the_run(harness: Harness, duration: Any):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.sleep("pause", duration)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.code) == ("failed", "SW103")


async def test_a_moment_without_a_zone_fails_the_run(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.sleep_until("then", datetime(2030, 1, 1))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.code) == ("failed", "SW103")
    assert "has no time zone" in view.failure.message


async def test_an_input_that_another_process_stored_wrongly_fails_the_run(harness: Harness):
    worker = await harness.worker(checkout)
    run = await worker.do(worker.engine.runs.start_by_name("checkout", 1, {"customer": 7}))
    await harness.drain()

    view = await harness.status(run)
    assert view.status == "failed"
    assert "customer" in view.failure.why


# --- definitions ---


def test_definitions_without_sense_are_refused():
    async def plain() -> None: ...

    def blocking(ctx: Context) -> None: ...

    async def many(ctx: Context, a: int, b: int) -> None: ...

    async def good(ctx: Context) -> None: ...

    bad: Any
    for bad in (plain, many, blocking):
        with pytest.raises(InvalidOptionError):
            workflow(bad)
    for name, version in (("a@b", 1), ("fine", 0)):
        with pytest.raises(InvalidOptionError):
            workflow(name=name, version=version)(good)
    with pytest.raises(InvalidNameError):
        workflow(name="a/b")(good)
    with pytest.raises(InvalidNameError):
        step(plain, name="~x")
    with pytest.raises(InvalidOptionError, match="compensate"):
        step(plain, compensate=7)  # type: ignore[call-overload]
    with pytest.raises(InvalidOptionError):
        step(plain, timeout=-1)


def test_two_workflows_of_one_name_are_refused():
    def build() -> Any:
        @workflow(name="twice")
        async def flow(ctx: Context) -> None: ...

        return flow

    with pytest.raises(DuplicateNameError, match="twice@1"):
        Engine("memory:", workflows=[build(), build()])
    with pytest.raises(InvalidOptionError, match="is not a workflow"):
        Engine("memory:", workflows=[lambda: None])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"factor": 0.5},
        {"jitter": -0.1},
        {"initial": "-1s"},
        {"max_delay": "x"},
    ],
)
def test_retry_policies_without_sense_are_refused(options: dict[str, Any]):
    with pytest.raises(InvalidOptionError):
        Retry(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "fast"},
        {"lease": "10ms"},
        {"runs_max": 0},
        {"cache_max": -1},
        {"stalls_max": 0},
        {"threads_max": 0},
        {"hold_max": "-1s"},
        {"sweep_every": "x"},
    ],
)
def test_settings_without_sense_are_refused(options: dict[str, Any]):
    with pytest.raises(InvalidOptionError):
        WorkerSettings(**options)


@pytest.mark.parametrize("url", ["", "shop.db", "mysql://x", "sqlite://", "sqlite:///"])
def test_a_url_that_names_no_store_is_refused(url: str, harness_environment: Any):
    with pytest.raises(InvalidOptionError, match="cannot open a store"):
        open_store(url, harness_environment)


# --- how a run is started ---


@pytest.mark.parametrize("option", ["deadline", "max_suspend"])
@pytest.mark.parametrize("value", [-1, 0, "-1s", timedelta(seconds=-1), "soon", "", [], True])
async def test_limits_without_meaning_are_refused(harness: Harness, option: str, value: Any):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidOptionError, match=option):
        await worker.start(no_input, **{option: value})
    with pytest.raises(InvalidOptionError, match=option):
        await worker.do(worker.engine.runs.start_many(no_input, [Start(), Start(**{option: value})]))
    await nothing_is_stored(worker)


@pytest.mark.parametrize("value", [datetime(2030, 1, 1), datetime(1999, 1, 1, tzinfo=UTC)])
async def test_a_deadline_without_a_zone_or_in_the_past_is_refused(harness: Harness, value: datetime):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidOptionError, match="deadline") as caught:
        await worker.start(no_input, deadline=value)
    assert caught.value.fix
    await nothing_is_stored(worker)


async def test_a_deadline_before_the_run_begins_is_refused(harness: Harness):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidOptionError, match="would not begin"):
        await worker.start(no_input, delay="1h", deadline="1h")
    await nothing_is_stored(worker)


@pytest.mark.parametrize("priority", ["high", 1.5, True, 101, -101, []])
async def test_a_priority_that_is_no_small_whole_number_is_refused(harness: Harness, priority: Any):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidOptionError, match="priority") as caught:
        await worker.start(no_input, priority=priority)
    assert (caught.value.where, bool(caught.value.why), bool(caught.value.fix)) == ("no_input", True, True)
    with pytest.raises(InvalidOptionError, match="priority"):
        await worker.do(worker.engine.runs.start_many(no_input, [Start(), Start(priority=priority)]))
    await nothing_is_stored(worker)


@pytest.mark.parametrize(
    "tags",
    [
        "vip",
        7,
        ["vip"],
        {"team": 7},
        {7},
        {""},
        {" vip"},
        {"a=b"},
        {"line\nbreak"},
        {"x" * 61},
        {"team": "x" * 201},
        {"team": "\x00"},
        {f"tag {number}" for number in range(21)},
    ],
)
async def test_tags_that_cannot_be_stored_are_refused(harness: Harness, tags: Any):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidOptionError, match="tags") as caught:
        await worker.start(no_input, tags=tags)
    assert (caught.value.where, bool(caught.value.why), bool(caught.value.fix)) == ("no_input", True, True)
    await nothing_is_stored(worker)


async def test_options_that_do_not_exist_are_refused(harness: Harness):
    worker = await harness.worker(no_input)

    with pytest.raises(InvalidOptionError, match="on_conflict"):
        await worker.start(no_input, key="k", on_conflict="kill")
    with pytest.raises(InvalidOptionError, match="prio"):
        await worker.start(no_input, prio=1)
    await nothing_is_stored(worker)


async def test_a_debounced_start_without_sense_is_refused(harness: Harness):
    worker = await harness.worker(checkout)
    order = Order("ann", 1, [])
    bad: dict[str, Any]
    for bad in ({"quiet": 0}, {"quiet": -1}, {"quiet": "soon"}, {"max_wait": 0}, {"max_wait": "-1s"}):
        with pytest.raises(InvalidOptionError, match=next(iter(bad))):
            options: dict[str, Any] = {"key": "k", "quiet": "1s", **bad}
            await worker.do(worker.engine.runs.start_debounced(checkout, order, **options))
    for key in ("", "k" * 201):
        with pytest.raises(InvalidKeyError):
            await worker.do(worker.engine.runs.start_debounced(checkout, order, key=key, quiet="1s"))
    wrong: Any = {"customer": 7}
    with pytest.raises(InvalidInputError):
        await worker.do(worker.engine.runs.start_debounced(checkout, wrong, key="k", quiet="1s"))
    await nothing_is_stored(worker)


# --- what code may get wrong while it runs ---


@pytest.mark.parametrize("reason", ["", "  ", "\n"])
async def test_a_failure_without_a_reason_is_a_failure_that_says_so(harness: Harness, ledger: Ledger, reason: str):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("work", ledger.body("work"))
        raise Failure(reason)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1h")

    view = await harness.status(run)
    assert (view.status, view.failure.code) == ("failed", "SW103")
    assert "needs a reason" in view.failure.message
    assert ledger.counts == {"work": 1}


async def test_a_childs_key_that_is_too_long_fails_the_run_and_starts_nothing(harness: Harness):
    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.child(no_input, key="k" * 201)

    worker = await harness.worker(parent, no_input)
    run = await worker.start(parent)
    await harness.advance("1h")

    view = await harness.status(run)
    assert (view.status, view.failure.code) == ("failed", "SW406")
    assert len(await worker.engine.runs.list()) == 1


@pytest.mark.parametrize("duration", [-1, "-5s", timedelta(-1), "later"])
async def test_a_timeout_without_meaning_fails_the_run(harness: Harness, duration: Any):
    @workflow
    async def receiving(ctx: Context) -> None:
        await ctx.receive("go", timeout=duration)

    @workflow
    async def receiving_many(ctx: Context) -> None:
        await ctx.receive_many("go", count=2, timeout=duration)

    @workflow
    async def stepping(ctx: Context) -> None:
        async def body() -> None:
            raise RetryAfter(duration)

        await ctx.step("work", body)

    worker = await harness.worker(receiving, receiving_many, stepping)
    for flow in (receiving, receiving_many, stepping):
        run = await worker.start(flow)
        await harness.advance("1h")
        view = await harness.status(run)
        assert view.status == "failed", flow.name
        assert view.failure.code == "SW103" or "SW103" in str(view.failure), flow.name


def test_compensations_that_cannot_be_called_are_refused():
    async def body() -> None: ...

    bad: Any
    for bad in (7, "undo", [], object()):
        with pytest.raises(InvalidOptionError, match="compensate"):
            step(body, compensate=bad)
        with pytest.raises(InvalidOptionError, match="compensate"):
            step(body).options(compensate=bad)


@pytest.mark.parametrize("option", ["timeout"])
@pytest.mark.parametrize("value", [-1, "-1s", timedelta(seconds=-1), "soon", []])
def test_durations_of_steps_without_meaning_are_refused(option: str, value: Any):
    async def body() -> None: ...

    with pytest.raises(InvalidOptionError, match=option):
        step(body, **{option: value})
