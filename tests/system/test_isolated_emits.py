"""Steps in processes of their own and the events they emit."""

from __future__ import annotations

import asyncio

import pytest

from stepwell import Context, Engine, RunFailed, StepContext, step, workflow
from stepwell.sinks import EmittedEvent, handler


@step(isolate="process", emits="worked")
def work(number: int) -> dict[str, int]:
    return {"number": number}


@step(isolate="process")
def tell(ctx: StepContext) -> None:
    ctx.emit("told", ctx.path)


@workflow
async def isolated(ctx: Context, tells: bool) -> int:
    if tells:
        await ctx.step(tell)
    return (await ctx.step(work, 7))["number"]


async def test_the_result_of_an_isolated_step_can_be_an_event_and_its_body_cannot_emit() -> None:
    got: list[EmittedEvent] = []

    async with Engine("memory:", workflows=[isolated], sinks=[handler(got.append, name="got")]) as engine:
        assert await (await engine.start(isolated, False)).result("60s") == 7
        with pytest.raises(RunFailed, match="cannot emit 'told' from here"):
            await (await engine.start(isolated, True)).result("60s")
        while await engine.outbox.list_pending():  # noqa: ASYNC110  there is nobody to tell
            await asyncio.sleep(0.01)

    assert [(event.name, event.payload) for event in got] == [("worked", {"number": 7})]
