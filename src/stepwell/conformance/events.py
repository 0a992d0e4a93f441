"""Events: delivered once to every open wait, or to one of them."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.clock import Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.contents import pack_all
from stepwell.conformance.scene import (
    FIRST,
    Scene,
    Turn,
    child_of,
    new_event,
    new_run,
    place,
    step,
    wait_signal,
    wait_topic,
)
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId
from stepwell.model.commits import End, Park, Pause, Release
from stepwell.model.events import RETENTION, Deliver, Publication, Published
from stepwell.model.records import ChangeOutcome, NewRecord, NewRecordEvent, RecordChange, RecordsSeen
from stepwell.model.states import RunStatus
from stepwell.stores.base.packed_items import PackedRun

_R1 = RunId("r1")
_HOUR = Span(3_600_000_000)
_P, _D, _F, _S = Publication.PUBLISHED, Publication.DUPLICATE, Publication.FULL, Publication.STALE
_ROUNDS = range(8)


async def _receive(turn: Turn, *, is_last: bool = True) -> list[bytes]:
    """Read the inbox, and commit that it was read."""
    events = turn.claimed.inbox.events
    move = End(RunStatus.COMPLETED) if is_last else None
    await turn.commit(received=tuple(event.number for event in events), move=move)
    return [event.payload for event in events]


class EventSuite(StoreCase):
    """`publish`, and waits for events."""

    async def test_an_event_reaches_every_run_that_waits_and_wakes_it(self, scene: Scene) -> None:
        for run_id in ("r1", "r2"):
            await scene.waiting(run_id, wait_topic())
        await scene.waiting("r3", wait_topic("sport"))
        scene.clock.advance(1)

        assert await scene.publish("e1", payload=bytes(range(256))) == Published(_P, 2)

        turns = await scene.claim()
        assert [turn.run_id for turn in turns] == ["r1", "r2"]
        for turn in turns:
            [event] = turn.claimed.inbox.events
            assert (event.event_id, event.topic, event.payload) == ("e1", "news", bytes(range(256)))
            assert (event.published_at, event.locations) == (scene.clock.now(), (FIRST,))
            await _receive(turn)
        assert await scene.events("r3") == []

    async def test_an_event_without_a_wait_is_not_kept(self, scene: Scene) -> None:
        await scene.begin("r1")

        assert await scene.publish("e1") == Published(_P)
        assert await scene.publish("e2", deliver="one") == Published(_P)
        assert (await scene.events("r1"), await scene.kept()) == ([], [])

    async def test_one_reaches_the_run_that_has_waited_longest(self, scene: Scene) -> None:
        for run_id in ("r2", "r1", "r3"):
            await scene.waiting(run_id, wait_topic())

        assert await scene.publish("e1", deliver="one") == Published(_P, 1)
        assert await scene.publish("e2", deliver="one") == Published(_P, 1)

        assert [await scene.events(run_id) for run_id in ("r1", "r2", "r3")] == [["e2"], ["e1"], []]
        assert {turn.run_id for turn in await scene.claim()} == {"r1", "r2"}

    async def test_a_wait_takes_one_event(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic())

        assert await scene.publish("e1") == Published(_P, 1)
        assert await scene.publish("e2") == Published(_P)

        assert await scene.events("r1") == ["e1"]

    async def test_several_waits_of_a_run_share_an_event(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic(), wait_topic("other", at=place(1)), wait_topic(at=place(2)))

        assert await scene.publish("e1") == Published(_P, 1)

        [event] = (await scene.store.runs.inbox(_R1)).events
        assert event.locations == (FIRST, place(2))

    async def test_only_events_with_the_wanted_facets_count(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic("news", "a=1", "b=2"))
        await scene.waiting("r2", wait_topic("news", "b=3"))
        await scene.waiting("r3", wait_topic())

        assert await scene.publish("e1", facets=("a=1", "b=3"), deliver="one") == Published(_P, 1)
        assert await scene.events("r2") == ["e1"]
        assert await scene.publish("e2", facets=("a=2", "b=2")) == Published(_P, 1)
        assert await scene.publish("e3", facets=("b=2", "c=3", "a=1")) == Published(_P, 1)
        assert [await scene.events(run_id) for run_id in ("r1", "r2", "r3")] == [["e3"], ["e1"], ["e2"]]

    async def test_a_known_event_id_does_nothing_again(self, scene: Scene, elsewhere: Scene) -> None:
        await scene.waiting("r1", wait_topic())
        await scene.publish("e1")
        await scene.waiting("r2", wait_topic())
        before = await snapshot(scene.store)

        assert await elsewhere.publish("e1", retain=_HOUR, starts=(new_run("r3"),)) == Published(_D, 1)
        assert await snapshot(scene.store) == before

        await _receive(await scene.claim_only("r1"))
        scene.clock.advance(RETENTION / 1e6 - 1)
        assert await scene.publish("e1") == Published(_D, 1)
        assert await scene.events("r2") == []

    async def test_a_repeated_event_reaches_no_later_wait(self, scene: Scene) -> None:
        await scene.publish("e1")
        await scene.waiting("r1", wait_topic(since="all"))

        assert await scene.publish("e1") == Published(_D)
        assert await scene.events("r1") == []

    async def test_an_unchanged_wait_gets_one_event(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(),))
        await scene.publish("e1")
        await turn.commit(waits=(wait_topic(), wait_signal("go", at=place(1))))

        assert await scene.publish("e2") == Published(_P)
        await turn.commit(waits=(wait_topic(token=2),))
        assert await scene.publish("e3") == Published(_P)
        assert await scene.events("r1") == ["e1"]

    async def test_a_removed_wait_gets_nothing(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(),))
        await turn.commit(waits=())

        assert await scene.publish("e1") == Published(_P)
        await turn.end()

    async def test_an_owned_run_only_gets_it_stored(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(),))

        assert await scene.publish("e1") == Published(_P, 1)

        assert (await scene.run("r1")).owner == "w1"
        assert (await turn.commit(move=Park(None))).is_awake
        assert await _receive(await scene.claim_only("r1")) == [b"e1"]

    async def test_a_one_event_prefers_runs_that_are_not_paused(self, scene: Scene) -> None:
        paused = await scene.begin("r1")
        await paused.commit(waits=(wait_topic(),), move=Pause(b"{}"))
        await scene.waiting("r2", wait_topic())

        assert await scene.publish("e1", deliver="one") == Published(_P, 1)
        assert await scene.events("r2") == ["e1"]
        assert await scene.publish("e2", deliver="one") == Published(_P, 1)
        assert (await scene.events("r1"), await scene.status("r1")) == (["e2"], RunStatus.PAUSED)
        assert [turn.run_id for turn in await scene.claim()] == ["r2"]

    async def test_a_released_run_keeps_its_open_waits(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(),), move=Release())

        assert await scene.publish("e1") == Published(_P, 1)
        assert [event.payload for event in (await scene.claim_only("r1")).claimed.inbox.events] == [b"e1"]

    async def test_a_run_that_is_cancelled_or_ended_gets_nothing(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("step", undo=b"undo")
        await turn.park(wait_topic(at=place(1)))
        await scene.waiting("r2", wait_topic())
        await scene.cancel("r1")
        await scene.cancel("r2", compensate=False)

        assert await scene.publish("e1") == Published(_P)
        assert await scene.publish("e2", deliver="one", retain=_HOUR) == Published(_P)
        assert await scene.kept() == ["e2"]

    async def test_a_claimant_gets_the_run_with_the_event(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic())

        [published], [claimed] = await scene.store.events.publish([new_event("e1")], scene.claimant())

        assert (published, claimed.run.owner) == (Published(_P, 1), "w1")
        assert [event.payload for event in claimed.inbox.events] == [b"e1"]

    async def test_a_received_event_is_removed_and_an_unknown_one_is_rejected(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(),))
        await scene.publish("e1")
        [event] = (await scene.store.runs.inbox(_R1)).events
        await turn.commit(names=("a",), entries=(step(1, FIRST),), received=(event.number,), waits=())

        assert await scene.events("r1") == []
        before = await snapshot(scene.store)
        with pytest.raises(ValueError, match="has no event"):
            await turn.commit(received=(event.number,))
        assert await snapshot(scene.store) == before

    async def test_a_fenced_commit_receives_nothing(self, scene: Scene, elsewhere: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(),))
        await scene.publish("e1")
        await elsewhere.register()
        await scene.lose_worker("w2")
        await elsewhere.rescue()

        [event] = (await scene.store.runs.inbox(_R1)).events
        await turn.commit(received=(event.number,))

        assert await _receive(await elsewhere.claim_only("r1")) == [b"e1"]

    async def test_numbers_of_an_inbox_only_grow(self, scene: Scene) -> None:
        numbers = []
        turn = await scene.begin("r1")
        for n in range(4):
            await turn.commit(waits=(wait_topic(token=n),))
            await scene.publish(f"e{n}")
            [event] = (await scene.store.runs.inbox(_R1)).events
            numbers.append(event.number)
            await turn.commit(received=(event.number,), waits=())

        assert numbers == sorted(set(numbers))

    async def test_an_event_made_from_other_records_than_there_are_is_not_published(self, scene: Scene) -> None:
        async def change(record_id: str, expected: int, label: str = "x", *, is_open: bool = True) -> None:
            record = NewRecord("note", record_id, "new", b"", (label,), is_open=is_open)
            event = (NewRecordEvent("written"),)
            change = RecordChange(f"{record_id} {expected}", expected, record, event)
            [changed] = await scene.store.records.change([change])
            assert changed.outcome is ChangeOutcome.CHANGED

        def seen(*versions: tuple[str, int], kind: str = "note") -> RecordsSeen:
            return RecordsSeen(kind, "x", versions)

        await scene.waiting("r1", wait_topic())
        await change("ä", 0)
        await change("b", 0)
        await change("b", 1)
        await change("of another label", 0, "y")
        await change("closed", 0, is_open=False)
        before = await snapshot(scene.store)
        both = (("b", 2), ("ä", 1))
        for versions in [(), both[:1], (("b", 1), ("ä", 1)), (*both, ("closed", 1)), (*both, ("of another label", 1))]:
            starts = (new_run("r2"),)
            assert await scene.publish("e1", retain=_HOUR, starts=starts, seen=seen(*versions)) == Published(_S)
        assert await scene.publish("e1", seen=seen(*both, kind="task")) == Published(_S)
        assert await snapshot(scene.store) == before

        assert await scene.publish("e1", seen=seen(*both), starts=(new_run("r2"),)) == Published(_P, 1, (RunId("r2"),))
        assert await scene.publish("e2", seen=seen(kind="task")) == Published(_P)
        assert await scene.publish("e1", seen=seen()) == Published(_D, 1)

    async def test_an_event_starts_runs_in_the_same_transaction(self, scene: Scene) -> None:
        starts = (new_run("r1", key="k", dedup=_HOUR), new_run("r2", key="k", dedup=_HOUR))

        [published], claimed = await scene.store.events.publish([new_event("e1", starts=starts)], scene.claimant())

        assert published == Published(_P, 0, (_R1,))
        assert [one.run.run_id for one in claimed] == ["r1"]
        assert (await scene.publish("e2", starts=(new_run("r3", key="k", dedup=_HOUR),))).started == ()

    async def test_a_run_that_the_event_wakes_and_replaces_is_not_claimed(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic(), key="k")
        starts = (new_run("r2", key="k", on_conflict="replace"),)

        [published], claimed = await scene.store.events.publish([new_event("e1", starts=starts)], scene.claimant())

        assert published == Published(_P, 1, (RunId("r2"),))
        assert [one.run.run_id for one in claimed] == ["r2"]
        assert await scene.status("r1") is RunStatus.CANCELLED

    @pytest.mark.parametrize("publish_first", [True, False])
    async def test_an_event_during_the_commit_of_a_wait_is_never_lost(
        self, scene: Scene, elsewhere: Scene, publish_first: bool
    ) -> None:
        for n in _ROUNDS:
            turn = await scene.begin(f"r{n}")
            park, send = turn.park(wait_topic(since="start")), elsewhere.publish(f"e{n}", retain=_HOUR)

            await asyncio.gather(*((send, park) if publish_first else (park, send)))

            assert await _receive(await scene.claim_only(f"r{n}")) == [f"e{n}".encode()]
            scene.clock.advance(1)

    async def test_an_event_that_two_processes_publish_reaches_one_run_once(
        self, scene: Scene, elsewhere: Scene
    ) -> None:
        for n in range(3):
            await scene.waiting(f"r{n}", wait_topic())

        published = await asyncio.gather(*(one.publish("e1", deliver="one") for one in (scene, elsewhere) * 3))

        assert sorted(one.publication for one in published) == [_D] * 5 + [_P]
        assert {one.reached for one in published} == {1}
        assert [each for n in range(3) for each in await scene.events(f"r{n}")] == ["e1"]


class KeptEventSuite(StoreCase):
    """Events that topics keep."""

    @pytest.mark.parametrize("deliver", ["all", "one"])
    async def test_a_later_wait_takes_kept_events_if_it_asks_for_them(self, scene: Scene, deliver: Deliver) -> None:
        await scene.publish("e1", retain=_HOUR, deliver=deliver)
        scene.clock.advance(1)
        await scene.waiting("r1", wait_topic())
        await scene.waiting("r2", wait_topic(since="start"))
        await scene.waiting("r3", wait_topic(since="all"))

        assert await _receive(await scene.claim_only("r3")) == [b"e1"]
        assert await scene.kept() == (["e1"] if deliver == "all" else [])

    async def test_since_start_means_since_the_run_was_created(self, scene: Scene) -> None:
        await scene.publish("e1", retain=_HOUR)
        scene.clock.advance(1)
        await scene.create("r1")
        scene.clock.advance(1)
        await scene.publish("e2", retain=_HOUR)
        turn = await scene.claim_only("r1")

        assert (await turn.park(wait_topic(since="start"))).is_awake
        assert await _receive(await scene.claim_only("r1")) == [b"e2"]

    async def test_kept_events_come_oldest_first_and_each_once(self, scene: Scene) -> None:
        for n in range(3):
            await scene.publish(f"e{n}", retain=_HOUR, deliver="all" if n % 2 else "one")
        turn = await scene.begin("r1")
        found = []
        for n in range(3):
            assert (await turn.park(wait_topic(since="all", token=n))).is_awake
            turn = await scene.claim_only("r1")
            found += await _receive(turn, is_last=False)

        assert found == [b"e0", b"e1", b"e2"]
        assert not (await turn.park(wait_topic(since="all", token=9))).is_awake

    async def test_a_delivered_event_is_not_taken_from_the_topic_again(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic())
        await scene.publish("e1", retain=_HOUR)
        turn = await scene.claim_only("r1")
        await _receive(turn, is_last=False)

        assert not (await turn.park(wait_topic(since="all", token=2))).is_awake
        assert await scene.kept() == ["e1"]

    async def test_a_one_event_that_was_delivered_is_not_kept(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic())

        await scene.publish("e1", deliver="one", retain=_HOUR)

        assert await scene.kept() == []
        await _receive(await scene.claim_only("r1"))
        await scene.waiting("r2", wait_topic(since="all"))
        assert await scene.events("r2") == []

    async def test_kept_events_are_taken_by_their_facets(self, scene: Scene) -> None:
        for n in range(3):
            await scene.publish(f"e{n}", facets=(f"n={n}",), retain=_HOUR, deliver="one")

        await scene.waiting("r1", wait_topic("news", "n=1", since="all"))

        assert (await scene.events("r1"), await scene.kept()) == (["e1"], ["e0", "e2"])
        await _receive(await scene.claim_only("r1"))

    async def test_an_expired_event_is_not_delivered(self, scene: Scene) -> None:
        await scene.publish("e1", retain=Span(2_000_000))
        scene.clock.advance(1)
        assert await scene.kept() == ["e1"]
        scene.clock.advance(1)

        assert await scene.kept() == []
        await scene.waiting("r1", wait_topic(since="all"))
        assert await scene.events("r1") == []

    async def test_a_delivered_event_does_not_expire(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_topic())
        await scene.publish("e1", retain=_HOUR)
        scene.clock.advance(2 * RETENTION / 1e6)
        await scene.publish("e2")

        await scene.register("w3")
        [claimed] = await scene.store.runs.claim(scene.claimant("w3"))
        assert [event.payload for event in claimed.inbox.events] == [b"e1"]

    async def test_a_full_topic_rejects_events_that_it_must_keep(self, scene: Scene) -> None:
        await scene.publish("e1", retain=_HOUR, room=2)
        await scene.publish("e2", retain=_HOUR, deliver="one", room=2)
        await scene.publish("e9", "sport", retain=_HOUR, room=1)
        await scene.waiting("r1", wait_topic())
        before = await snapshot(scene.store)

        assert await scene.publish("e3", retain=_HOUR, room=2, starts=(new_run("r2"),)) == Published(_F)
        assert await snapshot(scene.store) == before

        assert await scene.publish("e4", deliver="one", retain=_HOUR, room=2) == Published(_P, 1)
        assert await scene.publish("e5", deliver="one", retain=_HOUR, room=2) == Published(_F)
        assert await scene.publish("e6", room=2) == Published(_P)
        scene.clock.advance(3_600)
        assert await scene.publish("e5", deliver="one", retain=_HOUR, room=2) == Published(_P)

    async def test_a_topic_lists_what_it_keeps(self, scene: Scene) -> None:
        await scene.publish("e1", retain=_HOUR, deliver="one")
        await scene.publish("e2", "sport", retain=_HOUR)

        [first, _] = await scene.store.views.list_events(limit=9)
        assert (first.event_id, first.topic, first.deliver) == ("e1", "news", "one")
        assert first.kept_until == Instant(scene.clock.now() + _HOUR)
        assert await scene.kept("sport") == ["e2"]


class UnreadEventSuite(StoreCase):
    """Events that no run received."""

    async def test_an_unread_event_goes_to_the_next_matching_wait(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(), wait_topic("other", at=place(1))))
        await scene.publish("e1")

        assert not (await turn.park(wait_topic("other", at=place(1)))).is_awake
        await scene.publish("e2", "other")
        turn = await scene.claim_only("r1")
        [first, second] = turn.claimed.inbox.events
        applied = await turn.commit(received=(second.number,), waits=(wait_topic(at=place(2)),), move=Park(None))

        assert applied.is_awake
        [event] = (await scene.claim_only("r1")).claimed.inbox.events
        assert (event.number, event.payload, event.locations) == (first.number, b"e1", (FIRST, place(2)))
        assert await scene.publish("e3") == Published(_P)

    @pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
    async def test_unread_one_events_return_to_the_topic_and_all_events_are_dropped(
        self, scene: Scene, status: RunStatus
    ) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(), wait_topic("b", at=place(1)), wait_topic("c", at=place(2))))
        await scene.waiting("r2", wait_topic("b"))
        await scene.publish("e1", deliver="one")
        await scene.publish("e2", "b", deliver="one", retain=_HOUR)
        await scene.publish("e3", "c")
        if status is RunStatus.CANCELLED:
            await scene.cancel("r1", compensate=False)
        else:
            await turn.end(status)

        assert await scene.events("r1") == []
        assert await _receive(await scene.claim_only("r2")) == [b"e2"]
        [kept] = await scene.store.views.list_events(limit=9)
        assert (kept.payload, kept.kept_until) == (b"e1", Instant(scene.clock.now() + RETENTION))
        await scene.waiting("r3", wait_topic(since="all"))
        assert await scene.events("r3") == ["e1"]

    async def test_a_returned_event_does_not_go_to_a_cancelled_child(self, scene: Scene) -> None:
        parent, child = await scene.begin("p1"), child_of("p1", "c1", FIRST)
        assert child.parent is not None
        tied = child._replace(parent=child.parent._replace(tied=True))
        waits = (wait_topic(at=place(1)),)
        applied = await parent.commit(names=("a", "b"), children=(tied,), waits=waits, claimant=scene.claimant())
        await scene.publish("e1", deliver="one", retain=_HOUR)
        await Turn(scene.store, applied.claimed[0]).commit(waits=(wait_topic(),))

        await parent.end()

        assert await scene.status("c1") is RunStatus.CANCELLING
        assert (await scene.events("c1"), await scene.kept()) == ([], ["e1"])

    @pytest.mark.parametrize("count", [1, 2])
    async def test_an_ended_run_leaves_no_receipts(self, scene: Scene, count: int) -> None:
        turns = [await scene.begin(f"r{n}") for n in range(count)]
        for turn in turns:
            await turn.commit(waits=(wait_topic(),))
        await scene.publish("e1", retain=_HOUR)
        for turn in turns:
            [event] = (await scene.store.runs.inbox(turn.run_id)).events
            await turn.commit(received=(event.number,))
        await scene.store.runs.apply([turn.next(move=End(RunStatus.COMPLETED)) for turn in turns])
        await scene.store.workers.retire(scene.incarnation)
        await scene.store.transfers.seal("t1", "there")

        assert [item.receipts for item in await pack_all(scene.store) if isinstance(item, PackedRun)] == [()] * count

    async def test_an_expired_event_does_not_return_to_its_topic(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(),))
        await scene.publish("e1", deliver="one", retain=Span(1_000_000))
        scene.clock.advance(1)
        await turn.end()

        assert await scene.kept() == []

    async def test_unread_events_move_to_the_successor(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_topic(),))
        await scene.publish("e1", deliver="one")
        await scene.publish("e0", retain=_HOUR)
        await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r2")))

        turn = await scene.claim_only("r2")
        [event] = turn.claimed.inbox.events
        assert (event.payload, event.locations) == (b"e1", ())
        await turn.commit(received=(event.number,), waits=(wait_topic(since="all"),))
        assert await scene.events("r2") == ["e0"]
        [event] = (await scene.store.runs.inbox(RunId("r2"))).events
        await turn.commit(received=(event.number,), move=End(RunStatus.CONTINUED, successor=new_run("r3")))
        turn = await scene.claim_only("r3")
        assert not (await turn.park(wait_topic(since="all"))).is_awake

    async def test_no_event_is_lost_when_its_run_completes_concurrently(self, scene: Scene, elsewhere: Scene) -> None:
        for n in _ROUNDS:
            turn = await scene.begin(f"r{n}")
            await turn.commit(waits=(wait_topic(),))
            ends, send = turn.end(), elsewhere.publish(f"e{n}", deliver="one", retain=_HOUR)

            await asyncio.gather(*((ends, send) if n % 2 else (send, ends)))

            assert await scene.kept() == [f"e{m}" for m in range(n + 1)]
            assert await scene.status(f"r{n}") is RunStatus.COMPLETED
