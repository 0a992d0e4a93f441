"""Workers, leases, and runs of dead workers."""

from __future__ import annotations

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FLOW, LEASE, Scene, place, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import LeaseLostError
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Release, Verdict
from stepwell.model.entries import Attempt
from stepwell.model.failures import decode_failure
from stepwell.model.states import RunStatus
from stepwell.model.workers import NewWorker, Renewed, Worker

_W1 = Incarnation("w1")


class LeaseSuite(StoreCase):
    """`register`, `renew` and `retire`."""

    async def test_a_worker_is_registered_with_a_lease_from_now(self, scene: Scene) -> None:
        new = NewWorker(Incarnation("w9"), "näme", LEASE, ("a@1", "b@2"))

        worker = await scene.store.workers.register(new)

        now = scene.clock.now()
        assert worker == Worker(Incarnation("w9"), "näme", now, Instant(now + LEASE), ("a@1", "b@2"))
        assert worker in await scene.store.views.list_workers()

    async def test_a_repeated_registration_renews_the_lease(self, scene: Scene) -> None:
        before = (await scene.store.views.list_workers())[0]
        scene.clock.advance(4)

        again = await scene.register()

        assert again == before._replace(lease_until=Instant(scene.clock.now() + LEASE))
        assert await scene.store.views.list_workers() == [again]

    async def test_repeating_a_registration_does_not_revive_it(self, scene: Scene) -> None:
        scene.clock.advance(10)
        before = await snapshot(scene.store)

        with pytest.raises(LeaseLostError):
            await scene.register()
        assert await snapshot(scene.store) == before

    async def test_a_live_lease_is_renewed_from_now(self, scene: Scene) -> None:
        scene.clock.advance("9999999us")

        renewed = await scene.store.workers.renew(_W1, LEASE)

        assert renewed == Renewed(Instant(scene.clock.now() + LEASE))
        [worker] = await scene.store.views.list_workers()
        assert worker.lease_until == renewed.lease_until

    async def test_a_renewal_counts_the_runs_of_the_worker(self, scene: Scene) -> None:
        await scene.begin("r1")
        await scene.begin("r2")

        assert (await scene.store.workers.renew(_W1, LEASE)).owned == 2
        await scene.store.runs.relinquish(_W1, [RunId("r1")])
        assert (await scene.store.workers.renew(_W1, LEASE)).owned == 1

    async def test_an_expired_lease_is_never_revived(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        scene.clock.advance(10)
        before = await snapshot(scene.store)

        for incarnation in (_W1, Incarnation("unknown")):
            with pytest.raises(LeaseLostError):
                await scene.store.workers.renew(incarnation, LEASE)
        assert await snapshot(scene.store) == before

        assert await scene.rescue() == ["r1"]
        with pytest.raises(LeaseLostError):
            await scene.store.workers.renew(_W1, LEASE)
        assert (await turn.record("a")).verdict is Verdict.FENCED

    async def test_a_renewal_lists_the_cancelling_runs(self, scene: Scene) -> None:
        for run_id in ("r1", "r2", "r3"):
            await scene.begin(run_id)
        await scene.cancel("r2")
        await scene.cancel("r3", compensate=False)

        assert (await scene.store.workers.renew(_W1, LEASE)).cancelling == ("r2",)

    async def test_retiring_a_worker_frees_its_runs_without_a_stall(self, scene: Scene) -> None:
        await scene.begin("r1")
        compensating = await scene.begin("r2")
        await compensating.roll_back()
        await (await scene.begin("r3")).park(wait_signal())
        await scene.register("w2")
        scene.clock.advance(1)

        await scene.store.workers.retire(_W1)
        await scene.store.workers.retire(_W1)

        now = scene.clock.now()
        assert [worker.incarnation for worker in await scene.store.views.list_workers()] == ["w2"]
        for run_id, status in (("r1", RunStatus.PENDING), ("r2", RunStatus.COMPENSATING)):
            run = await scene.run(run_id)
            assert (run.status, run.owner, run.wake_at, run.stalls) == (status, None, now, 0)
        assert (await scene.run("r3")).wake_at is None
        with pytest.raises(LeaseLostError):
            await scene.store.workers.renew(_W1, LEASE)
        assert {turn.run_id for turn in await scene.claim("w2")} == {"r1", "r2"}


class RescueSuite(StoreCase):
    """`rescue` and `relinquish`."""

    async def test_only_runs_of_dead_workers_are_rescued(self, scene: Scene, elsewhere: Scene) -> None:
        await elsewhere.register()
        for run_id in ("r1", "r2"):
            await scene.begin(run_id)
        await elsewhere.begin("r3")
        await scene.create("r4")
        await (await scene.begin("r5")).park(wait_signal())
        assert await scene.rescue() == []
        await scene.lose_worker("w2")
        assert await scene.store.views.has_stranded()

        assert set(await elsewhere.rescue()) == {"r1", "r2"}

        now = scene.clock.now()
        for run_id in ("r1", "r2"):
            run = await scene.run(run_id)
            assert (run.status, run.owner, run.wake_at, run.stalls, run.epoch) == (RunStatus.PENDING, None, now, 1, 1)
        assert (await scene.run("r3")).owner == "w2"
        assert [worker.incarnation for worker in await scene.store.views.list_workers()] == ["w2"]
        assert not await scene.store.views.has_stranded()
        assert await elsewhere.rescue() == []

    async def test_a_lease_is_live_until_its_last_microsecond(self, scene: Scene) -> None:
        await scene.begin("r1")
        scene.clock.advance("9999999us")
        assert not await scene.store.views.has_stranded()
        assert await scene.rescue() == []

        scene.clock.advance("1us")
        assert await scene.store.views.has_stranded()
        assert await scene.rescue() == ["r1"]

    async def test_the_row_of_an_idle_dead_worker_is_deleted(self, scene: Scene) -> None:
        scene.clock.advance(10)
        assert await scene.store.views.has_stranded()

        assert await scene.rescue() == []

        assert await scene.store.views.list_workers() == []
        assert not await scene.store.views.has_stranded()

    async def test_rescued_cancelling_and_compensating_runs_keep_their_status(self, scene: Scene) -> None:
        await scene.begin("r1")
        await scene.cancel("r1")
        await (await scene.begin("r2")).roll_back()
        await scene.lose_worker()

        await scene.rescue()

        for run_id, status in (("r1", RunStatus.CANCELLING), ("r2", RunStatus.COMPENSATING)):
            run = await scene.run(run_id)
            assert (run.status, run.owner, run.wake_at) == (status, None, scene.clock.now())

    async def test_a_run_that_stalls_too_often_is_paused_as_poison(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("first")
        await turn.record("last")
        await turn.commit(move=Release())
        for stalls in (1, 2):
            await scene.claim_only("r1")
            await scene.lose_worker()
            assert await scene.rescue(stalls_max=3) == ["r1"]
            assert ((await scene.run("r1")).stalls, await scene.status("r1")) == (stalls, RunStatus.PENDING)
            await scene.register()
        await scene.claim_only("r1")
        await scene.lose_worker()

        assert await scene.rescue(stalls_max=3) == ["r1"]

        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at, run.stalls) == (RunStatus.PAUSED, None, None, 3)
        assert run.failure is not None
        failure = decode_failure(run.failure)
        assert (failure.type, failure.code, failure.path) == ("PoisonError", "SW202", "last")

    async def test_a_poisoned_run_without_entries_has_no_path(self, scene: Scene) -> None:
        await scene.begin("r1")
        await scene.lose_worker()
        await scene.rescue(stalls_max=1)

        failure = (await scene.run("r1")).failure
        assert failure is not None
        assert decode_failure(failure).path == ""

    async def test_the_path_of_a_poisoned_run_may_be_an_attempt(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("first")
        await turn.commit(names=("tried",), attempts=(Attempt(place(1), 1, scene.clock.now(), b"x", None),))
        await scene.lose_worker()
        await scene.rescue(stalls_max=1)

        failure = (await scene.run("r1")).failure
        assert failure is not None
        assert decode_failure(failure).path == "tried"

    async def test_a_cancel_survives_the_pause_of_a_poisoned_run(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a", undo=b"u")
        await scene.cancel("r1", reason="enough")
        await scene.lose_worker()
        await scene.rescue(stalls_max=1)
        assert ((await scene.run("r1")).status, (await scene.run("r1")).cause) == (RunStatus.PAUSED, "cancelled")

        await scene.store.runs.resume(RunId("r1"), by="ann")

        assert await scene.status("r1") is RunStatus.COMPENSATING

    async def test_relinquishing_frees_all_runs_except_the_kept_ones(self, scene: Scene) -> None:
        for run_id in ("r1", "r2", "r3"):
            await scene.begin(run_id)
        await (await scene.begin("r4")).park(wait_signal())
        await scene.register("w2")
        scene.clock.advance(1)

        freed = await scene.store.runs.relinquish(_W1, {RunId("r2")})

        assert set(freed) == {"r1", "r3"}
        for run_id in ("r1", "r3"):
            run = await scene.run(run_id)
            assert (run.status, run.owner, run.wake_at, run.stalls) == (
                RunStatus.PENDING,
                None,
                scene.clock.now(),
                0,
            )
        assert (await scene.run("r2")).owner == _W1
        assert await scene.store.runs.relinquish(Incarnation("unknown"), ()) == []

    async def test_a_restarted_worker_owns_no_runs_of_its_predecessor(self, scene: Scene) -> None:
        old = await scene.begin("r1")
        await scene.store.workers.register(NewWorker(Incarnation("w1b"), "w1", LEASE, (FLOW,)))

        assert await scene.store.runs.relinquish(Incarnation("w1b"), ()) == []
        assert await scene.claim("w1b") == []
        assert (await old.record("a")).verdict is Verdict.APPLIED
