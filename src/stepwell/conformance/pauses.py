"""Pausing runs and workflows: what is paused, what continues, and what must not be lost."""

from __future__ import annotations

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import (
    FIRST,
    LEASE,
    Scene,
    child_of,
    new_event,
    new_run,
    new_signal,
    place,
    wait_child,
    wait_signal,
    wait_topic,
)
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId
from stepwell.model.commits import Commit, Park, Pause, Release, Verdict
from stepwell.model.holds import Hold, HoldAct, WorkflowHold
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.stores.base.views import Audit
from stepwell.stores.base.wakeups import Hint, HintKind

_R1 = RunId("r1")
_FORWARDS = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED)
_OTHERS = sorted(set(RunStatus) - set(_FORWARDS))


async def _pause(scene: Scene, run_id: str = "r1", by: str = "ann") -> bool:
    return await scene.store.runs.pause(RunId(run_id), by=by, reason="a look at it")


async def _resume(scene: Scene, run_id: str = "r1") -> bool:
    return await scene.store.runs.resume(RunId(run_id), by="bob")


def _hold(scene: Scene) -> Hold:
    return Hold("ann", "a look at it", scene.clock.now())


class PauseSuite(StoreCase):
    """`pause` and `resume` of a run."""

    async def test_a_run_without_an_owner_is_paused_at_once(self, scene: Scene) -> None:
        await scene.create("r1")
        before = await scene.run("r1")
        now = scene.clock.now()

        assert await _pause(scene)

        assert await scene.run("r1") == before._replace(status=RunStatus.PAUSED, wake_at=None, hold=_hold(scene))
        acts = [Audit(now, _R1, "pause", "ann", "pending", "paused", "a look at it")]
        assert await scene.store.views.list_audit(_R1) == acts
        assert await scene.claim() == []

    async def test_the_first_pause_counts(self, scene: Scene) -> None:
        await scene.create("r1")
        await _pause(scene)
        before = await snapshot(scene.store)

        assert not await _pause(scene, by="eve")
        assert await snapshot(scene.store) == before

    async def test_a_paused_run_keeps_its_waits_and_signals_do_not_wake_it(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        waits = (wait_signal("go"), wait_topic("news", at=place(1)))
        await turn.commit(names=("a", "b"), waits=waits, move=Park(None))

        assert await _pause(scene)

        assert not (await scene.send("s1", "r1")).woke
        await scene.publish("e1")
        run = await scene.run("r1")
        assert (run.status, run.wake_at) == (RunStatus.PAUSED, None)
        assert (await scene.history("r1")).waits == waits
        assert await _resume(scene)
        again = await scene.claim_only("r1")
        assert [signal.name for signal in again.claimed.inbox.signals] == ["go"]
        assert [event.topic for event in again.claimed.inbox.events] == ["news"]

    async def test_a_child_that_ends_does_not_wake_a_paused_parent(self, scene: Scene) -> None:
        parent = await scene.begin("r1")
        child = await scene.begin_child(parent, "c1")
        await parent.park(wait_child(FIRST))
        await _pause(scene)

        await child.end()

        assert (await scene.run("r1")).wake_at is None
        assert await _resume(scene)
        again = await scene.claim_only("r1")
        assert [outcome.run_id for outcome in again.claimed.inbox.children] == ["c1"]

    async def test_an_owner_keeps_the_run_and_learns_of_the_pause_from_its_next_commit(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        now = scene.clock.now()

        assert await _pause(scene)

        run = await scene.run("r1")
        assert (run.status, run.owner, run.hold) == (RunStatus.RUNNING, turn.fence.incarnation, _hold(scene))
        acts = [Audit(now, _R1, "pause", "ann", "running", "running", "a look at it")]
        assert await scene.store.views.list_audit(_R1) == acts
        applied = await turn.record("a")
        assert (applied.verdict, applied.held) == (Verdict.APPLIED, True)
        assert (await turn.record("b")).held
        assert (await scene.run("r1")).last_seq == 2

    async def test_other_runs_are_not_held(self, scene: Scene) -> None:
        turn, other = await scene.begin("r1"), await scene.begin("r2")
        await _pause(scene)

        assert not (await other.record("a")).held
        assert (await turn.record("a")).held

    async def test_a_repeated_commit_reports_the_pause_again(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await _pause(scene)
        commit = Commit(_R1, turn.fence, 1, move=Park(None), waits=(wait_signal(),))

        first, second = [await scene.store.runs.apply([commit]) for _ in range(2)]

        assert first == second
        assert first[0].held
        assert not first[0].is_awake

    @pytest.mark.parametrize("move", [Park(None), Park(Instant(1)), Release(), Pause(b"why")])
    async def test_every_release_of_a_held_run_leaves_it_paused(
        self, scene: Scene, move: Park | Release | Pause
    ) -> None:
        turn = await scene.begin("r1")
        hold = _hold(scene)
        await _pause(scene)
        await turn.commit(waits=(wait_signal(),), move=move)

        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at, run.hold) == (RunStatus.PAUSED, None, None, hold)
        assert run.failure == (b"why" if isinstance(move, Pause) else None)
        assert await scene.claim() == []
        assert await _resume(scene)
        await scene.claim_only("r1")

    async def test_a_held_run_with_signals_is_not_awake_when_it_waits(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1")
        await _pause(scene)

        applied = await turn.commit(waits=(wait_signal(),), move=Park(None))

        assert not applied.is_awake
        assert (await scene.run("r1")).wake_at is None

    @pytest.mark.parametrize("way", ["rescue", "relinquish", "retire"])
    async def test_a_worker_that_dies_or_retires_leaves_a_held_run_paused(self, scene: Scene, way: str) -> None:
        turn = await scene.begin("r1")
        hold = _hold(scene)
        await _pause(scene)

        if way == "rescue":
            await scene.lose_worker()
            assert await scene.rescue(stalls_max=5) == ["r1"]
        elif way == "relinquish":
            assert await scene.store.runs.relinquish(turn.fence.incarnation, ()) == ["r1"]
        else:
            await scene.store.workers.retire(turn.fence.incarnation)

        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at, run.hold) == (RunStatus.PAUSED, None, None, hold)
        assert run.stalls == (1 if way == "rescue" else 0)

    async def test_a_held_run_that_crashes_workers_keeps_both_reasons(self, scene: Scene) -> None:
        await scene.begin("r1")
        await _pause(scene)
        await scene.lose_worker()
        await scene.rescue(stalls_max=1)

        run = await scene.run("r1")
        assert (run.status, run.failure is not None, run.hold is not None) == (RunStatus.PAUSED, True, True)

    async def test_resuming_an_owned_run_removes_the_hold(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await _pause(scene)
        before = await scene.run("r1")

        assert await _resume(scene)

        assert await scene.run("r1") == before._replace(hold=None)
        assert not (await turn.record("a")).held
        assert not await _resume(scene)
        acts = await scene.store.views.list_audit(_R1)
        assert [(act.verb, act.by, act.before, act.after) for act in acts] == [
            ("pause", "ann", "running", "running"),
            ("resume", "bob", "running", "running"),
        ]

    async def test_a_resume_without_even_if_held_keeps_the_pause(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(move=Pause(b"why"))
        assert await _pause(scene)
        before = await snapshot(scene.store)

        assert not await scene.store.runs.resume(_R1, by="worker", even_if_held=False)
        assert await snapshot(scene.store) == before
        assert await _resume(scene)
        run = await scene.run("r1")
        assert (run.status, run.hold, run.failure) == (RunStatus.PENDING, None, None)

    @pytest.mark.parametrize("status", _OTHERS)
    async def test_runs_that_are_ending_or_ended_are_not_paused(self, scene: Scene, status: RunStatus) -> None:
        await reach(scene, "r1", status, has_undo=True)
        before = await snapshot(scene.store)

        assert not await _pause(scene)
        assert await snapshot(scene.store) == before

    async def test_paused_rollbacks_and_unknown_runs_are_not_paused(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.roll_back("failed", b"first")
        await turn.commit(move=Pause(b"second"))

        assert not await _pause(scene)
        assert not await _pause(scene, "unknown")

    async def test_an_end_and_a_rollback_clear_the_hold(self, scene: Scene) -> None:
        ended, undoing = await scene.begin("r1"), await scene.begin("r2")
        await _pause(scene, "r1")
        await _pause(scene, "r2")

        assert not (await ended.end(RunStatus.FAILED)).held
        assert not (await undoing.roll_back("failed", b"x")).held

        assert [(await scene.run(one)).hold for one in ("r1", "r2")] == [None, None]
        assert not (await undoing.record("a")).held

    @pytest.mark.parametrize("is_owned", [True, False])
    async def test_a_cancel_clears_the_hold(self, scene: Scene, is_owned: bool) -> None:
        await (scene.begin("r1") if is_owned else scene.create("r1"))
        await _pause(scene)

        await scene.cancel("r1")

        run = await scene.run("r1")
        assert (run.status, run.hold) == (RunStatus.CANCELLING if is_owned else RunStatus.CANCELLED, None)

    async def test_the_successor_of_a_paused_run_is_paused(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await scene.send("s1", "r1")
        hold = _hold(scene)
        await _pause(scene)

        await turn.end(RunStatus.CONTINUED, successor=new_run("r2"))

        assert (await scene.run("r1")).hold is None
        run = await scene.run("r2")
        assert (run.status, run.wake_at, run.hold, run.key) == (RunStatus.PAUSED, None, hold, "k")
        assert await scene.mail("r2") == ["s1"]
        assert await _resume(scene, "r2")
        await scene.claim_only("r2")

    async def test_a_paused_run_that_was_planned_does_not_begin_when_it_is_planned_again(self, scene: Scene) -> None:
        new = new_run("r1", key="k")
        await scene.store.runs.debounce(new, quiet=LEASE, max_wait=LEASE)
        await _pause(scene)

        await scene.store.runs.debounce(new._replace(input=b"2"), quiet=LEASE, max_wait=LEASE)

        run = await scene.run("r1")
        assert (run.status, run.wake_at, run.input) == (RunStatus.PAUSED, None, b"2")
        assert await _resume(scene)
        assert (await scene.run("r1")).wake_at == run.debounced_until
        assert await scene.claim() == []
        await scene.lose_worker(scene.incarnation)
        await scene.claim_only("r1")

    async def test_a_renewal_lists_the_runs_to_release(self, scene: Scene) -> None:
        await scene.begin("r1")
        await scene.begin("r2")
        await _pause(scene)

        assert (await scene.store.workers.renew(scene.incarnation, LEASE)).held == ("r1",)

    async def test_an_owner_gets_a_hint(self, scene: Scene) -> None:
        await scene.begin("r1")
        heard: list[Hint] = []
        stop = scene.store.wakeups.listen(heard.append)
        await _pause(scene)
        stop()

        assert Hint(HintKind.MAIL, (_R1,)) in heard


class WorkflowPauseSuite(StoreCase):
    """Pausing a workflow, or all of them."""

    @pytest.mark.parametrize("workflow", ["flow", None])
    async def test_runs_of_a_paused_workflow_are_not_claimed(self, scene: Scene, workflow: str | None) -> None:
        holds = scene.store.holds
        await scene.create("r1")
        now = scene.clock.now()

        assert await holds.pause(workflow, by="ann", reason="a look at it")

        assert await holds.list_holds() == [WorkflowHold(workflow, _hold(scene))]
        assert await scene.claim() == []
        assert (await scene.run("r1")).status is RunStatus.PENDING
        assert await scene.store.views.next_wake(["flow@1"]) is None
        assert (await scene.store.views.upcoming_work(["flow@1"])).next_wake is None
        assert not await holds.pause(workflow, by="eve", reason="")

        assert await holds.resume(workflow, by="bob")

        assert not await holds.resume(workflow, by="eve")
        assert await holds.list_holds() == []
        assert await scene.store.views.next_wake(["flow@1"]) is not None
        await scene.claim_only("r1")
        assert await holds.list_acts(limit=9) == [
            HoldAct(now, workflow, "resume", "bob", ""),
            HoldAct(now, workflow, "pause", "ann", "a look at it"),
        ]
        assert len(await holds.list_acts(limit=1)) == 1

    async def test_other_workflows_continue(self, scene: Scene) -> None:
        await scene.store.holds.pause("flo", by="ann", reason="")
        await scene.store.holds.pause("flow@1", by="ann", reason="")
        await scene.create("r1")

        await scene.claim_only("r1")

    async def test_each_hold_is_separate(self, scene: Scene) -> None:
        holds = scene.store.holds
        await scene.create("r1")
        await holds.pause(None, by="ann", reason="")
        await holds.pause("flow", by="ann", reason="")
        assert [one.workflow for one in await holds.list_holds()] == [None, "flow"]

        await holds.resume(None, by="ann")
        assert await scene.claim() == []
        await holds.resume("flow", by="ann")
        await scene.claim_only("r1")

    @pytest.mark.parametrize("workflow", ["flow", None])
    async def test_no_transition_claims_runs_of_a_paused_workflow(self, scene: Scene, workflow: str | None) -> None:
        waits = (wait_signal("go"), wait_topic("news", at=place(1)))
        for run_id in ("r1", "r2"):
            turn = await scene.begin(run_id)
            await turn.commit(names=("a", "b"), waits=waits, move=Park(None))
        parent = await scene.begin("r3")
        await scene.store.holds.pause(workflow, by="ann", reason="")
        claimant = scene.claimant()

        [created] = await scene.store.runs.create([new_run("r4")], claimant)
        assert created.claimed is None
        _, claimed = await scene.store.signals.deliver([new_signal("s1", "r1")], claimant)
        assert claimed == []
        _, _, claimed = await scene.store.signals.deliver_or_create(
            new_signal("s2", ""), new_run("r5", key="k"), claimant
        )
        assert claimed == []
        _, claimed = await scene.store.events.publish([new_event("e1")], claimant)
        assert claimed == []
        child = child_of("r3", "c1", place(0))
        commit = Commit(RunId("r3"), parent.fence, 1, names=("a",), children=(child,))
        [applied] = await scene.store.runs.apply([commit], claimant)
        assert (applied.verdict, applied.claimed, applied.held) == (Verdict.APPLIED, (), False)
        assert await scene.claim() == []

        await scene.store.holds.resume(workflow, by="ann")

        assert {turn.claimed.run.run_id for turn in await scene.claim()} == {"r1", "r2", "r4", "r5", "c1"}

    async def test_paused_workflows_do_not_block_less_urgent_runs(self, scene: Scene) -> None:
        await scene.store.holds.pause("other", by="ann", reason="")
        await scene.create("r1", workflow="other", priority=9)
        claimant = scene.claimant()._replace(definitions=("flow@1", "other@1"))

        [created] = await scene.store.runs.create([new_run("r2")], claimant)

        assert created.claimed is not None

    async def test_owners_may_continue_and_are_notified(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        heard: list[Hint] = []
        stop = scene.store.wakeups.listen(heard.append)
        await scene.store.holds.pause("flow", by="ann", reason="")
        stop()

        assert HintKind.HELD in {hint.kind for hint in heard}
        assert (await scene.store.workers.renew(scene.incarnation, LEASE)).held == ("r1",)
        assert (await turn.record("a")).verdict is Verdict.APPLIED
        await turn.commit(move=Release())
        assert (await scene.run("r1")).status is RunStatus.PENDING
        assert await scene.claim() == []
        await scene.store.holds.resume("flow", by="ann")

    async def test_a_resume_sends_a_ready_hint(self, scene: Scene) -> None:
        await scene.store.holds.pause("flow", by="ann", reason="")
        heard: list[Hint] = []
        stop = scene.store.wakeups.listen(heard.append)
        await scene.store.holds.resume("flow", by="ann")
        stop()

        assert HintKind.READY in {hint.kind for hint in heard}

    async def test_other_processes_see_the_pause(self, scene: Scene, elsewhere: Scene) -> None:
        await elsewhere.register()
        await scene.create("r1")
        await scene.store.holds.pause("flow", by="ann", reason="")

        assert await elsewhere.claim() == []
        await elsewhere.store.holds.resume("flow", by="ann")
        assert len(await elsewhere.claim()) == 1

    async def test_a_run_of_a_paused_workflow_can_end(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.store.holds.pause(None, by="ann", reason="")

        await turn.end()

        assert (await scene.run("r1")).status in TERMINAL
