"""Spans, as the SDK of OpenTelemetry collects them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stepwell import Context, Engine, Fatal, Retry, RunFailed, Secret, WorkerSettings, step, workflow
from stepwell.hooks import Traces

SEEN: list[int] = []  # the trace that was current inside a body
TRIES: list[int] = []


@step
async def look() -> None:
    SEEN.append(trace.get_current_span().get_span_context().span_id)


@step
def look_in_thread() -> None:
    SEEN.append(trace.get_current_span().get_span_context().span_id)


@step(retry=Retry(max_attempts=2, initial=0.001))
async def twice() -> None:
    TRIES.append(1)
    if len(TRIES) < 2:
        raise ValueError(f"cannot use {Secret('tell-nobody').reveal()}")


@workflow
async def child(ctx: Context) -> None:
    await ctx.step(look)


@workflow
async def waiting(ctx: Context) -> None:
    await ctx.step(look)
    await ctx.receive("go")
    await ctx.step(look_in_thread)


@workflow
async def parent(ctx: Context) -> None:
    await ctx.child(child)


@workflow
async def stubborn(ctx: Context) -> None:
    await ctx.step(twice)


@workflow
async def failing(ctx: Context) -> None:
    raise Fatal("no")


class Collected:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    async def until(self, name: str, count: int) -> list[ReadableSpan]:
        async with asyncio.timeout(20):
            while len(found := self.named(name)) < count:  # noqa: ASYNC110  other tasks end them
                await asyncio.sleep(0.01)
        return found


@pytest.fixture
def collected() -> Collected:
    SEEN.clear()
    TRIES.clear()
    return Collected()


@asynccontextmanager
async def traced(collected: Collected, path: Path, mode: str = "live") -> AsyncIterator[Engine]:
    async with Engine(
        f"sqlite:///{path}/traced.db",
        workflows=[waiting, parent, child, stubborn, failing],
        hooks=[Traces(collected.provider)],
        settings=WorkerSettings(mode="yield" if mode == "yield" else "live"),
    ) as engine:
        yield engine


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


@pytest.mark.parametrize("how", ["live", "yield"])
async def test_a_run_is_one_trace_from_its_start_over_all_its_stretches_and_a_replay_adds_no_step(
    collected: Collected, tmp_path: Path, how: str
) -> None:
    tracer = collected.provider.get_tracer("test")
    async with traced(collected, tmp_path, how) as engine:
        with tracer.start_as_current_span("request"):
            run = await engine.start(waiting)
        await collected.until("run waiting", 1)
        await run.signal("go")
        await run.result()
        stretches = await collected.until("run waiting", 2)

    (request,), (start,) = collected.named("request"), collected.named("start waiting")
    steps = [*collected.named("step look"), *collected.named("step look_in_thread")]
    assert len(steps) == 2  # the second stretch of a run that was torn down replays the first step
    assert {trace_of(span) for span in (start, *stretches, *steps)} == {trace_of(request)}
    assert start.parent == request.context
    assert [span.parent and span.parent.span_id for span in stretches] == [start.context and start.context.span_id] * 2
    assert [span.parent for span in steps] == [span.context for span in stretches]
    assert [span.context and span.context.span_id for span in steps] == SEEN
    outcomes = [span.attributes and span.attributes["stepwell.outcome"] for span in stretches]
    assert outcomes == ["waiting", "completed"]


async def test_another_process_goes_on_in_the_same_trace(collected: Collected, tmp_path: Path) -> None:
    async with traced(collected, tmp_path) as engine:
        run = await engine.start(waiting)
        await collected.until("run waiting", 1)
    again = Collected()
    async with traced(again, tmp_path) as engine:
        await engine.signal(run.run_id, "go")
        await engine.result(run.run_id)
        (stretch,) = await again.until("run waiting", 1)
    assert trace_of(stretch) == trace_of(collected.named("start waiting")[0])
    assert not again.named("step look")
    assert len(again.named("step look_in_thread")) == 1


async def test_a_child_is_in_the_trace_of_its_parent(collected: Collected, tmp_path: Path) -> None:
    async with traced(collected, tmp_path) as engine:
        await (await engine.start(parent)).result()
        (below,) = await collected.until("run child", 1)
    assert trace_of(below) == trace_of(collected.named("start parent")[0])


async def test_every_attempt_is_a_span_and_secrets_are_in_none(collected: Collected, tmp_path: Path) -> None:
    async with traced(collected, tmp_path) as engine:
        await (await engine.start(stubborn)).result()
    first, second = collected.named("step twice")
    assert first.attributes is not None
    assert second.attributes is not None
    assert [first.attributes["stepwell.attempt"], second.attributes["stepwell.attempt"]] == [1, 2]
    assert (first.status.status_code, second.status.status_code) == (trace.StatusCode.ERROR, trace.StatusCode.UNSET)
    said = first.events[0].attributes
    assert said is not None
    assert said["exception.message"] == "cannot use ***"


async def test_a_run_that_fails_is_an_error(collected: Collected, tmp_path: Path) -> None:
    async with traced(collected, tmp_path) as engine:
        with pytest.raises(RunFailed):
            await (await engine.start(failing)).result()
        (stretch,) = await collected.until("run failing", 1)
    assert stretch.status.status_code is trace.StatusCode.ERROR
