"""Every transition from every status: allowed ones work, the others change nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from stepwell.conformance.case import StoreCase
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import Scene, Turn, new_run, wait_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import InvalidMoveError
from stepwell.ids import Incarnation, RunId
from stepwell.model.amendments import AMENDABLE, Amendment
from stepwell.model.commits import BeginRollback, End, Move, Park, Pause, Release, Verdict
from stepwell.model.states import TERMINAL, RunStatus, may_move

_S = RunStatus
_OWNED = (_S.RUNNING, _S.CANCELLING, _S.COMPENSATING)
_ENDS = [*sorted(TERMINAL), _S.COMPENSATION_FAILED]


def _same(*statuses: RunStatus) -> dict[RunStatus, RunStatus]:
    return {status: status for status in statuses}


# The status after each move of the owner; from any other status the move changes nothing.
_MOVES: dict[str, tuple[Move, dict[RunStatus, RunStatus]]] = {
    "park": (Park(None), {_S.RUNNING: _S.WAITING, _S.COMPENSATING: _S.COMPENSATING}),
    "release": (Release(), {_S.RUNNING: _S.PENDING} | _same(_S.CANCELLING, _S.COMPENSATING)),
    "pause": (Pause(b"{}"), {_S.RUNNING: _S.PAUSED, _S.COMPENSATING: _S.PAUSED}),
    "roll back": (BeginRollback("failed", None), {_S.RUNNING: _S.COMPENSATING, _S.COMPENSATING: _S.COMPENSATING}),
    "roll back a cancel": (BeginRollback("cancelled", None), dict.fromkeys(_OWNED, _S.COMPENSATING)),
}
for _end in _ENDS:
    _from = [_S.CANCELLING] if _end is _S.CANCELLED else []
    _from += [status for status in (_S.RUNNING, _S.COMPENSATING) if may_move(status, _end)]
    _successor = new_run("next") if _end is _S.CONTINUED else None
    _MOVES[f"end {_end.value}"] = (End(_end, successor=_successor), dict.fromkeys(_from, _end))

_Act = Callable[[Scene], Awaitable[object]]
_R1 = RunId("r1")
_FREED = {_S.RUNNING: _S.PENDING} | _same(_S.CANCELLING, _S.COMPENSATING)


async def _amend(scene: Scene) -> None:
    run = await scene.run("r1")
    await scene.store.runs.amend(Amendment("a1", _R1, run.status, run.epoch, run.revision, "rewind"))


async def _rescue(scene: Scene) -> None:
    await scene.lose_worker("w2")
    await scene.rescue()


async def _quarantine(scene: Scene) -> None:
    await scene.lose_worker("w2")
    await scene.rescue(stalls_max=1)


# The status after each act of another process. Only running, cancelling and compensating runs have an owner.
_ACTS: dict[str, tuple[_Act, dict[RunStatus, RunStatus]]] = {
    "claim": (lambda scene: scene.claim("w2"), {_S.PENDING: _S.RUNNING}),
    "resume": (lambda scene: scene.store.runs.resume(_R1, by=""), {_S.PAUSED: _S.PENDING}),
    "resume rollback": (
        lambda scene: scene.store.runs.resume_rollback(_R1, by=""),
        {_S.COMPENSATION_FAILED: _S.COMPENSATING},
    ),
    "retry": (lambda scene: scene.store.runs.retry(_R1, by=""), {_S.FAILED: _S.PENDING}),
    "amend": (_amend, dict.fromkeys(AMENDABLE, _S.PENDING)),
    "rescue": (_rescue, _FREED),
    "quarantine": (_quarantine, dict.fromkeys(_OWNED, _S.PAUSED)),
    "relinquish": (lambda scene: scene.store.runs.relinquish(scene.incarnation, ()), _FREED),
    "retire": (lambda scene: scene.store.workers.retire(scene.incarnation), _FREED),
    "relinquish others": (lambda scene: scene.store.runs.relinquish(Incarnation("w2"), ()), {}),
    "cancel at once": (
        lambda scene: scene.cancel("r1", compensate=False),
        dict.fromkeys((_S.PENDING, _S.RUNNING, _S.WAITING, _S.PAUSED), _S.CANCELLED),
    ),
    "cancel": (
        lambda scene: scene.cancel("r1"),
        dict.fromkeys((_S.PENDING, _S.WAITING, _S.PAUSED), _S.CANCELLED) | {_S.RUNNING: _S.CANCELLING},
    ),
    "start with its key": (lambda scene: scene.create("r9", key="key of r1"), {}),
}


async def _try(turn: Turn, move: Move) -> Verdict | None:
    """The verdict, or None if the move was rejected."""
    try:
        waits = (wait_signal("awaited"),) if isinstance(move, Park) else None
        return (await turn.commit(waits=waits, move=move)).verdict
    except InvalidMoveError:
        return None


class StateSuite(StoreCase):
    """All pairs."""

    @pytest.mark.parametrize("name", list(_MOVES))
    @pytest.mark.parametrize("status", list(RunStatus))
    async def test_a_move_of_the_owner(self, scene: Scene, status: RunStatus, name: str) -> None:
        turn = await reach(scene, "r1", status)
        before = await snapshot(scene.store)
        move, allowed = _MOVES[name]

        verdict = await _try(turn, move)

        if status in allowed:
            assert verdict is Verdict.APPLIED
            assert await scene.status("r1") is allowed[status]
            assert may_move(status, allowed[status])
        else:
            assert verdict is not Verdict.APPLIED
            assert await snapshot(scene.store) == before

    @pytest.mark.parametrize("name", list(_ACTS))
    @pytest.mark.parametrize("status", list(RunStatus))
    async def test_an_act_of_another_process(self, scene: Scene, status: RunStatus, name: str) -> None:
        await scene.register("w2")
        await reach(scene, "r1", status)
        before = (await snapshot(scene.store))["runs"]["r1"]
        act, allowed = _ACTS[name]

        await act(scene)

        if status in allowed:
            assert await scene.status("r1") is allowed[status]
            assert may_move(status, allowed[status])
        else:
            assert (await snapshot(scene.store))["runs"]["r1"] == before

    @pytest.mark.parametrize("status", list(RunStatus))
    async def test_a_signal_changes_no_status(self, scene: Scene, status: RunStatus) -> None:
        await reach(scene, "r1", status)

        delivered = await scene.send("s1", "r1", "awaited")

        assert await scene.status("r1") is status
        assert delivered.woke == (status is _S.WAITING)
        assert (delivered.run_id is None) == (status in TERMINAL - {_S.CONTINUED})
