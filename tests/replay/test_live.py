"""Published state and streams: fresh, replayed, and with a fault at every call to the store."""

from __future__ import annotations

from typing import Any

import pytest

from sim.plain import twin_of
from stepwell import Break, Context, Continue, Handle, Retry, StepContext, step, workflow
from stepwell.views import StreamItem, StreamReset
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.sweep import Build, Execution, Fault, FaultKind, Moment, Outcome, Program

QUICK = Retry(max_attempts=3, initial="100ms", jitter=0)


def streaming(ledger: Ledger) -> Program:
    """A step that streams and fails half-way, branches that stream at once, and the workflow itself."""

    async def say(info: StepContext, words: list[str], *, fails: bool = False) -> int:
        ledger.lines.append(f"{info.path}")
        stream = info.stream("out")
        for word in words:
            await stream.append(word)
            if fails and info.attempt == 1:
                raise ConnectionError("in the middle")
        return len(words)

    @workflow
    async def program(ctx: Context) -> int:
        out = ctx.stream("out")
        await out.append("begin")
        said = await ctx.step("one", step(say, retry=QUICK), ["a", "b", "c"], fails=True)

        async def branch(inner: Context, word: str) -> int:
            await inner.stream("out").append(f"{word}?")
            return await inner.step("say", say, [word, word])

        counts = await ctx.map("all", branch, ["x", "y"])
        await out.append("end")
        await out.close()
        await ctx.sleep("rest", "2s")
        return said + sum(counts)

    return Program(program, lasts="5s")


def publishing(ledger: Ledger) -> Program:
    """Values that are published before, inside and after operations that a replay passes over."""

    @workflow
    async def program(ctx: Context) -> str:
        ctx.publish_state("begun")
        ctx.state["n"] = 0

        async def branch(inner: Context) -> None:
            await inner.step("work", ledger.act)
            inner.publish_state("inside")
            inner.state["n"] = 1

        async def body(inner: Context, number: int) -> Continue[int] | Break[int]:
            inner.state["iteration"] = number
            await inner.step("work", ledger.act)
            return Continue(number + 1) if number < 4 else Break(number)

        await ctx.join("both", {"a": branch})
        await ctx.sleep("rest", "2s")
        await ctx.step("after", ledger.act)
        await ctx.loop("loop", body, 0, trim_every=2, keep=1)
        await ctx.sleep("more", "2s")
        ctx.state["n"] = 2
        await ctx.step("last", ledger.act)
        return "done"

    return Program(program, lasts="8s")


class LiveExecution(Execution):
    """An execution whose outcome has what the run showed."""

    async def _read(self, run: Handle[Any]) -> Outcome:
        engine = self.harness._any
        sources: dict[str, list[Any]] = {}
        async for item in engine.runs.stream(run.run_id, "out"):
            assert isinstance(item, StreamItem)  # who begins at the beginning never has to forget anything
            sources.setdefault(item.source, []).append(item.value)
        shown = [sources, await engine.runs.states(run.run_id)]
        return (await super()._read(run))._replace(output=shown)


def plain(build: Build) -> Build:
    def build_twin(ledger: Ledger) -> Program:
        program = build(ledger)
        program.workflow = twin_of(program.workflow)
        return program

    return build_twin


FAULTS: list[tuple[FaultKind, Moment]] = [
    (kind, moment) for kind in ("crash", "lost", "pause") for moment in ("before", "after")
]
SHOWN: dict[str, tuple[Build, Any]] = {
    "streaming": (
        streaming,
        [
            {"": ["begin", "x?", "y?", "end"], "one": ["a", "b", "c"]}
            | {"all/~0/say": ["x", "x"], "all/~1/say": ["y", "y"]},
            {},
        ],
    ),
    "publishing": (publishing, [{}, {"": "inside", "n": 2, "iteration": 4}]),
}


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("name", SHOWN)
async def test_a_fault_at_any_call_loses_and_doubles_nothing(mode: str, store: str, name: str, kind: str):
    build, shown = SHOWN[name]
    build = build if kind == "async" else plain(build)
    store = "postgres16" if (store, mode) == ("postgres", "yield") else store
    reference = LiveExecution(build, mode, store, None)
    assert (await reference.run()).output == shown

    # On one store, two kinds of fault at every call; on the other one kind at some. Which kinds depends on the call.
    every = 3 if store == "sqlite" else 11
    for first, (fault, moment) in enumerate(FAULTS):
        for number in range(first % every + 1, reference.calls + 1, every):
            execution = LiveExecution(build, mode, store, Fault(fault, moment, number))
            outcome = await execution.run()
            assert (outcome.status, outcome.output) == ("completed", shown), (fault, moment, number)


async def test_a_replay_never_brings_an_older_value_back(harness: Harness, ledger: Ledger):
    program = publishing(ledger)
    worker = await harness.worker(program.workflow)
    run = await worker.start(program.workflow)
    await harness.advance("1s")
    assert await harness._any.runs.states(run.run_id) == {"": "inside", "n": 1}

    worker = await harness.takeover(worker, program.workflow)
    await harness.drain()

    assert (await harness._any.runs.states(run.run_id))[""] == "inside"
    assert await harness.result(run) == "done"
    assert await harness._any.runs.states(run.run_id) == {"": "inside", "n": 2, "iteration": 4}


async def test_publishing_makes_no_commit_of_its_own(harness: Harness, ledger: Ledger):
    async def commits(shows: bool) -> int:
        @workflow(name=f"flow {shows}")
        async def flow(ctx: Context) -> None:
            for number in range(3):
                if shows:
                    ctx.publish_state(number)
                await ctx.step(f"{number}", ledger.act)

        worker = await harness.worker(flow)
        before = len(harness.answers)
        run = await worker.start(flow)
        await harness.drain()
        assert await harness._any.runs.state(run.run_id) == (2 if shows else None)
        return len(harness.answers) - before

    assert await commits(shows=True) == await commits(shows=False)


async def test_a_reader_that_was_there_is_told_to_forget_the_attempt_that_failed(harness: Harness, ledger: Ledger):
    worker = await harness.worker(streaming(ledger).workflow)
    run = await worker.start(streaming(ledger).workflow.name)
    seen: list[Any] = []

    async def read() -> None:
        async for item in worker.engine.runs.stream(run.run_id, "out"):
            seen.append(item)

    reading = worker.process.executor.spawn(read(), name="reader")
    await harness.advance("5s")
    await reading

    kept: list[Any] = []
    for item in seen:
        if isinstance(item, StreamReset):
            kept = [one for one in kept if not (one.source == item.source and one.offset >= item.since)]
        else:
            kept.append(item)
    assert [one for one in seen if isinstance(one, StreamReset)] == [StreamReset(3, "one", 2)]
    fresh = [item async for item in harness._any.runs.stream(run.run_id, "out")]
    assert kept == fresh
    assert [item.offset for item in seen] == sorted({item.offset for item in seen})


async def test_a_reader_that_comes_back_with_its_offset_goes_on_there(harness: Harness, ledger: Ledger):
    worker = await harness.worker(streaming(ledger).workflow)
    run = await worker.start("program")
    await harness.advance("5s")
    everything = [item async for item in harness._any.runs.stream(run.run_id, "out")]

    for index, item in enumerate(everything):
        rest = [one async for one in harness._any.runs.stream(run.run_id, "out", after=item.offset)]
        assert [one for one in rest if isinstance(one, StreamItem)] == everything[index + 1 :]
    resumed = [one async for one in harness._any.runs.stream(run.run_id, "out", after=2)]
    assert resumed[0] == StreamReset(3, "one", 2)  # offset 2 was of the attempt that failed


async def test_a_reader_that_hears_no_hint_looks_again_by_itself(harness: Harness, ledger: Ledger):
    worker = await harness.worker(streaming(ledger).workflow)
    reader = await harness.client()
    reader.wire.drops_hints = True
    run = await worker.start("program")
    seen: list[Any] = []

    async def read() -> None:
        async for item in reader.engine.runs.stream(run.run_id, "out"):
            seen.append(item)

    reading = reader.process.executor.spawn(read(), name="reader")
    await harness.advance("8s")
    await reading

    assert [item for item in seen if isinstance(item, StreamItem)][-1].value == "end"


async def test_an_idle_reader_looks_about_once_a_second(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.stream("out").append("one")
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)

    async def read() -> list[Any]:
        return [item async for item in worker.engine.runs.stream(run.run_id, "out")]

    reading = worker.process.executor.spawn(read(), name="reader")
    await harness.drain()
    before = worker.wire.calls.count("views.read_stream")
    await harness.advance("10s")
    assert worker.wire.calls.count("views.read_stream") - before <= 11
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert len(await reading) == 1


async def test_a_chain_shows_what_its_last_run_published(harness: Harness):
    @workflow
    async def flow(ctx: Context, number: int) -> None:
        ctx.state["number"] = number
        await ctx.stream("out").append(number)
        if number < 3:
            ctx.continue_as_new(number + 1)

    worker = await harness.worker(flow)
    run = await worker.start(flow, 1)
    await harness.drain()

    assert await worker.do(worker.engine.runs.state(run.run_id, "number")) == 3
    assert [item.value async for item in worker.engine.runs.stream(run.run_id, "out")] == [
        1
    ]  # a stream ends with its run


async def test_a_stopped_replay_shows_no_older_value(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def first(ctx: Context) -> None:
        for name in "abc":
            ctx.publish_state(name)
            await ctx.step(name, ledger.act)
        await ctx.receive("go")

    @workflow(name="flow")
    async def changed(ctx: Context) -> None:
        ctx.publish_state("a")
        await ctx.step("a", ledger.act)
        await ctx.sleep("b", "1s")

    worker = await harness.worker(first)
    run = await worker.start(first)
    await harness.drain()
    worker = await harness.deploy(worker, changed)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert (await harness.status(run)).status == "paused"
    assert await harness._any.runs.state(run.run_id) == "c"
