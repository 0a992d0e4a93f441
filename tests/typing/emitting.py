# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of code that emits and receives events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from stepwell import Context, Engine, Retry, StepContext, SyncEngine, step, workflow
from stepwell.ids import EventId
from stepwell.sinks import EmittedEvent, Sink, Webhook, handler, verify_signature
from stepwell.views import OwedEvent


@dataclass
class Receipt:
    amount: int


@step(emits="order.charged", retry=Retry(max_attempts=2))
async def charge(info: StepContext, amount: int) -> Receipt:
    info.emit("order.charging", {"amount": amount})
    info.emit(7)  # type: ignore[arg-type]
    return Receipt(amount)


@workflow
async def order(ctx: Context, amount: int) -> str:
    assert_type(await ctx.step(charge, amount), Receipt)
    assert_type(await ctx.step(charge.options(emits="order.other"), amount), Receipt)
    event_id = await ctx.emit("order.paid", Receipt(amount))
    assert_type(event_id, EventId)
    await ctx.emit(Receipt(amount))  # type: ignore[arg-type]
    return event_id


async def note(event: EmittedEvent) -> None:
    assert_type(event.id, str)
    assert_type(event.key, str | None)


def note_blocking(event: EmittedEvent) -> None:
    return None


async def wrong(event: int) -> None:
    return None


class Mine:
    """A sink of somebody's own."""

    name = "mine"
    events = ("order.*",)
    retry = Retry()
    timeout = "5s"

    async def send(self, event: EmittedEvent) -> None:
        return None


async def main() -> None:
    mine: Sink = Mine()
    sinks: list[Sink] = [handler(note), handler(note_blocking, ["a", "b.*"]), mine]
    sinks.append(Webhook("https://example.com", secret="s", events="order.*"))
    handler(wrong)  # type: ignore[arg-type]
    Webhook("https://example.com")  # type: ignore[call-arg]
    async with Engine("memory:", workflows=[order], sinks=sinks, lifecycle=True) as engine:
        assert_type(await engine.outbox.list_dead(), list[OwedEvent])
        assert_type(await engine.outbox.replay("id"), int)
    with SyncEngine("memory:", workflows=[order], sinks=sinks) as sync:
        assert_type(sync.outbox.list_pending(), list[OwedEvent])
    assert_type(verify_signature(["new", "old"], {"webhook-id": "1"}, b""), str)
