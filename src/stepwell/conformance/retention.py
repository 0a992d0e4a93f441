"""Deleting ended runs, and what nobody needs any more."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from stepwell.clock import DAY, SECOND, Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FIRST, Scene, child_of, new_run, place, step, wait_child, wait_signal, wait_topic
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.commits import Park
from stepwell.model.live import Append, ChunkKind, Published
from stepwell.model.outbox import Emit, Settled, Unsent
from stepwell.model.records import NewRecord, NewRecordEvent, RecordOpening
from stepwell.model.retention import Ended, RunFacts, Swept, Tree
from stepwell.model.signals import Refusal
from stepwell.model.states import RunStatus

_MINUTE = Span(60 * SECOND)
_FAR = Instant(1 << 60)
_LARGE = b"a large payload " * 1_000


async def _ended(scene: Scene, run_id: str, **changes: Any) -> Ended:
    """A run that has completed."""
    turn = await scene.begin(run_id, **changes)
    await turn.record("a")
    await turn.end()
    return await _end_of(scene, run_id)


async def _end_of(scene: Scene, run_id: str) -> Ended:
    ended_at = (await scene.run(run_id)).ended_at
    assert ended_at is not None
    return Ended(RunId(run_id), ended_at)


async def _prune(scene: Scene, *trees: Tree, is_erasure: bool = False) -> list[bool]:
    return await scene.store.retention.prune(trees, is_erasure=is_erasure, by="ann", reason="asked")


class RetentionSuite(StoreCase):
    """Runs that are deleted."""

    async def test_ended_runs_are_listed_by_their_end_in_pages(self, scene: Scene) -> None:
        first = await _ended(scene, "r2", key="k", dedup=_MINUTE)
        scene.clock.advance(1)
        second, third = await _ended(scene, "r3"), await _ended(scene, "r1")
        scene.clock.advance(1)
        await scene.create("r0")
        store = scene.store.retention

        page = await store.list_ended(before=_FAR, limit=1)

        assert page == [
            RunFacts(RunId("r2"), "flow", RunStatus.COMPLETED, first.ended_at, _MINUTE, None, None, None, False, False)
        ]
        assert [one.run_id for one in await store.list_ended(before=_FAR, limit=9, after=first)] == ["r1", "r3"]
        assert [one.run_id for one in await store.list_ended(before=_FAR, limit=9, after=third)] == ["r3"]
        assert [one.run_id for one in await store.list_ended(before=second.ended_at, limit=9)] == ["r2"]

    async def test_a_family_is_found_by_ids_and_by_parents(self, scene: Scene) -> None:
        parent = await scene.begin("p")
        child = await scene.begin_child(parent, "c")
        await child.end(RunStatus.CONTINUED, successor=new_run("c2"))
        store = scene.store.retention

        found = {str(one.run_id): one for one in await store.list_relatives([RunId("p"), RunId("x")], [RunId("p")])}

        assert sorted(found) == ["c", "c2", "p"]
        assert (found["p"].has_children, found["p"].parent, found["p"].ended_at) == (True, None, None)
        assert (found["c"].parent, found["c"].successor, found["c"].previous) == ("p", "c2", None)
        assert (found["c2"].parent, found["c2"].successor, found["c2"].previous) == ("p", None, "c")

    async def test_a_successor_keeps_the_window_of_its_key(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k", dedup=_MINUTE)
        await turn.end(RunStatus.CONTINUED, successor=new_run("r2"))

        assert (await scene.run("r2")).dedup == _MINUTE

    async def test_a_pruned_run_leaves_nothing(self, scene: Scene) -> None:
        empty = await snapshot(scene.store)
        await scene.send("s0", "k", hold=True)
        turn = await scene.begin("r1", key="k", tags=(("a", "b"),))
        await scene.send("s1", "r1", dedup_key="d")
        await scene.send("s2", "r1")
        [record] = [NewRecord("task", "t1", "open", b"body", ("one",), end_state="gone")]
        await turn.commit(
            names=("a",),
            entries=(step(1, FIRST),),
            consumed=(1,),
            published=(Published("p", 1, b"1"),),
            appends=(Append("s", ChunkKind.DATA, b"line"),),
            opened=(RecordOpening(FIRST, record, (NewRecordEvent("made"),)),),
        )
        await scene.store.runs.pause(RunId("r1"), by="ann", reason="")
        await scene.store.runs.resume(RunId("r1"), by="ann")
        await turn.end()

        assert await _prune(scene, Tree((await _end_of(scene, "r1"),))) == [True]

        left = await snapshot(scene.store)
        assert {name: left[name] for name in left if name != "workers"} == {
            name: empty[name] for name in empty if name != "workers"
        }
        assert await scene.store.retention.list_ended(before=_FAR, limit=9) == []
        again = await scene.begin("r1", key="k")
        assert (await again.record("a")).verdict.value == "applied"
        assert (await scene.send("s9", "r1", dedup_key="d")).delivery.value == "delivered"

    async def test_a_tree_goes_as_a_whole_or_stays_as_it_is(self, scene: Scene) -> None:
        one, two = await _ended(scene, "r1"), await _ended(scene, "r2")
        other = await _ended(scene, "r3")
        await scene.create("r4")
        before = await snapshot(scene.store)

        wrong = two._replace(ended_at=Instant(two.ended_at + 1))
        missing, active = Ended(RunId("r9"), one.ended_at), Ended(RunId("r4"), one.ended_at)
        kept = [Tree((one, wrong)), Tree((one, missing)), Tree((one, active)), Tree(()), Tree((one,), (wrong,))]
        assert await _prune(scene, *kept) == [False] * 5
        assert await snapshot(scene.store) == before

        assert await _prune(scene, kept[0], Tree((one, two)), Tree((other,), (one,))) == [False, True, True]
        assert await scene.store.views.find_many(["r1", "r2", "r3"]) == [None, None, None]

    async def test_a_run_that_was_reopened_stays(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.end(RunStatus.FAILED)
        ended = await _end_of(scene, "r1")
        await scene.store.runs.retry(RunId("r1"), by="ann")

        assert await _prune(scene, Tree((ended,))) == [False]

    async def test_a_run_that_owes_an_event_stays_until_it_is_sent(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(
            names=("a",),
            entries=(step(1, FIRST),),
            emits=(Emit(EventId("e1"), "n", "a", b"x", scene.store.now(), ("s",)),),
        )
        await turn.end()
        ended = await _end_of(scene, "r1")
        assert await _prune(scene, Tree((ended,))) == [False]

        [[owed]] = await scene.store.outbox.take(Incarnation("w1"), "s", limit=1, batch_max=1)
        await scene.store.outbox.settle(Incarnation("w1"), [Settled(owed.number, (), Unsent(owed.number, "no", None))])
        [facts] = await scene.store.retention.list_ended(before=_FAR, limit=9)
        assert (await _prune(scene, Tree((ended,))), facts.is_needed) == ([False], True)

        await scene.store.outbox.drop(EventId("e1"), by="ann")
        assert await _prune(scene, Tree((ended,))) == [True]

    async def test_a_run_that_refused_a_signal_stays(self, scene: Scene) -> None:
        turn = await scene.waiting("r1", wait_signal("go"))
        await scene.send("s1", "r1")
        turn = await scene.claim_only("r1")
        [signal] = turn.claimed.inbox.signals
        await turn.commit(refused=(Refusal(signal.number, "no"),))
        await turn.end()

        assert await _prune(scene, Tree((await _end_of(scene, "r1"),))) == [False]

    async def test_a_run_with_an_open_record_stays(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        record = NewRecord("task", "t1", "open", b"body")
        await turn.commit(opened=(RecordOpening(FIRST, record, (NewRecordEvent("made"),)),))
        await turn.end()

        assert await _prune(scene, Tree((await _end_of(scene, "r1"),))) == [False]

    async def test_an_erasure_takes_what_somebody_still_needs_and_leaves_a_line(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        record = NewRecord("task", "t1", "open", b"body", ("one",))
        await turn.commit(
            names=("a",),
            entries=(step(1, FIRST),),
            emits=(Emit(EventId("e1"), "n", "a", b"x", scene.store.now(), ("s",)),),
            opened=(RecordOpening(place(0), record, (NewRecordEvent("made"),)),),
        )
        await turn.end()

        assert await _prune(scene, Tree((await _end_of(scene, "r1"),)), is_erasure=True) == [True]

        [act] = await scene.store.holds.list_acts(limit=9)
        assert (act.workflow, act.verb, act.by, act.reason) == ("flow", "erase", "ann", "run r1: asked")
        seen = await snapshot(scene.store)
        assert (seen["runs"], seen["owed"], seen["records"]) == ({}, [], [])

    async def test_a_waiting_parent_gets_the_result_of_a_child_whose_generations_are_pruned(self, scene: Scene) -> None:
        parent = await scene.begin("p")
        child = child_of("p", "c", FIRST)
        await parent.commit(names=("c",), children=(child,), waits=(wait_child(FIRST),), move=Park(None))
        turn = await scene.claim_only("c")
        await turn.end(RunStatus.CONTINUED, successor=new_run("c2"))
        turn = await scene.claim_only("c2")
        await turn.end(RunStatus.CONTINUED, successor=new_run("c3"))
        first, second = await _end_of(scene, "c"), await _end_of(scene, "c2")

        assert await _prune(scene, Tree((first,), (second,))) == [True]
        turn = await scene.claim_only("c3")
        await turn.end(output=b"done")

        [claimed] = (await scene.claim())[0].claimed.inbox.children
        assert (claimed.run_id, claimed.output) == ("c3", b"done")


class SweepSuite(StoreCase):
    """Events, signals and payloads that nobody needs any more."""

    async def test_consumed_signals_of_runs_that_go_on_are_forgotten_after_a_time(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        for name in ("s1", "s2", "s3"):
            await scene.send(name, "r1", dedup_key="d" if name == "s2" else None)
        await turn.commit(names=("a",), entries=(step(1, FIRST),), consumed=(1, 2))
        sweep = scene.store.retention.sweep

        assert await sweep("signals", before=scene.store.now(), after=0, limit=9) == Swept(0, None)
        assert await sweep("signals", before=_FAR, after=0, limit=1) == Swept(1, 1)
        assert await sweep("signals", before=_FAR, after=1, limit=9) == Swept(0, None)

        assert await scene.mail("r1") == ["s3"]
        assert (await scene.send("s2", "r1", dedup_key="d")).delivery.value == "duplicate"

    async def test_events_that_no_topic_keeps_are_forgotten_after_their_time(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic())
        await scene.publish("e1")
        await scene.publish("e2", topic="other")
        sweep = scene.store.retention.sweep
        assert await sweep("events", before=_FAR, after=0, limit=9) == Swept(0, None)

        scene.clock.advance(30 * 86_400)
        swept = await sweep("events", before=_FAR, after=0, limit=1)
        assert swept.deleted == 0  # it is in the inbox of r1
        assert swept.after is not None
        assert await sweep("events", before=_FAR, after=swept.after, limit=9) == Swept(1, None)
        assert await scene.events("r1") == ["e1"]

    async def test_a_payload_that_no_row_refers_to_is_deleted_after_the_grace_time(self, scene: Scene) -> None:
        store = scene.store
        used, unused = store.blobs.put(_LARGE), store.blobs.put(_LARGE + b"2")
        nested = store.blobs.put(_LARGE + b"3")
        await scene.create("r1", input=b"r%b:16000" % used.encode())
        turn = await scene.claim_only("r1")
        packed = b'[["x"]]\x00' + b"r%b:16001" % nested.encode()
        await turn.commit(names=("a",), entries=(step(1, FIRST, undo=packed),))
        await turn.end()
        start = scene.store.now()

        assert not await store.retention.has_old_blobs(before=start)
        assert await store.retention.sweep_blobs(before=start, slack=0) == 0
        scene.clock.advance(1)
        assert await store.retention.has_old_blobs(before=scene.store.now())
        assert await store.retention.sweep_blobs(before=scene.store.now(), slack=0) == 1

        assert store.blobs.get(used) == _LARGE
        assert store.blobs.get(nested) == _LARGE + b"3"
        assert hashlib.sha256(_LARGE + b"2").hexdigest() == unused
        with pytest.raises(LookupError):
            store.blobs.get(unused)

    async def test_a_payload_stays_while_a_run_that_may_refer_to_it_has_a_worker(self, scene: Scene) -> None:
        store = scene.store
        await scene.begin("r1")
        scene.clock.advance(1)
        name = store.blobs.put(_LARGE)
        await scene.create("r2")
        scene.clock.advance(5)

        assert await store.retention.sweep_blobs(before=scene.store.now(), slack=0) == 0
        assert store.blobs.get(name) == _LARGE

    async def test_a_payload_that_is_put_again_later_counts_as_new(self, scene: Scene, elsewhere: Scene) -> None:
        name = scene.store.blobs.put(_LARGE)
        await _ended(scene, "r1")
        scene.clock.advance(86_400)
        start = scene.store.now()
        scene.store.blobs.put(_LARGE)
        await scene.create("r2")

        assert await elsewhere.store.retention.sweep_blobs(before=Instant(start), slack=0) == 0
        assert elsewhere.store.blobs.get(name) == _LARGE
        scene.clock.advance(2 * DAY / SECOND)
        assert await elsewhere.store.retention.sweep_blobs(before=scene.store.now(), slack=0) == 1
