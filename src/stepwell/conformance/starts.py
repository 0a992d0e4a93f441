"""Options of starts: priorities, deadlines, replacing, debouncing, and children that are tied to their parent."""

from __future__ import annotations

import pytest

from stepwell.clock import Instant, Span
from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FIRST, FLOW, Scene, child_of, new_run, new_signal, place, wait_signal, wait_timer
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import AlreadyExistsError
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Applied, End, Release, Verdict
from stepwell.model.runs import Created, Debounced
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.model.waits import Wait
from stepwell.model.workers import Claimant

_SECOND = Span(1_000_000)
_QUIET, _MAX_WAIT = Span(2 * _SECOND), Span(5 * _SECOND)


class PrioritySuite(StoreCase):
    """The highest priority first, in every kind of claim."""

    async def test_the_options_of_a_start_are_stored(self, scene: Scene) -> None:
        deadline = Instant(scene.clock.now() + _SECOND)
        tags = (("team", "payments"), ("vip", ""))

        await scene.create("r1", priority=-7, tags=tags, deadline_at=deadline, max_suspend=_QUIET)

        run = await scene.run("r1")
        assert (run.priority, run.tags, run.deadline_at, run.max_suspend) == (-7, tags, deadline, _QUIET)
        turn = await scene.begin("r2", priority=3, tags=tags, deadline_at=deadline, max_suspend=_QUIET)
        assert turn.claimed.run == await scene.run("r2")

    async def test_a_claim_takes_the_most_urgent_first_and_among_equals_the_oldest(self, scene: Scene) -> None:
        for run_id, priority in (("a", 0), ("b", 5), ("c", -5), ("d", 5), ("e", 0)):
            await scene.create(run_id, priority=priority)
            scene.clock.advance("1ms")

        turns = [*await scene.claim(limit=2), *await scene.claim(limit=2), *await scene.claim()]

        assert [turn.run_id for turn in turns] == ["b", "d", "a", "e", "c"]

    async def test_a_claim_compares_priorities_over_definitions(self, scene: Scene) -> None:
        await scene.register("w3", FLOW, "other@2")
        await scene.create("a")
        scene.clock.advance("1ms")
        await scene.create("b", workflow="other", version=2, priority=1)

        [claimed] = await scene.store.runs.claim(Claimant(Incarnation("w3"), 1, (FLOW, "other@2")))

        assert claimed.run.run_id == "b"

    async def test_an_urgent_run_is_not_claimed_before_it_is_due(self, scene: Scene) -> None:
        await scene.create("later", priority=9, delay=_SECOND)
        due = scene.clock.now()
        await scene.create("now", priority=1)

        assert await scene.store.views.next_wake([FLOW]) == due
        await scene.claim_only("now")
        assert await scene.store.views.next_wake([FLOW]) == due + _SECOND

    async def test_a_start_does_not_overtake_what_is_more_urgent(self, scene: Scene) -> None:
        await scene.create("urgent", priority=1)

        [created] = await scene.store.runs.create([new_run("r1")], scene.claimant())
        [equal] = await scene.store.runs.create([new_run("r2", priority=1)], scene.claimant())

        assert created.claimed is None
        assert equal.claimed is not None
        assert [turn.run_id for turn in await scene.claim()] == ["urgent", "r1"]

    async def test_the_first_run_that_is_not_urgent_does_not_overtake(self, scene: Scene) -> None:
        await scene.create("plain")

        [created] = await scene.store.runs.create([new_run("r1", priority=-1)], scene.claimant())

        assert created.claimed is None

    async def test_a_start_overtakes_what_is_urgent_but_not_due_or_not_served(self, scene: Scene) -> None:
        await scene.create("later", priority=1, delay=_SECOND)
        await scene.create("foreign", priority=1, workflow="other")

        [created] = await scene.store.runs.create([new_run("r1")], scene.claimant())

        assert created.claimed is not None

    async def test_starts_of_several_priorities_are_left_to_the_next_claim(self, scene: Scene) -> None:
        both = [new_run("r1"), new_run("r2", priority=1)]
        created = await scene.store.runs.create(both, scene.claimant(limit=1))

        assert [one.claimed for one in created] == [None, None]
        assert [turn.run_id for turn in await scene.claim(limit=1)] == ["r2"]

    async def test_a_signal_does_not_let_its_run_overtake(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.park(wait_signal("go"))
        await scene.create("urgent", priority=1)

        [delivered], claimed = await scene.store.signals.deliver([new_signal("s1", "r1")], scene.claimant())

        assert (delivered.woke, claimed) == (True, [])
        assert [turn.run_id for turn in await scene.claim()] == ["urgent", "r1"]

    async def test_a_child_does_not_overtake(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        await scene.create("urgent", priority=1)

        applied = await parent.commit(names=("a",), children=(child_of("p1", "c1", FIRST),), claimant=scene.claimant())

        assert applied.claimed == ()
        assert [turn.run_id for turn in await scene.claim()] == ["urgent", "c1"]

    async def test_a_run_keeps_its_priority_when_it_is_freed(self, scene: Scene) -> None:
        turn = await scene.begin("r1", priority=2)
        await scene.create("r2", priority=1)
        scene.clock.advance("1ms")

        await turn.commit(move=Release())

        assert [turn.run_id for turn in await scene.claim(limit=1)] == ["r1"]


class DeadlineSuite(StoreCase):
    """At its deadline a run has ended or is due."""

    async def test_a_delayed_run_is_due_no_later_than_its_deadline(self, scene: Scene) -> None:
        deadline = Instant(scene.clock.now() + _SECOND)
        await scene.create("r1", delay=_MAX_WAIT, deadline_at=deadline)

        assert (await scene.run("r1")).wake_at == deadline

    @pytest.mark.parametrize("wake_in", [None, 5])
    async def test_a_waiting_run_is_due_no_later_than_its_deadline(self, scene: Scene, wake_in: int | None) -> None:
        deadline = Instant(scene.clock.now() + _SECOND)
        turn = await scene.begin("r1", deadline_at=deadline)
        wake_at = None if wake_in is None else Instant(scene.clock.now() + wake_in * _SECOND)

        await turn.park(wait_signal("go"), wake_at=wake_at)

        assert (await scene.run("r1")).wake_at == deadline

    async def test_a_wait_that_ends_before_the_deadline_keeps_its_time(self, scene: Scene) -> None:
        due = Instant(scene.clock.now() + _SECOND)
        turn = await scene.begin("r1", deadline_at=Instant(due + 1))

        await turn.park(wait_timer(due), wake_at=due)

        assert (await scene.run("r1")).wake_at == due

    @pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.CONTINUED])
    async def test_a_run_cannot_succeed_after_its_deadline(self, scene: Scene, status: RunStatus) -> None:
        turn = await scene.begin("r1", deadline_at=Instant(scene.clock.now() + _SECOND))
        successor = new_run("r2") if status is RunStatus.CONTINUED else None
        scene.clock.advance(1)
        before = await snapshot(scene.store)

        assert await turn.end(status, successor=successor) == Applied(Verdict.EXPIRED)

        assert await snapshot(scene.store) == before
        assert (await turn.end(RunStatus.FAILED, failure=b"late")).verdict is Verdict.APPLIED

    async def test_a_run_may_succeed_until_its_deadline(self, scene: Scene) -> None:
        turn = await scene.begin("r1", deadline_at=Instant(scene.clock.now() + _SECOND))
        scene.clock.advance("999999us")

        assert (await turn.end()).verdict is Verdict.APPLIED

    async def test_a_late_run_may_still_record_and_begin_to_undo(self, scene: Scene) -> None:
        turn = await scene.begin("r1", deadline_at=Instant(scene.clock.now() + _SECOND))
        scene.clock.advance(1)

        assert (await turn.record("a", undo=b"u")).verdict is Verdict.APPLIED
        assert (await turn.roll_back()).verdict is Verdict.APPLIED
        await turn.park(wait_signal("go"))

        assert (await scene.run("r1")).wake_at is None
        await scene.send("s1", "r1")
        again = await scene.claim_only("r1")
        assert (await again.end(RunStatus.COMPENSATED)).verdict is Verdict.APPLIED

    async def test_the_limit_of_a_wait_is_kept(self, scene: Scene) -> None:
        limit = Instant(scene.clock.now() + _SECOND)
        wait = Wait(FIRST, wait_signal("go").kind, 1, None, ("go",), limit_at=limit)
        turn = await scene.begin("r1", max_suspend=_SECOND)

        await turn.park(wait, wake_at=limit)

        assert (await scene.history("r1")).waits == (wait,)

    async def test_a_retry_clears_a_passed_deadline(self, scene: Scene) -> None:
        deadline = Instant(scene.clock.now() + _SECOND)
        for run_id, late in (("r1", deadline), ("r2", Instant(deadline + _SECOND))):
            turn = await scene.begin(run_id, deadline_at=late)
            await turn.end(RunStatus.FAILED)
        scene.clock.advance(1)

        for run_id in ("r1", "r2"):
            assert await scene.store.runs.retry(RunId(run_id), by="ann")

        assert (await scene.run("r1")).deadline_at is None
        assert (await scene.run("r2")).deadline_at == deadline + _SECOND


class ConflictSuite(StoreCase):
    """A key that is taken."""

    async def test_a_conflict_can_be_an_error_that_names_the_holder(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        before = await snapshot(scene.store)

        batch = [new_run("r2"), new_run("r3", key="k", on_conflict="raise")]
        with pytest.raises(AlreadyExistsError, match="r1"):
            await scene.store.runs.create(batch, scene.claimant())

        assert await snapshot(scene.store) == before

    async def test_an_ended_run_within_the_window_is_a_conflict_too(self, scene: Scene) -> None:
        await (await scene.begin("r1", key="k")).end()

        with pytest.raises(AlreadyExistsError, match="r1"):
            await scene.create("r2", key="k", dedup=_SECOND, on_conflict="raise")
        assert (await scene.create("r2", key="k", dedup=_SECOND, on_conflict="replace")).is_new

    async def test_a_replaced_run_without_effects_is_cancelled_at_once(self, scene: Scene) -> None:
        await scene.create("r1", key="k")

        created = await scene.create("r2", key="k", on_conflict="replace")

        assert created == Created(RunId("r2"), is_new=True, replaced=RunId("r1"))
        old = await scene.run("r1")
        assert (old.status, old.replaced_by, old.key) == (RunStatus.CANCELLED, "r2", "k")
        assert "r2" in old.reason
        assert (await scene.run("k")).run_id == "r2"

    async def test_a_replaced_run_undoes_what_it_did_without_its_key(self, scene: Scene) -> None:
        old = await scene.begin("r1", key="k")
        await old.record("a", undo=b"u")

        await scene.create("r2", key="k", on_conflict="replace")

        assert (await scene.run("r1")).status is RunStatus.CANCELLING
        assert (await scene.run("k")).run_id == "r2"
        assert (await scene.create("r3", key="k")).run_id == "r2"
        delivered = await scene.send("s1", "k")
        assert delivered.run_id == "r2"
        assert (await old.roll_back("cancelled")).verdict is Verdict.APPLIED
        assert (await old.end(RunStatus.CANCELLED)).verdict is Verdict.APPLIED
        assert (await scene.run("k")).run_id == "r2"

    async def test_a_replaced_run_is_not_returned_for_the_key(self, scene: Scene) -> None:
        old = await scene.begin("r1", key="k")
        await old.record("a", undo=b"u")
        [created] = await scene.store.runs.create(
            [new_run("r2", key="k", on_conflict="replace")], scene.claimant(limit=1)
        )
        assert created.claimed is not None
        await scene.store.runs.cancel(RunId("r2"), compensate=False, reason="")
        scene.clock.advance(1)
        await old.roll_back("cancelled")
        await old.end(RunStatus.CANCELLED)

        assert (await scene.create("r3", key="k", dedup=Span(60 * _SECOND))).run_id == "r2"

    async def test_a_run_that_is_rolling_back_only_loses_its_key(self, scene: Scene) -> None:
        old = await scene.begin("r1", key="k")
        await old.record("a", undo=b"u")
        await old.roll_back("failed", b"why")

        await scene.create("r2", key="k", on_conflict="replace")

        assert (await scene.run("r1")).status is RunStatus.COMPENSATING
        assert (await old.end(RunStatus.COMPENSATED)).verdict is Verdict.APPLIED

    async def test_an_incomplete_rollback_is_not_replaced(self, scene: Scene) -> None:
        old = await scene.begin("r1", key="k")
        await old.record("a", undo=b"u")
        await old.roll_back("failed", b"why")
        await old.end(RunStatus.COMPENSATION_FAILED, failure=b"worse")
        before = await snapshot(scene.store)

        with pytest.raises(AlreadyExistsError, match="r1"):
            await scene.create("r2", key="k", on_conflict="replace")

        assert await snapshot(scene.store) == before

    async def test_repeating_a_replacing_start_changes_nothing(self, scene: Scene) -> None:
        await scene.create("r1", key="k")
        await scene.create("r2", key="k", on_conflict="replace")
        before = await snapshot(scene.store)

        assert await scene.create("r2", key="k", on_conflict="replace") == Created(RunId("r2"), is_new=True)

        assert await snapshot(scene.store) == before

    @pytest.mark.parametrize("on_conflict", ["raise", "replace"])
    async def test_starts_of_one_call_do_not_conflict(self, scene: Scene, on_conflict: str) -> None:
        twins = [new_run(run_id, key="k", on_conflict=on_conflict) for run_id in ("r1", "r2")]
        created = await scene.store.runs.create(twins)

        assert created == [Created(RunId("r1"), is_new=True), Created(RunId("r1"), is_new=False)]
        assert await scene.status("r1") is RunStatus.PENDING


class DebounceSuite(StoreCase):
    """Starts that wait until no call has come for a while."""

    async def _call(self, scene: Scene, run_id: str, input: bytes = b"1") -> Debounced:
        new = new_run(run_id, key="k", input=input)
        return await scene.store.runs.debounce(new, quiet=_QUIET, max_wait=_MAX_WAIT)

    async def test_the_run_begins_with_the_last_input_after_the_quiet_time(self, scene: Scene) -> None:
        assert await self._call(scene, "r1", b"1") == Debounced(RunId("r1"), is_new=True)
        scene.clock.advance("1500ms")
        assert await self._call(scene, "r1", b"2") == Debounced(RunId("r1"), is_new=False)
        scene.clock.advance("1999999us")
        assert await scene.claim() == []
        scene.clock.advance("1us")

        turn = await scene.claim_only("r1")

        assert (turn.claimed.run.input, turn.claimed.run.debounced_until) == (b"2", None)

    async def test_the_run_begins_after_max_wait_even_if_calls_continue(self, scene: Scene) -> None:
        for number in range(5):
            assert await scene.claim() == []
            await self._call(scene, "r1", b"%d" % number)
            scene.clock.advance(1)

        turn = await scene.claim_only("r1")
        assert turn.claimed.run.input == b"4"

    async def test_a_call_with_another_id_returns_the_planned_run(self, scene: Scene) -> None:
        await self._call(scene, "r1")
        before = await snapshot(scene.store)

        assert await self._call(scene, "r2", b"2") == Debounced(RunId("r1"), is_new=False, is_stale=True)

        assert await snapshot(scene.store) == before

    async def test_a_call_after_the_run_began_is_stale_if_its_input_differs(self, scene: Scene) -> None:
        await self._call(scene, "r1", b"1")
        scene.clock.advance(2)
        await scene.claim_only("r1")
        before = await snapshot(scene.store)

        assert await self._call(scene, "r1", b"2") == Debounced(RunId("r1"), is_new=False, is_stale=True)
        assert await self._call(scene, "r1", b"1") == Debounced(RunId("r1"), is_new=False)

        assert await snapshot(scene.store) == before

    async def test_a_planned_run_does_not_hold_the_key(self, scene: Scene) -> None:
        await self._call(scene, "r1")

        assert (await scene.send("s1", "k")).run_id is None
        await scene.send("s2", "k", hold=True)
        assert (await scene.create("r2", key="k")).is_new
        assert await scene.mail("r2") == ["s2"]

    async def test_its_first_claim_takes_the_key_and_what_was_held_for_it(self, scene: Scene) -> None:
        await self._call(scene, "r1")
        await scene.send("s1", "k", hold=True)
        scene.clock.advance(2)

        turn = await scene.claim_only("r1")

        assert [signal.payload for signal in turn.claimed.inbox.signals] == [b"s1"]
        assert (await scene.create("r2", key="k")).run_id == "r1"

    @pytest.mark.parametrize("ended_by", ["end", "cancel", "continue"])
    async def test_a_planned_run_waits_for_the_end_of_the_run_with_the_key(self, scene: Scene, ended_by: str) -> None:
        holder = await scene.begin("r1", key="k")
        await self._call(scene, "r2")
        scene.clock.advance(2)
        assert await scene.claim() == []
        scene.clock.advance(1)
        assert await scene.claim() == []

        if ended_by == "cancel":
            await scene.cancel("r1", compensate=False)
        elif ended_by == "continue":
            await holder.end(RunStatus.CONTINUED, successor=new_run("r3"))
            [holder] = await scene.claim()
            await holder.end()
        else:
            await holder.end()

        await scene.claim_only("r2")

    async def test_a_planned_run_that_must_wait_does_not_block_others(self, scene: Scene) -> None:
        await scene.begin("r1", key="k")
        await self._call(scene, "r2")
        scene.clock.advance(2)
        await scene.create("plain")
        await scene.create("low", priority=-1)

        assert [turn.run_id for turn in await scene.claim(limit=1)] == ["plain"]

    async def test_the_end_of_the_run_with_the_key_does_not_shorten_the_quiet_time(self, scene: Scene) -> None:
        holder = await scene.begin("r1", key="k")
        await self._call(scene, "r2")
        scene.clock.advance(1)

        await holder.end()

        assert await scene.claim() == []
        scene.clock.advance(1)
        await scene.claim_only("r2")

    async def test_a_cancelled_planned_run_allows_a_new_one(self, scene: Scene) -> None:
        await self._call(scene, "r1")

        assert (await scene.cancel("r1")).changed

        assert await self._call(scene, "r2") == Debounced(RunId("r2"), is_new=True)
        assert (await scene.create("r3", key="k", dedup=Span(60 * _SECOND))).is_new

    async def test_another_version_may_be_planned(self, scene: Scene) -> None:
        await self._call(scene, "r1")
        new = new_run("r1", key="k", workflow="other", version=2)
        await scene.store.runs.debounce(new, quiet=_QUIET, max_wait=_MAX_WAIT)
        await scene.register("w3", "other@2")
        scene.clock.advance(2)

        assert await scene.claim() == []
        [claimed] = await scene.store.runs.claim(Claimant(Incarnation("w3"), 9, ("other@2",)))
        assert claimed.run.definition == "other@2"


class TiedSuite(StoreCase):
    """Children that end with their parent."""

    async def _family(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        tied = child_of("p1", "tied", place(0))
        spawned = child_of("p1", "spawned", place(1), detached=True)
        assert tied.parent is not None
        assert spawned.parent is not None
        children = (
            tied._replace(parent=tied.parent._replace(tied=True)),
            spawned._replace(parent=spawned.parent._replace(tied=True)),
            child_of("p1", "free", place(2)),
            child_of("p1", "gone", place(3), detached=True),
        )
        await parent.commit(names=("a", "b", "c", "d"), children=children)
        self.parent = parent

    async def _ended(self, scene: Scene) -> list[str]:
        return [one for one in ("tied", "spawned", "free", "gone") if await scene.status(one) in TERMINAL]

    @pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED])
    async def test_the_end_of_a_parent_cancels_tied_children(self, scene: Scene, status: RunStatus) -> None:
        await self._family(scene)

        await self.parent.end(status)

        assert await self._ended(scene) == ["tied", "spawned"]
        assert (await scene.run("tied")).parent == (RunId("p1"), place(0), False, True)

    async def test_the_begin_of_a_rollback_cancels_tied_children(self, scene: Scene) -> None:
        await self._family(scene)
        await self.parent.commit(move=None)

        await self.parent.roll_back()

        assert await self._ended(scene) == ["tied", "spawned"]

    async def test_a_cancel_reaches_the_attached_and_the_tied(self, scene: Scene) -> None:
        await self._family(scene)

        cancelled = await scene.cancel("p1", compensate=False)

        assert cancelled.runs == ("p1", "tied", "spawned", "free")
        assert await self._ended(scene) == ["tied", "spawned", "free"]

    async def test_continuing_cancels_tied_children(self, scene: Scene) -> None:
        await self._family(scene)

        await self.parent.commit(move=End(RunStatus.CONTINUED, successor=new_run("p2")))

        assert await self._ended(scene) == ["tied", "spawned"]

    async def test_a_tied_child_is_cancelled_with_its_descendants(self, scene: Scene) -> None:
        parent = await scene.begin("p1")
        new = child_of("p1", "c1", FIRST)
        assert new.parent is not None
        new = new._replace(parent=new.parent._replace(tied=True))
        [claimed] = (await parent.commit(names=("a",), children=(new,), claimant=scene.claimant())).claimed
        child = type(parent)(scene.store, claimed)
        await child.commit(names=("a",), children=(child_of("c1", "g1", FIRST),))

        await parent.end(RunStatus.FAILED)

        assert [await scene.status(one) for one in ("c1", "g1")] == [RunStatus.CANCELLING, RunStatus.CANCELLED]
