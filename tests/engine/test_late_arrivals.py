"""A worker that leaves begins no body, also when a history or a claim arrives late: it would be cut off."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, ResultTimeout, workflow
from stepwell.addresses import open_store
from stepwell.environment import system_environment
from stepwell.worker.relay import Relays

ran: list[str] = []


async def note(what: str) -> str:
    ran.append(what)
    await asyncio.sleep(0)
    return what


@workflow
async def noting(ctx: Context) -> str:
    await ctx.step("before", note, "before")
    await ctx.receive("go")
    return await ctx.step("after", note, "after")


@pytest.fixture
def url(tmp_path: Path) -> str:
    ran.clear()
    return f"sqlite:///{tmp_path / 'runs.db'}"


class LateStore:
    """A store whose answers to one kind of call are kept back until `leaves`."""

    def __init__(self, url: str, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = open_store(url, system_environment())
        self.is_asked = asyncio.Event()
        self.leaves = asyncio.Event()
        self.is_late = True
        self._call = getattr(self.store.runs, call)
        monkeypatch.setattr(self.store.runs, call, self._answer)

    async def _answer(self, *args: Any) -> Any:
        answer = await self._call(*args)
        if self.is_late and answer:
            self.is_asked.set()
            await self.leaves.wait()
        return answer


def let_in_when_relays_drain(late: LateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes when the worker thinks that nothing is left to be waited for but its events."""
    drain = Relays.drain

    async def drain_slowly(self: Relays, deadline: float) -> None:
        late.leaves.set()
        for _ in range(50):
            await asyncio.sleep(0.002)
        await drain(self, deadline)

    monkeypatch.setattr(Relays, "drain", drain_slowly)


def let_in_when_it_retires(late: LateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes when everything here has ended."""
    retire = late.store.workers.retire

    async def retire_slowly(incarnation: Any) -> None:
        late.leaves.set()
        for _ in range(50):
            await asyncio.sleep(0.002)
        await retire(incarnation)

    monkeypatch.setattr(late.store.workers, "retire", retire_slowly)


MOMENTS = pytest.mark.parametrize("let_in", [let_in_when_relays_drain, let_in_when_it_retires])


async def begin(url: str) -> None:
    """Have a run that waits for a signal."""
    async with Engine(url, workflows=[noting]) as engine:
        run = await engine.start(noting, key="k")
        with pytest.raises(ResultTimeout):
            await run.result(timeout="300ms")


async def finish(url: str) -> None:
    """Let another worker have it: every body has run once, and the run ends."""
    async with Engine(url, workflows=[noting]) as engine:
        await engine.signal("k", "go")
        assert await engine.result("k", timeout="30s") == "after"
    assert ran == ["before", "after"]


@MOMENTS
async def test_no_body_begins_when_a_history_arrives_while_the_worker_leaves(
    url: str, let_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(url)
    late = LateStore(url, "load", monkeypatch)
    let_in(late, monkeypatch)
    async with Engine(late.store, workflows=[noting]) as engine:
        await engine.signal("k", "go")
        await asyncio.wait_for(late.is_asked.wait(), 60)
        await engine.shutdown(0.2)
    assert ran == ["before"]
    await finish(url)


@MOMENTS
async def test_no_body_begins_when_a_claim_is_answered_while_the_worker_leaves(
    url: str, let_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LateStore(url, "claim", monkeypatch)
    let_in(late, monkeypatch)
    async with Engine(late.store, workflows=[noting]) as engine, Engine(url, workflows=[noting], worker=False) as other:
        await other.start(noting, key="k")
        await asyncio.wait_for(late.is_asked.wait(), 60)
        await engine.shutdown(0.2)
    assert ran == []
    await finish(url)


@MOMENTS
async def test_no_body_begins_when_a_parked_run_is_claimed_again_while_the_worker_leaves(
    url: str, let_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LateStore(url, "claim", monkeypatch)
    late.is_late = False
    let_in(late, monkeypatch)
    async with Engine(late.store, workflows=[noting]) as engine, Engine(url, workflows=[noting], worker=False) as other:
        run = await engine.start(noting, key="k")
        with pytest.raises(ResultTimeout):
            await run.result(timeout="300ms")
        late.is_late = True
        await other.signal("k", "go")
        await asyncio.wait_for(late.is_asked.wait(), 60)
        await engine.shutdown(0.2)
    assert ran == ["before"]
    await finish(url)
