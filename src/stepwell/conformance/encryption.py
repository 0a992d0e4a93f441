"""A store that holds encrypted values accepts only encrypted values."""

from __future__ import annotations

import pytest

from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import LEASE, Scene, new_event, new_run, step, wait_signal
from stepwell.conformance.scene import place as at_place
from stepwell.conformance.seals import WRITES
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import EncryptedStoreError, StepwellError
from stepwell.ids import Incarnation, RunId
from stepwell.model.ledger import NewAct
from stepwell.model.states import RunStatus
from stepwell.model.workers import NewWorker
from stepwell.stores.base.packed_items import TransferBatch
from stepwell.stores.base.store import Store
from stepwell.virtual.clock import ManualClock

_VALUELESS = {
    *("cancel", "resume", "resume rollback", "retry", "rescue", "relinquish", "replay", "drop", "retire"),
    *("reserve", "settle a request", "note", "prune"),
}


class EncryptionSuite(StoreCase):
    """`declare_encrypted`: `store` is opened without a key, and `other` with one."""

    @pytest.mark.parametrize("name", [name for name in WRITES if name not in _VALUELESS])
    async def test_a_plain_handle_writes_no_value_after_the_first_encrypted_one(
        self, scene: Scene, elsewhere: Scene, name: str
    ) -> None:
        await scene.waiting("r1", wait_signal("go"))
        elsewhere.store.declare_encrypted()
        await elsewhere.create("r2")
        before = await snapshot(scene.store)

        with pytest.raises(EncryptedStoreError, match="in the clear") as caught:
            await WRITES[name](scene)

        assert "codec=Encrypted" in caught.value.fix
        assert await snapshot(scene.store) == before

    @pytest.mark.parametrize("name", [name for name in WRITES if name in _VALUELESS])
    async def test_a_plain_handle_may_still_write_what_has_no_values(
        self, scene: Scene, elsewhere: Scene, name: str
    ) -> None:
        await scene.waiting("r1", wait_signal("go"))
        elsewhere.store.declare_encrypted()
        await elsewhere.create("r2")

        try:
            await WRITES[name](scene)
        except StepwellError as error:
            assert not isinstance(error, EncryptedStoreError)  # noqa: PT017  any other error is allowed

    async def test_the_next_step_of_a_plain_worker_is_rejected(self, scene: Scene, elsewhere: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a", "b"), entries=(step(1, at_place(0)),))
        elsewhere.store.declare_encrypted()
        await elsewhere.create("r2")

        with pytest.raises(EncryptedStoreError):
            await turn.commit(entries=(step(2, at_place(1)),))

    async def test_plain_batches_and_claimed_starts_are_rejected(self, scene: Scene, elsewhere: Scene) -> None:
        elsewhere.store.declare_encrypted()
        await elsewhere.store.workers.register(NewWorker(Incarnation("w2"), "w2", LEASE, ()))

        for runs in ([new_run("r1")], [new_run("r1"), new_run("r2")]):
            with pytest.raises(EncryptedStoreError):
                await scene.store.runs.create(runs, scene.claimant())

    async def test_reads_continue(self, scene: Scene, elsewhere: Scene) -> None:
        elsewhere.store.declare_encrypted()
        await elsewhere.create("r1")

        assert await scene.status("r1") is RunStatus.PENDING
        assert [run.history.entries for run in [await scene.store.views.detail(RunId("r1"))] if run] == [()]

    async def test_an_encrypting_handle_continues_in_a_store_with_plain_values(
        self, scene: Scene, elsewhere: Scene
    ) -> None:
        await scene.create("r1")
        for at in (scene, elsewhere):
            at.store.declare_encrypted()
        await elsewhere.create("r2")

        await scene.create("r3")
        await scene.store.events.publish([new_event("e1")])

    async def test_declaring_alone_marks_nothing(self, scene: Scene, elsewhere: Scene) -> None:
        elsewhere.store.declare_encrypted()
        await elsewhere.store.views.find("r1")

        assert (await scene.create("r1")).is_new

    async def test_a_write_that_fails_marks_nothing(self, scene: Scene, elsewhere: Scene) -> None:
        elsewhere.store.declare_encrypted()
        with pytest.raises(StepwellError):
            await elsewhere.claim()  # its worker is not registered

        assert (await scene.create("r1")).is_new

    async def test_large_payloads_of_a_plain_handle_are_not_stored(self, scene: Scene, elsewhere: Scene) -> None:
        elsewhere.store.declare_encrypted()
        await elsewhere.create("r1")
        blobs = (await elsewhere.store.transfers.manifest()).blobs

        with pytest.raises(EncryptedStoreError):
            await self._store_large(scene)

        await elsewhere.create("r3")
        assert (await elsewhere.store.transfers.manifest()).blobs == blobs

    async def _store_large(self, scene: Scene) -> None:
        scene.store.blobs.put(b"plain" * 1_000)
        await scene.create("r2")

    async def test_a_transfer_moves_the_encryption_mark(
        self, store: Store, destination: Store, clock: ManualClock
    ) -> None:
        store.declare_encrypted()
        await store.runs.create([new_run("r1")])
        seal = await store.transfers.seal("t1", "there")
        await destination.transfers.expect("t1", "here", since=seal.at)
        batch: TransferBatch | None = None
        while batch is None or batch.next:
            batch = await store.transfers.pack(batch.next if batch else "", limit=10)
            await destination.transfers.unpack("t1", batch)
        await store.transfers.release("t1")
        await destination.transfers.accept("t1")

        with pytest.raises(EncryptedStoreError):
            await destination.runs.create([new_run("r2")])
        await destination.ledger.note(NewAct("q1", "ann", "start", "", "asked"))
