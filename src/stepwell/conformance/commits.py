"""Applying commits: fences, repetition, and all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, new_run, place, step, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Applied, End, Park, Pause, Release, Verdict
from stepwell.model.states import RunStatus
from stepwell.model.workers import Fence


class CommitSuite(StoreCase):
    """`apply`: the fence, the number, and all or nothing."""

    @pytest.mark.parametrize(
        "move",
        [None, Park(None), Park(Instant(9)), Release(), Pause(b"why"), End(RunStatus.COMPLETED, b"out")],
        ids=str,
    )
    async def test_repeating_the_last_commit_changes_nothing_and_answers_the_same(
        self, scene: Scene, move: Any
    ) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        commit = turn.next(names=("b",), entries=(step(2, place(1)),), waits=(wait_signal("x"),), move=move)
        first = await turn.send(commit)
        before = await snapshot(scene.store)
        scene.clock.advance(1)

        again = await turn.send(commit)

        assert (again.verdict, again.revision) == (Verdict.APPLIED, 2) == (first.verdict, first.revision)
        assert await snapshot(scene.store) == before

    async def test_a_repeated_commit_reports_again_that_the_run_is_awake(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.send("s1", "r1")
        commit = turn.next(waits=(wait_signal(),), move=Park(None))

        assert await turn.send(commit) == Applied(Verdict.APPLIED, revision=1, is_awake=True)
        assert await turn.send(commit) == Applied(Verdict.APPLIED, revision=1, is_awake=True)

    async def test_a_repetition_after_the_next_claim_is_fenced(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        commit = turn.next(move=Release())
        await turn.send(commit)
        await scene.claim_only("r1")
        before = await snapshot(scene.store)

        assert await turn.send(commit) == Applied(Verdict.FENCED)
        assert await snapshot(scene.store) == before

    @pytest.mark.parametrize("number", [0, 1, 4])
    async def test_a_number_out_of_turn_is_fenced(self, scene: Scene, number: int) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        await turn.record("b")
        before = await snapshot(scene.store)

        late = turn.next(names=("x",), entries=(step(3, place(2)),))._replace(number=number)

        assert await turn.send(late) == Applied(Verdict.FENCED)
        assert await snapshot(scene.store) == before

    async def test_commit_number_zero_is_fenced(self, scene: Scene) -> None:
        turn = await scene.begin("r1")

        assert await turn.send(turn.next(names=("a",))._replace(number=0)) == Applied(Verdict.FENCED)

    async def test_each_claim_numbers_its_commits_from_one(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        await turn.commit(move=Release())
        turn = await scene.claim_only("r1")

        assert await turn.record("b") == Applied(Verdict.APPLIED, revision=3)

    async def test_the_commit_of_a_stale_worker_changes_nothing(self, scene: Scene, elsewhere: Scene) -> None:
        stale = await scene.begin("r1")
        await stale.record("a")
        await elsewhere.register()
        await scene.lose_worker("w2")
        assert await elsewhere.rescue() == ["r1"]
        await scene.send("s1", "r1")
        before = await snapshot(scene.store)

        for move in (None, Park(None), Release(), Pause(b"x"), End(RunStatus.COMPLETED)):
            commit = stale.next(
                names=("b",),
                entries=(step(2, place(1)),),
                consumed=(1,),
                children=(new_run("c1"),),
                waits=(),
                move=move,
            )
            assert await stale.send(commit) == Applied(Verdict.FENCED)
            assert await snapshot(scene.store) == before

        fresh = await elsewhere.claim_only("r1")
        before = await snapshot(scene.store)
        assert await stale.record("b") == Applied(Verdict.FENCED)
        assert await snapshot(scene.store) == before
        assert fresh.fence.epoch == 2
        assert (await fresh.record("b")).verdict is Verdict.APPLIED

    async def test_an_unknown_run_and_a_foreign_fence_are_fenced(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        before = await snapshot(scene.store)
        commit = turn.next(names=("a",))

        for wrong in (
            commit._replace(run_id=RunId("unknown")),
            commit._replace(fence=Fence(turn.fence.incarnation, 2)),
            commit._replace(fence=turn.fence._replace(incarnation=Incarnation("w9"))),
        ):
            assert await turn.send(wrong) == Applied(Verdict.FENCED)
        assert await snapshot(scene.store) == before

    async def test_a_fenced_commit_does_not_affect_the_others(self, scene: Scene) -> None:
        one, two, three = [await scene.begin(run_id) for run_id in ("r1", "r2", "r3")]
        commits = [turn.next(names=("a",), entries=(step(1, place(0)),)) for turn in (one, two, three)]
        commits[1] = commits[1]._replace(number=5)

        applied = await scene.store.runs.apply(commits)

        assert [outcome.verdict for outcome in applied] == [Verdict.APPLIED, Verdict.FENCED, Verdict.APPLIED]
        assert [(await scene.run(run_id)).last_seq for run_id in ("r1", "r2", "r3")] == [1, 0, 1]

    async def test_two_commits_of_one_run_may_share_a_batch(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        first = turn.next(names=("a",), entries=(step(1, place(0)),))
        second = first._replace(number=2, names=("b",), entries=(step(2, place(1)),), move=End(RunStatus.COMPLETED))

        applied = await scene.store.runs.apply([first, second])

        assert [(one.verdict, one.revision) for one in applied] == [(Verdict.APPLIED, 1), (Verdict.APPLIED, 2)]
        assert await scene.status("r1") is RunStatus.COMPLETED

    @pytest.mark.parametrize("seqs", [(3,), (1,), (2, 4), (2, 2), (3, 2)])
    async def test_entries_that_do_not_continue_the_history_are_rejected(
        self, scene: Scene, seqs: tuple[int, ...]
    ) -> None:
        turn = await scene.begin("r1")
        other = await scene.begin("r2")
        await turn.record("a")
        before = await snapshot(scene.store)
        entries = tuple(step(seq, place(10 + index)) for index, seq in enumerate(seqs))

        with pytest.raises(ValueError):
            await scene.store.runs.apply([other.next(names=("a",)), turn.next(names=("b",), entries=entries)])

        assert await snapshot(scene.store) == before
        assert (await turn.record("b")).verdict is Verdict.APPLIED

    async def test_a_second_entry_at_one_location_is_rejected(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")
        before = await snapshot(scene.store)

        with pytest.raises(ValueError):
            await turn.commit(
                names=("b",), entries=(step(2, place(1)), step(3, place(0))), move=End(RunStatus.COMPLETED)
            )

        assert await snapshot(scene.store) == before

    async def test_a_signal_that_is_not_pending_cannot_be_consumed(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await scene.begin("r2")
        await scene.send("s1", "r1")
        await scene.send("s2", "r2")
        [mine] = (await scene.store.runs.inbox(RunId("r1"))).signals
        [foreign] = (await scene.store.runs.inbox(RunId("r2"))).signals
        await turn.commit(consumed=(mine.number,))
        before = await snapshot(scene.store)

        for number in (mine.number, foreign.number, 9_999):
            with pytest.raises(ValueError):
                await turn.commit(names=("a",), consumed=(number,))
            assert await snapshot(scene.store) == before

    async def test_applying_no_commits_does_nothing(self, scene: Scene) -> None:
        assert await scene.store.runs.apply([]) == []
