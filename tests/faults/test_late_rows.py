"""What the checker calls late: a run that is not due in time, or that a worker with room leaves alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sim.checks.starts import check_late_rows
from stepwell.clock import SECOND, Instant
from stepwell.model.states import RunStatus, WaitKind

NOW, BOUND = Instant(1_000 * SECOND), 27.0
OVER = Instant(NOW - 30 * SECOND)


def violations(row: Any, *, are_all_busy: bool) -> list[str]:
    """What is said of one run whose time was over half a minute ago."""
    said: list[str] = []
    wait = SimpleNamespace(kind=WaitKind.SIGNAL, limit_at=row.limit_at)
    detail = SimpleNamespace(history=SimpleNamespace(waits=(wait,)))
    checker = SimpleNamespace(inspector=SimpleNamespace(now=lambda: NOW), detail=lambda _: detail)
    world: Any = SimpleNamespace(checker=checker, violate=lambda code, run, text: said.append(f"{code} {text}"))
    check_late_rows(world, [row], BOUND, are_all_busy=are_all_busy)
    return said


def late_row(*, by_deadline: bool, wake_at: Instant | None, owner: str | None = None) -> Any:
    return SimpleNamespace(
        run_id="r",
        status=RunStatus.WAITING,
        owner=owner,
        wake_at=wake_at,
        deadline_at=OVER if by_deadline else None,
        max_suspend=None if by_deadline else SECOND,
        limit_at=None if by_deadline else OVER,
    )


@pytest.mark.parametrize("by_deadline", [True, False])
def test_a_late_run_that_was_due_in_time_may_stand_in_line_while_every_worker_is_busy(*, by_deadline: bool) -> None:
    row = late_row(by_deadline=by_deadline, wake_at=OVER)

    assert violations(row, are_all_busy=True) == []
    assert len(violations(row, are_all_busy=False)) == 1


@pytest.mark.parametrize("by_deadline", [True, False])
@pytest.mark.parametrize("wake_at", [None, Instant(OVER + 1)])
def test_a_late_run_that_was_not_due_in_time_is_told_of_also_while_every_worker_is_busy(
    *, by_deadline: bool, wake_at: Instant | None
) -> None:
    assert len(violations(late_row(by_deadline=by_deadline, wake_at=wake_at), are_all_busy=True)) == 1


def test_a_late_run_that_a_worker_has_is_told_of() -> None:
    assert len(violations(late_row(by_deadline=True, wake_at=OVER, owner="w"), are_all_busy=True)) == 1
