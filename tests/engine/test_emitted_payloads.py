"""Payloads of events under encryption, offloading and secrets: closed in the store, open to the sink."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stepwell import Context, Engine, Retry, RunFailed, Secret, StepContext, step, workflow
from stepwell.codec.base import Codec
from stepwell.codec.blobs import FolderBlobs
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.sinks import EmittedEvent, handler
from tests.cases.harness import Harness, Node
from tests.cases.stores import STORES

CANARY = "kanarienvogel-7781"
BIG = CANARY * 100
KEYS = Keys("k1", {"k1": bytes(32)})
OTHER = Keys("k2", {"k2": bytes(range(32))})


@pytest.fixture(params=list(STORES))
def store_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def harness(store_kind: str, mode: str) -> AsyncIterator[Harness]:
    harness = Harness(STORES[store_kind](), mode)
    yield harness
    await harness.close()


def sealed(folder: Path, keys: Keys = KEYS) -> Codec:
    return Offloaded(Encrypted(JsonCodec(), keys=keys), FolderBlobs(folder), above=1_000)


async def open_node(harness: Harness, codec: Codec, *workflows: Any, **outward: Any) -> Node:
    node = Node(f"node-{len(harness.nodes)}", harness, workflows, **outward)
    node.engine._backend.codec = codec
    harness.nodes.append(node)
    await node.open()
    return node


async def charge(ctx: StepContext) -> dict[str, str]:
    ctx.emit("charging", {"card": CANARY})
    ctx.emit("big", BIG)
    return {"receipt": CANARY}


@workflow
async def order(ctx: Context) -> None:
    await ctx.step("charge", step(charge, emits="charged"))
    await ctx.emit("done", {"text": CANARY, "secret": Secret(CANARY)})
    await ctx.emit("bigger", BIG)


async def test_what_is_closed_in_the_store_is_open_to_the_sink(harness: Harness, tmp_path: Path) -> None:
    got: list[EmittedEvent] = []

    async def note(event: EmittedEvent) -> None:
        got.append(event)

    async def refuse(event: EmittedEvent) -> None:
        raise OSError("not now")

    sink = handler(refuse, name="s", retry=Retry(initial="1s", max_attempts=9))
    node = await open_node(harness, sealed(tmp_path), order, sinks=[sink])
    run = await node.start(order)
    await harness.drain()
    stored = await node.wire.behind.outbox.list_owed(is_dead=False, limit=99)
    assert len(stored) == 5
    assert CANARY not in repr(stored)
    assert {
        view.payload.keys() <= {"encrypted", "offloaded", "size"} for view in await node.engine.outbox.list_pending()
    }
    await node.shutdown()
    harness.nodes.remove(node)

    await open_node(harness, sealed(tmp_path), order, sinks=[handler(note, name="s")])
    await harness.advance("5s")

    assert [event.payload for event in got] == [
        {"card": CANARY},
        BIG,
        {"receipt": CANARY},
        {"text": CANARY, "secret": CANARY},
        BIG,
    ]
    assert {event.run_id for event in got} == {run.run_id}


async def test_an_event_that_cannot_be_read_here_may_be_read_elsewhere(harness: Harness, tmp_path: Path) -> None:
    got: list[EmittedEvent] = []

    async def note(event: EmittedEvent) -> None:
        got.append(event)

    @workflow
    async def one(ctx: Context) -> None:
        await ctx.emit("one", CANARY)

    async def refuse(event: EmittedEvent) -> None:
        raise OSError("not now")

    node = await open_node(harness, sealed(tmp_path), one, sinks=[handler(refuse, name="s")])
    await node.start(one)
    await harness.drain()
    await node.shutdown()
    harness.nodes.remove(node)
    other = await open_node(harness, sealed(tmp_path, OTHER), sinks=[handler(note, name="s")])
    await harness.advance("6s")

    assert got == []
    [owed] = await other.engine.outbox.list_pending()
    assert owed.attempts == 3
    assert owed.failure.startswith("SW620 CorruptRecordError: the event of `one` cannot be read back")
    await other.shutdown()
    harness.nodes.remove(other)
    await open_node(harness, sealed(tmp_path), sinks=[handler(note, name="s")])
    await harness.advance("1m")
    assert [event.payload for event in got] == [CANARY]


async def test_a_secret_needs_an_encrypting_codec(mode: str) -> None:
    @workflow
    async def tells(ctx: Context) -> None:
        await ctx.emit("told", {"password": Secret(CANARY)})

    async with Engine("memory:", workflows=[tells]) as engine:
        with pytest.raises(RunFailed, match="UnserialisableError"):
            await (await engine.start(tells)).result("60s")
