"""Keys, ids and names that are no text: refused with the reason, at every entrance."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, Engine, Start, workflow
from stepwell.errors import InvalidKeyError, InvalidNameError, InvalidOptionError, UnknownTopicError

REFUSED = (InvalidKeyError, InvalidNameError, InvalidOptionError, UnknownTopicError)


@workflow
async def flow(ctx: Context) -> None:
    await ctx.receive("go")


ENTRANCES: dict[str, Callable[[Engine, Any], Awaitable[Any]]] = {
    "key": lambda engine, bad: engine.start(flow, key=bad),
    "key of many": lambda engine, bad: engine.runs.start_many(flow, [Start(key=bad)]),
    "run_id": lambda engine, bad: engine.start(flow, run_id=bad),
    "debounced": lambda engine, bad: engine.runs.start_debounced(flow, None, key=bad, quiet="1s"),
    "tag": lambda engine, bad: engine.start(flow, tags={bad: "x"}),
    "value of a tag": lambda engine, bad: engine.start(flow, tags={"x": bad}),
    "signal": lambda engine, bad: engine.signal("known", bad),
    "target": lambda engine, bad: engine.signal(bad, "go"),
    "dedup_key": lambda engine, bad: engine.signal("known", "go", dedup_key=bad),
    "question": lambda engine, bad: engine.ask("known", "go", dedup_key=bad, timeout="1s"),
    "or start": lambda engine, bad: engine.runs.signal_or_start(flow, None, "go", key=bad),
    "topic": lambda engine, bad: engine.publish(bad),
    "event_id": lambda engine, bad: engine.publish("topic", event_id=bad),
    "status": lambda engine, bad: engine.status(bad),
    "cancel": lambda engine, bad: engine.cancel(bad),
    "result": lambda engine, bad: engine.result(bad),
}


@pytest.mark.parametrize("bad", ["half \ud83d", 42, b"bytes"], ids=["surrogate", "number", "bytes"])
@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_what_is_no_text_is_refused(entrance: str, bad: Any):
    async with Engine("memory:", workflows=[flow]) as engine:
        await engine.start(flow, key="known")
        with pytest.raises(REFUSED):
            await ENTRANCES[entrance](engine, bad)
        assert len(await engine.runs.list()) == 1
