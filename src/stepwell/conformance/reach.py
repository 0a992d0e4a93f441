"""Brings a run into any status."""

from __future__ import annotations

from stepwell.conformance.scene import Scene, Turn, new_run, wait_signal
from stepwell.model.commits import End, Pause, Release
from stepwell.model.states import RunStatus

_S = RunStatus


async def reach(scene: Scene, run_id: str, status: RunStatus, *, has_undo: bool = False, is_owned: bool = True) -> Turn:
    """A run with a key in this status, and the turn that brought it there.

    That turn still owns running, cancelling and compensating runs, the latter two only if `is_owned`.
    """
    turn = await scene.begin(run_id, key=f"key of {run_id}")
    if has_undo:
        await turn.record("step", undo=b"undo")
    await _move(scene, turn, status)
    if not is_owned and status in (_S.CANCELLING, _S.COMPENSATING):
        await turn.commit(move=Release())
    assert await scene.status(run_id) is status
    return turn


async def _move(scene: Scene, turn: Turn, status: RunStatus) -> None:
    match status:
        case _S.PENDING:
            await turn.commit(move=Release())
        case _S.RUNNING:
            pass
        case _S.WAITING:
            await turn.park(wait_signal("awaited"))
        case _S.PAUSED:
            await turn.commit(move=Pause(b"{}"))
        case _S.CANCELLING:
            await scene.cancel(turn.run_id)
        case _S.COMPENSATING:
            await turn.roll_back()
        case _S.COMPENSATION_FAILED | _S.COMPENSATED:
            await turn.roll_back()
            await turn.end(status)
        case _S.COMPLETED | _S.FAILED | _S.CANCELLED:
            await turn.end(status)
        case _S.CONTINUED:
            await turn.commit(move=End(status, successor=new_run(f"{turn.run_id}-next")))
