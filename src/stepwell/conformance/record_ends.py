"""Records of runs: their commits open and close them, and every way out of a run closes the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell.clock import Instant
from stepwell.conformance.case import StoreCase
from stepwell.conformance.records import change, closing, new_record, open_ones, opening, stored, verbs
from stepwell.conformance.scene import (
    FIRST,
    Scene,
    Turn,
    new_run,
    place,
    step,
    wait_signal,
    wait_timer,
)
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId
from stepwell.model.amendments import Amended, Amendment, Dropped
from stepwell.model.commits import End, Verdict
from stepwell.model.locations import former, iteration, subtree
from stepwell.model.records import (
    Changed,
    ChangeOutcome,
    NewRecordEvent,
    Record,
    RecordEvent,
    RecordFilter,
    RecordOpening,
)
from stepwell.model.runs import Parent
from stepwell.model.states import RunStatus

_S = RunStatus
_R1 = RunId("r1")


# --- every way out of a run ---------------------------------------------------------------------

_Way = Callable[[Scene], Awaitable[object]]
_BOTH = (opening("ends", due_at=Instant(9), labels=("a",)), opening("stays", end_state=None))


async def _with_records(scene: Scene, **changes: Any) -> Turn:
    """A run with one record that ends with it, and one that stays."""
    turn = await scene.begin("r1", **changes)
    await turn.commit(names=("a",), opened=_BOTH)
    return turn


async def _with_child(scene: Scene, *, detached: bool = False, tied: bool = False) -> Turn:
    """A run whose child waits and has these records."""
    parent = await scene.begin("p1")
    await parent.commit(names=("a",))
    new = new_run("r1", parent=Parent(parent.run_id, FIRST, detached, tied))
    [claimed] = (await parent.commit(children=(new,), claimant=scene.claimant())).claimed
    child = Turn(scene.store, claimed)
    await child.commit(opened=_BOTH)
    await child.park(wait_signal())
    return parent


async def _end(scene: Scene, status: RunStatus, **parts: Any) -> None:
    await (await _with_records(scene)).commit(move=End(status, **parts))


async def _end_with_a_step(scene: Scene) -> None:
    await (await _with_records(scene)).commit(entries=(step(1, place(0)),), move=End(_S.COMPLETED))


async def _end_at_once(scene: Scene) -> None:
    await (await scene.begin("r1")).commit(opened=_BOTH, move=End(_S.COMPLETED))


async def _roll_back(scene: Scene) -> None:
    await (await _with_records(scene)).roll_back()


async def _stop_rolling_back(scene: Scene) -> None:
    turn = await scene.begin("r1")
    await turn.roll_back()
    await turn.commit(opened=_BOTH)
    await turn.end(_S.COMPENSATION_FAILED)


async def _cancel(scene: Scene) -> None:
    await _with_records(scene)
    await scene.cancel("r1", compensate=False)


async def _cancel_while_it_waits(scene: Scene) -> None:
    await (await _with_records(scene)).park(wait_signal())
    await scene.cancel("r1")


async def _roll_back_a_cancel(scene: Scene) -> None:
    turn = await _with_records(scene)
    await scene.cancel("r1")
    assert (await stored(scene, "ends")).is_open
    await turn.roll_back("cancelled")


async def _cancel_the_parent(scene: Scene) -> None:
    await _with_child(scene)
    await scene.cancel("p1")


async def _end_the_parent(scene: Scene) -> None:
    await (await _with_child(scene, detached=True, tied=True)).end()


async def _trim_the_call(scene: Scene) -> None:
    await (await _with_child(scene)).commit(trims=(subtree(FIRST),))


async def _rewind_the_parent(scene: Scene) -> None:
    await (await _with_child(scene)).park(wait_timer(Instant(10**16)), wake_at=Instant(10**16))
    dropped = Dropped(_R1, former(FIRST, 1), None)
    assert await _amend(scene, "p1", children=(dropped,)) is Amended.APPLIED


async def _replace(scene: Scene) -> None:
    await (await _with_records(scene, key="k")).park(wait_signal())
    assert (await scene.create("r2", key="k", on_conflict="replace")).replaced == "r1"


async def _amend(scene: Scene, run_id: str, **parts: Any) -> Amended:
    run = await scene.run(run_id)
    amendment = Amendment("a1", run.run_id, run.status, run.epoch, run.revision, "rewind", **parts)
    return await scene.store.runs.amend(amendment)


_WAYS: dict[str, _Way] = {
    "completed": lambda scene: _end(scene, _S.COMPLETED),
    "failed": lambda scene: _end(scene, _S.FAILED, failure=b"{}"),
    "cancelled": lambda scene: _end(scene, _S.CANCELLED),
    "continued": lambda scene: _end(scene, _S.CONTINUED, successor=new_run("next")),
    "completed with a step": _end_with_a_step,
    "completed at once": _end_at_once,
    "rollback": _roll_back,
    "incomplete rollback": _stop_rolling_back,
    "cancelled from outside": _cancel,
    "cancelled while it waits": _cancel_while_it_waits,
    "rollback of a cancel": _roll_back_a_cancel,
    "cancelled parent": _cancel_the_parent,
    "ended parent of a tied run": _end_the_parent,
    "trimmed call": _trim_the_call,
    "rewound parent": _rewind_the_parent,
    "replaced": _replace,
}


class RunRecordSuite(StoreCase):
    """`Commit.opened` and `closed`, and what the end of a run closes."""

    async def test_a_run_opens_and_closes_its_records_with_its_commits(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        opened = RecordOpening(place(2), new_record("t1", labels=("a",), due_at=Instant(5)), (NewRecordEvent("a"),))

        await turn.commit(names=("a",), entries=(step(1, place(0)),), opened=(opened, opening("t2", place(1))))
        first, now = await stored(scene, "t1"), scene.clock.now()
        scene.clock.advance(1)
        await turn.commit(closed=(closing("t1"),))

        what = ("task", "t1", 1, "open", ("a",), Instant(5), True, None, _R1, place(2), b"t1")
        assert first == Record(first.number, *what, now, now)
        later = scene.clock.now()
        ended = first._replace(version=2, state="done", due_at=None, is_open=False, updated_at=later)
        assert await stored(scene, "t1") == ended
        [decided, _] = await scene.store.records.list_events("task", "t1", limit=9)
        assert decided == RecordEvent(2, later, "ann", "decided", 2, b"yes")
        assert await open_ones(scene) == ["t2"]
        assert await scene.store.records.next_due(["task"]) is None

    async def test_what_exists_is_not_opened_and_what_is_closed_or_another_s_is_not_closed(self, scene: Scene) -> None:
        await change(scene, "c1", new_record("t1"))
        await (await scene.begin("r2")).commit(opened=(opening("t2"),))
        turn = await scene.begin("r1")
        await turn.commit(opened=(opening("t3"),), closed=(closing("t3", "first"),))
        before = (await snapshot(scene.store))["records"]

        closed = tuple(closing(name, "second") for name in ("t1", "t2", "t3", "nothing"))
        await turn.commit(opened=tuple(opening(name, state="new") for name in ("t1", "t2", "t3")), closed=closed)

        assert (await snapshot(scene.store))["records"] == before
        assert (await stored(scene, "t3")).state == "first"

    async def test_only_a_commit_that_is_applied_opens_records_and_only_once(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        commit = turn.next(opened=(opening("t1"),))
        fenced = commit._replace(fence=commit.fence._replace(epoch=7), opened=(opening("t2"),))
        assert (await turn.send(fenced)).verdict is Verdict.FENCED
        with pytest.raises(ValueError, match="expects entry"):
            await turn.commit(entries=(step(5, place(0)),), opened=(opening("t3"),))
        with pytest.raises(ValueError, match="sorted"):
            await turn.commit(opened=(opening("t4", labels=("b", "a")),))
        with pytest.raises(ValueError, match="characters"):
            await turn.commit(closed=(closing("t1", ""),))

        for _ in range(2):
            assert (await turn.send(commit)).verdict is Verdict.APPLIED

        assert await open_ones(scene) == ["t1"]
        assert await verbs(scene, "t1") == ["created"]

    @pytest.mark.parametrize("name", list(_WAYS))
    async def test_every_way_out_of_a_run_closes_its_records(self, scene: Scene, name: str) -> None:
        await (await scene.begin("other")).commit(opened=(opening("of another"),))
        await change(scene, "c1", new_record("of nobody", end_state="gone"))

        await _WAYS[name](scene)

        closed = await stored(scene, "ends")
        assert (closed.version, closed.state, closed.is_open, closed.due_at) == (2, "gone", False, None)
        [event, _] = await scene.store.records.list_events("task", "ends", limit=9)
        assert event == RecordEvent(2, scene.clock.now(), "", "closed_with_run", 2, b"")
        assert await open_ones(scene) == ["of another", "of nobody", "stays"]
        assert await scene.store.records.next_due(["task"]) is None
        for labels in ((), ("a",)):
            where = RecordFilter("task", labels=labels, is_open=False)
            assert await scene.store.records.list_records(where, limit=9) == [closed]

    async def test_a_pause_or_a_cancel_that_is_on_its_way_closes_nothing(self, scene: Scene) -> None:
        turn = await _with_records(scene)
        await turn.park(wait_signal())
        await scene.store.runs.pause(_R1, by="ann", reason="")
        assert await open_ones(scene) == ["ends", "stays"]
        await scene.store.runs.resume(_R1, by="ann")
        await scene.claim_only("r1")
        await scene.cancel("r1")
        assert await scene.status("r1") is _S.CANCELLING
        await scene.lose_worker()
        await scene.rescue(stalls_max=1)

        assert await scene.status("r1") is _S.PAUSED
        assert await open_ones(scene) == ["ends", "stays"]

    async def test_a_change_from_before_the_end_is_stale(self, scene: Scene) -> None:
        turn = await _with_records(scene)
        await turn.end()

        assert await change(scene, "c1", new_record("ends", state="decided"), 1) == Changed(ChangeOutcome.STALE, 2)
        assert (await stored(scene, "ends")).state == "gone"

    async def test_what_is_closed_already_stays_as_it_is(self, scene: Scene) -> None:
        turn = await _with_records(scene)
        await turn.commit(closed=(closing("ends"),))
        before = await stored(scene, "ends")

        await turn.end()

        assert await stored(scene, "ends") == before

    async def test_a_trim_closes_what_was_opened_there(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        places = {"above": place(0), "at": place(1), "below": iteration(place(1), 4), "behind": place(2)}
        await turn.commit(names=("a", "b", "c"), opened=tuple(opening(name, at) for name, at in places.items()))

        await turn.commit(trims=(subtree(place(1)),), opened=(opening("again", place(1)),))

        assert await open_ones(scene) == ["above", "behind", "again"]
        assert (await stored(scene, "below")).state == "gone"

    async def test_a_repair_closes_what_has_lost_its_place(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        for name in ("a", "b"):
            await turn.record(name)
        places = {"kept": place(0), "forgotten": place(1), "awaited": place(2), "lost": place(3)}
        opened = tuple(opening(name, at) for name, at in places.items())
        await turn.commit(names=("c", "d"), opened=(*opened, opening("stays", place(3), end_state=None)))
        await turn.park(wait_signal(at=place(2)), wait_signal("x", at=place(3)))

        assert await _amend(scene, "r1", forgotten=(place(1),), waits=(wait_signal(at=place(2)),)) is Amended.APPLIED

        assert await open_ones(scene) == ["kept", "awaited", "stays"]
