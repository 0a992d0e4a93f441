"""What a cancel does to one run, as a table."""

from __future__ import annotations

import itertools

import pytest

from stepwell.model.cancels import decide_cancel
from stepwell.model.states import TERMINAL, RunStatus, may_move

S = RunStatus
TOO_LATE = {*TERMINAL, S.CANCELLING, S.COMPENSATING, S.COMPENSATION_FAILED}
WAYS = list(itertools.product([True, False], repeat=3))


@pytest.mark.parametrize("status", S)
def test_a_cancel_comes_too_late_or_leads_where_the_table_allows(status: RunStatus) -> None:
    decided = {
        decide_cancel(status, compensate=compensate, has_undo=has_undo, is_owned=is_owned)
        for compensate, has_undo, is_owned in WAYS
    }

    if status in TOO_LATE:
        assert decided == {None}
    else:
        assert decided == {S.CANCELLING, S.CANCELLED}
        assert all(may_move(status, target) for target in decided if target is not None)


@pytest.mark.parametrize(("compensate", "has_undo", "is_owned"), WAYS)
def test_a_worker_finishes_a_cancel_only_if_there_may_be_something_to_undo(
    compensate: bool, has_undo: bool, is_owned: bool
) -> None:
    decided = decide_cancel(S.RUNNING, compensate=compensate, has_undo=has_undo, is_owned=is_owned)

    assert (decided is S.CANCELLING) == (compensate and (has_undo or is_owned))
