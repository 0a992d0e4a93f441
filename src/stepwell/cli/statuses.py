"""How a status is shown: an icon and a word, never a colour alone."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.model.states import RunStatus


class StatusSymbol(NamedTuple):
    """An icon, its ASCII form, and the words."""

    icon: str
    ascii: str
    words: str


_S = RunStatus
STATUSES: dict[RunStatus, StatusSymbol] = {
    _S.PENDING: StatusSymbol("○", "o", "pending"),
    _S.RUNNING: StatusSymbol("●", "*", "running"),
    _S.WAITING: StatusSymbol("‖", "=", "waiting"),
    _S.PAUSED: StatusSymbol("⚠", "!", "paused"),
    _S.CANCELLING: StatusSymbol("●", "*", "cancelling"),
    _S.COMPENSATING: StatusSymbol("↶", "<", "compensating"),
    _S.COMPENSATION_FAILED: StatusSymbol("⚠", "!", "rollback incomplete"),
    _S.COMPLETED: StatusSymbol("✓", "+", "completed"),
    _S.FAILED: StatusSymbol("✕", "x", "failed"),
    _S.COMPENSATED: StatusSymbol("↶", "<", "compensated"),
    _S.CANCELLED: StatusSymbol("⊘", "-", "cancelled"),
    _S.CONTINUED: StatusSymbol("→", ">", "continued"),
}


def show_status(status: str, *, ascii: bool) -> str:
    """A status as people read it. A status that this version does not know is shown as stored."""
    try:
        shown = STATUSES[RunStatus(status)]
    except ValueError:
        return status
    return f"{shown.ascii if ascii else shown.icon} {shown.words}"
