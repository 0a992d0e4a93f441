"""What people need to handle what could not be handled: who gave up, another payload, a reason."""

from __future__ import annotations

from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FIRST, Scene, step, wait_signal
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.outbox import Emit, Settled, Unsent
from stepwell.model.signals import Refusal
from stepwell.model.states import RunStatus


class LetterSuite(StoreCase):
    """Events that gave up, and signals that were refused."""

    async def _dead(self, scene: Scene, *names: str) -> None:
        turn = await scene.begin("r1")
        emits = tuple(Emit(EventId(name), "n", "a", b"x", scene.store.now(), ("s",)) for name in names)
        await turn.commit(names=("a",), entries=(step(1, FIRST),), emits=emits)
        for _ in names:
            [[owed, *_]] = await scene.store.outbox.take(Incarnation("w1"), "s", limit=1, batch_max=9)
            gone = Settled(owed.number, (), Unsent(owed.number, "no", None))
            await scene.store.outbox.settle(Incarnation("w1"), [gone])

    async def test_a_dead_event_names_the_worker_that_gave_up(self, scene: Scene) -> None:
        await self._dead(scene, "e1")

        [dead] = await scene.store.outbox.list_owed(is_dead=True, limit=9)
        assert (dead.event_id, dead.died_by, dead.failure) == ("e1", "w1", "no")

    async def test_an_event_is_replayed_with_another_payload(self, scene: Scene) -> None:
        await self._dead(scene, "e1", "e2")

        assert await scene.store.outbox.replay(EventId("e1"), by="ann", payload=b"new") == 1
        assert await scene.store.outbox.replay(EventId("e2"), by="ann") == 1

        owed = await scene.store.outbox.list_owed(is_dead=False, limit=9)
        assert [(one.event_id, one.payload, one.died_by) for one in owed] == [("e1", b"new", ""), ("e2", b"x", "")]

    async def test_the_reason_of_a_drop_is_in_the_audit(self, scene: Scene) -> None:
        await self._dead(scene, "e1")

        assert await scene.store.outbox.drop(EventId("e1"), by="ann", reason="sent twice") == 1

        [act] = await scene.store.views.list_audit(RunId("r1"))
        assert (act.verb, act.by, act.reason) == ("drop_event", "ann", "n to s: sent twice")

    async def _refused(self, scene: Scene, *signals: str) -> None:
        await scene.waiting("r1", wait_signal("go"))
        for one in signals:
            await scene.send(one, "r1")
        turn = await scene.claim_only("r1")
        pending = turn.claimed.inbox.signals
        await turn.commit(refused=tuple(Refusal(signal.number, "no") for signal in pending))
        await scene.send("unread", "r1")
        await turn.end()

    async def test_refused_signals_are_listed_alone_and_in_pages(self, scene: Scene) -> None:
        await self._refused(scene, "s1", "s2")
        views = scene.store.views

        everything = await views.list_unread(limit=9)
        assert [one.signal.payload for one in everything] == [b"s1", b"s2", b"unread"]
        refused = await views.list_unread(limit=9, is_refused=True)
        assert [(one.signal.payload, one.refused_by) for one in refused] == [(b"s1", "w1"), (b"s2", "w1")]
        first, second = refused
        assert await views.list_unread(limit=9, after=first.signal.number, is_refused=True) == [second]
        assert await views.list_unread(limit=1) == [first]

    async def test_a_refused_or_unread_signal_is_dropped_once_with_a_reason(self, scene: Scene) -> None:
        await self._refused(scene, "s1")
        first, unread = await scene.store.views.list_unread(limit=9)

        drop = scene.store.signals.drop
        assert await drop(first.signal.number, by="ann", reason="noise")
        assert not await drop(first.signal.number, by="ann", reason="noise")
        assert await drop(unread.signal.number, by="ann")
        assert not await drop(99, by="ann")

        assert await scene.store.views.list_unread(limit=9) == []
        acts = await scene.store.views.list_audit(RunId("r1"))
        assert [(act.verb, act.reason) for act in acts] == [("drop_signal", "go: noise"), ("drop_signal", "go")]
        assert (await scene.send("s1", "r1")).delivery.value == "duplicate"

    async def test_a_pending_signal_is_not_dropped(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_signal("other"))
        await scene.send("s1", "r1")
        [signal] = (await scene.store.runs.inbox(RunId("r1"))).signals

        assert not await scene.store.signals.drop(signal.number, by="ann")
        assert await scene.mail("r1") == ["s1"]
        assert await scene.status("r1") is RunStatus.WAITING
