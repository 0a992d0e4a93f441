"""Cancelling runs and families."""

from __future__ import annotations

import pytest

from stepwell.conformance.case import StoreCase
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import FIRST, Scene, place, wait_child, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import NotFoundError
from stepwell.ids import RunId
from stepwell.model.cancels import Cancelled, decide_cancel
from stepwell.model.commits import Applied, Pause, Verdict
from stepwell.model.states import RunStatus

_S = RunStatus


class CancelSuite(StoreCase):
    """`cancel`."""

    @pytest.mark.parametrize("is_owned", [True, False], ids=["owned", "unowned"])
    @pytest.mark.parametrize("has_undo", [True, False], ids=["undo", "no-undo"])
    @pytest.mark.parametrize("compensate", [True, False], ids=["compensate", "at-once"])
    @pytest.mark.parametrize("status", list(RunStatus))
    async def test_every_status_is_cancelled_as_the_table_says(
        self, scene: Scene, status: RunStatus, compensate: bool, has_undo: bool, is_owned: bool
    ) -> None:
        await reach(scene, "r1", status, has_undo=has_undo, is_owned=is_owned)
        before, run = await snapshot(scene.store), await scene.run("r1")
        scene.clock.advance(1)

        cancelled = await scene.cancel("r1", compensate=compensate, reason="because  ✂")

        owned = run.owner is not None
        expected = decide_cancel(status, compensate=compensate, has_undo=has_undo, is_owned=owned)
        now = scene.clock.now()
        if expected is None:
            assert cancelled == Cancelled(False)
            assert await snapshot(scene.store) == before
            return
        assert cancelled == Cancelled(True, (RunId("r1"),))
        after = run._replace(status=expected, reason="because  ✂")
        if expected is _S.CANCELLED:
            after = after._replace(ended_at=now, epoch=run.epoch + 1, owner=None, wake_at=None)
            assert (await scene.history("r1")).waits == ()
        elif not owned:
            after = after._replace(wake_at=run.wake_at if run.wake_at else now)
        assert await scene.run("r1") == after

    async def test_an_unknown_run_is_not_found(self, scene: Scene) -> None:
        with pytest.raises(NotFoundError):
            await scene.cancel("unknown")

    async def test_a_cancel_that_changed_something_writes_one_audit_row(self, scene: Scene) -> None:
        await scene.begin("r1")
        scene.clock.advance(1)

        await scene.cancel("r1", compensate=False, reason="enough", by="ann")
        await scene.cancel("r1", compensate=False, reason="again", by="bob")

        [act] = await scene.store.views.list_audit(RunId("r1"))
        assert (act.at, act.run_id, act.verb, act.by, act.before, act.after, act.reason) == (
            scene.clock.now(),
            "r1",
            "cancel",
            "ann",
            "running",
            "cancelled",
            "enough",
        )
        assert (await scene.run("r1")).reason == "enough"

    async def test_a_cancel_at_once_fences_the_owner_and_frees_the_key(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.record("a")
        await scene.cancel("r1", compensate=False)
        before = await snapshot(scene.store)

        assert await turn.end(_S.COMPLETED) == Applied(Verdict.FENCED)
        assert await snapshot(scene.store) == before
        assert (await scene.create("r2", key="k")).is_new

    async def test_stalls_before_a_cancel_do_not_count_against_the_rollback(self, scene: Scene) -> None:
        await scene.begin("r1")
        await scene.lose_worker()
        await scene.rescue(stalls_max=2)
        await scene.register()
        await scene.claim_only("r1")
        assert (await scene.run("r1")).stalls == 1

        await scene.cancel("r1")
        await scene.lose_worker()
        await scene.rescue(stalls_max=2)

        run = await scene.run("r1")
        assert (run.status, run.stalls, run.failure) == (_S.CANCELLING, 1, None)

    async def test_a_cancelling_run_keeps_its_key(self, scene: Scene) -> None:
        await scene.begin("r1", key="k")
        await scene.cancel("r1")

        assert (await scene.create("r2", key="k")).run_id == "r1"

    async def test_a_waiting_run_that_is_cancelled_is_due_now(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a", undo=b"u")
        await turn.park(wait_signal())
        scene.clock.advance(1)

        await scene.cancel("r1", reason="x")

        assert (await scene.claim_only("r1")).claimed.run.status is _S.CANCELLING

    async def test_a_paused_rollback_is_too_late_to_cancel(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a", undo=b"u")
        await turn.roll_back("failed", b"why")
        await turn.commit(move=Pause(b"diverged"))
        before = await snapshot(scene.store)

        for compensate in (True, False):
            assert await scene.cancel("r1", compensate=compensate) == Cancelled(False)
        assert await snapshot(scene.store) == before


class FamilySuite(StoreCase):
    """A cancel reaches attached descendants and notifies parents."""

    async def test_a_cancel_reaches_attached_active_descendants_root_first(self, scene: Scene) -> None:
        root = await scene.begin("root")
        child = await scene.begin_child(root, "a-child", place(0))
        grandchild = await scene.begin_child(child, "a-grandchild", place(0))
        done = await scene.begin_child(root, "done", place(1))
        await scene.begin_child(done, "under-done", place(0))
        await done.end()
        detached = await scene.begin_child(root, "detached", place(2), detached=True)
        await scene.begin_child(detached, "under-detached", place(0))
        await scene.create("stranger")

        cancelled = await scene.cancel("root", compensate=False, reason="why")

        assert cancelled.changed
        assert cancelled.runs[0] == "root"
        assert set(cancelled.runs) == {"root", "a-child", "a-grandchild", "under-done"}
        assert cancelled.runs.index(child.run_id) < cancelled.runs.index(grandchild.run_id)
        for member in cancelled.runs:
            run = await scene.run(member)
            assert (run.status, run.reason, run.owner) == (_S.CANCELLED, "why", None)
        for run_id in ("detached", "under-detached"):
            assert await scene.status(run_id) is _S.RUNNING
        assert await scene.status("done") is _S.COMPLETED
        assert await scene.status("stranger") is _S.PENDING

    async def test_each_descendant_is_decided_separately(self, scene: Scene) -> None:
        root = await scene.begin("root")
        await scene.begin_child(root, "owned", place(0))
        undoable = await scene.begin_child(root, "undoable", place(1))
        await undoable.record("a", undo=b"u")
        await undoable.park(wait_signal())
        plain = await scene.begin_child(root, "plain", place(2))
        await plain.park(wait_signal())
        await root.park(wait_child(place(0)), wait_child(place(2)))

        await scene.cancel("root")

        assert [await scene.status(run) for run in ("root", "owned", "undoable", "plain")] == [
            _S.CANCELLED,
            _S.CANCELLING,
            _S.CANCELLING,
            _S.CANCELLED,
        ]

    async def test_no_descendant_is_cancelled_if_the_root_cannot_be(self, scene: Scene) -> None:
        root = await scene.begin("root")
        await scene.begin_child(root, "child")
        await root.end()
        before = await snapshot(scene.store)

        assert await scene.cancel("root") == Cancelled(False)
        assert await snapshot(scene.store) == before

    async def test_a_cancelled_child_wakes_its_waiting_parent(self, scene: Scene) -> None:
        parent = await scene.begin("parent")
        await scene.begin_child(parent, "child")
        await parent.park(wait_child(FIRST))
        scene.clock.advance(1)

        await scene.cancel("child", compensate=False, reason="no")

        assert (await scene.run("parent")).wake_at == scene.clock.now()
        [outcome] = (await scene.claim_only("parent")).claimed.inbox.children
        assert (outcome.run_id, outcome.status, outcome.location) == ("child", _S.CANCELLED, FIRST)

    async def test_a_cancelling_child_does_not_wake_its_parent_yet(self, scene: Scene) -> None:
        parent = await scene.begin("parent")
        child = await scene.begin_child(parent, "child")
        await parent.park(wait_child(FIRST))

        await scene.cancel("child")
        assert (await scene.run("parent")).wake_at is None
        await child.end(_S.CANCELLED)
        assert (await scene.run("parent")).wake_at == scene.clock.now()
