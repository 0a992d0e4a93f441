"""Arguments of numbered uses: a replay that passes others stops the run, and both are shown."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stepwell import Context, RunPaused, Workflow, step, workflow
from stepwell.views import FailureRecord
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


class Code:
    """Code that calls a step with each of some arguments, then waits for "go"."""

    def __init__(self, ledger: Ledger) -> None:
        self.arguments: list[Any] = []
        self.options: dict[str, Any] = {}
        self.ledger = ledger

    def flow(self) -> Workflow[None, list[Any]]:
        async def charge(*args: Any) -> Any:
            self.ledger.lines.append(repr(args))
            return len(self.ledger.lines)

        body = step(charge, **self.options)

        @workflow
        async def flow(ctx: Context) -> list[Any]:
            found = [await ctx.step(body, each) for each in self.arguments]
            await ctx.receive("go")
            return found

        return flow


@pytest.fixture
def code(ledger: Ledger) -> Code:
    return Code(ledger)


async def replayed(harness: Harness, code: Code, before: list[Any], after: list[Any]) -> list[Any]:
    """Run with some arguments, and replay with others."""
    code.arguments = before
    worker = await harness.worker(code.flow())
    run = await worker.start("flow")
    await harness.drain()
    code.arguments = after
    worker = await harness.deploy(worker, code.flow())
    await worker.signal(run.run_id, "go")
    await harness.drain()
    found: list[Any] = await harness.result(run)
    return found


async def diverged(harness: Harness, code: Code, before: list[Any], after: list[Any]) -> FailureRecord:
    with pytest.raises(RunPaused) as caught:
        await replayed(harness, code, before, after)
    assert caught.value.failure is not None
    return caught.value.failure


async def test_a_replay_with_other_arguments_shows_both(harness: Harness, code: Code):
    failure = await diverged(harness, code, [1, 2, 3], [1, 2, 4])

    assert (failure.code, failure.path) == ("SW201", "charge#3")
    assert failure.message == "this code passes other arguments than the run recorded at charge#3"
    assert "recorded: step charge#3 (3) · now: step charge#3 (4)" in failure.why
    assert "charge.options(fingerprint=False)" in failure.fix
    assert code.ledger.lines == ["(1,)", "(2,)", "(3,)"]


async def test_the_first_use_is_compared_once_there_was_a_second(harness: Harness, code: Code):
    failure = await diverged(harness, code, [1, 2], [2, 1])

    assert failure.path == "charge"
    assert "step charge (1) · now: step charge (2)" in failure.why


async def test_long_arguments_are_told_by_their_fingerprint(harness: Harness, code: Code):
    failure = await diverged(harness, code, ["first", {"name": "ann"}], ["first", {"name": "bob"}])

    assert failure.path == "charge#2"
    assert "arguments with fingerprint " in failure.why
    assert '({"name":"bob"}), with fingerprint ' in failure.why


async def test_a_single_use_records_no_fingerprint(harness: Harness, code: Code):
    assert await replayed(harness, code, [1], [2]) == [1]


async def test_arguments_may_differ_if_the_step_says_so(harness: Harness, code: Code):
    code.options = {"fingerprint": False}

    assert await replayed(harness, code, [1, 2, 3], [3, 2, 1]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
        ({"one", "two", "three", "four", "five"}, {"five", "four", "three", "two", "one"}),
    ],
)
async def test_the_order_of_a_set_or_a_dict_does_not_count(harness: Harness, code: Code, before: Any, after: Any):
    assert await replayed(harness, code, [before, before], [after, after]) == [1, 2]


async def test_what_cannot_be_encoded_has_no_fingerprint(harness: Harness, code: Code):
    locks = [threading.Lock() for _ in range(6)]

    assert await replayed(harness, code, locks[:3], locks[3:]) == [1, 2, 3]


async def test_arguments_are_compared_as_they_were_passed(harness: Harness, ledger: Ledger):
    async def note(items: list[int]) -> None:
        ledger.lines.append(repr(items))

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        items: list[int] = []
        for number in range(3):
            items.append(number)
            await ctx.step(note, items)
        await ctx.receive("go")
        return items

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")

    assert await harness.result(run) == [0, 1, 2]
    assert ledger.lines == ["[0]", "[0, 1]", "[0, 1, 2]"]


async def test_children_are_compared_too(harness: Harness):
    inputs = [1, 2]

    @workflow
    async def child(ctx: Context, number: int) -> int:
        return number

    @workflow
    async def parent(ctx: Context) -> list[int]:
        found = [await ctx.child(child, number) for number in inputs]
        await ctx.receive("go")
        return found

    worker = await harness.worker(parent, child)
    run = await worker.start(parent)
    await harness.drain()
    inputs[1] = 3
    worker = await harness.takeover(worker, parent, child)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    with pytest.raises(RunPaused) as caught:
        await harness.result(run)
    assert caught.value.failure is not None
    assert "child child#2 (2) · now: child child#2 (3)" in caught.value.failure.why
