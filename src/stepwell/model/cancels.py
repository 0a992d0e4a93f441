"""What a cancel does to one run: one decision, for every store."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.ids import RunId
from stepwell.model.states import TERMINAL, RunStatus

PARENT_CLOSED = "its parent ended"
_TOO_LATE = TERMINAL | {RunStatus.CANCELLING, RunStatus.COMPENSATING, RunStatus.COMPENSATION_FAILED}


class Cancelled(NamedTuple):
    """The outcome of a cancel: whether the named run changed, and every run that did, root first."""

    changed: bool
    runs: tuple[RunId, ...] = ()


def decide_cancel(status: RunStatus, *, compensate: bool, has_undo: bool, is_owned: bool) -> RunStatus | None:
    """The status that a run takes when it is cancelled; None if it is too late to cancel it.

    `CANCELLING` lets a worker end the run: there is something to undo, or a worker is running a step whose result may
    have to be undone. `CANCELLED` ends the run at once and fences its worker.
    """
    if status in _TOO_LATE:
        return None
    if compensate and (has_undo or is_owned):
        return RunStatus.CANCELLING
    return RunStatus.CANCELLED
