"""The store's own time."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import LEASE, Scene, wait_timer
from stepwell.ids import Incarnation
from stepwell.model.states import RunStatus


class TimeSuite(StoreCase):
    """`now`, which never goes back."""

    async def test_the_stores_time_follows_the_clock(self, scene: Scene) -> None:
        assert scene.store.now() == scene.clock.now()
        scene.clock.advance(5)
        assert scene.store.now() == scene.clock.now()

    async def test_time_does_not_go_back_with_the_clock(self, scene: Scene) -> None:
        await scene.create("r1")
        shown = scene.store.now()
        scene.clock.jump_back(60)

        behind = scene.store.now()
        assert behind >= shown
        await scene.create("r2")
        assert (await scene.run("r2")).created_at >= behind
        assert scene.store.now() >= behind
        scene.clock.advance(61)
        assert scene.store.now() >= scene.clock.now()
        assert scene.store.now() > behind

    async def test_another_process_is_never_behind_stored_instants(self, scene: Scene, elsewhere: Scene) -> None:
        await scene.create("r1")
        stored = (await scene.run("r1")).created_at
        scene.clock.jump_back(60)

        await elsewhere.create("r2")

        assert (await elsewhere.run("r2")).created_at >= stored
        assert elsewhere.store.now() >= stored

    async def test_a_clock_set_back_neither_fires_timers_early_nor_loses_leases(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        due = Instant(scene.clock.now() + 5_000_000)
        await turn.park(wait_timer(due), wake_at=due)
        scene.clock.jump_back(3600)

        assert await scene.claim() == []
        await scene.store.workers.renew(Incarnation("w1"), LEASE)
        scene.clock.advance("4999999us")
        assert await scene.claim() == []
        await scene.store.workers.renew(Incarnation("w1"), LEASE)
        scene.clock.advance(3601)  # by then the time of every store has passed the timer
        assert scene.store.now() >= due
        await scene.register("w2")
        assert (await scene.claim_only("r1", "w2")).claimed.run.status is RunStatus.RUNNING

    async def test_a_clock_set_forward_fires_each_timer_once(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        due = Instant(scene.clock.now() + 5_000_000)
        await turn.park(wait_timer(due), wake_at=due)
        scene.clock.advance(3600)
        await scene.register("w2")

        await scene.claim_only("r1", "w2")
        scene.clock.jump_back(3600)

        assert await scene.claim("w2") == []
