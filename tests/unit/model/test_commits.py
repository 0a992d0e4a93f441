"""Whether a commit is written, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.clock import Instant
from stepwell.errors import InvalidMoveError
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import (
    BeginRollback,
    Commit,
    End,
    Move,
    Park,
    Pause,
    Release,
    Standing,
    Verdict,
    judge,
    may_follow_cancel,
    may_follow_deadline,
)
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.runs import NewRun
from stepwell.model.states import EntryKind, EntryStatus, RunStatus
from stepwell.model.workers import Fence

S = RunStatus
NOW = Instant(1_000)
OURS, OTHER = Incarnation("ours"), Incarnation("other")
STANDING = Standing(S.RUNNING, OURS, epoch=3, number=5, last_seq=7, deadline_at=None)
NEXT = Commit(RunId("r"), Fence(OURS, 3), 6)
MOVES: tuple[Move | None, ...] = (
    None,
    Release(),
    Park(None),
    Pause(b""),
    BeginRollback("cancelled", None),
    BeginRollback("failed", b""),
    End(S.CANCELLED),
    End(S.COMPLETED),
    End(S.FAILED),
    End(S.CONTINUED),
)


def entry(seq: int) -> Entry:
    return Entry(seq, Location(b"%d" % seq), EntryKind.STEP, EntryStatus.DONE, b"", NOW, 0, 1, None)


@pytest.mark.parametrize(
    ("sent", "stands", "verdict"),
    [
        ({}, {}, None),
        ({"number": 0}, {}, Verdict.FENCED),
        ({"number": 0}, {"number": 0}, Verdict.FENCED),
        ({"fence": Fence(OURS, 2)}, {}, Verdict.FENCED),
        ({"fence": Fence(OURS, 4)}, {}, Verdict.FENCED),
        ({"fence": Fence(OTHER, 3)}, {}, Verdict.FENCED),
        ({}, {"owner": None}, Verdict.FENCED),
        ({}, {"owner": OTHER}, Verdict.FENCED),
        ({"number": 7}, {}, Verdict.FENCED),
        ({"number": 4}, {}, Verdict.FENCED),
        ({"number": 5}, {}, Verdict.APPLIED),
        ({"number": 5}, {"owner": None, "status": S.WAITING}, Verdict.APPLIED),
        ({"number": 5}, {"status": S.CANCELLING}, Verdict.APPLIED),
        ({"number": 5, "fence": Fence(OURS, 2)}, {}, Verdict.FENCED),
        ({"move": Park(None)}, {"status": S.CANCELLING}, Verdict.CANCELLING),
        ({}, {"status": S.CANCELLING}, None),
        ({"move": End(S.COMPLETED)}, {"deadline_at": NOW}, Verdict.EXPIRED),
        ({"move": End(S.COMPLETED)}, {"deadline_at": Instant(NOW + 1)}, None),
        ({"move": End(S.FAILED)}, {"deadline_at": NOW}, None),
        ({"move": End(S.COMPENSATED)}, {"deadline_at": NOW, "status": S.COMPENSATING}, None),
        ({"entries": (entry(8), entry(9))}, {}, None),
    ],
)
def test_what_becomes_of_a_commit(sent: dict[str, Any], stands: dict[str, Any], verdict: Verdict | None) -> None:
    assert judge(NEXT._replace(**sent), STANDING._replace(**stands), NOW) is verdict


def test_work_in_the_transaction_of_a_commit_does_not_begin_once_a_cancel_is_recorded() -> None:
    cancelling = STANDING._replace(status=S.CANCELLING)

    assert judge(NEXT, cancelling, NOW, has_work=True) is Verdict.CANCELLING
    assert judge(NEXT, STANDING, NOW, has_work=True) is None


@pytest.mark.parametrize(
    ("sent", "stands"),
    [
        ({"entries": (entry(9),)}, {}),
        ({"entries": (entry(8), entry(10))}, {}),
        ({"move": End(S.RUNNING)}, {}),
        ({"move": End(S.CONTINUED)}, {}),
        ({"move": End(S.COMPLETED, successor=NewRun(RunId("s"), "flow", 1, b""))}, {}),
        ({"move": End(S.CONTINUED, successor=NewRun(RunId("s"), "flow", 1, b""), entries=(entry(2),))}, {}),
    ],
)
def test_a_commit_that_makes_no_sense_is_an_error(sent: dict[str, Any], stands: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expects entry|cannot end as|has a successor"):
        judge(NEXT._replace(**sent), STANDING._replace(**stands), NOW)


def test_a_move_that_the_table_of_states_forbids_is_an_error() -> None:
    with pytest.raises(InvalidMoveError):
        judge(NEXT._replace(move=End(S.COMPLETED)), STANDING._replace(status=S.COMPENSATING), NOW)


def test_a_commit_that_is_not_next_is_not_looked_at_further() -> None:
    wrong = NEXT._replace(fence=Fence(OTHER, 3), entries=(entry(99),), move=End(S.RUNNING))

    assert judge(wrong, STANDING, NOW) is Verdict.FENCED


def test_only_what_leads_to_the_cancels_end_may_follow_it() -> None:
    allowed = [move for move in MOVES if may_follow_cancel(move)]

    assert allowed == [None, Release(), BeginRollback("cancelled", None), End(S.CANCELLED)]


def test_everything_but_success_may_follow_a_deadline() -> None:
    assert [move for move in MOVES if not may_follow_deadline(move)] == [End(S.COMPLETED), End(S.CONTINUED)]
