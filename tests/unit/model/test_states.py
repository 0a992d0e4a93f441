"""The table of moves."""

from __future__ import annotations

import pytest

from stepwell.errors import InvalidMoveError
from stepwell.model.states import ACTIVE, RUN_MOVES, TERMINAL, EntryKind, RunStatus, check_move, may_move


def test_every_status_has_a_row_and_is_either_active_or_terminal() -> None:
    assert set(RUN_MOVES) == set(RunStatus)
    assert set(RunStatus) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL


def test_nothing_leaves_a_terminal_status_but_an_operators_retry() -> None:
    exits = {status: RUN_MOVES[status] for status in TERMINAL if RUN_MOVES[status]}

    assert exits == {RunStatus.FAILED: {RunStatus.PENDING}}


def test_every_active_status_can_reach_an_end() -> None:
    for start in ACTIVE:
        reached, frontier = {start}, {start}
        while frontier:
            frontier = {move for status in frontier for move in RUN_MOVES[status]} - reached
            reached |= frontier
        assert reached & TERMINAL


def test_a_move_that_is_not_listed_is_refused() -> None:
    with pytest.raises(InvalidMoveError, match="completed cannot become running"):
        check_move(RunStatus.COMPLETED, RunStatus.RUNNING)
    assert may_move(RunStatus.COMPLETED, RunStatus.COMPLETED)


def test_each_kind_of_entry_is_stored_as_its_own_letter() -> None:
    assert all(len(kind.value) == 1 for kind in EntryKind)
    assert EntryKind.RECEIVE_MANY.word == "receive_many"
