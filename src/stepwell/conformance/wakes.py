"""Signals and waits: no wake-up is lost."""

from __future__ import annotations

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, new_signal, wait_signal, wait_timer
from stepwell.ids import RunId
from stepwell.model.commits import Applied, Park, Pause, Verdict
from stepwell.model.signals import Delivered, Delivery
from stepwell.model.states import RunStatus

_R1 = RunId("r1")


class WakeSuite(StoreCase):
    """Whether the signal or the wait comes first, the run wakes once and has the signal."""

    async def test_a_signal_before_the_wait_keeps_the_run_awake(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        assert await scene.send("s1", "r1") == Delivered(Delivery.DELIVERED, _R1)

        parked = await turn.park(wait_signal("go"))

        assert parked == Applied(Verdict.APPLIED, revision=1, is_awake=True)
        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at) == (RunStatus.WAITING, None, scene.clock.now())
        again = await scene.claim_only("r1")
        assert [signal.payload for signal in again.claimed.inbox.signals] == [b"s1"]

    async def test_a_signal_after_the_wait_wakes_the_run(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        parked = await turn.park(wait_signal("go"))
        assert parked == Applied(Verdict.APPLIED, revision=1)
        assert await scene.claim() == []
        scene.clock.advance(1)

        assert await scene.send("s1", "r1") == Delivered(Delivery.DELIVERED, _R1, woke=True)

        run = await scene.run("r1")
        assert (run.status, run.wake_at) == (RunStatus.WAITING, scene.clock.now())
        assert [signal.payload for signal in (await scene.claim_only("r1")).claimed.inbox.signals] == [b"s1"]

    async def test_a_signal_without_a_matching_wait_is_only_stored(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        due = Instant(scene.clock.now() + 5)
        await scene.send("s1", "r1", "other")

        assert not (await turn.park(wait_signal("go", "stop"), wait_timer(due), wake_at=due)).is_awake
        assert await scene.send("s2", "r1", "another") == Delivered(Delivery.DELIVERED, _R1)
        assert (await scene.run("r1")).wake_at == due
        assert (await scene.send("s3", "r1", "stop")).woke

    @pytest.mark.parametrize("before", [True, False])
    async def test_a_wait_without_names_takes_any_signal(self, scene: Scene, before: bool) -> None:
        turn = await scene.begin("r1")
        if before:
            await scene.send("s1", "r1", "whatever")
            assert (await turn.park(wait_signal())).is_awake
        else:
            await turn.park(wait_signal())
            assert (await scene.send("s1", "r1", "whatever")).woke

    async def test_a_consumed_signal_does_not_keep_the_run_awake(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1")
        [signal] = turn_inbox = (await scene.store.runs.inbox(_R1)).signals
        assert len(turn_inbox) == 1

        parked = await turn.commit(consumed=(signal.number,), waits=(wait_signal("go"),), move=Park(None))

        assert not parked.is_awake
        assert await scene.claim() == []

    async def test_a_run_that_is_due_already_keeps_its_place(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        due = Instant(scene.clock.now() + 1_000_000)
        await turn.park(wait_signal(), wait_timer(due), wake_at=due)
        scene.clock.advance(3)

        assert (await scene.send("s1", "r1")).woke

        assert (await scene.run("r1")).wake_at == due

    async def test_a_delivery_claims_what_it_wakes(self, scene: Scene) -> None:
        for run_id in ("r1", "r2", "r3"):
            await (await scene.begin(run_id)).park(wait_signal())
        signals = [new_signal("s1", "r1"), new_signal("s2", "r2"), new_signal("s3", "r1"), new_signal("s4", "r3")]

        delivered, claimed = await scene.store.signals.deliver(signals, scene.claimant(limit=2))

        assert [one.delivery for one in delivered] == [Delivery.DELIVERED] * 4
        assert [(one.run.run_id, one.run.epoch, one.run.owner) for one in claimed] == [
            ("r1", 2, scene.incarnation),
            ("r2", 2, scene.incarnation),
        ]
        assert [signal.payload for signal in claimed[0].inbox.signals] == [b"s1", b"s3"]
        assert await scene.status("r1") is RunStatus.RUNNING
        assert (await scene.run("r3")).wake_at == scene.clock.now()

    async def test_a_delivery_for_a_dead_worker_only_wakes(self, scene: Scene) -> None:
        await (await scene.begin("r1")).park(wait_signal())
        await scene.create("r2")
        scene.clock.advance(10)

        _, claimed = await scene.store.signals.deliver(
            [new_signal("s1", "r1"), new_signal("s2", "r2")], scene.claimant()
        )

        assert claimed == []
        assert (await scene.run("r1")).wake_at == scene.clock.now()

    async def test_pending_running_paused_and_cancelling_runs_only_get_it_stored(self, scene: Scene) -> None:
        await scene.begin("running")
        await (await scene.begin("paused")).commit(waits=(wait_signal(),), move=Pause(b"x"))
        await scene.begin("cancelling")
        await scene.store.runs.cancel(RunId("cancelling"), compensate=True, reason="")
        await scene.create("pending")

        for run_id in ("pending", "running", "paused", "cancelling"):
            before = await scene.run(run_id)
            assert await scene.send(f"to-{run_id}", run_id) == Delivered(Delivery.DELIVERED, RunId(run_id))
            assert await scene.run(run_id) == before
            assert await scene.mail(run_id) == [f"to-{run_id}"]

    async def test_a_compensating_run_wakes_only_for_what_its_waits_name(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_signal(),))
        await turn.roll_back()
        due = Instant(scene.clock.now() + 1_000_000)
        await scene.send("s1", "r1", "early")
        assert not (await turn.park(wait_timer(due), wake_at=due)).is_awake
        assert not (await scene.send("s2", "r1")).woke
        assert (await scene.run("r1")).wake_at == due

        scene.clock.advance(1)
        turn = await scene.claim_only("r1")
        assert not (await turn.park(wait_signal("undo"))).is_awake
        assert not (await scene.send("s3", "r1", "go")).woke
        assert (await scene.send("s4", "r1", "undo")).woke
        assert await scene.status("r1") is RunStatus.COMPENSATING

    async def test_a_run_that_was_just_claimed_blocks_no_other_run(self, scene: Scene) -> None:
        for run_id, priority in (("urgent", 1), ("r1", 0)):
            turn = await scene.begin(run_id, priority=priority)
            await turn.park(wait_signal("go"))

        signals = [new_signal("s1", "urgent"), new_signal("s2", "r1")]
        _, claimed = await scene.store.signals.deliver(signals, scene.claimant())

        assert [one.run.run_id for one in claimed] == ["urgent", "r1"]
