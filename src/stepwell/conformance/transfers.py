"""Transfers: the destination contains exactly what was packed, and its runs continue there."""

from __future__ import annotations

import msgspec
import pytest
import pytest_asyncio

from stepwell.clock import Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.contents import SECONDS, fill, pack_all
from stepwell.conformance.outbox import emit, ids, settle, take
from stepwell.conformance.records import change, new_record, stored
from stepwell.conformance.scene import FLOW, Scene, new_run, place, step, wait_topic
from stepwell.conformance.seals import WRITES, close
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import AlreadyExistsError, StoreInUseError, StoreSealedError, TransferError
from stepwell.ids import EventId, Incarnation, RunId, SignalId
from stepwell.model.commits import Commit, Park, Verdict
from stepwell.model.events import Publication
from stepwell.model.records import ChangeOutcome, RecordFilter
from stepwell.model.signals import Delivery, Reply, ReplyStatus
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant, Fence
from stepwell.stores.base.packed_items import PackedBlob, PackedRun, TransferBatch
from stepwell.stores.base.store import Store
from stepwell.stores.base.transfers import Manifest, SealKind
from stepwell.virtual.clock import ManualClock

_W1 = Incarnation("w1")
_DECODER = msgspec.json.Decoder(TransferBatch)
_NOTHING = Manifest(0, 0, 0, 0, 0, 0, 0)
_LABELLED = RecordFilter("task", labels=("a",), is_open=True)


Ends = tuple[Store, Store]  # source and destination


class TransferSuite(StoreCase):
    """`expect`, `pack`, `unpack`, `accept`, `reject`; each from and to the other store."""

    @pytest.fixture(params=["out of the store", "into the store"])
    def ends(self, request: pytest.FixtureRequest, store: Store, destination: Store) -> Ends:
        """Source and destination."""
        return (store, destination) if request.param == "out of the store" else (destination, store)

    @pytest_asyncio.fixture
    async def source(self, ends: Ends, clock: ManualClock) -> Scene:
        """A sealed store with one of everything."""
        scene = Scene(ends[0], clock)
        await scene.register()
        await fill(scene)
        await ends[0].transfers.seal("t1", "there")
        return scene

    @pytest_asyncio.fixture
    async def target(self, ends: Ends, source: Scene, clock: ManualClock) -> Scene:
        """A store that expects the transfer."""
        seal = await source.store.transfers.find_seal()
        assert seal is not None
        await ends[1].transfers.expect("t1", "here", since=seal.at)
        return Scene(ends[1], clock)

    async def _copy(self, source: Scene, target: Scene, limit: int = 1_000) -> None:
        batch = await source.store.transfers.pack(limit=limit)
        await target.store.transfers.unpack("t1", batch)
        while batch.next:
            batch = await source.store.transfers.pack(batch.next, limit=limit)
            await target.store.transfers.unpack("t1", batch)

    async def _moved(self, source: Scene, target: Scene) -> Scene:
        await self._copy(source, target)
        await source.store.transfers.release("t1")
        await target.store.transfers.accept("t1")
        await target.register()
        return target

    # --- everything arrives ---

    @pytest.mark.parametrize("limit", [1, 7, 1_000])
    async def test_everything_arrives_unchanged(self, source: Scene, target: Scene, limit: int) -> None:
        await self._copy(source, target, limit)

        assert await pack_all(target.store) == await pack_all(source.store, limit=limit)
        assert await snapshot(target.store) == await snapshot(source.store)
        assert await target.store.transfers.manifest() == await source.store.transfers.manifest()
        await target.store.transfers.accept("t1")
        assert await target.store.views.orphans() == []

    async def test_a_manifest_counts_what_is_packed(self, source: Scene) -> None:
        manifest = await source.store.transfers.manifest()
        items = await pack_all(source.store)

        runs = [one.run for one in items if isinstance(one, PackedRun)]
        assert manifest.items == len(items)
        assert (manifest.runs, manifest.active) == (len(runs), sum(run.ended_at is None for run in runs))
        assert min(manifest) > 0

    async def test_a_batch_survives_a_json_round_trip(self, source: Scene) -> None:
        batch = await source.store.transfers.pack(limit=1_000)
        while batch.next:
            assert _DECODER.decode(msgspec.json.encode(batch)) == batch
            batch = await source.store.transfers.pack(batch.next, limit=1_000)

    async def test_a_large_batch_ends_early(self, store: Store) -> None:
        contents = [bytes((n,)) * 700_000 for n in range(3)]
        for content in contents:
            store.blobs.put(content)
        await store.runs.create([new_run("r1")])
        await store.transfers.seal("t1", "there")

        sizes = []
        batch = await store.transfers.pack(limit=100)
        while batch.blobs:
            sizes.append(len(batch.blobs))
            batch = await store.transfers.pack(batch.next, limit=100)

        assert sizes == [2, 1]

    # --- nothing else changes ---

    @pytest.mark.parametrize("name", list(WRITES))
    async def test_an_arriving_store_rejects_other_writes(self, store: Store, clock: ManualClock, name: str) -> None:
        scene = Scene(store, clock)
        await close(scene, SealKind.ARRIVING)

        with pytest.raises(StoreSealedError, match="being filled from there"):
            await WRITES[name](scene)

        assert await store.transfers.manifest() == _NOTHING

    async def test_unpacking_again_changes_nothing(self, source: Scene, target: Scene) -> None:
        await self._copy(source, target, 7)
        before = await pack_all(target.store)

        await self._copy(source, target, 3)

        assert await pack_all(target.store) == before

    async def test_an_item_with_another_content_rejects_the_batch(self, source: Scene, target: Scene) -> None:
        await self._copy(source, target)
        before = await pack_all(target.store)
        parcels = [await source.store.transfers.pack(limit=1_000)]
        while parcels[-1].next:
            parcels.append(await source.store.transfers.pack(parcels[-1].next, limit=1_000))
        kinds = ("events", "chunks", "signals", "owed", "records", "record_events", "requests", "acts")
        events, chunks, signals, owed, records, lines, requests, acts = (
            next(getattr(batch, kind) for batch in parcels if getattr(batch, kind)) for kind in kinds
        )
        packed = next(batch.runs for batch in parcels if batch.runs)[0]
        new = PackedBlob("6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d", b"\x00")

        for other in (
            TransferBatch(events=(events[0]._replace(reached=99),)),
            TransferBatch(runs=(packed._replace(applied=packed.applied + 1),)),
            TransferBatch(runs=(packed._replace(run=packed.run._replace(stalls=77)),)),
            TransferBatch(chunks=(chunks[0]._replace(part=99),)),
            TransferBatch(signals=(signals[0]._replace(name="other"),)),
            TransferBatch(signals=(signals[0]._replace(signal_id=SignalId("new, with a known number")),)),
            TransferBatch(owed=(owed[0]._replace(attempts=99),)),
            TransferBatch(records=(records[0]._replace(version=99),)),
            TransferBatch(records=(records[0]._replace(labels=("other",)),)),
            TransferBatch(records=(records[0]._replace(number=99),)),
            TransferBatch(records=(records[0]._replace(record_id="new, with a known number"),)),
            TransferBatch(record_events=(lines[0]._replace(event=lines[0].event._replace(verb="other")),)),
            TransferBatch(record_events=(lines[0]._replace(change_id="other"),)),
            TransferBatch(requests=(requests[0]._replace(fingerprint="other"),)),
            TransferBatch(acts=(acts[0]._replace(who="other"),)),
            TransferBatch(acts=(acts[0]._replace(number=99),)),
        ):
            with pytest.raises(TransferError, match="with another content"):
                await target.store.transfers.unpack("t1", other._replace(blobs=(new,)))
            assert await pack_all(target.store) == before

    async def test_an_item_without_its_run_event_or_record_is_rejected(self, source: Scene, target: Scene) -> None:
        kinds, batch = {"runs", "chunks", "signals", "owed", "records", "record_events"}, TransferBatch()
        while kinds:
            batch = await source.store.transfers.pack(batch.next, limit=1_000)
            found = {kind for kind in kinds if getattr(batch, kind)}
            kinds -= found
            if not found:
                assert batch.next
                continue
            with pytest.raises(TransferError, match="before the run, event or record that it belongs to"):
                await target.store.transfers.unpack("t1", batch)

            assert await target.store.transfers.manifest() == _NOTHING

    async def test_a_damaged_blob_is_rejected(self, store: Store) -> None:
        await store.transfers.expect("t1", "here", since=store.now())

        with pytest.raises(TransferError, match="does not match its name"):
            await store.transfers.unpack("t1", TransferBatch(blobs=(PackedBlob("00" * 32, b"x"),)))
        assert await store.transfers.manifest() == _NOTHING

    async def test_only_what_is_expected_is_unpacked(self, scene: Scene) -> None:
        with pytest.raises(TransferError):
            await scene.store.transfers.unpack("t1", TransferBatch())
        await scene.lose_worker()
        await scene.store.transfers.expect("t1", "here", since=scene.clock.now())
        with pytest.raises(TransferError):
            await scene.store.transfers.unpack("t2", TransferBatch())

    async def test_only_an_empty_store_without_workers_can_expect(self, scene: Scene) -> None:
        expect = scene.store.transfers.expect
        with pytest.raises(StoreInUseError, match="w1"):
            await expect("t1", "here", since=scene.clock.now())
        await scene.send("s1", "no run yet", hold=True)
        await scene.lose_worker()

        with pytest.raises(TransferError, match="not empty"):
            await expect("t1", "here", since=scene.clock.now())
        assert await scene.store.transfers.find_seal() is None

    async def test_a_repeated_expect_changes_nothing_and_another_transfer_is_rejected(self, store: Store) -> None:
        seal = await store.transfers.expect("t1", "here", since=Instant(1))

        assert await store.transfers.expect("t1", "here", since=Instant(1)) == seal
        for act in (store.transfers.accept, store.transfers.reject, store.transfers.unseal):
            with pytest.raises(StoreSealedError):
                await act("t2")
        with pytest.raises(StoreSealedError):
            await store.transfers.unseal("t1")
        with pytest.raises(TransferError):
            await store.transfers.release("t1")
        assert await store.transfers.find_seal() == seal

    async def test_a_rejected_transfer_leaves_nothing_behind(self, source: Scene, target: Scene) -> None:
        await self._copy(source, target)

        for _ in range(2):
            await target.store.transfers.reject("t1")

        assert await target.store.transfers.find_seal() is None
        assert await target.store.transfers.manifest() == _NOTHING
        assert (await snapshot(target.store))["runs"] == {}
        assert (await target.create("r1", key="ключ")).is_new
        assert (await target.send("held 1", "r1")).delivery is Delivery.DELIVERED
        content = bytes(range(256)) * 9
        assert target.store.blobs.get(target.store.blobs.put(content)) == content

    async def test_a_rejected_transfer_can_be_repeated(self, source: Scene, target: Scene) -> None:
        await self._copy(source, target)
        await target.store.transfers.reject("t1")
        await target.store.transfers.expect("t1", "here", since=source.clock.now())

        await self._copy(source, target)

        assert await pack_all(target.store) == await pack_all(source.store)
        assert await snapshot(target.store) == await snapshot(source.store)

    async def test_the_destination_continues_the_clock_of_the_source(self, store: Store, clock: ManualClock) -> None:
        ahead = Instant(store.now() + 3_600 * SECONDS)

        await store.transfers.expect("t1", "here", since=ahead)
        await store.transfers.accept("t1")

        assert store.now() >= ahead
        scene = Scene(store, clock)
        await scene.create("r1")
        assert (await scene.run("r1")).created_at >= ahead

    # --- it continues ---

    async def test_open_waits_keep_their_order_and_new_ones_come_after_them(self, source: Scene, target: Scene) -> None:
        moved = await self._moved(source, target)
        await moved.waiting("t9", wait_topic("news"), priority=9)

        for n in range(4):
            await moved.publish(f"n{n}", "news", deliver="one", facets=("a=1", "b=2"))

        assert [await moved.events(run_id) for run_id in ("t3", "t1", "t2", "t9")] == [["n0"], ["n1"], ["n2"], ["n3"]]

    async def test_events_are_kept_known_and_in_inboxes(self, source: Scene, target: Scene) -> None:
        moved = await self._moved(source, target)

        assert await moved.kept() == ["e2", "e3"]
        assert await moved.events("t4") == ["e1"]
        assert (await moved.publish("e4", "unheard")).publication is Publication.DUPLICATE
        await moved.waiting("t9", wait_topic("kept", since="all"), priority=9)
        assert await moved.events("t9") == ["e2"]
        await moved.publish("e9", "kept")
        again = next(one for one in await moved.claim() if one.run_id == "t5")
        [last] = again.claimed.inbox.events
        await again.commit(received=(last.number,), waits=(wait_topic("kept", since="all", token=3),))
        assert await moved.events("t5") == ["e3"]

    async def test_moved_signals_are_known_and_can_be_answered(self, source: Scene, target: Scene) -> None:
        moved = await self._moved(source, target)
        pending = {one.payload: one.number for one in (await moved.store.runs.inbox(RunId("s1"))).signals}

        for known in ("pending", "consumed", "refused"):
            assert (await moved.send(f"s1 {known}", "s1")).delivery is Delivery.DUPLICATE
            assert (await moved.send(f"new {known}", "s1", dedup_key=f"d {known}")).delivery is Delivery.DUPLICATE
        await moved.send("a new one", "s1")
        question = await moved.store.views.find_question(SignalId("s1 answered"))
        assert question is not None
        assert question.reply is not None
        assert (question.reply.status, question.reply.value) == (ReplyStatus.GIVEN, b"\x00yes")

        [*_, last] = (await moved.store.runs.inbox(RunId("s1"))).signals
        assert last.payload == b"a new one"
        assert last.number > max(pending.values())
        await moved.send("wakes it", "s1", "never")
        turn = next(one for one in await moved.claim() if one.run_id == "s1")
        await turn.commit(replies=(Reply(pending[b"s1 asked"], ReplyStatus.GIVEN, b"late"),))
        question = await moved.store.views.find_question(SignalId("s1 asked"))
        assert question is not None
        assert question.reply is not None
        assert question.reply.value == b"late"

    async def test_keys_dedup_windows_plans_and_held_signals_are_moved(self, source: Scene, target: Scene) -> None:
        moved = await self._moved(source, target)

        assert (await moved.create("n1", key="ключ", input=bytes(range(256)))).run_id == "h1"
        assert (await moved.create("n2", key="ended", dedup=Span(3_600 * SECONDS))).run_id == "h2"
        assert (await moved.create("n3", key="x")).run_id == "x2"
        with pytest.raises(AlreadyExistsError):
            await moved.create("n4", key="chain", on_conflict="raise")
        planned = new_run("d2", key="d")
        debounced = await moved.store.runs.debounce(planned, quiet=Span(1), max_wait=Span(2))
        assert (debounced.run_id, debounced.is_stale) == ("d1", True)
        await moved.create("n5", key="later")
        assert await moved.mail("n5") == ["held 1", "held 2"]

    async def test_a_child_wakes_its_parent_and_a_chain_passes_signals_on(self, source: Scene, target: Scene) -> None:
        moved = await self._moved(source, target)
        await moved.send("end it", "c0")
        turn = next(one for one in await moved.claim() if one.run_id == "c0")
        await turn.end(output=b"done")

        parent = next(one for one in await moved.claim() if one.run_id == "p1")

        assert [one.run_id for one in parent.claimed.inbox.children] == ["c0"]
        assert (await moved.send("along", "g1")).run_id == "g2"
        await parent.end()
        assert [await moved.status(f"c{n}") for n in (1, 2)] == [RunStatus.WAITING, RunStatus.CANCELLED]

    async def test_moved_events_are_due_in_order_and_dead_letters_can_be_replayed(
        self, source: Scene, target: Scene
    ) -> None:
        moved = await self._moved(source, target)

        [batch] = await take(moved)
        assert ids(batch) == ["o2", "o3"]
        assert await take(moved, "t") == []
        moved.clock.advance("3s")
        assert await moved.store.outbox.replay(EventId("o1"), by="ann") == 1
        [again] = await take(moved)
        assert ids(again) == ["o2", "o3", "o1"]
        assert again[-1].number > again[0].number

    async def test_numbers_are_never_assigned_again_even_those_of_deleted_rows(
        self, ends: Ends, clock: ManualClock
    ) -> None:
        source, target = (Scene(store, clock) for store in ends)
        await source.register()
        turn = await source.begin("r1")
        await turn.commit(emits=(emit("e1", "s"),))
        [[owed]] = await take(source)
        await settle(source, (owed,), sent=1)
        await turn.park(wait_topic("news"))
        await source.publish("n1")
        [again] = await source.claim()
        [received] = again.claimed.inbox.events
        await again.commit(received=(received.number,))
        await source.lose_worker()
        seal = await source.store.transfers.seal("t1", "there")
        await target.store.transfers.expect("t1", "here", since=seal.at)

        moved = await self._moved(source, target)
        turn = await moved.claim_only("r1")
        await turn.commit(emits=(emit("e2", "s"),))
        await turn.park(wait_topic("news", token=2))
        await moved.publish("n2")

        [[later]] = await take(moved)
        assert later.number > owed.number
        [event] = (await moved.store.runs.inbox(RunId("r1"))).events
        assert event.number > received.number

    async def test_a_commit_that_was_applied_in_the_source_is_answered_in_the_destination(
        self, source: Scene, target: Scene
    ) -> None:
        moved = await self._moved(source, target)
        before = await snapshot(moved.store)
        last = Commit(RunId("h1"), Fence(_W1, 1), 3, move=Park(None))

        answers = await moved.store.runs.apply([last, last._replace(number=2), last._replace(number=4)])

        assert [one.verdict for one in answers] == [Verdict.APPLIED, Verdict.FENCED, Verdict.FENCED]
        assert await snapshot(moved.store) == before

    async def test_moved_records_are_due_listed_known_and_closed_with_their_runs(
        self, source: Scene, target: Scene
    ) -> None:
        moved = await self._moved(source, target)
        due = Instant(moved.store.now() + 3_600 * SECONDS)
        listed = [one.record_id for one in await moved.store.records.list_records(_LABELLED, limit=9)]

        assert listed == ["k4", "k2"]
        assert await moved.store.records.next_due(["task", "Übersicht"]) == due - 11 * SECONDS
        assert (await change(moved, "k4 changed", new_record("k4"), 1)).outcome is ChangeOutcome.CHANGED
        assert (await change(moved, "new", new_record("k9"))).version == 1
        assert (await stored(moved, "k9")).number > (await stored(moved, "k4")).number
        await moved.send("end it", "k1")
        await next(one for one in await moved.claim() if one.run_id == "k1").end()
        ended = [(await stored(moved, one)).state for one in ("k2", "k3", "k4")]
        assert ended == ["gone", "done", "open"]

    async def test_a_moved_run_continues_from_its_history(self, source: Scene, target: Scene) -> None:
        moved = await self._moved(source, target)
        before = await moved.history("h1")

        await moved.send("continue", "h1", "a")
        turn = next(one for one in await moved.claim() if one.run_id == "h1")
        await turn.record("d")

        assert (await moved.history("h1")).entries[:2] == before.entries
        assert turn.claimed.run.epoch == 2
        assert turn.fence == Fence(_W1, 2)
        assert [one.payload for one in turn.claimed.inbox.signals] == [b"continue"]


class RestoreSuite(StoreCase):
    """`restore`: one run into a store that is in use."""

    async def _packed(self, scene: Scene, run_id: str, key: str | None = None) -> PackedRun:
        turn = await scene.begin("r1", key="k", tags=(("team", "blue"),))
        await turn.commit(names=("a",), entries=(step(1, place(0)),))
        history = (await scene.store.runs.load([RunId("r1")]))[0]
        run = (await scene.run("r1"))._replace(
            run_id=RunId(run_id), key=key, owner=None, status=RunStatus.PENDING, wake_at=scene.store.now()
        )
        return PackedRun(run, 0, False, history, (), (), (), ())

    async def test_a_restored_run_has_its_history_and_can_be_claimed(self, scene: Scene) -> None:
        packed = await self._packed(scene, "r2", "other")

        assert await scene.store.transfers.restore(packed)
        assert await scene.run("r2") == packed.run
        assert (await scene.store.runs.load([RunId("r2")]))[0] == packed.history
        (claimed,) = await scene.store.runs.claim(Claimant(scene.incarnation, 5, (FLOW,)))
        assert claimed.run.run_id == "r2"
        assert claimed.run.epoch == packed.run.epoch + 1
        assert await scene.store.views.orphans() == []

    async def test_an_id_that_is_taken_changes_nothing(self, scene: Scene) -> None:
        packed = await self._packed(scene, "r1")
        before = await snapshot(scene.store)

        assert not await scene.store.transfers.restore(packed)
        assert await snapshot(scene.store) == before

    async def test_an_active_run_with_a_taken_key_is_not_restored(self, scene: Scene) -> None:
        packed = await self._packed(scene, "r2", "k")
        before = await snapshot(scene.store)
        assert not await scene.store.transfers.restore(packed)
        assert await snapshot(scene.store) == before

        ended = packed.run._replace(status=RunStatus.COMPLETED, wake_at=None, ended_at=scene.store.now())
        assert await scene.store.transfers.restore(packed._replace(run=ended))
        assert (await scene.run("k")).run_id == "r1"

    async def test_a_closed_store_restores_no_run(self, scene: Scene) -> None:
        packed = await self._packed(scene, "r2")
        scene.clock.advance(3_600)
        await scene.store.transfers.seal("t1", "there")

        with pytest.raises(StoreSealedError):
            await scene.store.transfers.restore(packed)
