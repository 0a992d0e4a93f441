"""Plain commits with one entry each: a store may write them on a fast path until another process changes the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, Turn, place, step
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Applied, Commit, End, Park, Pause, Release, Verdict
from stepwell.model.states import RunStatus

_R1 = RunId("r1")
_NAMES = tuple("abcdefgh")
_FENCED = Applied(Verdict.FENCED)

Act = Callable[[Scene], Awaitable[object]]


async def _pause(scene: Scene) -> None:
    assert await scene.store.runs.pause(_R1, by="me", reason="")


async def _pause_and_resume(scene: Scene) -> None:
    await _pause(scene)
    assert await scene.store.runs.resume(_R1, by="me")


async def _relinquish(scene: Scene) -> None:
    assert await scene.store.runs.relinquish(Incarnation("w1"), ()) == [_R1]


async def _take_over(scene: Scene) -> None:
    await _relinquish(scene)
    await scene.claim_only(_R1, "w2")


async def _rescue(scene: Scene) -> None:
    await scene.lose_worker("w2")
    assert await scene.rescue() == [_R1]


async def _quarantine(scene: Scene) -> None:
    await scene.lose_worker("w2")
    await scene.rescue(stalls_max=1)
    assert await scene.status(_R1) is RunStatus.PAUSED


async def _seal_and_unseal(scene: Scene) -> None:
    await scene.lose_worker()
    await scene.store.transfers.seal("t1", "there")
    await scene.store.transfers.unseal("t1")


class PlainCommitSuite(StoreCase):
    """Commits with one entry and nothing else."""

    async def _begin(self, scene: Scene) -> Turn:
        """A run with three steps, whose names are known."""
        await scene.register("w2")
        turn = await scene.begin("r1")
        await turn.commit(names=_NAMES, entries=(step(1, place(0)),))
        for _ in range(2):
            assert await turn.send(self._next(turn)) == Applied(Verdict.APPLIED, revision=turn.number)
        return turn

    def _next(self, turn: Turn) -> Commit:
        seq = turn.seq + 1
        return turn.next(entries=(step(seq, place(seq - 1)),))

    async def _seqs(self, scene: Scene) -> list[int]:
        return [entry.seq for entry in (await scene.history("r1")).entries]

    async def test_each_commit_raises_the_revision_that_it_returns(self, scene: Scene) -> None:
        turn = await self._begin(scene)
        applied = await turn.send(self._next(turn))

        run = await scene.run("r1")
        assert applied == Applied(Verdict.APPLIED, revision=4)
        assert (run.revision, run.last_seq, run.status, run.owner) == (4, 4, RunStatus.RUNNING, "w1")
        assert (await scene.history("r1")).entries == tuple(step(n, place(n - 1)) for n in range(1, 5))

    async def test_a_repeated_plain_commit_is_applied_once(self, scene: Scene) -> None:
        turn = await self._begin(scene)
        commit = self._next(turn)

        assert await turn.send(commit) == await turn.send(commit) == Applied(Verdict.APPLIED, revision=4)
        assert await self._seqs(scene) == [1, 2, 3, 4]

    async def test_a_foreign_fence_is_fenced(self, scene: Scene) -> None:
        turn = await self._begin(scene)
        strangers: list[Callable[[Commit], Commit]] = [
            lambda commit: commit._replace(fence=turn.fence._replace(incarnation=Incarnation("w2"))),
            lambda commit: commit._replace(fence=turn.fence._replace(epoch=0)),
            lambda commit: commit._replace(fence=turn.fence._replace(epoch=2)),
            lambda commit: commit._replace(number=commit.number + 1),
            lambda commit: commit._replace(number=commit.number - 2),
        ]
        for stranger in strangers:
            assert await turn.send(stranger(self._next(turn))) == _FENCED
            for _ in range(2):
                assert await turn.send(self._next(turn)) == Applied(Verdict.APPLIED, revision=turn.number)

    async def test_gaps_and_taken_locations_are_rejected(self, scene: Scene) -> None:
        turn = await self._begin(scene)
        for entry in (step(5, place(4)), step(3, place(4)), step(4, place(1))):
            with pytest.raises(ValueError, match=r"r1|already"):
                await turn.commit(entries=(entry,))

        assert await self._seqs(scene) == [1, 2, 3]
        assert (await turn.send(self._next(turn))).verdict is Verdict.APPLIED

    @pytest.mark.parametrize(
        "act",
        [
            lambda scene: scene.cancel("r1", compensate=False),
            lambda scene: scene.store.workers.retire(Incarnation("w1")),
            _relinquish,
            _take_over,
            _rescue,
            _quarantine,
            _seal_and_unseal,
        ],
        ids=["cancel", "retire", "relinquish", "take over", "rescue", "quarantine", "seal"],
    )
    async def test_a_worker_that_lost_the_run_is_fenced(self, scene: Scene, elsewhere: Scene, act: Act) -> None:
        turn = await self._begin(scene)
        await act(elsewhere)
        before = await scene.run("r1")

        assert await turn.send(self._next(turn)) == _FENCED
        assert (await scene.run("r1"), await self._seqs(scene)) == (before, [1, 2, 3])

    @pytest.mark.parametrize(
        ("act", "expected"),
        [
            (lambda scene: scene.cancel("r1"), Applied(Verdict.APPLIED, cancelling=True, revision=4)),
            (_pause, Applied(Verdict.APPLIED, held=True, revision=4)),
            (_pause_and_resume, Applied(Verdict.APPLIED, revision=4)),
        ],
        ids=["cancel", "pause", "pause and resume"],
    )
    async def test_the_owner_learns_of_cancels_and_pauses(
        self, scene: Scene, elsewhere: Scene, act: Act, expected: Applied
    ) -> None:
        turn = await self._begin(scene)
        await act(elsewhere)

        assert await turn.send(self._next(turn)) == expected
        assert await turn.send(self._next(turn)) == expected._replace(revision=5)
        assert await self._seqs(scene) == [1, 2, 3, 4, 5]

    @pytest.mark.parametrize(
        "move", [Park(Instant(9)), Release(), Pause(b"oops"), End(RunStatus.COMPLETED), End(RunStatus.FAILED)], ids=str
    )
    @pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "with others"])
    async def test_a_released_or_ended_run_is_fenced(
        self, scene: Scene, elsewhere: Scene, move: object, is_alone: bool
    ) -> None:
        turn = await self._begin(scene)
        other = await scene.begin("r2")
        commit = turn.next(move=move)
        done = [commit] if is_alone else [other.next(move=End(RunStatus.COMPLETED)), commit]
        await elsewhere.store.runs.apply(done)
        turn.number += 1

        assert await turn.send(self._next(turn)) == _FENCED
        assert await self._seqs(scene) == [1, 2, 3]

    async def test_only_the_new_claim_may_commit(self, scene: Scene) -> None:
        old = await self._begin(scene)
        await old.commit(waits=(), move=Release())
        new = await scene.claim_only("r1")
        new.seq = old.seq

        for _ in range(2):
            assert await old.send(self._next(old)) == _FENCED
            assert (await new.send(self._next(new))).verdict is Verdict.APPLIED
        assert await self._seqs(scene) == [1, 2, 3, 4, 5]

    async def test_the_old_claim_is_fenced_even_with_matching_numbers(self, scene: Scene, elsewhere: Scene) -> None:
        old = await self._begin(scene)
        await elsewhere.store.runs.relinquish(Incarnation("w1"), ())
        new = await elsewhere.claim_only("r1")
        new.seq = old.seq
        while new.number < old.number:
            assert (await new.send(self._next(new))).verdict is Verdict.APPLIED
        old.seq = new.seq

        assert await old.send(self._next(old)) == _FENCED
        assert (await new.send(self._next(new))).verdict is Verdict.APPLIED

    async def test_plain_commits_of_a_rollback_are_fenced_too(self, scene: Scene, elsewhere: Scene) -> None:
        turn = await self._begin(scene)
        await turn.roll_back()
        for _ in range(2):
            assert (await turn.send(self._next(turn))).verdict is Verdict.APPLIED
        await _relinquish(elsewhere)

        assert await turn.send(self._next(turn)) == _FENCED
        assert await self._seqs(scene) == [1, 2, 3, 4, 5]

    async def test_plain_commits_may_alternate_with_batches(self, scene: Scene) -> None:
        turn, other = await self._begin(scene), await scene.begin("r2")
        for number in range(4):
            commit = self._next(turn)
            if number % 2:
                await turn.send(commit)
            else:
                seq = other.seq + 1
                names = () if number else _NAMES
                beside = other.next(names=names, entries=(step(seq, place(seq - 1)),))
                await scene.store.runs.apply([beside, commit])
                other.number, other.seq, turn.number, turn.seq = seq, seq, turn.number + 1, turn.seq + 1

        assert await self._seqs(scene) == [1, 2, 3, 4, 5, 6, 7]
        assert (await scene.run("r1")).revision == 7
