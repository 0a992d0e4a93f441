"""Each move of a commit."""

from __future__ import annotations

import pytest

from stepwell.clock import Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FIRST, Scene, new_run, place, step, wait_child, wait_signal, wait_timer
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import InvalidMoveError
from stepwell.ids import RunId
from stepwell.model.commits import Applied, BeginRollback, End, Move, Park, Pause, Release, Verdict
from stepwell.model.entries import Cursor
from stepwell.model.runs import Created, Parent, Previous, Run
from stepwell.model.states import RunStatus

_SECOND = 1_000_000


class MoveSuite(StoreCase):
    """Park, Release, Pause and BeginRollback."""

    async def test_a_waiting_run_is_due_at_its_wake_time_and_never_earlier(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        due = Instant(scene.clock.now() + 2 * _SECOND)

        assert await turn.park(wait_timer(due), wake_at=due) == Applied(Verdict.APPLIED, revision=1)

        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at, run.epoch) == (RunStatus.WAITING, None, due, 1)
        scene.clock.advance("1999999us")
        assert await scene.claim() == []
        scene.clock.advance("1us")
        again = await scene.claim_only("r1")
        assert (again.claimed.run.status, again.fence.epoch) == (RunStatus.RUNNING, 2)
        assert await scene.claim() == []
        assert (await scene.history("r1")).waits == (wait_timer(due),)

    async def test_a_waiting_run_can_be_claimed_ahead_of_its_deadline(self, scene: Scene) -> None:
        late, soon, now = [await scene.begin(name) for name in ("late", "soon", "now")]
        for turn, seconds in ((late, 3), (soon, 2), (now, 0)):
            due = Instant(scene.clock.now() + seconds * _SECOND)
            await turn.park(wait_timer(due), wake_at=due)

        assert [turn.run_id for turn in await scene.claim(ahead="1999999us")] == ["now"]
        [ahead] = await scene.claim(ahead="2s")

        run = await scene.run("soon")
        assert ahead.run_id == "soon"
        assert (run.status, run.owner, run.wake_at) == (RunStatus.RUNNING, scene.incarnation, None)
        assert len((await scene.history("soon")).waits) == 1

    async def test_due_runs_are_claimed_before_runs_that_will_be_due(self, scene: Scene) -> None:
        urgent = await scene.begin("urgent", priority=9)
        later = await scene.begin("later", priority=5)
        for turn, millis in ((urgent, 20), (later, 10)):
            due = Instant(scene.clock.now() + millis * 1_000)
            await turn.park(wait_timer(due), wake_at=due)
        await scene.create("due")

        assert [turn.run_id for turn in await scene.claim(ahead="1s", limit=1)] == ["due"]
        assert [turn.run_id for turn in await scene.claim(ahead="1s", limit=1)] == ["urgent"]
        assert [turn.run_id for turn in await scene.claim(ahead="1s")] == ["later"]

    async def test_only_waiting_runs_are_claimed_ahead_of_time(self, scene: Scene) -> None:
        await scene.create("delayed", delay=Span(_SECOND))
        undone = await scene.begin("undone")
        await undone.roll_back()
        due = Instant(scene.clock.now() + _SECOND)
        await undone.park(wait_timer(due), wake_at=due)

        assert await scene.claim(ahead="1m") == []
        scene.clock.advance("1s")
        assert {turn.run_id for turn in await scene.claim()} == {"delayed", "undone"}

    async def test_a_wait_that_is_due_already_reports_awake(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        due = scene.clock.now()

        assert (await turn.park(wait_timer(due), wake_at=due)).is_awake
        await scene.claim_only("r1")

    async def test_a_compensating_run_that_waits_stays_compensating(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.roll_back()
        due = Instant(scene.clock.now() + _SECOND)

        await turn.park(wait_timer(due), wake_at=due)

        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at) == (RunStatus.COMPENSATING, None, due)
        scene.clock.advance(1)
        assert (await scene.claim_only("r1")).claimed.run.status is RunStatus.COMPENSATING

    async def test_a_released_run_is_due_now(self, scene: Scene) -> None:
        running = await scene.begin("r1")
        compensating = await scene.begin("r2")
        await compensating.roll_back()
        scene.clock.advance(1)

        await running.commit(move=Release())
        await compensating.commit(move=Release())

        for run_id, status in (("r1", RunStatus.PENDING), ("r2", RunStatus.COMPENSATING)):
            run = await scene.run(run_id)
            assert (run.status, run.owner, run.wake_at) == (status, None, scene.clock.now())

    async def test_a_paused_run_keeps_its_failure_and_waits(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await scene.send("s1", "r1")

        await turn.commit(waits=(wait_signal(),), move=Pause(b"why"))

        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at, run.failure, run.ended_at) == (
            RunStatus.PAUSED,
            None,
            None,
            b"why",
            None,
        )
        assert (await scene.history("r1")).waits == (wait_signal(),)
        assert await scene.claim() == []
        assert not (await scene.create("r2", key="k")).is_new

    async def test_a_rollback_begins_under_the_same_owner(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a",), entries=(step(1, place(0), undo=b"u"),), waits=(wait_signal(),))

        await turn.roll_back("failed", b"why", 1)

        run = await scene.run("r1")
        assert (run.status, run.owner, run.cause, run.failure, run.undo_floor) == (
            RunStatus.COMPENSATING,
            scene.incarnation,
            "failed",
            b"why",
            1,
        )
        assert (await scene.history("r1")).waits == ()
        assert (await turn.record("b")).verdict is Verdict.APPLIED

    @pytest.mark.parametrize(
        "move",
        [BeginRollback("cancelled", None), End(RunStatus.CANCELLED), Release(), None],
        ids=lambda move: type(move).__name__,
    )
    async def test_what_a_cancelling_run_may_still_do(self, scene: Scene, move: Move | None) -> None:
        turn = await scene.begin("r1")
        await scene.cancel("r1")
        after = {End: RunStatus.CANCELLED, BeginRollback: RunStatus.COMPENSATING}

        applied = await turn.commit(names=("a",), entries=(step(1, place(0)),), move=move)

        status = after.get(type(move), RunStatus.CANCELLING)
        assert applied == Applied(Verdict.APPLIED, cancelling=status is RunStatus.CANCELLING, revision=1)
        assert await scene.status("r1") is status
        assert (await scene.run("r1")).last_seq == 1
        assert ((await scene.run("r1")).owner is None) == isinstance(move, (Release, End))

    @pytest.mark.parametrize(
        "move",
        [
            Park(None),
            Pause(b"x"),
            BeginRollback("failed", b"x"),
            End(RunStatus.COMPLETED),
            End(RunStatus.FAILED),
            End(RunStatus.CONTINUED, successor=new_run("r2")),
        ],
        ids=str,
    )
    async def test_a_cancel_that_came_first_stops_every_other_move(self, scene: Scene, move: Move) -> None:
        turn = await scene.begin("r1")
        await scene.cancel("r1")
        before = await snapshot(scene.store)

        stopped = await turn.commit(names=("a",), entries=(step(1, place(0)),), waits=(wait_signal(),), move=move)

        assert stopped.verdict is Verdict.CANCELLING
        assert await snapshot(scene.store) == before
        assert (await turn.end(RunStatus.CANCELLED)).verdict is Verdict.APPLIED


class EndSuite(StoreCase):
    """End, and continuing as new."""

    @pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
    async def test_an_end_closes_the_run(self, scene: Scene, status: RunStatus) -> None:
        turn = await scene.begin("r1", key="k")
        cursors = (Cursor(place(0), 1, 0, b"x"),)
        await turn.commit(names=("a",), entries=(step(1, place(0)),), cursors=cursors, waits=(wait_signal(),))
        scene.clock.advance(1)

        assert (await turn.end(status, output=b"\x00out", failure=b"\xffwhy")).verdict is Verdict.APPLIED

        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at, run.ended_at) == (status, None, None, scene.clock.now())
        assert (run.output, run.failure, run.revision) == (b"\x00out", b"\xffwhy", 2)
        history = await scene.history("r1")
        # A failed run may be retried, and then continues its loops where they were.
        kept = cursors if status is RunStatus.FAILED else ()
        assert (history.waits, history.cursors, len(history.entries)) == ((), kept, 1)
        assert (await scene.create("r2", key="k")).is_new

    async def test_an_end_without_a_failure_keeps_the_stored_one(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.roll_back("failed", b"why")
        await turn.end(RunStatus.COMPENSATED)
        other = await scene.begin("r2")
        await other.roll_back("failed", b"why")
        await other.end(RunStatus.COMPENSATED, failure=b"new")

        assert [(await scene.run(run_id)).failure for run_id in ("r1", "r2")] == [b"why", b"new"]

    async def test_an_incomplete_rollback_is_not_an_end(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        turn = await scene.begin_child(parent, "r1", key="k")
        await parent.park(wait_child(FIRST))
        await turn.record("a", undo=b"u")
        await turn.roll_back("failed", b"why")

        await turn.end(RunStatus.COMPENSATION_FAILED, failure=b"undo failed")

        run = await scene.run("r1")
        assert (run.status, run.owner, run.wake_at, run.ended_at) == (RunStatus.COMPENSATION_FAILED, None, None, None)
        assert (run.failure, run.cause) == (b"undo failed", "failed")
        assert (await scene.run("p1")).wake_at is None
        assert not (await scene.create("r2", key="k")).is_new
        assert await scene.claim() == []
        assert [entry.undo for entry in (await scene.history("r1")).entries] == [b"u"]

    @pytest.mark.parametrize(
        "move",
        [
            End(RunStatus.COMPENSATED),
            End(RunStatus.COMPENSATION_FAILED),
            End(RunStatus.WAITING),
            End(RunStatus.CONTINUED),
            End(RunStatus.COMPLETED, successor=new_run("r2")),
        ],
        ids=str,
    )
    async def test_an_invalid_end_writes_nothing(self, scene: Scene, move: End) -> None:
        turn = await scene.begin("r1")
        other = await scene.begin("r3")
        before = await snapshot(scene.store)

        with pytest.raises((InvalidMoveError, ValueError)):
            await scene.store.runs.apply([other.next(names=("a",)), turn.next(names=("a",), move=move)])

        assert await snapshot(scene.store) == before

    async def test_the_successor_is_created_in_the_same_transaction(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        started = scene.clock.now()
        scene.clock.advance(1)
        now = scene.clock.now()

        successor = new_run("r2", input=b"next", version=2, key="ignored")
        await turn.commit(move=End(RunStatus.CONTINUED, successor=successor))

        old = await scene.run("r1")
        assert (old.status, old.ended_at, old.successor, old.key) == (RunStatus.CONTINUED, now, "r2", "k")
        previous = Previous(RunId("r1"), started, now)
        assert await scene.run("r2") == Run(
            *(RunId("r2"), "flow", 2, RunStatus.PENDING, "k", 0, None, 0, 0, now, None, None, now, b"next"),
            generation=2,
            previous=previous,
        )
        assert (await scene.create("r3", key="k")).run_id == "r2"

    async def test_a_successor_begins_with_what_is_left_to_undo(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        kept = (step(1, place(0))._replace(undo=b"u"), step(2, place(1))._replace(undo=b"v"))

        await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r2"), names=("a", "b"), entries=kept))

        history = await scene.history("r2")
        assert (history.names, history.entries) == (("a", "b"), kept)
        run = await scene.run("r2")
        assert (run.last_seq, run.revision, run.epoch) == (2, 1, 0)
        assert not (await scene.claim_only("r2")).claimed.is_fresh

    async def test_the_end_of_the_last_successor_wakes_the_parent(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        turn = await scene.begin_child(parent, "r1")
        await parent.park(wait_child(FIRST))

        await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r2", delay=Span(0))))

        assert (await scene.run("p1")).wake_at is None
        assert (await scene.store.runs.inbox(RunId("p1"))).children == ()
        turn = await scene.claim_only("r2")
        assert turn.claimed.run.parent == Parent(RunId("p1"), FIRST)
        await turn.end(output=b"done")
        assert (await scene.run("p1")).wake_at == scene.clock.now()
        [outcome] = (await scene.store.runs.inbox(RunId("p1"))).children
        assert (outcome.run_id, outcome.output) == ("r2", b"done")

    async def test_a_continued_run_does_not_answer_within_the_dedup_window(self, scene: Scene) -> None:
        turn = await scene.begin("r1", key="k")
        await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r2")))
        await (await scene.claim_only("r2")).end()
        scene.clock.advance(1)

        assert await scene.create("r3", key="k", dedup=Span(60 * _SECOND)) == Created(RunId("r2"), is_new=False)

    async def test_a_successor_with_a_taken_id_is_rejected(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.create("r2")
        before = await snapshot(scene.store)

        with pytest.raises(ValueError):
            await turn.commit(move=End(RunStatus.CONTINUED, successor=new_run("r2")))

        assert await snapshot(scene.store) == before
