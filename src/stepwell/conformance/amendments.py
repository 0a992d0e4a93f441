"""Repairs: amendments of a run's history, and forks."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import Scene, new_run, place, step, wait_child, wait_signal, wait_timer, wait_topic
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import AlreadyExistsError, NotFoundError
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model.amendments import AMENDABLE, Amended, Amendment, Dropped, Fork
from stepwell.model.commits import End, Verdict
from stepwell.model.entries import Attempt, Cursor, Progress
from stepwell.model.failures import encode_failure
from stepwell.model.locations import former, iteration, named
from stepwell.model.runs import NewRun, Run
from stepwell.model.states import EntryKind, EntryStatus, RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.base.views import Audit

_R1 = RunId("r1")
_S = RunStatus


def _amendment(run: Run, **changes: Any) -> Amendment:
    """A repair that expects the current state of the run."""
    return Amendment("a1", run.run_id, run.status, run.epoch, run.revision, "rewind", "ann", "why")._replace(**changes)


async def _amend(scene: Scene, at: str = "r1", /, **changes: Any) -> Amended:
    return await scene.store.runs.amend(_amendment(await scene.run(at), **changes))


class AmendmentSuite(StoreCase):
    """`amend`: what it changes, and when it is allowed."""

    async def test_a_repaired_run_continues_from_the_remaining_history(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        for name in ("a", "b", "c"):
            await turn.record(name)
        loop, kept = place(1), place(0)
        cursors = (Cursor(loop, 2, 0, b"s"), Cursor(kept, 1, 0, b"k"))
        progress = (Progress(place(2), Instant(5), b"far"), Progress(kept, Instant(5), b"kept"))
        await turn.commit(cursors=cursors, progress=progress)
        await turn.park(wait_timer(Instant(10**16)), wake_at=Instant(10**16))
        before, history = await scene.run("r1"), await scene.history("r1")
        scene.clock.advance(1)
        now = scene.clock.now()
        tried = Attempt(place(2), 1, now, b"{}", None)

        amended = await _amend(
            scene,
            forgotten=(place(1), place(2)),
            ended_cursors=(loop,),
            ended_progress=(place(2),),
            attempts=(tried,),
        )

        assert amended is Amended.APPLIED
        assert await scene.run("r1") == before._replace(
            status=_S.PENDING,
            epoch=before.epoch + 1,
            revision=before.revision + 1,
            wake_at=now,
            retried_at=now,
            amendment="a1",
        )
        after = await scene.history("r1")
        assert after == history._replace(
            entries=history.entries[:1], attempts=(tried,), cursors=cursors[1:], waits=(), progress=progress[1:]
        )
        assert await scene.store.views.list_audit(_R1) == [
            Audit(now, _R1, "rewind", "ann", "waiting", "pending", "why")
        ]
        again = await scene.claim_only("r1")
        assert (again.fence.epoch, again.claimed.is_fresh, again.seq) == (3, False, 3)
        assert (await again.commit(entries=(step(4, place(1)),))).verdict is Verdict.APPLIED

    async def test_the_last_of_two_outcomes_of_an_attempt_is_kept(self, scene: Scene) -> None:
        await reach(scene, "r1", _S.PAUSED)
        first, last = (Attempt(place(2), 1, scene.clock.now(), failure, None) for failure in (b"{}", b"[]"))
        other = Attempt(place(2), 2, scene.clock.now(), b"{}", None)

        assert await _amend(scene, attempts=(first, other, last)) is Amended.APPLIED

        assert (await scene.history("r1")).attempts == (last, other)

    async def test_a_repeated_amendment_is_applied_once(self, scene: Scene) -> None:
        await reach(scene, "r1", _S.PAUSED)
        amendment = _amendment(await scene.run("r1"), entries=(step(1, place(0)),))
        assert await scene.store.runs.amend(amendment) is Amended.APPLIED
        before = await snapshot(scene.store)

        assert await scene.store.runs.amend(amendment) is Amended.APPLIED

        assert await snapshot(scene.store) == before
        turn = await scene.claim_only("r1")
        await turn.record("b")
        assert await scene.store.runs.amend(amendment) is Amended.APPLIED

    @pytest.mark.parametrize("change", [{"status": _S.PAUSED}, {"epoch": 9}, {"revision": 9}, {"revision": 0}])
    async def test_a_run_in_an_unexpected_state_is_not_changed(self, scene: Scene, change: dict[str, Any]) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        await turn.park(wait_signal())
        before = await snapshot(scene.store)

        assert await _amend(scene, forgotten=(place(0),), **change) is Amended.STALE
        assert await snapshot(scene.store) == before

    @pytest.mark.parametrize("status", sorted(set(RunStatus) - AMENDABLE))
    async def test_runs_that_cannot_be_amended_are_not_changed(self, scene: Scene, status: RunStatus) -> None:
        await reach(scene, "r1", status)
        before = await snapshot(scene.store)

        assert await _amend(scene) is Amended.STALE
        assert await snapshot(scene.store) == before

    async def test_the_signals_of_a_supplied_result_are_consumed(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        for signal in ("s1", "s2"):
            await scene.send(signal, "r1")
        await turn.park(wait_signal("other"))
        [first, _] = (await scene.store.runs.inbox(_R1)).signals

        assert await _amend(scene, entries=(step(1, place(0)),), consumed=(first.number,)) is Amended.APPLIED
        assert await scene.mail("r1") == ["s2"]

        before = await snapshot(scene.store)
        with pytest.raises(ValueError):
            await _amend(scene, amendment_id="a2", entries=(step(2, place(1)),), consumed=(first.number,))
        assert await snapshot(scene.store) == before

    async def test_amending_an_unknown_run_is_an_error(self, scene: Scene) -> None:
        await scene.begin("r2")
        with pytest.raises(NotFoundError):
            await _amend(scene, "r2", run_id=_R1)

    async def test_a_failed_run_is_active_again(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k", deadline_at=Instant(scene.clock.now() + 1_000_000))
        await turn.roll_back("failed", None, 1)
        await turn.end(_S.FAILED, failure=encode_failure(FailureRecord("ValueError", "no")))
        await scene.send("s1", "k", hold=True)
        scene.clock.advance(2)

        assert await _amend(scene) is Amended.APPLIED

        run = await scene.run("r1")
        cleared = (run.ended_at, run.failure, run.cause, run.undo_floor, run.deadline_at)
        assert cleared == (None, None, None, 0, None)
        assert await scene.mail("r1") == ["s1"]
        assert not (await scene.create("r2", key="k")).is_new

    async def test_a_failed_run_whose_key_was_taken_is_not_changed(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.end(_S.FAILED)
        other = await scene.begin("r2", key="k")
        before = await snapshot(scene.store)

        assert await _amend(scene) is Amended.KEY_TAKEN
        assert await snapshot(scene.store) == before
        await other.end()
        assert await _amend(scene) is Amended.APPLIED

    async def test_supplied_entries_continue_the_history(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        await turn.end(_S.FAILED)
        supplied = (step(2, place(0), value=b"supplied"), step(3, place(1)))

        assert await _amend(scene, forgotten=(place(0),), entries=supplied, names=("b",)) is Amended.APPLIED

        history = await scene.history("r1")
        assert (history.names, history.entries) == (("a", "b"), supplied)
        assert (await scene.run("r1")).last_seq == 3

    @pytest.mark.parametrize("entry", [step(3, place(1)), step(2, place(0)), step(1, place(1))])
    async def test_entries_with_a_gap_or_at_a_taken_location_are_rejected(self, scene: Scene, entry: Any) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        await turn.end(_S.FAILED)
        before = await snapshot(scene.store)

        with pytest.raises(ValueError, match="run"):
            await _amend(scene, entries=(entry,))
        assert await snapshot(scene.store) == before

    async def test_the_previous_epoch_may_not_commit(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        parked = turn.next(waits=(wait_signal(),))
        await turn.park(wait_signal())

        await _amend(scene)

        assert (await turn.send(parked._replace(number=1))).verdict is Verdict.FENCED
        assert (await turn.commit(entries=(step(1, place(0)),))).verdict is Verdict.FENCED

    async def test_unchanged_waits_keep_their_state(self, scene: Scene) -> None:
        kept, closed, dropped = wait_topic(at=place(0)), wait_topic("told", at=place(1)), wait_topic("off", at=place(2))
        await scene.waiting("r1", kept, closed, dropped)
        await scene.publish("e1", "told")

        await _amend(scene, waits=(kept, closed))

        assert (await scene.history("r1")).waits == (kept, closed)
        assert [(await scene.publish(one, topic)).reached for one, topic in (("e2", "news"), ("e3", "told"))] == [1, 0]
        assert (await scene.publish("e4", "off")).reached == 0

    async def test_a_run_that_is_rescheduled_is_due_then_and_keeps_its_attempts(self, scene: Scene) -> None:
        await scene.waiting("r1", wait_signal())
        due_at = Instant(scene.clock.now() + 5_000_000)

        await _amend(scene, waits=(wait_signal(),), wake_at=due_at)

        run = await scene.run("r1")
        assert (run.status, run.wake_at, run.retried_at) == (_S.PENDING, due_at, None)
        assert (await scene.history("r1")).waits == (wait_signal(),)

    async def test_input_and_version_change(self, scene: Scene) -> None:
        await reach(scene, "r1", _S.FAILED)
        await scene.register("w2", "flow@2")

        await _amend(scene, version=2, input=b"new")

        run = await scene.run("r1")
        assert (run.workflow, run.version, run.input) == ("flow", 2, b"new")
        assert await scene.claim() == []
        claimant = Claimant(scene.claimant("w2").incarnation, 9, ("flow@2",))
        assert [one.run.run_id for one in await scene.store.runs.claim(claimant)] == ["r1"]


class AmendedChildSuite(StoreCase):
    """What happens to the children of removed calls."""

    async def test_a_dropped_child_is_cancelled_and_its_outcome_is_ignored(self, scene: Scene) -> None:
        parent = await scene.begin("r1")
        child = await scene.begin_child(parent, "c1", place(0), key="k")
        await child.park(wait_signal())
        await parent.park(wait_child(place(0)))
        gone = former(place(0), 1)

        await _amend(scene, children=(Dropped(RunId("c1"), gone, RunId("c2")),))

        old = await scene.run("c1")
        assert (old.status, old.reason) == (_S.CANCELLED, "its parent was rewound")
        assert (old.parent and old.parent.location, old.replaced_by) == (gone, "c2")
        parent = await scene.claim_only("r1")
        await scene.begin_child(parent, "c2", place(0), key="k")
        applied = await parent.park(wait_child(place(0)))
        assert not applied.is_awake
        assert (await scene.store.runs.inbox(_R1)).children == ()

    async def test_what_a_dropped_child_left_outlives_a_trim_of_its_place(self, scene: Scene) -> None:
        parent = await scene.begin("r1")
        await scene.begin_child(parent, "c1", place(0))
        await parent.park(wait_child(place(0)))
        left = Attempt(place(0), 1, Instant(1), encode_failure(FailureRecord("Rewound", "the child was dropped")), None)
        await _amend(scene, children=(Dropped(RunId("c1"), former(place(0), 1), RunId("c2")),), attempts=(left,))
        parent = await scene.claim_only("r1")
        other = Attempt(place(1), 1, Instant(2), encode_failure(FailureRecord("Broken", "no")), None)

        await parent.commit(attempts=(other,))
        await parent.commit(trims=((place(0), place(2)),))

        # Without it the next child would get the id of the first one, and the run would wait for it for ever.
        [history] = await scene.store.runs.load([_R1])
        assert history.attempts == (left,)

    async def test_a_child_that_is_rolling_back_frees_its_key(self, scene: Scene) -> None:
        parent = await scene.begin("r1")
        child = await scene.begin_child(parent, "c1", place(0), key="k")
        await child.record("step", undo=b"undo")
        await parent.park(wait_child(place(0)))

        await _amend(scene, children=(Dropped(RunId("c1"), former(place(0), 1), RunId("c2")),))

        assert await scene.status("c1") is _S.CANCELLING
        parent = await scene.claim_only("r1")
        await scene.begin_child(parent, "c2", place(0), key="k")
        assert await scene.status("c2") is _S.RUNNING

    async def test_a_replaced_run_that_is_repaired_continues_as_new_without_its_key(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.record("a", undo=b"u")
        await turn.park(wait_signal("go"))
        await scene.create("r2", key="k", on_conflict="replace")
        turns = {turn.run_id: turn for turn in await scene.claim()}
        await turns[_R1].roll_back("cancelled")
        await turns[_R1].end(_S.FAILED, failure=encode_failure(FailureRecord("Oops", "no")))
        await turns[RunId("r2")].end()
        assert await _amend(scene) is Amended.APPLIED
        again = await scene.claim_only("r1")
        await scene.create("r3", key="k", dedup=0)

        applied = await again.commit(move=End(_S.CONTINUED, successor=new_run("r4")))
        assert applied.verdict is Verdict.APPLIED
        assert [(await scene.run(one)).key for one in ("r1", "r3", "r4")] == ["k", "k", None]

    async def test_a_plan_is_stale_once_a_dropped_child_has_continued_as_new(self, scene: Scene) -> None:
        parent = await scene.begin("r1")
        child = await scene.begin_child(parent, "c1", place(0), key="k")
        await parent.park(wait_child(place(0)))
        expected = await scene.run("r1")
        await child.commit(move=End(_S.CONTINUED, successor=new_run("c2")))

        dropped = Dropped(RunId("c1"), former(place(0), 1), RunId("c3"))
        assert await _amend(scene, children=(dropped,)) is Amended.STALE
        assert await scene.run("r1") == expected
        assert await scene.status("c2") is _S.PENDING

        assert await _amend(scene, children=(dropped, dropped._replace(run_id=RunId("c2")))) is Amended.APPLIED
        assert await scene.status("c2") is _S.CANCELLED

    async def test_detached_and_ended_children_are_only_moved(self, scene: Scene) -> None:
        parent = await scene.begin("r1")
        await scene.begin_child(parent, "c1", place(0), detached=True, key="k")
        await (await scene.begin_child(parent, "c2", place(1))).end(output=b"out")
        await parent.park(wait_signal())
        before = {name: await scene.run(name) for name in ("c1", "c2")}
        dropped = tuple(Dropped(RunId(name), former(place(at), 1), RunId("x")) for at, name in enumerate(before))

        await _amend(scene, children=dropped)

        for run_id, location, _ in dropped:
            was = before[run_id]
            assert was.parent is not None
            assert await scene.run(run_id) == was._replace(parent=was.parent._replace(location=location))

    async def test_failed_children_are_retried(self, scene: Scene) -> None:
        parent = await scene.begin("r1")
        await (await scene.begin_child(parent, "c1", place(0))).end(_S.FAILED)
        await parent.end(_S.FAILED)

        await _amend(scene, retries=(RunId("c1"),))

        assert await scene.status("c1") is _S.PENDING
        assert [act.verb for act in await scene.store.views.list_audit(RunId("c1"))] == ["retry"]


class ForkSuite(StoreCase):
    """`fork`."""

    async def _source(self, scene: Scene) -> Fork:
        turn = await scene.begin("r1", key="k")
        await turn.record("a")
        await turn.record("b")
        await turn.end()
        run = await scene.run("r1")
        entry = step(1, place(0), kind=EntryKind.STEP, status=EntryStatus.DONE)
        cursor = Cursor(named(iteration(place(1), 2), 0), 3, 1, b"state")
        new = NewRun(RunId("r2"), "flow", 1, b"in", "k2", on_conflict="raise")
        return Fork(new, _R1, run.epoch, run.revision, ("a", "b"), (entry,), (cursor,), "ann", "why")

    async def test_a_run_begins_with_the_record_of_another(self, scene: Scene) -> None:
        fork = await self._source(scene)
        before, now = await scene.run("r1"), scene.clock.now()

        created = await scene.store.runs.fork(fork)

        assert created is not None
        assert (created.run_id, created.is_new) == ("r2", True)
        run, history = await scene.run("r2"), await scene.history("r2")
        assert (run.status, run.key, run.input, run.forked_from) == (_S.PENDING, "k2", b"in", "r1")
        assert (run.revision, run.last_seq, run.wake_at, run.retried_at) == (1, 1, now, now)
        assert (history.names, history.entries, history.cursors) == (fork.names, fork.entries, fork.cursors)
        assert await scene.run("r1") == before
        assert await scene.store.views.list_audit(_R1) == [
            Audit(now, _R1, "fork", "ann", "completed", "completed", "why")
        ]
        assert await scene.store.views.list_audit(RunId("r2")) == [
            Audit(now, RunId("r2"), "forked", "ann", "pending", "pending", "why")
        ]
        turn = await scene.claim_only("r2")
        assert not turn.claimed.is_fresh
        assert (await turn.commit(entries=(step(2, place(1)),))).verdict is Verdict.APPLIED

    async def test_a_repeated_fork_creates_one_run(self, scene: Scene) -> None:
        fork = await self._source(scene)
        await scene.store.runs.fork(fork)
        before = await snapshot(scene.store)

        again = await scene.store.runs.fork(fork)

        assert again is not None
        assert (again.run_id, again.is_new) == ("r2", True)
        assert await snapshot(scene.store) == before

    async def test_a_taken_key_or_a_changed_source_makes_no_fork(self, scene: Scene) -> None:
        fork = await self._source(scene)
        await scene.create("r3", key="k2")
        before = await snapshot(scene.store)

        with pytest.raises(AlreadyExistsError):
            await scene.store.runs.fork(fork)
        assert await scene.store.runs.fork(fork._replace(revision=fork.revision + 1)) is None
        assert await scene.store.runs.fork(fork._replace(epoch=fork.epoch + 1)) is None
        with pytest.raises(NotFoundError):
            await scene.store.runs.fork(fork._replace(source=RunId("unknown")))
        assert await snapshot(scene.store) == before
