"""The progress of long steps."""

from __future__ import annotations

from typing import Any

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, place, step
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId
from stepwell.model.commits import Park, Release, Verdict
from stepwell.model.entries import Progress
from stepwell.model.states import RunStatus
from stepwell.stores.base.views import StepProgress


def progress(number: int = 0, state: bytes | None = b"1", **changes: Any) -> Progress:
    """The progress of the step with the run's n-th name."""
    return Progress(place(number), Instant(1_000), state)._replace(**changes)


class ProgressSuite(StoreCase):
    """`apply` with progress, and `list_progress`."""

    async def test_progress_is_stored_completely_and_replaced(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        first = progress(0, b"\x00state", done=1, total=9, unit="rows", note="ä", turns=2)
        await turn.commit(names=("a", "b"), progress=(first, progress(1, None)))
        assert (await scene.history("r1")).progress == (first, progress(1, None))

        later = first._replace(at=Instant(2_000), state=b"further", done=2)
        await turn.commit(progress=(later,))

        assert (await scene.history("r1")).progress == (later, progress(1, None))

    async def test_progress_is_removed_with_the_entry_that_ends_it(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a", "b"), progress=(progress(0), progress(1)))

        await turn.commit(entries=(step(1, place(0)),), ended_progress=(place(0),))

        history = await scene.history("r1")
        assert (len(history.entries), history.progress) == (1, (progress(1),))

    async def test_a_fenced_commit_keeps_no_progress(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a",), progress=(progress(0),), move=Release())
        await scene.claim_only("r1")
        before = await snapshot(scene.store)

        late = await turn.commit(progress=(progress(0, b"late"),), ended_progress=(place(0),))

        assert late.verdict is Verdict.FENCED
        assert await snapshot(scene.store) == before

    async def test_a_worker_that_lost_its_run_stores_no_progress(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a",), progress=(progress(0),))
        await scene.lose_worker()
        await scene.rescue()

        assert (await turn.commit(progress=(progress(0, b"late"),))).verdict is Verdict.FENCED
        assert (await scene.history("r1")).progress == (progress(0),)

    async def test_only_another_state_counts_as_progress_against_stalls(self, scene: Scene) -> None:
        async def stalls_after(**parts: Any) -> int:
            turn = await scene.claim_only("r1")
            await turn.commit(**parts)
            stalls = (await scene.run("r1")).stalls
            await scene.lose_worker()
            await scene.rescue()
            await scene.register()
            return stalls

        await scene.create("r1")
        assert await stalls_after(names=("a",)) == 0
        assert await stalls_after(progress=(progress(0, b"1"),)) == 0
        assert await stalls_after(progress=(progress(0, b"1", done=7),)) == 1
        assert await stalls_after(progress=(progress(0, b"2"),)) == 0
        assert await stalls_after(progress=(progress(0, b"2"),), move=Release()) == 1
        assert await stalls_after(progress=(progress(0, b"3"),), move=Release()) == 0

    async def test_a_run_that_waits_until_now_is_due_and_keeps_its_progress(self, scene: Scene) -> None:
        turn = await scene.begin("r1")

        applied = await turn.commit(names=("a",), progress=(progress(0),), move=Park(scene.store.now()))

        assert (applied.is_awake, await scene.status("r1")) == (True, RunStatus.WAITING)
        again = await scene.claim_only("r1")
        assert again.claimed.run.status is RunStatus.RUNNING
        assert (await scene.history("r1")).progress == (progress(0),)

    async def test_a_run_that_failed_keeps_it_for_a_retry(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a",), progress=(progress(0),))
        await turn.end(RunStatus.FAILED)

        await scene.store.runs.retry(RunId("r1"), by="ann")

        assert (await scene.history("r1")).progress == (progress(0),)

    async def test_a_cancel_of_an_unowned_run_deletes_progress(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a",), progress=(progress(0),), move=Release())

        await scene.cancel("r1")

        assert (await scene.status("r1"), (await scene.history("r1")).progress) == (RunStatus.CANCELLED, ())

    async def test_a_cancel_of_an_owned_run_keeps_progress(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a",), progress=(progress(0),))

        await scene.cancel("r1", compensate=False)

        assert (await scene.status("r1"), (await scene.history("r1")).progress) == (RunStatus.CANCELLED, (progress(0),))
        assert (await turn.commit(progress=(progress(0, b"2"),))).verdict is Verdict.FENCED

    async def test_progress_is_listed_by_path_for_many_runs(self, scene: Scene) -> None:
        for run_id in ("r1", "r2", "r3"):
            turn = await scene.begin(run_id)
            await turn.commit(names=("a", f"b of {run_id}"))
            if run_id != "r2":
                await turn.commit(progress=(progress(0), progress(1, done=3)))

        wanted = [RunId(name) for name in ("r3", "unknown", "r2", "r1", "r3")]
        listed = await scene.store.views.list_progress(wanted)

        def lines(run_id: str) -> list[StepProgress]:
            return [StepProgress("a", progress(0)), StepProgress(f"b of {run_id}", progress(1, done=3))]

        assert listed == [lines("r3"), [], [], lines("r1"), lines("r3")]
        assert await scene.store.views.list_progress([]) == []
