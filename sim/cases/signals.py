"""Signals that are looked at before the code ends, and signals that do not fit their type."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sim.cases.case import Case, did
from stepwell import Context, Signal, signal, timer, workflow
from stepwell.errors import RunEndedError
from stepwell.testing import scripts
from stepwell.testing.sync import SyncKit, SyncRun


async def _handle(events: list[int]) -> None:
    did(f"handled {events}")


@workflow
async def batching(ctx: Context) -> int:
    """Takes two events at a time, and goes on as a new run while there are more."""
    events: list[int] = []
    while len(events) < 2:
        message = await ctx.receive("event", timeout="1m", default=None, name="more")
        if message is None:
            break
        events.append(message.payload)
    await ctx.step("handle", _handle, events)
    if ctx.signals.has("event"):
        ctx.continue_as_new()
    return len(events)


ANSWER = Signal[int]("answer")


@workflow
async def awaiting(ctx: Context) -> tuple[str, int]:
    """Waits for half an hour, whatever comes that does not fit."""
    began = ctx.now()
    arrived = await ctx.wait_any("first", answer=signal(ANSWER), late=timer("30m"))
    return arrived.label, round((ctx.now() - began).total_seconds() / 60)


@workflow
async def suspended(ctx: Context) -> int:
    """Waits for a number, and not longer than it may."""
    message = await ctx.receive(ANSWER)
    return message.payload


_MISFITS = (
    scripts.advance("20m"),
    scripts.send("answer", "no number"),
    scripts.advance("5m"),
    scripts.send("answer", "still no number"),
)


def _answer_late(kit: SyncKit, run: SyncRun[Any], /) -> None:
    """A number that comes when the run should have failed long ago."""
    with suppress(RunEndedError):
        run.signal("answer", 7)


CASES = {
    "a look before the run continues as new": Case(
        batching,
        output=1,
        done=("handled [0, 1]", "handled [2, 3]", "handled [4]"),
        script=(lambda kit, run: [run.signal("event", number) for number in range(5)],),
    ),
    "signals that do not fit, and a timer": Case(awaiting, output=["late", 30], script=_MISFITS),
    "signals that do not fit, and a limit": Case(
        suspended,
        status="failed",
        script=(*_MISFITS, scripts.advance("7m"), _answer_late),
        options={"max_suspend": "30m"},
        is_swept=False,
    ),
}
