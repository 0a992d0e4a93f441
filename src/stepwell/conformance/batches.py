"""Batches: a store may apply several requests at once, and the results must be those of separate requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stepwell.clock import Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import (
    Scene,
    Turn,
    child_of,
    new_run,
    place,
    step,
    wait_child,
    wait_signal,
    wait_timer,
    wait_topic,
)
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Applied, Commit, End, Park, Verdict
from stepwell.model.entries import Cursor
from stepwell.model.runs import Created
from stepwell.model.states import RunStatus

_ENDS, _PARKS = End(RunStatus.COMPLETED, b"out"), Park(None)
_DONE = Applied(Verdict.APPLIED, revision=1)
_SECONDS = 1_000_000
_LAST_ENTRY = pytest.mark.parametrize("has_entry", [False, True], ids=["without an entry", "with an entry"])


def _end(turn: Turn, *, has_entry: bool, **parts: Any) -> Commit:
    """The end of a run, which usually comes together with the entry of its last step."""
    entries = (step(turn.seq + 1, place(turn.seq + 7)),) if has_entry else ()
    return turn.next(names=("last",) * has_entry, entries=entries, move=_ENDS, **parts)


class BatchSuite(StoreCase):
    """Starts, waits and ends in one transaction."""

    async def _apply(self, scene: Scene, *commits: Commit) -> Sequence[Applied]:
        """Apply commits between two that are as simple as possible."""
        first, last = [await scene.begin(run_id) for run_id in ("first", "last")]
        entries = {"names": ("a", "b"), "entries": (step(1, place(0)), step(2, place(1)))}
        parks = last.next(waits=(wait_signal("never"),), move=_PARKS)

        before, *applied, behind = await scene.store.runs.apply([first.next(**entries, move=_ENDS), *commits, parks])

        assert (before, behind) == (_DONE, _DONE)
        ended, waiting = await scene.run("first"), await scene.run("last")
        assert (ended.status, ended.output, ended.last_seq) == (RunStatus.COMPLETED, b"out", 2)
        assert (ended.ended_at, ended.owner) == (scene.clock.now(), None)
        assert (await scene.history("first")).entries == entries["entries"]
        assert (await scene.history("first")).names == ("a", "b")
        assert (waiting.status, waiting.owner, waiting.wake_at) == (RunStatus.WAITING, None, None)
        assert (await scene.history("last")).waits == (wait_signal("never"),)
        return applied

    @_LAST_ENTRY
    @pytest.mark.parametrize("move", [_ENDS, _PARKS], ids=str)
    async def test_each_commit_of_a_batch_is_fenced_separately(
        self, scene: Scene, elsewhere: Scene, move: Any, has_entry: bool
    ) -> None:
        await elsewhere.register("w2")
        turns = [await scene.begin(f"r{n}") for n in range(5)]
        await turns[3].record("a")
        before = [await scene.run(turn.run_id) for turn in turns]
        ends = [_end(turn, has_entry=has_entry, waits=()) for turn in turns]
        epoch, worker, number, seq, unknown = [end._replace(move=move) for end in ends]

        applied = await self._apply(
            scene,
            epoch._replace(fence=epoch.fence._replace(epoch=2)),
            worker._replace(fence=worker.fence._replace(incarnation=Incarnation("w2"))),
            number._replace(number=3),
            seq._replace(number=1),
            unknown._replace(run_id=RunId("unknown")),
        )

        fenced = Applied(Verdict.FENCED)
        assert applied == [fenced, fenced, fenced, _DONE, fenced]  # the fourth commit was applied before
        assert [await scene.run(turn.run_id) for turn in turns] == before

    @pytest.mark.parametrize("move", [_ENDS, _PARKS], ids=str)
    async def test_a_gap_in_one_history_rejects_the_batch(self, scene: Scene, move: Any) -> None:
        turns = [await scene.begin(f"r{n}") for n in range(3)]
        commits = [turn.next(names=("a",), entries=(step(1, place(0)),), waits=(), move=move) for turn in turns]
        commits[1] = commits[1]._replace(entries=(step(2, place(0)),))

        with pytest.raises(ValueError, match="expects entry 1"):
            await scene.store.runs.apply(commits)

        assert {await scene.status(turn.run_id) for turn in turns} == {RunStatus.RUNNING}

    @pytest.mark.parametrize("move", [_ENDS, _PARKS], ids=str)
    async def test_an_unreadable_signal_of_one_commit_rejects_the_batch(self, scene: Scene, move: Any) -> None:
        turns = [await scene.begin(f"r{n}") for n in range(2)]
        await scene.send("s1", "r0")
        [signal] = (await scene.store.runs.inbox(RunId("r0"))).signals
        await turns[0].commit(consumed=(signal.number,))

        for wrong in turns:  # it was read already, or it belongs to another run
            commits = [turn.next(consumed=(signal.number,) * (turn is wrong), waits=(), move=move) for turn in turns]
            with pytest.raises(ValueError, match="no pending signal"):
                await scene.store.runs.apply(commits)

        assert {await scene.status(turn.run_id) for turn in turns} == {RunStatus.RUNNING}

    @pytest.mark.parametrize("move", [_ENDS, _PARKS], ids=str)
    async def test_a_commit_in_a_batch_resets_stalls(self, scene: Scene, move: Any) -> None:
        await scene.begin("r1")
        await scene.lose_worker()
        await scene.register("w2")
        await scene.rescue()
        turn = await scene.claim_only("r1", "w2")
        assert turn.claimed.run.stalls == 1
        await scene.register("w3")
        waits = (wait_signal(),) if move is _PARKS else None

        await self._apply(Scene(scene.store, scene.clock, "w3"), turn.next(waits=waits, move=move))

        assert (await scene.run("r1")).stalls == 0

    @_LAST_ENTRY
    async def test_batches_respect_cancels_deadlines_and_pauses(self, scene: Scene, has_entry: bool) -> None:
        late = await scene.begin("late", deadline_at=Instant(scene.clock.now() + 1))
        cancelled, ending, paused, held = [await scene.begin(f"r{n}") for n in range(4)]
        for turn in (cancelled, ending):
            await scene.cancel(turn.run_id)
        for turn in (paused, held):
            await scene.store.runs.pause(turn.run_id, by="ann", reason="")
        scene.clock.advance(1)

        applied = await self._apply(
            scene,
            cancelled.next(waits=(), move=_PARKS),
            _end(ending, has_entry=has_entry),
            _end(late, has_entry=has_entry),
            paused.next(waits=(), move=_PARKS),
            _end(held, has_entry=has_entry),
        )

        cancelling, expired, is_done = Verdict.CANCELLING, Verdict.EXPIRED, Verdict.APPLIED
        assert [one.verdict for one in applied] == [cancelling, cancelling, expired, is_done, is_done]
        assert [one.held for one in applied[3:]] == [True, False]
        assert await scene.status("r2") is RunStatus.PAUSED
        ended = await scene.run("r3")
        assert (ended.status, ended.hold) == (RunStatus.COMPLETED, None)

    async def test_a_run_that_waits_in_a_batch_is_woken_by_what_has_arrived(self, scene: Scene) -> None:
        turns = [await scene.begin(f"r{n}") for n in range(5)]
        for turn in turns[:4]:
            await scene.send(f"s{turn.run_id}", turn.run_id)
        [read] = (await scene.store.runs.inbox(turns[2].run_id)).signals

        applied = await self._apply(
            scene,
            turns[0].next(waits=(wait_signal("go"),), move=_PARKS),
            turns[1].next(waits=(wait_signal(),), move=_PARKS),
            turns[2].next(consumed=(read.number,), waits=(wait_signal("go"),), move=_PARKS),
            turns[3].next(waits=(wait_signal("other"),), move=_PARKS),
            turns[4].next(waits=(wait_signal("go"),), move=Park(scene.clock.now())),
        )

        assert [one.is_awake for one in applied] == [True, True, False, False, True]
        assert [await scene.mail(turn.run_id) for turn in turns[2:4]] == [[], ["sr3"]]
        woken = {turn.run_id for turn in await scene.claim()}
        assert woken == {"r0", "r1", "r4"}

    async def test_a_run_that_waits_in_a_batch_keeps_only_its_new_waits(self, scene: Scene) -> None:
        due = Instant(scene.clock.now() + 9 * _SECONDS)
        fewer = await scene.begin("r1")
        await fewer.commit(waits=(wait_signal("x"), wait_signal("y", at=place(1)), wait_signal("z", at=place(2))))
        more = await scene.begin("r2", deadline_at=Instant(due - _SECONDS))
        await more.commit(waits=(wait_signal("x"),))

        await self._apply(
            scene,
            fewer.next(waits=(wait_timer(due),), move=Park(due)),
            more.next(waits=(wait_timer(due), wait_signal("y", at=place(1))), move=Park(due)),
        )

        assert (await scene.history("r1")).waits == (wait_timer(due),)
        assert (await scene.history("r2")).waits == (wait_timer(due), wait_signal("y", at=place(1)))
        assert [(await scene.run(one)).wake_at for one in ("r1", "r2")] == [due, due - _SECONDS]

    @_LAST_ENTRY
    async def test_an_end_in_a_batch_reaches_other_runs(self, scene: Scene, has_entry: bool) -> None:
        parent, above = await scene.begin("parent"), await scene.begin("above")
        child = await scene.begin_child(parent, "child", place(0))
        await parent.park(wait_child(place(0)))
        tied = child_of("above", "tied", place(0))
        assert tied.parent is not None
        await above.commit(children=(tied._replace(parent=tied.parent._replace(tied=True)),))
        holder = await scene.begin("holder", key="k")
        scene.clock.advance(1)
        await scene.store.runs.debounce(new_run("calm", key="k"), quiet=Span(1), max_wait=Span(1))
        scene.clock.advance(1)
        assert [turn.run_id for turn in await scene.claim(limit=1)] == ["tied"]
        assert await scene.claim() == []

        await self._apply(scene, *(_end(turn, has_entry=has_entry) for turn in (child, above, holder)))

        assert await scene.status("tied") is RunStatus.CANCELLING
        assert {turn.run_id for turn in await scene.claim()} == {"parent", "calm"}

    @pytest.mark.parametrize("loops", [False, True], ids=["simple", "with a loop"])
    @pytest.mark.parametrize("ends_first", [False, True], ids=["child first", "end first"])
    async def test_a_key_is_free_for_the_children_of_later_commits(
        self, scene: Scene, ends_first: bool, loops: bool
    ) -> None:
        holder, parent = await scene.begin("holder", key="k"), await scene.begin("parent")
        if loops:
            await holder.commit(names=("a",), cursors=(Cursor(place(0), 1, 0, b"1"),))
        ends = holder.next(move=_ENDS)
        starts = parent.next(names=("a",), children=(child_of("parent", "child", place(0), key="k"),))

        await scene.store.runs.apply([ends, starts] if ends_first else [starts, ends])

        assert await scene.status("child") is (RunStatus.PENDING if ends_first else RunStatus.FAILED)
        assert await scene.status("holder") is RunStatus.COMPLETED

    @pytest.mark.parametrize("ends_first", [False, True], ids=["park first", "end first"])
    async def test_a_parent_that_waits_after_the_end_of_its_child_is_awake(
        self, scene: Scene, ends_first: bool
    ) -> None:
        parent = await scene.begin("parent")
        child = await scene.begin_child(parent, "child", place(0))
        ends, parks = child.next(move=_ENDS), parent.next(waits=(wait_child(place(0)),), move=_PARKS)

        applied = await scene.store.runs.apply([ends, parks] if ends_first else [parks, ends])

        assert applied[1 if ends_first else 0].is_awake is ends_first
        assert (await scene.run("parent")).wake_at == scene.clock.now()
        assert await scene.status("child") is RunStatus.COMPLETED

    @_LAST_ENTRY
    async def test_an_end_in_a_batch_deletes_waits(self, scene: Scene, has_entry: bool) -> None:
        looping, discarding, reading, waiting, listening = [
            await scene.begin(f"r{n}", discards=n == 2) for n in range(1, 6)
        ]
        await looping.commit(names=("a",), cursors=(Cursor(place(0), 1, 0, b"1"),))
        await waiting.commit(waits=(wait_signal("x"),))
        await listening.commit(waits=(wait_topic(),))
        await scene.publish("e1", deliver="one", retain=Span(_SECONDS))
        for run_id in ("r2", "r3"):
            await scene.send(f"s{run_id}", run_id)
            await scene.send(f"t{run_id}", run_id, "late")
        [read, _] = (await scene.store.runs.inbox(RunId("r3"))).signals

        await self._apply(
            scene,
            _end(looping, has_entry=has_entry),
            _end(discarding, has_entry=has_entry),
            _end(reading, has_entry=has_entry, consumed=(read.number,)),
            _end(waiting, has_entry=has_entry),
            _end(listening, has_entry=has_entry, waits=()),
        )

        assert (await scene.history("r1")).cursors == ()
        assert [(await scene.history(one)).waits for one in ("r4", "r5")] == [(), ()]
        assert await scene.kept() == ["e1"]  # it was for one run, and that run did not read it
        unread = await scene.store.views.list_unread(limit=9)
        assert [(one.run_id, one.signal.name) for one in unread] == [("r3", "late")]

    # --- starts ---

    @pytest.mark.parametrize("room", [0, 2, 3, 9])
    async def test_starts_are_claimed_in_order_up_to_the_limit(self, scene: Scene, room: int) -> None:
        runs = [new_run(f"r{n}", input=b"%d" % n, tags=(("n", str(n)),)) for n in range(3)]

        created = await scene.store.runs.create(runs, scene.claimant(limit=room))

        now, claims = scene.clock.now(), min(room, 3)
        assert [one.claimed is not None for one in created] == [True] * claims + [False] * (3 - claims)
        for n, one in enumerate(created):
            run = await scene.run(f"r{n}")
            assert (run.input, run.tags, run.created_at) == (b"%d" % n, (("n", str(n)),), now)
            if one.claimed is None:
                assert one == Created(run.run_id, is_new=True)
                assert (run.status, run.owner, run.wake_at) == (RunStatus.PENDING, None, now)
            else:
                assert (one.claimed.run, one.claimed.is_fresh) == (run, True)
                assert (run.status, run.owner, run.epoch) == (RunStatus.RUNNING, scene.incarnation, 1)
                assert (await Turn(scene.store, one.claimed).end()).verdict is Verdict.APPLIED

    @pytest.mark.parametrize(
        ("changes", "is_claimed"),
        [
            (lambda now: {"workflow": "other"}, False),
            (lambda now: {"delay": Span(_SECONDS)}, False),
            (lambda now: {"deadline_at": now}, True),
            (lambda now: {"key": "k"}, True),
        ],
        ids=["not served", "delayed", "late", "keyed"],
    )
    async def test_one_of_several_starts_may_be_different(
        self, scene: Scene, changes: Callable[[Instant], dict[str, Any]], is_claimed: bool
    ) -> None:
        different = new_run("r2", **changes(scene.clock.now()))

        created = await scene.store.runs.create([new_run("r1"), different, new_run("r3")], scene.claimant())

        assert [one.claimed is not None for one in created] == [True, is_claimed, True]
        assert (await scene.run("r2")).key == different.key

    @pytest.mark.parametrize("known", [("r1",), ()], ids=["known", "twice"])
    async def test_a_start_of_an_existing_run_returns_that_run(self, scene: Scene, known: Sequence[str]) -> None:
        for run_id in known:
            await scene.create(run_id, input=b"1")
        given = [new_run("r1", input=b"1"), new_run("r2")]
        runs = given if known else [*given, new_run("r1", input=b"2")]

        created = await scene.store.runs.create(runs, scene.claimant())

        assert [(one.run_id, one.is_new) for one in created] == [(run.run_id, True) for run in runs]
        assert (await scene.run("r1")).input == b"1"

    async def test_starts_after_their_deadline_are_due_since_the_deadline(self, scene: Scene) -> None:
        late = Instant(scene.clock.now() - 1)

        await scene.store.runs.create([new_run("r1", deadline_at=late), new_run("r2")])

        assert [(await scene.run(one)).wake_at for one in ("r1", "r2")] == [late, scene.clock.now()]

    async def test_nothing_is_claimed_for_a_dead_worker(self, scene: Scene) -> None:
        gone = scene.claimant()._replace(incarnation=Incarnation("gone"))

        created = await scene.store.runs.create([new_run("r1"), new_run("r2")], gone)

        assert created == [Created(RunId("r1"), is_new=True), Created(RunId("r2"), is_new=True)]
        assert {turn.run_id for turn in await scene.claim()} == {"r1", "r2"}
