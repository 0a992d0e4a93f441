"""Closed stores: no handle can change them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import pytest_asyncio

from stepwell.clock import Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.contents import SECONDS, pack_all
from stepwell.conformance.outbox import take
from stepwell.conformance.records import change, new_record
from stepwell.conformance.scene import LEASE, Scene, new_event, new_run, new_signal, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import StoreInUseError, StoreSealedError, TransactionsUnsupportedError, TransferError
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.amendments import Amendment, Fork
from stepwell.model.commits import Commit
from stepwell.model.ledger import NewAct, Reservation
from stepwell.model.outbox import Settled
from stepwell.model.signals import Redelivery
from stepwell.model.states import RunStatus
from stepwell.model.workers import Fence, NewWorker
from stepwell.stores.base.packed_items import PackedRun
from stepwell.stores.base.transfers import Seal, SealKind

_R1, _W1 = RunId("r1"), Incarnation("w1")

_Act = Callable[[Scene], Awaitable[object]]
WRITES: dict[str, _Act] = {
    "create": lambda at: at.create("r9"),
    "debounce": lambda at: at.store.runs.debounce(new_run("r9", key="k"), quiet=Span(1), max_wait=Span(2)),
    "claim": lambda at: at.claim(),
    "apply": lambda at: at.store.runs.apply([Commit(_R1, Fence(_W1, 1), 2)]),
    "cancel": lambda at: at.cancel("r1"),
    "resume": lambda at: at.store.runs.resume(_R1, by=""),
    "resume rollback": lambda at: at.store.runs.resume_rollback(_R1, by=""),
    "retry": lambda at: at.store.runs.retry(_R1, by=""),
    "amend": lambda at: at.store.runs.amend(Amendment("a1", _R1, RunStatus.WAITING, 1, 1, "rewind")),
    "fork": lambda at: at.store.runs.fork(Fork(new_run("r9"), _R1, 1, 1)),
    "rescue": lambda at: at.rescue(),
    "relinquish": lambda at: at.store.runs.relinquish(_W1, ()),
    "deliver": lambda at: at.send("s9", "r1"),
    "deliver or create": lambda at: at.store.signals.deliver_or_create(new_signal("s9", "k"), new_run("r9", key="k")),
    "redeliver": lambda at: at.store.signals.redeliver([Redelivery(1, "r1", b"")]),
    "publish": lambda at: at.store.events.publish([new_event("e9")]),
    "take": lambda at: take(at),
    "settle": lambda at: at.store.outbox.settle(_W1, [Settled(1)]),
    "replay": lambda at: at.store.outbox.replay(EventId("e1"), by=""),
    "drop": lambda at: at.store.outbox.drop(EventId("e1"), by=""),
    "register": lambda at: at.store.workers.register(NewWorker(Incarnation("w9"), "w9", LEASE, ())),
    "renew": lambda at: at.store.workers.renew(_W1, LEASE),
    "retire": lambda at: at.store.workers.retire(_W1),
    "reserve": lambda at: at.store.ledger.reserve(Reservation("s", "k9", "", "", Instant(1 << 60))),
    "settle a request": lambda at: at.store.ledger.settle("s", "k", "done"),
    "change": lambda at: change(at, "c9", new_record("t9")),
    "prune": lambda at: at.store.records.prune("task", older_than=Span(0), limit=1),
    "note": lambda at: at.store.ledger.note(NewAct("q9", "ann", "start", "", "asked")),
}


async def close(scene: Scene, kind: SealKind) -> Seal:
    """Seal a store with one kind of seal, and check it."""
    transfers = scene.store.transfers
    if kind is SealKind.ARRIVING:
        await transfers.expect("t1", "there", since=scene.clock.now())
    else:
        await transfers.seal("t1", "there")
    if kind is SealKind.LEFT:
        await transfers.release("t1")
    seal = await transfers.find_seal()
    assert seal is not None
    assert seal.kind is kind
    return seal


class SealSuite(StoreCase):
    """`seal`, `release`, `unseal`: closing a store and opening it again."""

    @pytest_asyncio.fixture
    async def rest(self, scene: Scene) -> Scene:
        """A store with a waiting run and no worker."""
        await scene.waiting("r1", wait_signal("go"))
        await scene.lose_worker()
        return scene

    @pytest.mark.parametrize("is_elsewhere", [False, True])
    @pytest.mark.parametrize("kind", [SealKind.LEAVING, SealKind.LEFT])
    @pytest.mark.parametrize("name", list(WRITES))
    async def test_no_write_changes_a_closed_store(
        self, rest: Scene, elsewhere: Scene, name: str, kind: SealKind, is_elsewhere: bool
    ) -> None:
        await elsewhere.store.views.find("r1")
        await close(rest, kind)
        before, packed = await snapshot(rest.store), await pack_all(rest.store)

        with pytest.raises(StoreSealedError, match="moved to there"):
            await WRITES[name](elsewhere if is_elsewhere else rest)

        assert await snapshot(elsewhere.store) == before
        assert await pack_all(elsewhere.store) == packed
        assert await rest.status("r1") is RunStatus.WAITING

    async def test_transactions_are_closed_too(self, rest: Scene) -> None:
        await close(rest, SealKind.LEAVING)
        has_any = rest.store.capabilities.has_transactions

        with pytest.raises(StoreSealedError if has_any else TransactionsUnsupportedError):
            await rest.store.transactions.run(lambda tx: tx.execute("create table coins (n integer)"))

    async def test_a_store_with_a_live_worker_is_not_closed(self, scene: Scene) -> None:
        await scene.begin("r1")
        before = await snapshot(scene.store)

        with pytest.raises(StoreInUseError, match="w1") as caught:
            await scene.store.transfers.seal("t1", "there")

        assert "stop the workers" in caught.value.fix
        assert await scene.store.transfers.find_seal() is None
        assert await snapshot(scene.store) == before

    async def test_sealing_frees_the_runs_of_dead_workers_with_a_stall(self, scene: Scene) -> None:
        await scene.begin("r1")
        await scene.lose_worker()

        await scene.store.transfers.seal("t1", "there")

        run = await scene.run("r1")
        assert (run.status, run.owner, run.stalls, run.wake_at) == (RunStatus.PENDING, None, 1, scene.clock.now())
        assert await scene.store.views.list_workers() == []

    async def test_a_repeated_seal_changes_nothing_and_another_transfer_is_rejected(self, rest: Scene) -> None:
        seal = await rest.store.transfers.seal("t1", "there")
        rest.clock.advance("1s")

        assert await rest.store.transfers.seal("t1", "there") == seal
        assert seal == Seal("t1", SealKind.LEAVING, "there", Instant(rest.clock.now() - SECONDS))
        with pytest.raises(StoreSealedError, match="being moved to there"):
            await rest.store.transfers.seal("t2", "elsewhere")
        with pytest.raises(StoreSealedError):
            await rest.store.transfers.expect("t1", "there", since=seal.at)
        with pytest.raises(StoreSealedError):
            await rest.store.transfers.unseal("t2")
        with pytest.raises(TransferError):
            await rest.store.transfers.release("t2")
        assert await rest.store.transfers.find_seal() == seal

    async def test_an_unsealed_store_continues_unchanged(self, rest: Scene, elsewhere: Scene) -> None:
        before = await snapshot(rest.store)
        await rest.store.transfers.seal("t1", "there")

        for _ in range(2):
            await elsewhere.store.transfers.unseal("t1")

        assert await rest.store.transfers.find_seal() is None
        assert (await snapshot(rest.store))["runs"] == before["runs"]
        assert (await rest.send("s1", "r1")).woke
        assert await elsewhere.mail("r1") == ["s1"]

    async def test_a_released_store_is_never_opened_again(self, rest: Scene) -> None:
        await rest.store.transfers.seal("t1", "there")
        seal = await rest.store.transfers.release("t1")

        assert await rest.store.transfers.release("t1") == seal
        for act in (rest.store.transfers.unseal, rest.store.transfers.accept, rest.store.transfers.reject):
            with pytest.raises(StoreSealedError, match="has been moved to there"):
                await act("t1")
        assert await rest.store.transfers.find_seal() == seal

    async def test_an_open_store_is_neither_packed_nor_released(self, rest: Scene) -> None:
        with pytest.raises(TransferError):
            await rest.store.transfers.pack(limit=1)
        with pytest.raises(TransferError):
            await rest.store.transfers.release("t1")

    async def test_only_acknowledged_writes_are_packed(self, rest: Scene, elsewhere: Scene) -> None:
        async def start(run_id: str) -> bool:
            await asyncio.sleep(0)
            try:
                return (await elsewhere.create(run_id)).is_new
            except StoreSealedError:
                return False

        names = [f"n{n:02}" for n in range(40)]
        *started, _ = await asyncio.gather(*map(start, names), rest.store.transfers.seal("t1", "there"))

        packed = [one.run.run_id for one in await pack_all(rest.store) if isinstance(one, PackedRun)]
        # In any order: they were requested concurrently.
        assert sorted(packed) == sorted(["r1", *(name for name, is_new in zip(names, started, strict=True) if is_new)])
