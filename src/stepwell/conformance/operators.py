"""Acts of operators: resume, resume a rollback, retry."""

from __future__ import annotations

from typing import Any

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import Scene, Turn, place, step, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model.commits import Pause
from stepwell.model.entries import UNDONE_BY_HAND, Attempt, Entry
from stepwell.model.failures import encode_failure
from stepwell.model.locations import Location, iteration, named, undo, use
from stepwell.model.states import EntryKind, EntryStatus, RunStatus
from stepwell.stores.base.views import Audit

_R1 = RunId("r1")


class ResumeSuite(StoreCase):
    """`resume` and `resume_rollback`."""

    async def test_a_paused_run_is_resumed(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        await turn.commit(waits=(wait_signal(),), move=Pause(b"why"))
        before = await scene.run("r1")
        scene.clock.advance(1)
        now = scene.clock.now()

        assert await scene.store.runs.resume(_R1, by="ann")

        assert await scene.run("r1") == before._replace(status=RunStatus.PENDING, wake_at=now, failure=None)
        assert await scene.store.views.list_audit(_R1) == [Audit(now, _R1, "resume", "ann", "paused", "pending", "")]
        assert (await scene.claim_only("r1")).fence.epoch == 2

    async def test_a_resumed_rollback_continues(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.roll_back("failed", b"first")
        await turn.commit(move=Pause(b"second"))

        assert await scene.store.runs.resume(_R1, by="ann")

        run = await scene.run("r1")
        assert (run.status, run.cause, run.failure, run.wake_at) == (
            RunStatus.COMPENSATING,
            "failed",
            b"second",
            scene.clock.now(),
        )

    async def test_a_resumed_run_has_no_stalls(self, scene: Scene) -> None:
        await scene.begin("r1")
        await scene.lose_worker()
        await scene.rescue(stalls_max=1)
        assert ((await scene.run("r1")).status, (await scene.run("r1")).stalls) == (RunStatus.PAUSED, 1)

        await scene.store.runs.resume(_R1, by="ann")

        assert (await scene.run("r1")).stalls == 0

    async def test_an_incomplete_rollback_can_be_resumed_again_and_again(self, scene: Scene) -> None:
        turn = await reach(scene, "r1", RunStatus.COMPENSATION_FAILED, has_undo=True)
        for epoch in (2, 3):
            scene.clock.advance(1)
            before = await scene.run("r1")
            now = scene.clock.now()
            assert await scene.store.runs.resume_rollback(_R1, by="ann")
            after = before._replace(status=RunStatus.COMPENSATING, wake_at=now, retried_at=now)
            assert await scene.run("r1") == after
            assert not await scene.store.runs.resume_rollback(_R1, by="ann")
            turn = await scene.claim_only("r1")
            assert turn.fence.epoch == epoch
            await turn.end(RunStatus.COMPENSATION_FAILED)
        acts = await scene.store.views.list_audit(_R1)
        assert [(act.verb, act.by, act.before, act.after) for act in acts] == [
            ("resume_rollback", "ann", "compensation_failed", "compensating")
        ] * 2

    async def test_an_effect_that_a_person_has_undone_is_recorded_as_undone(self, scene: Scene) -> None:
        turn = await reach(scene, "r1", RunStatus.COMPENSATION_FAILED, has_undo=True)
        before, history = await scene.run("r1"), await scene.history("r1")
        [step] = [entry for entry in history.entries if entry.undo is not None]
        snapped = await snapshot(scene.store)
        for other in (undo(step.location), named(step.location, 0), iteration(step.location, 7)):
            assert not await scene.store.runs.resume_rollback(_R1, by="ann", undone=other, reason="no")
        assert await snapshot(scene.store) == snapped
        scene.clock.advance(1)
        now = scene.clock.now()

        assert await scene.store.runs.resume_rollback(_R1, by="ann", undone=step.location, reason="by hand")

        seq = before.last_seq + 1
        done = Entry(seq, undo(step.location), EntryKind.UNDO, EntryStatus.DONE, UNDONE_BY_HAND, now, 0)
        assert (await scene.history("r1")).entries == (*history.entries, done)
        after = before._replace(status=RunStatus.COMPENSATING, wake_at=now, retried_at=now)
        assert await scene.run("r1") == after._replace(last_seq=seq, revision=before.revision + 1)
        [act] = await scene.store.views.list_audit(_R1)
        assert act == Audit(now, _R1, "mark_undone", "ann", "compensation_failed", "compensating", "by hand")
        turn = await scene.claim_only("r1")
        await turn.end(RunStatus.COMPENSATION_FAILED)
        assert not await scene.store.runs.resume_rollback(_R1, by="ann", undone=step.location, reason="twice")

    async def test_unknown_runs_are_not_resumed(self, scene: Scene) -> None:
        before = await snapshot(scene.store)

        assert not await scene.store.runs.resume(_R1, by="ann")
        assert not await scene.store.runs.resume_rollback(_R1, by="ann")
        assert not await scene.store.runs.retry(_R1, by="ann")
        assert await snapshot(scene.store) == before


class RetrySuite(StoreCase):
    """`retry`."""

    async def test_a_failed_run_is_retried(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.record("a")
        await turn.roll_back("failed", None, 1)
        await turn.end(RunStatus.FAILED, failure=_failure("b"))
        before = await scene.run("r1")
        scene.clock.advance(1)
        now = scene.clock.now()

        assert await scene.store.runs.retry(_R1, by="ann")

        cleared: dict[str, Any] = {"ended_at": None, "failure": None, "cause": None, "undo_floor": 0}
        after = before._replace(status=RunStatus.PENDING, wake_at=now, retried_at=now, **cleared)
        assert await scene.run("r1") == after
        assert await scene.store.views.list_audit(_R1) == [Audit(now, _R1, "retry", "ann", "failed", "pending", "")]
        assert not (await scene.create("r2", key="k")).is_new
        again = await scene.claim_only("r1")
        assert (again.fence.epoch, again.claimed.is_fresh) == (2, False)

    async def test_a_retry_is_later_than_every_attempt_even_if_the_clock_went_back(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        ahead = Instant(scene.clock.now() + 60_000_000)
        tried = (Attempt(place(0), 1, scene.clock.now(), b"{}", None), Attempt(place(0), 2, ahead, None, None))
        await turn.commit(names=("charge",), entries=(_failed(1, place(0)),), attempts=tried)
        await turn.end(RunStatus.FAILED, failure=_failure("charge"))

        assert await scene.store.runs.retry(_R1, by="ann")
        assert (await scene.run("r1")).retried_at == ahead

    async def test_a_retry_deletes_failed_entries_at_the_failure_and_above_it_only(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        outer, charge, out = place(0), 1, place(2)
        scope = iteration(outer, 3)
        second = use(named(scope, charge), 2)
        failed = [outer, scope, second, named(scope, charge), iteration(outer, 1), out, named(second, charge)]
        entries = [_failed(seq, at) for seq, at in enumerate(failed, 1)]
        entries.append(step(8, named(scope, 2)))
        attempts = (Attempt(second, 1, entries[0].at, b"x", None),)
        await turn.commit(names=("outer", "charge", "out"), entries=tuple(entries), attempts=attempts)
        await turn.end(RunStatus.FAILED, failure=_failure("outer/~3/charge#2"))

        assert await scene.store.runs.retry(_R1, by="ann")

        history = await scene.history("r1")
        assert history.entries == tuple(entries[3:])
        assert history.attempts == attempts
        turn = await scene.claim_only("r1")
        await turn.commit(entries=(step(9, second),))
        assert (await scene.run("r1")).last_seq == 9

    async def test_a_failure_without_a_path_deletes_no_entries(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a",), entries=(_failed(1, place(0)),))
        await _fail(turn, "")

        assert await scene.store.runs.retry(_R1, by="ann")

        assert len((await scene.history("r1")).entries) == 1

    async def test_a_run_whose_key_was_taken_is_not_retried(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.commit(names=("a",), entries=(_failed(1, place(0)),))
        await _fail(turn, "a")
        other = await scene.begin("r2", key="k")
        before = await snapshot(scene.store)

        assert not await scene.store.runs.retry(_R1, by="ann")
        assert await snapshot(scene.store) == before
        await other.end()
        assert await scene.store.runs.retry(_R1, by="ann")

    async def test_a_retried_run_takes_over_what_was_held_for_its_key_meanwhile(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await scene.send("s1", "k", dedup_key="d")
        await _fail(turn, "a")
        await scene.send("s2", "k", hold=True)
        await scene.send("s3", "k", dedup_key="d", hold=True)

        await scene.store.runs.retry(_R1, by="ann")

        assert await scene.mail("r1") == ["s1", "s2"]
        assert await scene.store.views.list_held(limit=9) == []


def _failure(path: str) -> bytes:
    return encode_failure(FailureRecord("ValueError", "no", path=path))


def _failed(seq: int, at: Location) -> Entry:
    return step(seq, at, status=EntryStatus.FAILED)


async def _fail(turn: Turn, path: str) -> None:
    await turn.end(RunStatus.FAILED, failure=_failure(path))
