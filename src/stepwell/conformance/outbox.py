"""The outbox: events are written with their commit, handed out in order, and kept until they are settled."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from stepwell.clock import SECOND, Instant, Span, to_datetime
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, Turn, child_of, new_run, place, step
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import LeaseLostError
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.commits import BeginRollback, End, Park, Verdict
from stepwell.model.locations import subtree
from stepwell.model.outbox import ANNOUNCED, Announce, Emit, Owed, Settled, Unsent, ended_event_id
from stepwell.model.states import RunStatus
from stepwell.stores.base.outbox import Batch
from stepwell.stores.base.overviews import SinkUse
from stepwell.stores.base.wakeups import Hint, HintKind

ALL = Announce(dict.fromkeys(ANNOUNCED, ("s",)))


def emit(event_id: str, *sinks: str, **changes: Any) -> Emit:
    """An event that is owed to these sinks."""
    return Emit(EventId(event_id), "paid", "pay", b"\x00" + event_id.encode(), Instant(7), sinks)._replace(**changes)


async def take(scene: Scene, sink: str = "s", *, keep: tuple[int, ...] = (), limit: int = 9) -> list[Batch]:
    """Take what a sink is owed and is due."""
    return await scene.store.outbox.take(scene.incarnation, sink, limit=limit, batch_max=3, keep=keep)


def ids(batch: Batch | list[Owed]) -> list[str]:
    """The ids of events."""
    return [owed.event_id for owed in batch]


async def owed(scene: Scene, *, is_dead: bool = False) -> list[str]:
    """Everything that is owed, or all dead letters, as event and sink."""
    return [f"{one.event_id}>{one.sink}" for one in await scene.store.outbox.list_owed(is_dead=is_dead, limit=99)]


async def settle(scene: Scene, batch: Batch, *, sent: int = 0, unsent: Span | bool | None = False) -> bool:
    """Settle a batch: its first `sent` events were sent; the next failed, and is retried or becomes a dead letter."""
    failed = None if unsent is False else Unsent(batch[sent].number, "no", Span(unsent) if unsent is not None else None)
    numbers = tuple(one.number for one in batch[:sent])
    [counts] = await scene.store.outbox.settle(scene.incarnation, [Settled(batch[0].number, numbers, failed)])
    return counts


async def emitted(scene: Scene, *events: str, run_id: str = "r1", sinks: tuple[str, ...] = ("s",)) -> Turn:
    """A run that has emitted these events."""
    turn = await scene.begin(run_id)
    await turn.commit(emits=tuple(emit(one, *sinks) for one in events))
    return turn


def _text(instant: Instant | None) -> str | None:
    return None if instant is None else msgspec.to_builtins(to_datetime(instant))


class EmitSuite(StoreCase):
    """`apply`: events are written only with their commit."""

    async def test_an_event_is_owed_to_each_of_its_sinks_byte_by_byte(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        event = emit("e1", "s", "t", path="ä/b", payload=bytes(range(256)), at=Instant(2**53 + 1))

        await turn.commit(entries=(step(1, place(0)),), names=("a",), emits=(event, emit("e2")))

        [[first]], [[second]] = await take(scene), await take(scene, "t")
        assert first == Owed(first.number, "s", *event[:5], RunId("r1"), "flow", "k")
        assert second == first._replace(number=second.number, sink="t")
        assert await take(scene, "u") == []
        assert await owed(scene) == ["e1>s", "e1>t"]

    async def test_a_repeated_commit_owes_events_once(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        commit = turn.next(emits=(emit("e1", "s"),))

        assert (await turn.send(commit)).verdict is Verdict.APPLIED
        before = await snapshot(scene.store)
        assert (await turn.send(commit)).verdict is Verdict.APPLIED

        assert await snapshot(scene.store) == before

    async def test_a_fenced_commit_owes_nothing(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        stale = turn.next(emits=(emit("e1", "s"),), move=End(RunStatus.COMPLETED), announce=ALL)
        commit = stale._replace(fence=stale.fence._replace(epoch=7))

        assert (await turn.send(commit)).verdict is Verdict.FENCED
        assert await owed(scene) == []

    async def test_a_commit_rejected_by_a_cancel_owes_nothing(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a", undo=b"u")
        await scene.cancel("r1")

        refused = await turn.commit(emits=(emit("e1", "s"),), move=Park(None), announce=ALL)

        assert refused.verdict is Verdict.CANCELLING
        assert await owed(scene) == []
        await turn.commit(emits=(emit("e1", "s"),), move=BeginRollback("cancelled", None))
        assert await owed(scene) == ["e1>s"]

    async def test_a_rejected_commit_owes_nothing(self, scene: Scene) -> None:
        turn = await scene.begin("r1")

        with pytest.raises(ValueError, match="expects entry"):
            await turn.commit(entries=(step(5, place(0)),), emits=(emit("e1", "s"),))

        assert await owed(scene) == []

    async def test_events_outlive_their_run_and_its_trims(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(entries=(step(1, place(0)),), names=("a",), emits=(emit("e1", "s"),))
        await turn.commit(trims=(subtree(place(0)),), emits=(emit("e2", "s"),))
        await turn.end()

        assert [ids(batch) for batch in await take(scene)] == [["e1", "e2"]]

    async def test_emitted_events_send_a_hint(self, scene: Scene) -> None:
        hints: list[Hint] = []
        turn = await scene.begin("r1")
        stop = scene.store.wakeups.listen(hints.append)

        await turn.commit(emits=(emit("e1", "s"),))
        await asyncio.sleep(0)

        assert Hint(HintKind.OWED, (RunId("r1"),)) in hints
        stop()


class TakeSuite(StoreCase):
    """`take`: due events, for one worker at a time, in the order of the run."""

    async def test_a_run_s_events_come_in_one_batch_in_their_order(self, scene: Scene) -> None:
        turn = await emitted(scene, "e2", "e1")
        await turn.commit(emits=(emit("e4", "s"), emit("e3", "s")))

        assert [ids(batch) for batch in await take(scene)] == [["e2", "e1", "e4"]]

    async def test_what_is_due_longest_comes_first_and_no_more_than_the_limit(self, scene: Scene) -> None:
        for n in (2, 3, 1):
            await emitted(scene, f"e{n}", run_id=f"r{n}")
            scene.clock.advance(1)

        assert [ids(batch) for batch in await take(scene, limit=2)] == [["e2"], ["e3"]]
        assert [ids(batch) for batch in await take(scene, limit=0)] == []

    async def test_no_other_worker_gets_a_taken_batch_or_later_events(self, scene: Scene, elsewhere: Scene) -> None:
        await elsewhere.register()
        turn = await emitted(scene, "e1")
        [batch] = await take(scene)

        await turn.commit(emits=(emit("e2", "s"),))
        assert await take(elsewhere) == []
        assert await scene.store.outbox.next_due("s") is None
        assert await settle(scene, batch, sent=1)

        assert [ids(one) for one in await take(elsewhere)] == [["e2"]]

    async def test_other_runs_and_sinks_are_not_blocked(self, scene: Scene, elsewhere: Scene) -> None:
        await elsewhere.register()
        await emitted(scene, "e1", sinks=("s", "t"))
        await take(scene)

        await emitted(scene, "e2", run_id="r2")

        assert [ids(one) for one in await take(elsewhere)] == [["e2"]]
        assert [ids(one) for one in await take(elsewhere, "t")] == [["e1"]]

    async def test_a_lost_answer_is_handed_out_again(self, scene: Scene) -> None:
        await emitted(scene, "e1")
        [lost] = await take(scene)

        assert await take(scene) == [lost]
        assert await take(scene, keep=(lost[0].number,)) == []
        assert await take(scene, "t") == []

    async def test_only_a_live_worker_takes(self, scene: Scene) -> None:
        await emitted(scene, "e1")
        await scene.lose_worker()

        with pytest.raises(LeaseLostError):
            await take(scene)

    async def test_a_rescue_makes_the_batches_of_dead_workers_due(self, scene: Scene, elsewhere: Scene) -> None:
        await emitted(scene, "e1", "e2")
        [batch] = await take(scene)
        await scene.lose_worker()
        await elsewhere.register()
        assert await take(elsewhere) == []
        assert await scene.store.views.has_stranded()

        await elsewhere.rescue()

        assert await scene.store.outbox.next_due("s") == scene.clock.now()
        assert [ids(one) for one in await take(elsewhere)] == [["e1", "e2"]]
        assert not await settle(scene, batch, sent=2)
        assert await owed(scene) == ["e1>s", "e2>s"]

    async def test_a_retired_worker_leaves_its_batches_due(self, scene: Scene, elsewhere: Scene) -> None:
        await elsewhere.register()
        await emitted(scene, "e1")
        await take(scene)

        await scene.store.workers.retire(scene.incarnation)

        assert [ids(one) for one in await take(elsewhere)] == [["e1"]]

    async def test_each_batch_goes_to_one_worker(self, scene: Scene, elsewhere: Scene) -> None:
        await elsewhere.register()
        for n in range(12):
            await emitted(scene, f"e{n:02}", run_id=f"r{n:02}")

        answers = await asyncio.gather(*(take(one, limit=2) for _ in range(4) for one in (scene, elsewhere)))

        # A worker may get a batch twice: a later call repeats the batches of an earlier one.
        mine = {one.event_id for batches in answers[::2] for batch in batches for one in batch}
        theirs = {one.event_id for batches in answers[1::2] for batch in batches for one in batch}
        assert not mine & theirs


class SettleSuite(StoreCase):
    """`settle`: sent, to be retried, dead, or returned."""

    async def test_sent_events_are_deleted_and_the_next_is_due(self, scene: Scene) -> None:
        await emitted(scene, "e1", "e2", "e3", "e4")
        [batch] = await take(scene)

        assert await settle(scene, batch, sent=3)

        assert await owed(scene) == ["e4>s"]
        assert await scene.store.outbox.next_due("s") == scene.clock.now()
        [[last]] = await take(scene)
        assert await settle(scene, (last,), sent=1)
        assert await owed(scene) == []

    async def test_a_failed_attempt_is_due_later_and_blocks_later_events(self, scene: Scene) -> None:
        await emitted(scene, "e1", "e2", "e3")
        [batch] = await take(scene)

        assert await settle(scene, batch, sent=1, unsent=Span(5 * SECOND))

        assert await take(scene) == []
        assert await scene.store.outbox.next_due("s") == scene.clock.now() + 5 * SECOND
        scene.clock.advance(5)
        [[second, third]] = await take(scene)
        assert (second.event_id, second.attempts, second.failure) == ("e2", 1, "no")
        assert (third.event_id, third.attempts) == ("e3", 0)

    async def test_a_dead_letter_blocks_no_other_event(self, scene: Scene) -> None:
        await emitted(scene, "e1", "e2")
        [batch] = await take(scene)

        assert await settle(scene, batch, unsent=None)

        assert (await owed(scene), await owed(scene, is_dead=True)) == (["e2>s"], ["e1>s"])
        [dead] = await scene.store.outbox.list_owed(is_dead=True, limit=9)
        assert (dead.died_at, dead.attempts, dead.failure) == (scene.clock.now(), 1, "no")
        assert [ids(one) for one in await take(scene)] == [["e2"]]

    async def test_what_each_sink_is_owed_is_counted(self, scene: Scene) -> None:
        at = Instant(7)
        turn = await emitted(scene, "e1", "e2")
        await turn.commit(emits=(emit("e3", "t"), emit("e4", "s")))
        [batch] = await take(scene)
        await settle(scene, batch, unsent=None)
        [batch] = await take(scene)
        await settle(scene, batch, unsent=Span(SECOND))

        assert await scene.store.overviews.tally_owed(limit=99) == [
            SinkUse("s", 2, 1, 1, at, "no"),
            SinkUse("t", 1, 0, 0, at, ""),
        ]
        assert await scene.store.overviews.tally_owed(limit=1) == [SinkUse("s", 0, 0, 1, None, "no")]

    async def test_a_returned_batch_is_due_unchanged(self, scene: Scene) -> None:
        await emitted(scene, "e1", "e2")
        [batch] = await take(scene)

        assert await settle(scene, batch)

        assert await take(scene) == [batch]

    async def test_settling_twice_counts_once(self, scene: Scene) -> None:
        await emitted(scene, "e1", "e2")
        [batch] = await take(scene)
        assert await settle(scene, batch, unsent=Span(SECOND))
        before = await snapshot(scene.store)

        assert not await settle(scene, batch, unsent=Span(SECOND))
        assert not await settle(scene, batch, sent=2)

        assert await snapshot(scene.store) == before

    async def test_a_number_is_never_used_again(self, scene: Scene) -> None:
        turn = await emitted(scene, "e1")
        [first] = await take(scene)
        await settle(scene, first, sent=1)

        await turn.commit(emits=(emit("e2", "s"),))
        [second] = await take(scene)

        assert second[0].number > first[0].number
        assert not await settle(scene, first, sent=1)
        assert await owed(scene) == ["e2>s"]

    async def test_an_unknown_worker_settles_nothing(self, scene: Scene) -> None:
        await emitted(scene, "e1")
        [batch] = await take(scene)
        settled = [Settled(batch[0].number, (batch[0].number,))]

        assert await scene.store.outbox.settle(Incarnation("unknown"), settled) == [False]
        assert await owed(scene) == ["e1>s"]


class DeadLetterSuite(StoreCase):
    """`replay` and `drop`: what operators do with events that could not be sent."""

    async def _bury(self, scene: Scene, *events: str) -> Turn:
        turn = await emitted(scene, *events)
        for _ in events:
            [batch] = await take(scene)
            await settle(scene, batch, unsent=None)
        return turn

    async def test_a_replayed_letter_goes_behind_what_its_run_owes(self, scene: Scene) -> None:
        turn = await self._bury(scene, "e1")
        await turn.commit(emits=(emit("e2", "s"),))

        assert await scene.store.outbox.replay(EventId("e1"), by="me") == 1

        [[second, first]] = await take(scene)
        assert (ids([second, first]), first.attempts, first.failure) == (["e2", "e1"], 0, "")
        assert await owed(scene, is_dead=True) == []
        [act] = await scene.store.views.list_audit(RunId("r1"))
        assert (act.verb, act.by, act.reason) == ("replay_event", "me", "paid to s")

    async def test_a_replayed_letter_of_a_run_that_owes_nothing_is_due(self, scene: Scene) -> None:
        await self._bury(scene, "e1")

        assert await scene.store.outbox.replay(EventId("e1"), "t", by="") == 0
        assert await scene.store.outbox.replay(EventId("e1"), "s", by="") == 1
        assert await scene.store.outbox.replay(EventId("e1"), "s", by="") == 0

        assert await scene.store.outbox.next_due("s") == scene.clock.now()
        assert [ids(batch) for batch in await take(scene)] == [["e1"]]

    async def test_a_dropped_event_is_deleted_and_the_next_is_due(self, scene: Scene) -> None:
        await self._bury(scene, "e1")
        await emitted(scene, "e2", "e3", run_id="r2", sinks=("s", "t"))

        assert await scene.store.outbox.drop(EventId("e1"), by="me") == 1
        assert await scene.store.outbox.drop(EventId("e2"), "s", by="me") == 1

        assert (await owed(scene), await owed(scene, is_dead=True)) == (["e2>t", "e3>s", "e3>t"], [])
        assert [ids(batch) for batch in await take(scene)] == [["e3"]]
        assert [act.verb for act in await scene.store.views.list_audit(RunId("r2"))] == ["drop_event"]

    async def test_a_taken_event_is_not_dropped(self, scene: Scene) -> None:
        await emitted(scene, "e1")
        await take(scene)

        assert await scene.store.outbox.drop(EventId("e1"), by="") == 0
        assert await owed(scene) == ["e1>s"]

    @pytest.mark.parametrize("is_sent", [True, False])
    async def test_a_batch_is_settled_though_a_later_one_of_it_was_dropped(self, scene: Scene, is_sent: bool) -> None:
        await emitted(scene, "e1", "e2", "e3")
        [[first, second, *_]] = await take(scene)
        await scene.store.outbox.drop(EventId("e2"), by="me")

        sent, unsent = (first.number, second.number), Unsent(second.number, "no", Span(5))
        settled = Settled(first.number, sent) if is_sent else Settled(first.number, sent[:1], unsent)
        assert await scene.store.outbox.settle(scene.incarnation, [settled]) == [True]

        assert await owed(scene) == ["e3>s"]
        assert await scene.store.outbox.next_due("s") == scene.clock.now()

    async def test_listings_have_pages(self, scene: Scene) -> None:
        await emitted(scene, "e1", "e2", "e3")

        [first, second] = await scene.store.outbox.list_owed(is_dead=False, limit=2)
        [third] = await scene.store.outbox.list_owed(is_dead=False, limit=2, after=second.number)

        assert ids([first, second, third]) == ["e1", "e2", "e3"]
        assert await scene.store.outbox.list_owed(is_dead=True, limit=9) == []


class LifecycleSuite(StoreCase):
    """`announce`: the end of a run is an event without payloads of the run."""

    async def _told(self, scene: Scene) -> list[tuple[str, str]]:
        return [(one.run_id, one.name) for one in await scene.store.outbox.list_owed(is_dead=False, limit=99)]

    @pytest.mark.parametrize("status", ANNOUNCED)
    async def test_every_end_is_announced_without_payloads(self, scene: Scene, status: RunStatus) -> None:
        turn = await scene.begin("r1", key="k")
        if status is RunStatus.COMPENSATED:
            await turn.roll_back()
        scene.clock.advance(1)

        await turn.commit(emits=(emit("e1", "s"),), move=End(status, b"output", b"failure"), announce=ALL)

        [[_, told]] = await take(scene)
        run = await scene.run("r1")
        assert (told.name, told.run_id, told.workflow, told.key) == (f"stepwell.run.{status.value}", "r1", "flow", "k")
        assert told.event_id == ended_event_id(run.run_id, run.created_at, run.epoch)
        assert msgspec.json.decode(told.payload[1:]) == {
            "status": status.value,
            "version": 1,
            "generation": 1,
            "created_at": _text(run.created_at),
            "started_at": _text(run.started_at),
            "ended_at": _text(run.ended_at),
        }

    async def test_nothing_is_announced_without_a_subscription(self, scene: Scene) -> None:
        await (await scene.begin("r1")).end()
        await scene.create("r2")
        await scene.cancel("r2")
        turn = await scene.begin("r3")
        await turn.commit(move=End(RunStatus.COMPLETED), announce=Announce({RunStatus.FAILED: ("s",)}))

        assert await self._told(scene) == []

    async def test_a_chain_is_announced_once(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        for successor in ("r2", "r3"):
            await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run(successor)), announce=ALL)
            turn = await scene.claim_only(successor)
        assert await self._told(scene) == []

        await turn.commit(move=End(RunStatus.COMPLETED), announce=ALL)

        assert await self._told(scene) == [("r3", "stepwell.run.completed")]

    async def test_an_incomplete_rollback_is_not_announced(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.roll_back()
        await turn.commit(move=End(RunStatus.COMPENSATION_FAILED), announce=ALL)

        assert await self._told(scene) == []

    async def test_a_cancel_announces_each_run_that_it_ends(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        await scene.begin_child(parent, "c1")
        await scene.begin_child(parent, "c2", place(1))

        await scene.store.runs.cancel(RunId("p1"), compensate=False, reason="", announce=ALL)
        await scene.store.runs.cancel(RunId("p1"), compensate=False, reason="", announce=ALL)

        assert sorted(await self._told(scene)) == [(run, "stepwell.run.cancelled") for run in ("c1", "c2", "p1")]

    async def test_children_that_end_with_a_commit_of_their_parent_are_announced(self, scene: Scene) -> None:
        await scene.create("r9", key="taken", delay=Span(SECOND))
        parent = await scene.begin("p1")
        children = (child_of("p1", "c1", place(0)), child_of("p1", "c2", place(1), key="taken"))
        await parent.commit(names=("a", "b"), children=children, announce=ALL)
        assert await self._told(scene) == [("c2", "stepwell.run.failed")]

        await parent.commit(trims=(subtree(place(0)),), announce=ALL)

        assert ("c1", "stepwell.run.cancelled") in await self._told(scene)

    async def test_a_run_that_is_retried_ends_with_another_event(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(move=End(RunStatus.FAILED), announce=ALL)
        await scene.store.runs.retry(RunId("r1"), by="")
        turn = await scene.claim_only("r1")
        await turn.commit(move=End(RunStatus.FAILED), announce=ALL)

        [[first, second]] = await take(scene)
        assert first.event_id != second.event_id
