"""Events out: emitted with a commit, handed to sinks in order, at least once."""

from __future__ import annotations

from typing import Any

from stepwell import Context, EmittedEvent, StepContext, handler, step, workflow
from tests.cases.harness import Harness


class Inbox:
    """A sink that remembers what it got."""

    def __init__(self) -> None:
        self.events: list[EmittedEvent] = []

    async def get(self, event: EmittedEvent) -> None:
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]


@step(emits="order.charged")
async def charge(ctx: StepContext, amount: int) -> dict[str, int]:
    ctx.emit("order.charging", {"amount": amount})
    return {"charged": amount}


@workflow
async def order(ctx: Context, amount: int) -> str:
    await ctx.emit("order.begun")
    await ctx.step(charge, amount)
    return await ctx.emit("order.done", {"amount": amount})


async def test_a_sink_gets_the_events_of_a_run_in_the_order_of_the_code(harness: Harness) -> None:
    inbox = Inbox()
    worker = await harness.worker(order, sinks=[handler(inbox.get)])
    run = await worker.start(order, 7, key="Order-1")
    await harness.drain()

    assert inbox.names == ["order.begun", "order.charging", "order.charged", "order.done"]
    last: Any = inbox.events[-1]
    assert (last.id, last.payload, last.key, last.path) == (
        await harness.result(run),
        {"amount": 7},
        "order-1",
        "order.done",
    )
    assert [event.payload for event in inbox.events[:3]] == [None, {"amount": 7}, {"charged": 7}]
    assert [event.path for event in inbox.events[:3]] == ["order.begun", "charge", "charge"]
    assert await worker.engine.outbox.pending() == []
