"""How a status is shown: an icon and a word, never a colour alone."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.model.states import RunStatus


class Shown(NamedTuple):
    """An icon, the same in ASCII, and the words."""

    icon: str
    ascii: str
    words: str


_S = RunStatus
STATUSES: dict[RunStatus, Shown] = {
    _S.PENDING: Shown("○", "o", "pending"),
    _S.RUNNING: Shown("●", "*", "running"),
    _S.WAITING: Shown("‖", "=", "waiting"),
    _S.PAUSED: Shown("⚠", "!", "paused"),
    _S.CANCELLING: Shown("●", "*", "cancelling"),
    _S.COMPENSATING: Shown("↶", "<", "undoing"),
    _S.COMPENSATION_FAILED: Shown("⚠", "!", "rollback incomplete"),
    _S.COMPLETED: Shown("✓", "+", "completed"),
    _S.FAILED: Shown("✕", "x", "failed"),
    _S.COMPENSATED: Shown("↶", "<", "failed, undone"),
    _S.CANCELLED: Shown("⊘", "-", "cancelled"),
    _S.CONTINUED: Shown("→", ">", "continued"),
}


def show_status(status: str, *, ascii: bool) -> str:
    """A status as people read it; one that this version does not know is shown as it is."""
    try:
        shown = STATUSES[RunStatus(status)]
    except ValueError:
        return status
    return f"{shown.ascii if ascii else shown.icon} {shown.words}"
