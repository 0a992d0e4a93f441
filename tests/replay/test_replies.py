"""`engine.ask` and `message.reply`: one durable answer to each question, or a clear error."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import (
    Break,
    Context,
    Continue,
    InvalidInputError,
    JoinError,
    NotFoundError,
    Request,
    ResultTimeout,
    Retry,
    RunFailed,
    Signal,
    StepFailed,
    signal,
    step,
    workflow,
)
from stepwell.errors import AskRefused, InvalidOptionError, ReplyOwedError, ReplyTwiceError, Unanswered
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.sweep import ASK, Program, sweep


@dataclass
class Change:
    amount: int


def _positive(change: Change) -> None:
    if change.amount <= 0:
        raise ValueError("the amount must be above 0")


change = Request[Change, int]("change", check=_positive)


@workflow
async def account(ctx: Context, balance: int) -> int:
    """Two updates, then the end."""
    for _ in range(2):
        message = await ctx.receive(change)
        if message.payload.amount > balance:
            await message.refuse("not enough")
        else:
            balance -= message.payload.amount
            await message.reply(balance)
    return balance


def answers(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        first = await ctx.receive("plain")
        await ctx.step("before", ledger.act)
        await first.reply({"got": first.payload})
        many = await ctx.receive_many("many", count=2)
        for each in many:
            await each.reply(each.payload + 1)
        any_of = await ctx.wait_any(one=signal("any"), two=signal("other"))
        await any_of.value.refuse("not now")
        silent = await ctx.receive("silent")
        return [first.wants_reply, [each.payload for each in many], any_of.label, silent.payload]

    script: tuple[tuple[Any, str, Any], ...] = (
        ("1s", f"{ASK}plain", "hello"),
        ("1s", f"{ASK}many", 1),
        ("1s", f"{ASK}any", None),
        ("1s", f"{ASK}silent", 9),
    )
    return Program(program, script=script, lasts="10s")


@pytest.mark.parametrize("mode", ["live", "yield"])
async def test_answers_survive_every_fault(mode: str) -> None:
    outcome = await sweep(answers, mode)

    assert outcome.output == [True, [1], "one", 9]
    told = {line for line in outcome.effects if line.startswith("answer")}
    silence = "answer SW463 it had read the question"
    assert told == {"answer {'got': 'hello'}", "answer 2", "answer SW462 not now", silence}


async def test_an_update_is_answered_with_its_own_type_or_refused_on_either_side(harness: Harness) -> None:
    worker = await harness.worker(account)
    client = await harness.client()
    run = await worker.start(account, 10, key="a")

    with pytest.raises(InvalidInputError, match="above 0"):
        await client.do(client.engine.ask("a", change, Change(0)))
    with pytest.raises(InvalidInputError) as refused:
        await client.do(client.engine.ask("a", change, {"amount": "much"}))  # type: ignore[misc]
    assert refused.value.violations
    assert (await worker.engine.runs.detail("a")).signals == ()

    left = await client.do(client.engine.ask("a", change, Change(4), timeout="60s"))
    assert left == 6
    with pytest.raises(AskRefused) as error:
        await client.do(run.ask(change, Change(7)))
    assert (error.value.title, error.value.where, error.value.code) == ("not enough", "signal change", "SW462")
    assert error.value.fix
    await harness.drain()
    assert await harness.result(run) == 6


async def test_a_question_of_a_plain_sender_that_does_not_fit_is_refused_and_the_run_goes_on(harness: Harness) -> None:
    worker = await harness.worker(account)
    run = await worker.start(account, 10)

    with pytest.raises(AskRefused, match="amount"):
        await worker.do(worker.engine.ask(run.run_id, "change", {"amount": "much"}))
    with pytest.raises(AskRefused, match="above 0"):
        await worker.do(worker.engine.ask(run.run_id, "change", {"amount": -1}))

    assert (await harness.status(run)).status == "waiting"
    assert len(await worker.engine.signals.list_unread(run.run_id)) == 2
    assert await worker.do(worker.engine.ask(run.run_id, "change", {"amount": 3})) == 7


async def test_a_run_that_ends_or_stands_still_without_a_reply_tells_the_sender(harness: Harness) -> None:
    @workflow
    async def ends(ctx: Context, how: str) -> None:
        await ctx.receive("question")
        if how == "fails":
            ctx.fail("no")
        if how == "sleeps":
            await ctx.sleep("long", "1h")

    worker = await harness.worker(ends)
    for how, status in (("ends", "completed"), ("fails", "failed")):
        run = await worker.start(ends, how)
        with pytest.raises(Unanswered, match=f"is {status} and has not answered 'question'") as error:
            await worker.do(worker.engine.ask(run.run_id, "question"))
        assert (error.value.code, error.value.why) == ("SW463", "it had read the question")
        assert error.value.fix
    sleeping = await worker.start(ends, "sleeps")
    asking = asyncio.ensure_future(worker.do(worker.engine.ask(sleeping.run_id, "question")))
    second = asyncio.ensure_future(worker.do(worker.engine.ask(sleeping.run_id, "question")))
    await harness.drain()
    await worker.do(worker.engine.cancel(sleeping.run_id))
    await harness.drain()
    with pytest.raises(Unanswered, match="is cancelled"):
        await asking
    with pytest.raises(Unanswered, match="is cancelled") as error:
        await second
    assert error.value.why == "it has not read the question"


async def test_nobody_is_asked_if_there_is_no_run_and_a_wait_can_end(harness: Harness) -> None:
    worker = await harness.worker(account)
    with pytest.raises(NotFoundError, match="active run 'nobody'"):
        await worker.do(worker.engine.ask("nobody", "change", 1))

    @workflow
    async def busy(ctx: Context) -> str:
        await ctx.sleep("busy", "1h")
        await (message := await ctx.receive("question")).reply("late")
        return str(message.payload)

    other = await harness.worker(busy)
    run = await other.start(busy)
    with pytest.raises(ResultTimeout, match="was not answered after 2 s"):
        await other.do(other.engine.ask(run.run_id, "question", 1, timeout="2s", dedup_key="d"))
    await harness.advance("2h")

    # The question was durable, and so is its answer: asked again, it is told again, also after the run has ended.
    assert await other.do(other.engine.ask(run.run_id, "question", 1, dedup_key="d")) == "late"
    assert await harness.result(run) == "1"


async def test_a_question_moves_on_with_continue_as_new(harness: Harness) -> None:
    @workflow
    async def chain(ctx: Context, number: int) -> int:
        if number == 0:
            await ctx.receive("next")
            ctx.continue_as_new(1)
        message = await ctx.receive("question")
        await message.reply(number)
        return number

    worker = await harness.worker(chain)
    run = await worker.start(chain, 0)
    asking = asyncio.ensure_future(worker.do(worker.engine.ask(run.run_id, "question")))
    await harness.drain()
    await worker.signal(run.run_id, "next")
    await harness.drain()

    assert await asking == 1


async def test_the_next_receive_before_the_reply_pauses_the_run_and_loses_nothing(harness: Harness) -> None:
    def make(*, is_mended: bool) -> Any:
        @workflow(name="forgetful")
        async def forgetful(ctx: Context) -> list[int]:
            first = await ctx.receive("question")
            if is_mended:
                await first.reply("yes")
            second = await ctx.receive("number")
            return [second.payload]

        return forgetful

    worker = await harness.worker(make(is_mended=False))
    run = await worker.start("forgetful")
    await worker.signal(run.run_id, "number", 7)
    with pytest.raises(Unanswered, match="is paused"):
        await worker.do(worker.engine.ask(run.run_id, "question", dedup_key="q"))

    view = await harness.status(run)
    assert view.status == "paused"
    assert view.failure is not None
    assert (view.failure.code, view.failure.path) == (ReplyOwedError.code, "question")
    assert view.failure.why
    assert "message.reply" in view.failure.fix
    assert len((await worker.engine.runs.detail(run.run_id)).signals) == 1

    worker = await harness.deploy(worker, make(is_mended=True))
    await worker.do(worker.engine.holds.resume(run.run_id))
    assert await worker.do(worker.engine.ask(run.run_id, "question", dedup_key="q")) == "yes"
    await harness.drain()
    assert await harness.result(run) == [7]


async def test_a_branch_may_receive_while_another_owes_a_reply(harness: Harness) -> None:
    async def answers_late(ctx: Context) -> str:
        message = await ctx.receive("question")
        await ctx.sleep("think", "1h")
        await message.reply("thought")
        return "a"

    async def receives(ctx: Context) -> str:
        await ctx.receive("x")
        return str((await ctx.receive("y")).payload)

    @workflow
    async def both(ctx: Context) -> dict[str, str]:
        return await ctx.join("both", {"a": answers_late, "b": receives})

    worker = await harness.worker(both)
    run = await worker.start(both)
    asking = asyncio.ensure_future(worker.do(worker.engine.ask(run.run_id, "question")))
    await harness.drain()
    for name in ("x", "y"):
        await worker.signal(run.run_id, name, 1)
    await harness.advance("2h")

    assert await asking == "thought"
    assert await harness.result(run) == {"a": "a", "b": "1"}


@pytest.mark.parametrize("place", ["loop", "join"])
async def test_what_an_iteration_or_a_branch_has_not_answered_is_owed_after_it(harness: Harness, place: str) -> None:
    async def forgets(ctx: Context) -> None:
        await ctx.receive("question")

    async def body(ctx: Context, state: int) -> Continue[int]:
        await ctx.receive("question")
        return Continue(state + 1)

    @workflow
    async def forgetful(ctx: Context) -> None:
        if place == "loop":
            await ctx.loop("loop", body, 0)
        await ctx.join("join", {"a": forgets})
        await ctx.receive("next")

    worker = await harness.worker(forgetful)
    run = await worker.start(forgetful)
    with pytest.raises(Unanswered, match="is paused"):
        await worker.do(worker.engine.ask(run.run_id, "question"))

    view = await harness.status(run)
    assert view.failure is not None
    path = {"loop": "loop/~0/question", "join": "join/a/question"}[place]
    assert (view.failure.code, view.failure.path) == (ReplyOwedError.code, path)


@pytest.mark.parametrize("kind", ["race", "join", "map"])
async def test_a_branch_that_loses_or_fails_before_it_replied_refuses(harness: Harness, kind: str) -> None:
    async def receives(ctx: Context) -> None:
        await ctx.receive("question")
        if kind == "race":
            await ctx.sleep("long", "1d")
        ctx.fail("broken")

    async def item(ctx: Context, number: int) -> None:
        await receives(ctx)

    async def wins(ctx: Context) -> None:
        await ctx.sleep("short", "1h")

    @workflow
    async def branches(ctx: Context) -> None:
        try:
            match kind:
                case "race":
                    await ctx.race("race", {"a": receives, "b": wins})
                case "join":
                    await ctx.join("join", {"a": receives, "b": wins})
                case _:
                    await ctx.map("map", item, [1])
        except JoinError:
            pass
        await ctx.receive("end")

    worker = await harness.worker(branches)
    run = await worker.start(branches)
    client = await harness.client()
    asking = asyncio.ensure_future(client.do(client.engine.ask(run.run_id, "question")))
    await harness.drain()
    worker = await harness.deploy(worker, branches) if kind == "race" else worker
    await harness.advance("2h")

    with pytest.raises(AskRefused, match="failed or lost before it replied"):
        await asking
    await worker.signal(run.run_id, "end")
    await harness.drain()
    assert (await harness.status(run)).status == "completed"


async def test_each_of_several_questions_gets_its_own_answer(harness: Harness) -> None:
    @workflow
    async def batch(ctx: Context) -> int:
        await ctx.receive("begin")
        messages = await ctx.receive_many("question", count=5)
        for message in reversed(messages):
            await message.reply(message.payload * 10)
        await ctx.receive("end")
        return len(messages)

    worker = await harness.worker(batch)
    run = await worker.start(batch)
    client = await harness.client()
    asking = [asyncio.ensure_future(client.do(client.engine.ask(run.run_id, "question", n))) for n in range(3)]
    await harness.drain()
    await client.signal(run.run_id, "begin")
    await harness.drain()
    worker = await harness.deploy(worker, batch)
    await client.signal(run.run_id, "end")

    assert await asyncio.gather(*asking) == [0, 10, 20]
    await harness.drain()
    assert await harness.result(run) == 3


@pytest.mark.parametrize("second", ["reply", "refuse"])
async def test_a_second_answer_pauses_the_run_and_the_first_one_stands(harness: Harness, second: str) -> None:
    @workflow
    async def twice(ctx: Context) -> None:
        message = await ctx.receive("question")
        await message.reply(1)
        await getattr(message, second)("again")

    worker = await harness.worker(twice)
    run = await worker.start(twice)
    assert await worker.do(worker.engine.ask(run.run_id, "question")) == 1
    await harness.drain()

    view = await harness.status(run)
    assert view.status == "paused"
    assert view.failure is not None
    assert (view.failure.code, view.failure.path) == (ReplyTwiceError.code, "question")
    assert view.failure.why
    assert view.failure.fix
    assert [entry.kind for entry in await harness.history(run)] == ["receive", "reply"]


async def test_a_reply_to_a_plain_signal_goes_nowhere_and_a_refusal_needs_a_reason(harness: Harness) -> None:
    @workflow
    async def polite(ctx: Context) -> bool:
        message = await ctx.receive("plain")
        await message.reply("thanks")
        asked = await ctx.receive("question")
        with pytest.raises(InvalidOptionError, match="reason"):
            await asked.refuse("  ")
        await asked.refuse("no")
        return message.wants_reply

    worker = await harness.worker(polite)
    run = await worker.start(polite)
    await worker.signal(run.run_id, "plain")
    with pytest.raises(AskRefused):
        await worker.do(worker.engine.ask(run.run_id, "question"))
    await harness.drain()

    assert await harness.result(run) is False


async def test_a_reply_that_does_not_fit_its_type_fails_in_the_run_and_is_not_sent(harness: Harness) -> None:
    @workflow
    async def wrong(ctx: Context) -> None:
        message = await ctx.receive(change)
        await message.reply("many")

    worker = await harness.worker(wrong)
    run = await worker.start(wrong)
    with pytest.raises(Unanswered, match="is failed"):
        await worker.do(worker.engine.ask(run.run_id, change, Change(1)))
    with pytest.raises(RunFailed, match="the reply"):
        await harness.result(run)


async def test_a_question_is_received_and_not_merely_seen(harness: Harness) -> None:
    @workflow
    async def looks(ctx: Context) -> bool:
        await ctx.receive("go")
        seen = ctx.signals.has("question")
        await (await ctx.receive(Signal[int]("question"))).reply("here")
        return seen

    worker = await harness.worker(looks)
    run = await worker.start(looks)
    asking = asyncio.ensure_future(worker.do(worker.engine.ask(run.run_id, "question", 3)))
    await harness.drain()
    await worker.signal(run.run_id, "go")

    assert await asking == "here"
    await harness.drain()
    assert await harness.result(run) is False


# --- wherever it is called ---


PLACES = ["join", "map", "fail_fast", "race", "loop", "nested", "wait_any", "many", "task", "after"]


@pytest.mark.parametrize("place", PLACES)
async def test_a_reply_works_wherever_it_is_called(harness: Harness, ledger: Ledger, place: str) -> None:
    @workflow
    async def answers(ctx: Context) -> str:
        if place == "wait_any":
            message = (await ctx.wait_any("w", q=signal("q"), other=signal("other"))).value
        elif place == "many":
            message = (await ctx.receive_many("q"))[0]
        else:
            message = await ctx.receive("q")

        async def branch(inner: Context) -> None:
            await inner.step("before", ledger.act)
            await message.reply("yes")
            await inner.step("after", ledger.act)

        async def item(inner: Context, number: int) -> None:
            if number == 1:
                await branch(inner)

        async def body(inner: Context, number: int) -> Continue[int] | Break[None]:
            await item(inner, number)
            if number == 2:
                await inner.receive("more")
            return Break(None) if number == 3 else Continue(number + 1)

        async def races(inner: Context) -> None:
            await inner.race("inner", {"one": branch})

        async def waits(inner: Context) -> None:
            await inner.step("work", ledger.act)

        match place:
            case "map":
                await ctx.map("place", item, range(3))
            case "fail_fast":
                await ctx.map("place", item, range(3), on_error="fail_fast")
            case "race":
                await ctx.race("place", {"one": branch})
            case "loop":
                await ctx.loop("place", body, 0)
            case "nested":
                await ctx.join("place", {"one": races, "two": waits})
            case "task":
                await asyncio.gather(branch(ctx), ctx.step("beside", ledger.act))
            case "after":
                await ctx.join("place", {"two": waits})
                await branch(ctx)
            case _:
                await ctx.join("place", {"two": waits, "one": branch})
        return str((await ctx.receive("end")).payload)

    worker = await harness.worker(answers)
    client = await harness.client()
    run = await worker.start(answers)
    assert await client.do(client.engine.ask(run.run_id, "q", timeout="10m")) == "yes"
    await harness.drain()
    worker = await harness.takeover(worker, answers)
    await client.signal(run.run_id, "more")
    await harness.drain()
    await harness.takeover(worker, answers)
    await client.signal(run.run_id, "end", "done")
    await harness.drain()

    assert await harness.result(run) == "done"
    assert max(ledger.counts.values()) == 1


async def test_a_reply_after_one_that_a_replay_does_not_run_again_is_one_too_many(harness: Harness) -> None:
    @workflow
    async def twice(ctx: Context) -> None:
        message = await ctx.receive("q")

        async def branch(inner: Context) -> None:
            await message.reply("yes")

        await ctx.race("first", {"one": branch})
        await ctx.sleep("nap", "1h")
        await message.reply("again")

    worker = await harness.worker(twice)
    client = await harness.client()
    run = await worker.start(twice)
    assert await client.do(client.engine.ask(run.run_id, "q", timeout="10m")) == "yes"
    await harness.takeover(worker, twice)
    await harness.advance("2h")

    view = await harness.status(run)
    assert (view.status, view.failure and view.failure.code) == ("paused", ReplyTwiceError.code)


async def test_an_answer_after_a_retry_counts_for_nothing_if_the_failed_code_has_refused(
    harness: Harness, ledger: Ledger
) -> None:
    async def answer(ctx: Context) -> None:
        message = await ctx.receive("q")
        try:
            await ctx.step(step(ledger.failing(ctx.run_id, 1), name="work", retry=Retry(max_attempts=1)))
        except StepFailed:
            await message.refuse("not now")
            raise
        await message.reply("done")

    async def undo(ctx: Context, value: int, result: int) -> None:
        await answer(ctx)

    @workflow
    async def forward(ctx: Context) -> str:
        await answer(ctx)
        return str((await ctx.receive("end")).payload)

    @workflow
    async def rollback(ctx: Context) -> None:
        await ctx.step(step(ledger.act, name="act", compensate=undo), 1)
        ctx.fail("no")

    for flow, ends_as in ((forward, "completed"), (rollback, "compensated")):
        worker = await harness.worker(flow)
        client = await harness.client()
        run = await worker.start(flow)
        with pytest.raises(AskRefused):
            await client.do(client.engine.ask(run.run_id, "q", timeout="10m"))
        await harness.drain()
        act = client.engine.repairs.retry if flow is forward else client.engine.repairs.resume_rollback
        assert await client.do(act(run.run_id))
        await harness.drain()
        await harness.takeover(worker, flow)
        await client.signal(run.run_id, "end", "end", if_missing="drop")
        await harness.drain()

        assert (await harness.status(run)).status == ends_as


async def test_a_compensation_can_receive_and_reply(harness: Harness, ledger: Ledger) -> None:
    async def undo(ctx: Context, value: int, result: int) -> None:
        message = await ctx.receive("q")

        async def branch(inner: Context) -> None:
            await message.reply("undone")

        await ctx.race("first", {"one": branch})
        await ctx.receive("end")

    @workflow
    async def fails(ctx: Context) -> None:
        await ctx.step(step(ledger.act, name="work", compensate=undo), 1)
        ctx.fail("no")

    worker = await harness.worker(fails)
    client = await harness.client()
    run = await worker.start(fails)
    await harness.drain()
    assert await client.do(client.engine.ask(run.run_id, "q", timeout="10m")) == "undone"
    await harness.takeover(worker, fails)
    await client.signal(run.run_id, "end")
    await harness.drain()

    assert (await harness.status(run)).status == "compensated"


def answers_in_branches(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> int:
        first, second = await ctx.receive("one", name="first"), None

        async def branch(inner: Context) -> None:
            await inner.step("before", ledger.act)
            await first.reply(1)

        async def other(inner: Context) -> None:
            await inner.once("value", lambda: 1)

        await ctx.join("both", {"other": other, "branch": branch})
        second = await ctx.receive("two")

        async def body(inner: Context, number: int) -> Continue[int] | Break[int]:
            await inner.sleep("nap", "1s")
            if number == 1:
                await second.reply(2)
            return Break(number) if number == 3 else Continue(number + 1)

        return await ctx.loop("rounds", body, 0)

    return Program(program, script=(("1s", f"{ASK}one", None), ("1s", f"{ASK}two", None)), lasts="20s")


@pytest.mark.parametrize("mode", ["live", "yield"])
async def test_replies_in_branches_and_loops_survive_every_fault(mode: str) -> None:
    outcome = await sweep(answers_in_branches, mode, "crash")

    assert outcome.output == 3
    assert outcome.effects["answer 1"] == outcome.effects["answer 2"] == 1
