"""Published state and streams as clients have them, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stepwell import Context, Engine, Retry, RunFailed, StepContext, SyncContext, SyncEngine, step, workflow
from stepwell.codec import Encrypted, JsonCodec, Keys
from stepwell.errors import CorruptRecordError, InvalidInputError, InvalidNameError, InvalidOptionError, NotFoundError
from stepwell.replay.primitives.publish import state_place
from stepwell.replay.step_streams import chunk_place
from stepwell.views import StreamItem, StreamReset

ONCE = Retry(max_attempts=1)


@dataclass
class Progress:
    done: int
    of: int


async def speak(info: StepContext, words: list[Any]) -> int:
    for word in words:
        await info.stream("out").append(word)
    return len(words)


@workflow
async def talk(ctx: Context, words: list[str]) -> int:
    ctx.publish_state(Progress(0, len(words)))
    ctx.state["mood"] = "fine"
    said = await ctx.step(speak, words)
    ctx.publish_state(Progress(said, said))
    await ctx.receive("go")
    await ctx.stream("out").append("bye")
    return said


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/live.db"
    async with Engine(url, workflows=[talk]) as opened:
        yield opened


async def values(items: AsyncIterator[Any]) -> list[Any]:
    return [item.value async for item in items]


async def fails_with(engine: Engine, flow: Any) -> str:
    """Why a run of this workflow fails; nothing of what it showed is stored."""
    run = await engine.start(flow)
    with pytest.raises(RunFailed) as failed:
        await run.result("60s")
    assert await values(run.stream("out")) == []
    return str(failed.value)


async def test_state_is_read_while_it_runs_and_after_its_end(engine: Engine):
    run = await engine.start(talk, ["a"], key="chat")
    async for _ in run.stream("out"):
        break
    while await engine.runs.states("chat") != {"": {"done": 1, "of": 1}, "mood": "fine"}:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.01)

    assert await run.state() == {"done": 1, "of": 1}
    assert await run.state(as_type=Progress) == Progress(1, 1)
    assert await engine.runs.state("chat", "mood", as_type=str) == "fine"
    assert await run.state("nothing") is None
    await run.signal("go")
    await run.result("60s")
    assert await engine.runs.states("chat") == {"": {"done": 1, "of": 1}, "mood": "fine"}
    with pytest.raises(InvalidInputError):
        await run.state("mood", as_type=Progress)
    with pytest.raises(NotFoundError):
        await engine.runs.state("nobody")
    with pytest.raises(NotFoundError):
        await anext(engine.runs.stream("nobody", "out"))


async def test_a_reader_gets_items_as_they_come_and_ends_with_the_run(engine: Engine):
    run = await engine.start(talk, ["a", "b", "c"])
    items = run.stream("out")
    first = [await anext(items) for _ in range(3)]
    assert [(item.offset, item.value, item.source) for item in first if isinstance(item, StreamItem)] == [
        (1, "a", "speak"),
        (2, "b", "speak"),
        (3, "c", "speak"),
    ]
    waiting = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0.05)
    assert not waiting.done()

    await run.signal("go")

    assert await asyncio.wait_for(waiting, 0.9) == StreamItem(4, "bye", "")
    with pytest.raises(StopAsyncIteration):
        await anext(items)
    assert await values(run.stream("out", after=2)) == ["c", "bye"]
    assert await values(engine.runs.stream(run.run_id, "other")) == []


async def test_a_long_stream_is_read_whole(engine: Engine):
    run = await engine.start(talk, [str(number) for number in range(500)])
    await run.signal("go")

    assert await values(run.stream("out", as_type=str)) == [*map(str, range(500)), "bye"]


async def test_a_reader_in_another_process_is_woken(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/live.db"
    async with Engine(url, workflows=[talk]) as engine, Engine(url) as client:
        run = await engine.start(talk, ["a"])
        items = client.runs.stream(run.run_id, "out")
        assert (await anext(items)).offset == 1
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0.05)
        await run.signal("go")

        assert await asyncio.wait_for(waiting, 0.9) == StreamItem(2, "bye", "")


async def test_a_plain_body_writes_from_its_thread():
    def count(info: StepContext) -> str:
        for number in range(100):
            info.stream("out").write(number)
        return threading.current_thread().name

    @workflow
    def flow(ctx: SyncContext) -> bool:
        ctx.stream("out").append("begin")
        ctx.state["x"] = 1
        ctx.publish_state([1])
        is_main = ctx.step(count) == threading.main_thread().name
        ctx.stream("out").append("end")
        ctx.stream("out").close()
        ctx.receive("go")
        return is_main

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)
        assert await values(run.stream("out")) == ["begin", *range(100), "end"]  # closed, and the run goes on
        await run.signal("go")
        assert await run.result("60s") is False
        assert await engine.runs.states(run.run_id) == {"": [1], "x": 1}


async def test_a_thread_that_outlives_its_timeout_cannot_mix_into_the_next_attempt():
    late, over = threading.Event(), threading.Event()

    def slow(info: StepContext) -> str:
        info.stream("out").write(f"attempt {info.attempt}")
        if info.attempt == 1:
            late.wait(5)
            info.stream("out").write("too late")
            over.set()
        return "done"

    @workflow
    async def flow(ctx: Context) -> str:
        timed = step(slow, timeout="100ms", retry=Retry(max_attempts=2, initial="1ms", on_timeout=True))
        result = await ctx.step(timed)
        late.set()
        await ctx.receive("go")
        return result

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)
        seen = []
        async for item in run.stream("out"):
            seen.append(item)
            if len(seen) == 3:
                break
        await asyncio.to_thread(over.wait, 5)
        await asyncio.sleep(0.05)
        await run.signal("go")

        first, second = StreamItem(1, "attempt 1", "slow"), StreamItem(3, "attempt 2", "slow")
        assert seen == [first, StreamReset(2, "slow", 1), second]
        assert await run.result("60s") == "done"
        assert await values(run.stream("out")) == ["attempt 2"]


async def test_a_cancelled_run_keeps_what_it_showed():
    begun = asyncio.Event()

    async def drip(info: StepContext) -> None:
        await info.stream("out").append("drop")
        begun.set()
        await asyncio.sleep(60)

    @workflow
    async def flow(ctx: Context) -> None:
        ctx.publish_state("dripping")
        await ctx.step(drip)

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)
        await begun.wait()
        await run.cancel()

        assert await values(run.stream("out")) == ["drop"]
        assert await run.state() == "dripping"
        assert (await run.status()).status == "cancelled"


async def test_what_is_shown_is_encrypted_and_bound_to_its_run():
    codec = Encrypted(JsonCodec(), keys=Keys("k1", {"k1": bytes(range(32))}))

    @workflow
    async def flow(ctx: Context) -> str:
        ctx.publish_state("secret")
        await ctx.stream("out").append("secret")
        await ctx.step(speak, ["secret"])
        return "done"

    async with Engine("memory:", workflows=[flow], codec=codec) as engine:
        run, other = await engine.start(flow), await engine.start(flow)
        await run.result("60s")
        await other.result("60s")

        assert await values(run.stream("out")) == ["secret", "secret"]
        assert await run.state() == "secret"
        page = await engine._backend.store.views.read_stream(run.run_id, "out", after=0, limit=9)
        [published] = await engine._backend.store.views.list_published(run.run_id)
        assert all(b"secret" not in payload for payload in (published.value, *(one.value for one in page.chunks)))
        with pytest.raises(CorruptRecordError):
            codec.decode(page.chunks[0].value, str, place=chunk_place("flow", other.run_id, "", "out"))
        with pytest.raises(CorruptRecordError):
            codec.decode(published.value, str, place=state_place("flow", run.run_id, "other"))


async def test_a_blocking_client_follows_a_stream(tmp_path: Path):
    def use() -> list[Any]:
        with SyncEngine(f"sqlite:///{tmp_path}/live.db", workflows=[talk]) as engine:
            run = engine.start(talk, ["a", "b"])
            run.signal("go")
            read = [item.value for item in run.stream("out") if isinstance(item, StreamItem)]
            typed = run.state(as_type=Progress)
            rest = [item.offset for item in engine.runs.stream(run.run_id, "out", after=2)]
            return [read, typed, rest, engine.runs.state(run.run_id, "mood"), engine.runs.states(run.run_id)["mood"]]

    assert await asyncio.to_thread(use) == [["a", "b", "bye"], Progress(2, 2), [3], "fine", "fine"]


# --- refused ---


@pytest.mark.parametrize("after", [-1, True, "1", 1.5, 10**30])
def test_an_offset_that_can_be_none_is_refused(after: Any):
    with pytest.raises(InvalidOptionError, match="cannot be read after offset") as refused:
        Engine("memory:").runs.stream("run", "out", after=after)

    assert refused.value.fix
    assert "'out'" in refused.value.where


@pytest.mark.parametrize("name", ["", " ", "a/b", "~x", "\ud800"])
async def test_a_name_that_cannot_be_one_is_refused_everywhere(name: str):
    with pytest.raises(InvalidNameError, match="stream name"):
        Engine("memory:").runs.stream("run", name)

    async def body(info: StepContext) -> None:
        await info.stream(name).append(1)

    @workflow
    async def flow(ctx: Context, which: str) -> None:
        match which:
            case "workflow":
                await ctx.stream(name).append(1)
            case "step":
                await ctx.step(step(body, retry=ONCE))
            case _:
                ctx.state[name] = 1

    async with Engine("memory:", workflows=[flow]) as engine:
        for which in ("workflow", "step", "state"):
            run = await engine.start(flow, which)
            with pytest.raises(RunFailed, match="InvalidNameError"):
                await run.result("60s")
            assert await engine.runs.states(run.run_id) == {}


async def test_what_cannot_be_stored_fails_the_run_and_shows_nothing():
    tries = 0

    async def body(info: StepContext) -> None:
        nonlocal tries
        tries += 1
        await info.stream("out").append(object())

    @workflow
    async def by_workflow(ctx: Context) -> None:
        await ctx.stream("out").append(object())

    @workflow
    async def by_step(ctx: Context) -> None:
        await ctx.step(body)

    @workflow
    async def by_state(ctx: Context) -> None:
        ctx.publish_state({"a": object()})

    flows = [by_workflow, by_step, by_state]
    async with Engine("memory:", workflows=flows) as engine:
        for flow in flows:
            why = await fails_with(engine, flow)
            assert "UnserialisableError" in why
            assert "object" in why
    assert tries == 1  # no retry can mend it


async def test_an_append_after_the_close_is_refused():
    async def body(info: StepContext) -> None:
        await info.stream("out").append(1)

    @workflow
    async def by_workflow(ctx: Context) -> None:
        await ctx.stream("out").close()
        await ctx.stream("out").append(1)

    @workflow
    async def by_step(ctx: Context) -> None:
        await ctx.stream("out").close()
        await ctx.step(body)

    flows = [by_workflow, by_step]
    async with Engine("memory:", workflows=flows) as engine:
        for flow in flows:
            assert "StreamClosedError: stream 'out' is closed" in await fails_with(engine, flow)


async def test_a_stream_is_closed_by_the_workflow_itself_only():
    async def branch(ctx: Context) -> None:
        await ctx.stream("out").close()

    @workflow
    async def flow(ctx: Context) -> None:
        await branch(ctx)  # the same scope: fine
        await ctx.join("both", {"a": branch})

    async with Engine("memory:", workflows=[flow]) as engine:
        with pytest.raises(RunFailed, match="JoinError"):
            await (await engine.start(flow)).result("60s")


async def test_a_body_outside_of_a_run_has_no_stream():
    with pytest.raises(InvalidOptionError, match="cannot append to stream 'out'"):
        await speak(StepContext("r", "w", "speak", 1, True, "r:speak"), ["x"])
