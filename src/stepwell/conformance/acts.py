"""Acts of operators that are repeated because their answer was lost: they are done once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from stepwell.conformance.case import StoreCase
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import Scene, place
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store

_R1 = RunId("r1")
_Act = Callable[[Store, str], Awaitable[bool]]


async def _cancel(store: Store, act: str) -> bool:
    return (await store.runs.cancel(_R1, compensate=True, reason="enough", by="ann", act=act)).changed


# The status in which a run accepts the act, and how the act is undone, so that the run would accept it again.
_ACTS: dict[str, tuple[RunStatus, _Act, _Act | None]] = {
    "cancel": (RunStatus.RUNNING, _cancel, None),
    "pause": (
        RunStatus.WAITING,
        lambda store, act: store.runs.pause(_R1, by="ann", reason="why", act=act),
        lambda store, act: store.runs.resume(_R1, by="bob", act=act),
    ),
    "resume": (
        RunStatus.PAUSED,
        lambda store, act: store.runs.resume(_R1, by="ann", act=act),
        lambda store, act: store.runs.pause(_R1, by="bob", reason="", act=act),
    ),
    "resume_rollback": (
        RunStatus.COMPENSATION_FAILED,
        lambda store, act: store.runs.resume_rollback(_R1, by="ann", act=act),
        None,
    ),
    "mark_undone": (
        RunStatus.COMPENSATION_FAILED,
        lambda store, act: store.runs.resume_rollback(_R1, by="ann", act=act, undone=place(0), reason="by hand"),
        None,
    ),
    "retry": (RunStatus.FAILED, lambda store, act: store.runs.retry(_R1, by="ann", act=act), None),
    "pause_workflow": (
        RunStatus.PENDING,
        lambda store, act: store.holds.pause(None, by="ann", reason="why", act=act),
        lambda store, act: store.holds.resume(None, by="bob", act=act),
    ),
}


class ActSuite(StoreCase):
    """Acts with an id."""

    @pytest.mark.parametrize("verb", _ACTS)
    async def test_a_repeated_act_gets_the_same_answer(self, scene: Scene, verb: str) -> None:
        status, do, _ = _ACTS[verb]
        await reach(scene, "r1", status, has_undo=verb == "mark_undone")
        assert await do(scene.store, "act-1")
        before = await snapshot(scene.store)
        scene.clock.advance(1)

        assert await do(scene.store, "act-1")

        assert await snapshot(scene.store) == before

    @pytest.mark.parametrize("verb", _ACTS)
    async def test_an_act_with_another_id_is_judged_separately(self, scene: Scene, verb: str) -> None:
        status, do, _ = _ACTS[verb]
        await reach(scene, "r1", status, has_undo=verb == "mark_undone")
        assert await do(scene.store, "act-1")

        assert not await do(scene.store, "act-2")
        assert not await do(scene.store, "")

    @pytest.mark.parametrize("verb", [verb for verb, (_, _, undo) in _ACTS.items() if undo is not None])
    async def test_an_act_that_was_undone_meanwhile_is_not_done_again(self, scene: Scene, verb: str) -> None:
        status, do, undo = _ACTS[verb]
        assert undo is not None
        await reach(scene, "r1", status, has_undo=verb == "mark_undone")
        assert await do(scene.store, "act-1")
        assert await undo(scene.store, "act-2")
        before = await snapshot(scene.store)

        assert await do(scene.store, "act-1")

        assert await snapshot(scene.store) == before
        assert await do(scene.store, "act-3")

    async def test_a_repeated_resume_of_a_workflow_does_nothing(self, scene: Scene) -> None:
        holds = scene.store.holds
        assert await holds.pause("w", by="ann", reason="", act="act-1")
        assert await holds.resume("w", by="ann", act="act-2")
        assert await holds.pause("w", by="bob", reason="", act="act-3")

        assert await holds.resume("w", by="ann", act="act-2")

        assert [hold.workflow for hold in await holds.list_holds()] == ["w"]
