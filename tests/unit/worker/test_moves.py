"""What a claim does next, as a table."""

from __future__ import annotations

import pytest

from stepwell.clock import SECOND, Instant, Span
from stepwell.errors import ReplayError, StoreUnavailableError
from stepwell.worker.moves import ClaimFacts, NextMove, decide_next, is_due_soon, is_interrupted

NOW = Instant(100 * SECOND)


@pytest.mark.parametrize(
    ("standing", "following"),
    [
        (ClaimFacts(), NextMove.PARK),
        (ClaimFacts(is_due_soon=True), NextMove.STAY),
        (ClaimFacts(has_yielded=True), NextMove.YIELD),
        (ClaimFacts(has_yielded=True, is_due_soon=True), NextMove.YIELD),
        (ClaimFacts(is_idle=False), NextMove.STAY),
        (ClaimFacts(is_idle=False, has_yielded=True), NextMove.STAY),
        (ClaimFacts(is_running=True, is_idle=False), NextMove.STAY),
        (ClaimFacts(is_holding=True, is_idle=False), NextMove.STAY),
        (ClaimFacts(is_leaving=True), NextMove.RELEASE),
        (ClaimFacts(is_leaving=True, is_due_soon=True), NextMove.RELEASE),
        (ClaimFacts(is_leaving=True, has_yielded=True), NextMove.RELEASE),
        (ClaimFacts(is_leaving=True, is_idle=False), NextMove.RELEASE),  # transactional steps have not begun
        (ClaimFacts(is_leaving=True, is_running=True), NextMove.STAY),
        (ClaimFacts(is_leaving=True, is_holding=True), NextMove.STAY),  # their beginning is announced
        (ClaimFacts(has_ended=True), NextMove.CONCLUDE),
        (ClaimFacts(has_ended=True, is_leaving=True), NextMove.CONCLUDE),
        (ClaimFacts(has_ended=True, is_idle=False), NextMove.CONCLUDE),
        (ClaimFacts(has_ended=True, is_interrupted=True), NextMove.RELEASE),
        (ClaimFacts(has_ended=True, is_running=True), NextMove.STOP_BODIES),
        (ClaimFacts(has_ended=True, is_running=True, is_pausing=True), NextMove.STAY),
        (ClaimFacts(has_ended=True, is_running=True, is_pausing=True, is_interrupted=True), NextMove.STAY),
        (ClaimFacts(has_ended=True, is_running=True, is_leaving=True), NextMove.STOP_BODIES),
    ],
)
def test_where_a_run_stands_says_what_its_claim_does(standing: ClaimFacts, following: NextMove) -> None:
    assert decide_next(standing) is following


@pytest.mark.parametrize(
    ("deadline", "end", "only_time", "hold", "ahead", "expected"),
    [
        (None, None, True, 5, 5, False),
        (3, None, True, 5, 0, True),
        (5, None, True, 5, 0, True),
        (6, None, True, 5, 0, False),
        (3, None, False, 5, 0, False),  # a message may come first, and other workers hear of it too
        (3, None, False, 0, 5, True),
        (6, None, False, 0, 5, False),
        (None, 3, True, 5, 0, False),
        (None, 3, True, 0, 5, True),
        (9, 3, False, 0, 5, True),
        (3, 9, False, 0, 5, True),
        (9, 9, False, 0, 5, False),
    ],
)
def test_a_run_is_kept_if_its_time_is_near(
    deadline: int | None, end: int | None, *, only_time: bool, hold: int, ahead: int, expected: bool
) -> None:
    def after(seconds: int | None) -> Instant | None:
        return None if seconds is None else Instant(NOW + seconds * SECOND)

    kept = is_due_soon(
        after(deadline),
        after(end),
        NOW,
        waits_for_time_only=only_time,
        hold_span=Span(hold * SECOND),
        ahead_span=Span(ahead * SECOND),
    )

    assert kept is expected


def test_code_that_lost_the_store_was_interrupted() -> None:
    problem = ReplayError("a payload cannot be read")
    problem.__cause__ = StoreUnavailableError("it does not answer")

    assert is_interrupted(problem)


def test_code_that_lost_a_file_needs_a_person() -> None:
    problem = ReplayError("a payload cannot be read")
    problem.__cause__ = StoreUnavailableError("it does not answer")
    problem.__cause__.__cause__ = FileNotFoundError("gone")

    assert not is_interrupted(problem)
    assert not is_interrupted(ReplayError("it diverged"))
    assert not is_interrupted(None)
