"""Moves between stores that fail at every call, lie about what they were given, or are stopped half-way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stepwell import Context, Engine, WorkerSettings, workflow
from stepwell.conformance.contents import fill, pack_all
from stepwell.conformance.scene import Scene
from stepwell.conformance.snapshot import snapshot
from stepwell.engine.transfers import Move, Moved, Side, Stage, undo
from stepwell.environment import system_environment
from stepwell.errors import StoreInUseError, StoreSealedError, StoreUnavailableError, TransferError
from stepwell.stores.base.packed_items import KINDS, TransferBatch
from stepwell.stores.base.store import Store
from stepwell.stores.base.transfers import SealKind
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock

Act = Callable[[str, Callable[[], Any]], Any]


class Meddled:
    """The transfers of a store, with somebody around every call."""

    def __init__(self, inner: Any, around: Act) -> None:
        self._inner = inner
        self._around = around

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._around(name, lambda: method(*args, **kwargs))

        return call


class Ends:
    """Two stores, and moves from one to the other."""

    def __init__(self, source: Any, destination: Any, clock: ManualClock) -> None:
        self.source = source
        self.destination = destination
        self.clock = clock
        self.scene = Scene(source, clock)

    async def move(self, new_id: str = "t", **how: Any) -> Moved:
        move = Move(Side(self.source, "here"), Side(self.destination, "there"), new_id=new_id)
        return await move.run(batch_items=25, **how)

    def meddle(self, around: Act) -> Callable[[], None]:
        """Put somebody around the calls of both, until what is returned is called."""
        kept = self.source.transfers, self.destination.transfers

        def stop() -> None:
            self.source.transfers, self.destination.transfers = kept

        self.source.transfers, self.destination.transfers = (Meddled(one, around) for one in kept)
        return stop

    async def check_moved(self, before: dict[str, Any]) -> None:
        seal = await self.source.transfers.find_seal()
        assert seal is not None
        assert seal.kind is SealKind.LEFT
        assert await self.destination.transfers.find_seal() is None
        assert (await snapshot(self.destination))["runs"] == before["runs"]

    async def check_not_moved(self, before: dict[str, Any]) -> None:
        assert await self.source.transfers.find_seal() is None
        assert await snapshot(self.source) == before
        assert await self.destination.transfers.find_seal() is None
        assert (await self.destination.transfers.manifest()).items == 0


@pytest_asyncio.fixture(params=["memory to file", "file to memory"])
async def ends(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ends]:
    clock = ManualClock()
    environment = replace(system_environment(), clock=clock)
    stores: list[Store] = [SqliteStore(environment, ":memory:"), SqliteStore(environment, tmp_path / "runs.db")]
    if request.param == "file to memory":
        stores.reverse()
    for store in stores:
        await store.open()
    made = Ends(stores[0], stores[1], clock)
    await made.scene.register()
    await fill(made.scene)
    await made.scene.rescue()
    yield made
    for store in stores:
        await store.close()


class Lapse:
    """The store does not answer one call, having done it or not."""

    def __init__(self, call: int, *, is_done: bool) -> None:
        self._left = call
        self._is_done = is_done

    async def __call__(self, name: str, do: Callable[[], Any]) -> Any:
        self._left -= 1
        if self._left == 0:
            if self._is_done:
                await do()
            raise StoreUnavailableError("it did not answer")
        return await do()


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_move_goes_on_after_a_store_did_not_answer_whatever_it_was_asked(ends: Ends, is_done: bool) -> None:
    before, lapses = await snapshot(ends.source), 0
    while True:
        lapses += 1
        stop = ends.meddle(Lapse(lapses, is_done=is_done))
        try:
            await ends.move()
        except StoreUnavailableError:
            continue
        except StoreSealedError:  # it was over, but for the word that it was
            break
        else:
            break
        finally:
            stop()

    assert lapses > 30
    await ends.check_moved(before)


async def test_nothing_is_given_up_while_what_arrived_is_not_compared(ends: Ends) -> None:
    calls: list[str] = []
    stages: list[Stage] = []

    async def listen(name: str, do: Callable[[], Any]) -> Any:
        calls.append(name)
        return await do()

    ends.meddle(listen)
    move = Move(
        Side(ends.source, "here"),
        Side(ends.destination, "there"),
        new_id="t",
        tell=lambda stage, done, total: stages.append(stage) if done == total else None,
    )
    moved = await move.run()

    writes = [name for name in dict.fromkeys(calls) if name not in ("find_seal", "manifest", "pack")]
    assert writes == ["seal", "expect", "unpack", "release", "accept"]
    assert calls.count("pack") > calls.count("unpack")
    assert stages == [Stage.COPYING, Stage.COMPARING]
    assert (moved.manifest.runs, moved.replayed) == (len((await snapshot(ends.destination))["runs"]), 0)


def _without_first(kind: str, batch: TransferBatch) -> TransferBatch:
    changes: dict[str, Any] = {kind: getattr(batch, kind)[1:]}
    return batch._replace(**changes)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_did_not_arrive_is_missed_and_the_source_goes_on(ends: Ends, kind: str) -> None:
    before = await snapshot(ends.source)
    inner = ends.destination.transfers

    class Thief(Meddled):
        async def unpack(self, transfer_id: str, batch: TransferBatch) -> None:
            await inner.unpack(transfer_id, _without_first(kind, batch))

    async def leave_alone(_: str, do: Callable[[], Any]) -> Any:
        return await do()

    ends.destination.transfers = Thief(inner, leave_alone)
    with pytest.raises(
        TransferError, match=r"differs after the copy|before the run, event or record that it belongs to"
    ):
        await ends.move()
    ends.destination.transfers = inner

    await ends.check_not_moved(before)
    await ends.move("t2")
    await ends.check_moved(before)


async def test_what_was_changed_on_the_way_is_noticed(ends: Ends) -> None:
    before = await snapshot(ends.source)
    inner = ends.destination.transfers

    class Forger(Meddled):
        async def unpack(self, transfer_id: str, batch: TransferBatch) -> None:
            signals = tuple(one._replace(dedup_key=None) for one in batch.signals)
            await inner.unpack(transfer_id, batch._replace(signals=signals))

    async def leave_alone(_: str, do: Callable[[], Any]) -> Any:
        return await do()

    ends.destination.transfers = Forger(inner, leave_alone)
    with pytest.raises(TransferError, match="signal s1 pending differs after the copy"):
        await ends.move()
    ends.destination.transfers = inner

    await ends.check_not_moved(before)


@pytest.mark.parametrize("method", ["expect", "unpack", "manifest"])
async def test_an_error_that_nobody_planned_opens_the_source_again(ends: Ends, method: str) -> None:
    before = await snapshot(ends.source)

    async def break_off(name: str, do: Callable[[], Any]) -> Any:
        if name == method and await ends.scene.store.transfers._inner.find_seal() is not None:  # type: ignore[attr-defined]
            raise RuntimeError("a bug")
        return await do()

    stop = ends.meddle(break_off)
    with pytest.raises(RuntimeError, match="a bug"):
        await ends.move()
    stop()

    await ends.check_not_moved(before)


async def test_a_move_that_is_cancelled_stays_closed_and_goes_on(ends: Ends) -> None:
    before = await snapshot(ends.source)
    reached: asyncio.Event = asyncio.Event()

    async def hang(name: str, do: Callable[[], Any]) -> Any:
        if name == "release":
            reached.set()
            await asyncio.Event().wait()
        return await do()

    stop = ends.meddle(hang)
    moving = asyncio.get_running_loop().create_task(ends.move())
    await reached.wait()
    moving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moving
    stop()

    with pytest.raises(StoreSealedError):
        await ends.scene.create("r9")
    await ends.move("another id")
    await ends.check_moved(before)


async def test_a_source_in_use_is_left_alone(ends: Ends) -> None:
    await ends.scene.register("w9")
    before = await snapshot(ends.source)

    with pytest.raises(StoreInUseError, match="w9"):
        await ends.move()

    await ends.check_not_moved(before)


async def test_a_destination_in_use_leaves_the_source_open(ends: Ends) -> None:
    before = await snapshot(ends.source)
    await Scene(ends.destination, ends.clock).register("w9")

    with pytest.raises(StoreInUseError, match="w9"):
        await ends.move()

    await ends.check_not_moved(before)


async def test_a_store_is_not_moved_into_itself_by_another_name(ends: Ends) -> None:
    before = await snapshot(ends.source)

    with pytest.raises(TransferError, match="not empty"):
        await Move(Side(ends.source, "here"), Side(ends.source, "there"), new_id="t").run()

    await ends.check_not_moved(before)


async def test_an_empty_store_is_not_moved_into_itself_either(ends: Ends) -> None:
    empty = ends.destination

    with pytest.raises(TransferError, match="the same database"):
        await Move(Side(empty, "here"), Side(empty, "there"), new_id="t").run()

    assert await empty.transfers.find_seal() is None


async def test_a_rehearsal_can_be_moved_afterwards_with_what_happened_since(ends: Ends) -> None:
    moved = await ends.move(keep_source_open=True)
    assert moved.is_source_open
    await ends.scene.create("after the rehearsal")
    before = await snapshot(ends.source)
    with pytest.raises(StoreSealedError):
        await Scene(ends.destination, ends.clock).create("r9")

    await ends.move("t2")

    assert "after the rehearsal" in before["runs"]
    await ends.check_moved(before)


async def test_a_copy_of_another_source_is_not_thrown_away(ends: Ends) -> None:
    await ends.move(keep_source_open=True)
    packed = await pack_all(ends.destination)
    other = Side(ends.source, "another database")

    with pytest.raises(StoreSealedError, match="being filled from here"):
        await Move(other, Side(ends.destination, "there"), new_id="t2").run()
    assert await undo(other, Side(ends.destination, "there")) is False

    assert await pack_all(ends.destination) == packed
    assert await undo(Side(ends.source, "here"), Side(ends.destination, "there"))
    assert (await ends.destination.transfers.manifest()).items == 0


# --- a worker that comes back too late ---


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.once("greeting", lambda: f"hello {name}")


async def _until(is_so: Callable[[], Any]) -> None:
    while True:
        found = is_so()
        if await found if asyncio.iscoroutine(found) else found:
            return
        await asyncio.sleep(0.01)


async def test_a_worker_that_was_away_while_the_store_was_closed_serves_nothing_until_it_is_opened(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(system_environment(), ":memory:")

    async def out_of_reach(*_: Any) -> Any:
        raise StoreUnavailableError("it did not answer")

    async def seal() -> bool:
        try:
            return bool(await store.transfers.seal("t", "there"))
        except StoreInUseError:
            return False

    async with Engine(store, workflows=[greet], settings=WorkerSettings(lease="300ms")) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(store.workers, "renew", out_of_reach)
            await asyncio.wait_for(_until(seal), 20)
        await asyncio.wait_for(_until(lambda: "executes no runs: this database is being moved" in caplog.text), 20)
        with pytest.raises(StoreSealedError, match="being moved to there"):
            await engine.start(greet, "you")

        await store.transfers.unseal("t")
        handle = await engine.start(greet, "you")
        assert await handle.result(timeout="60s") == "hello you"
