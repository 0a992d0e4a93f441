"""What each part of a commit writes."""

from __future__ import annotations

from typing import Any

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, place, step, wait_signal, wait_timer
from stepwell.model.commits import Applied, Park, Release, Verdict
from stepwell.model.entries import Attempt, Cursor
from stepwell.model.locations import begun, iteration, iterations, named, subtree, undo
from stepwell.model.runs import History
from stepwell.model.states import EntryKind, EntryStatus, RunStatus


class EffectSuite(StoreCase):
    """`apply`: names, entries, attempts, cursors, waits, trims and stalls."""

    async def test_a_commit_is_read_back_byte_by_byte(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        first, second = place(0), iteration(place(1), 3)
        entries = (
            step(1, second, value=bytes(range(256)), undo=b"\x00undo", fingerprint=b"\x08" + bytes(range(240, 256))),
            step(2, first, kind=EntryKind.SLEEP, status=EntryStatus.FAILED, value=b"", attempts=3, took=7),
        )
        attempts = (Attempt(second, 1, Instant(5), b"\xff", Instant(9)), Attempt(first, 2, Instant(6), None, None))
        cursors = (Cursor(second, 7, 3, b"\x00state"),)
        waits = (wait_signal("a", "b", at=first), wait_timer(Instant(2**53 + 1), at=second))

        applied = await turn.commit(
            names=("ä/b", "c"), entries=entries, attempts=attempts, cursors=cursors, waits=waits
        )

        assert applied == Applied(Verdict.APPLIED, revision=1)
        history = await scene.history("r1")
        assert history._replace(attempts=(), waits=()) == History(("ä/b", "c"), entries, (), cursors, ())
        assert sorted(history.attempts) == sorted(attempts)
        assert sorted(history.waits, key=lambda wait: wait.location) == list(waits)
        run = await scene.run("r1")
        assert (run.revision, run.last_seq, run.status, run.owner) == (1, 2, RunStatus.RUNNING, scene.incarnation)

    async def test_history_grows_in_order_over_many_commits(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        for name in "abcdefghijkl":
            assert (await turn.record(name)).verdict is Verdict.APPLIED

        history = await scene.history("r1")
        assert history.names == tuple("abcdefghijkl")
        assert [entry.seq for entry in history.entries] == list(range(1, 13))
        assert (await scene.run("r1")).revision == 12

    async def test_attempts_are_read_by_number_and_a_start_takes_its_outcome(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        started = Attempt(place(0), 1, Instant(5), None, None)
        failed = started._replace(failure=b"no", next_at=Instant(8))
        third = Attempt(place(0), 3, Instant(7), b"no", None)

        await turn.commit(names=("a",), attempts=(started, third))
        await turn.commit(attempts=(Attempt(place(0), 2, Instant(6), b"no", None), failed))

        assert [one.number for one in (await scene.history("r1")).attempts] == [1, 2, 3]
        assert (await scene.history("r1")).attempts[0] == failed

    async def test_the_beginning_of_an_attempt_is_removed_with_the_result(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        failed = Attempt(place(0), 1, Instant(5), b"no", Instant(6))
        begun = Attempt(place(0), 2, Instant(7), None, Instant(9))
        other = Attempt(place(1), 2, Instant(7), None, Instant(9))
        await turn.commit(names=("a", "b"), attempts=(failed, begun, other))

        await turn.commit(entries=(step(1, place(0)),), ended_attempts=((place(0), 2), (place(1), 1)))

        assert (await scene.history("r1")).attempts == (failed, other)

    async def test_a_cursor_is_replaced_and_ended(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(names=("a", "b"), cursors=(Cursor(place(0), 1, 0, b"1"), Cursor(place(1), 1, 0, b"x")))

        await turn.commit(cursors=(Cursor(place(0), 2, 1, b"2"),), ended_cursors=(place(1),))

        assert (await scene.history("r1")).cursors == (Cursor(place(0), 2, 1, b"2"),)

    async def test_waits_are_replaced_completely_or_kept(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(waits=(wait_signal("a"), wait_timer(Instant(9), at=place(1))))
        await turn.commit(names=("a",))
        assert len((await scene.history("r1")).waits) == 2

        await turn.commit(waits=(wait_signal("b"),))
        assert (await scene.history("r1")).waits == (wait_signal("b"),)
        await turn.commit(waits=())
        assert (await scene.history("r1")).waits == ()

    async def test_progress_resets_the_stalls_and_its_absence_does_not(self, scene: Scene) -> None:
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
        assert await stalls_after(names=("b",)) == 1
        assert await stalls_after(move=Release()) == 2
        assert await stalls_after(entries=(step(1, place(0)),)) == 0
        assert await stalls_after() == 1
        assert await stalls_after(attempts=(Attempt(place(1), 1, Instant(1), b"x", None),)) == 0
        assert await stalls_after() == 1
        assert await stalls_after(cursors=(Cursor(place(1), 1, 0, b"x"),)) == 0
        assert await stalls_after() == 1
        assert await stalls_after(waits=(), move=Park(scene.clock.now())) == 0

    async def test_a_trim_keeps_entries_that_must_be_undone(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        loop = place(0)
        inside, kept, outside = iteration(loop, 1), iteration(loop, 2), iteration(loop, 3)
        entries = (step(1, inside), step(2, kept, undo=b"u"), step(3, outside), step(4, undo(outside)))
        attempts = tuple(Attempt(at, 1, Instant(1), b"x", None) for at in (inside, kept, outside))
        cursors = tuple(Cursor(at, 1, 0, b"x") for at in (inside, kept, outside))
        await turn.commit(names=("a",), entries=entries, attempts=attempts, cursors=cursors)

        await turn.commit(trims=(iterations(loop, 0, 3),))

        history = await scene.history("r1")
        assert history.entries == (entries[1], entries[2], entries[3])
        assert history.attempts == (attempts[2],)
        assert history.cursors == (cursors[2],)
        assert (await scene.run("r1")).last_seq == 4
        assert (await turn.commit(entries=(step(5, place(1)),))).verdict is Verdict.APPLIED

    async def test_a_trim_keeps_a_beginning_until_its_result_is_recorded(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        loop = place(0)
        done, failed, lost = (named(iteration(loop, number), 1) for number in range(3))
        beginnings = {"kind": EntryKind.BEGUN, "undo": b"u"}
        entries = (
            step(1, begun(done), **beginnings),
            step(2, done, undo=b"u"),
            step(3, begun(failed), **beginnings),
            step(4, failed, status=EntryStatus.FAILED),
            step(5, begun(lost), **beginnings),
        )
        await turn.commit(names=("a", "b"), entries=entries)

        await turn.commit(trims=(iterations(loop, 0, 3),))

        assert (await scene.history("r1")).entries == (entries[1], entries[2], entries[4])

    async def test_a_commit_may_append_and_trim_the_same_entry(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        entries = (step(1, place(0)), step(2, place(1)))
        cursors = (Cursor(place(0), 2, 1, b"gone"), Cursor(place(1), 2, 1, b"stays"))

        await turn.commit(names=("a", "b"), entries=entries, cursors=cursors, trims=(subtree(place(0)),))

        history = await scene.history("r1")
        assert (history.entries, history.cursors) == (entries[1:], cursors[1:])
        assert (await scene.run("r1")).last_seq == 2
