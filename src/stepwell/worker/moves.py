"""What a claim does next: one pure function of the facts about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stepwell.clock import Instant, Span
from stepwell.errors import CorruptRecordError, ReplayError, StoreError
from stepwell.errors.records import FailureRecord
from stepwell.model.commits import Move
from stepwell.model.failures import words_of
from stepwell.replay.driver import expire, honour_cancel
from stepwell.replay.journal import Journal
from stepwell.stores.base.faults import is_final


class NextMove(StrEnum):
    """What a claim does when its code waits or has ended."""

    STAY = "stay"  # bodies run or will run, or it would be claimed again at once
    STOP_BODIES = "stop bodies"  # the code has ended, so their results are not wanted
    CONCLUDE = "conclude"  # commit how the code ended
    RELEASE = "release"  # release the run as it is
    YIELD = "yield"  # let it wait as due now, behind all runs that are due already
    PARK = "park"  # let it wait until a wait is satisfied


class ClaimFacts(NamedTuple):
    """The facts about a claim when its code waits or has ended."""

    has_ended: bool = False  # the code returned, raised or diverged
    is_pausing: bool = False  # it diverged: what its bodies do is recorded, because the run will be resumed
    is_interrupted: bool = False  # it was stopped because the store is unavailable
    is_leaving: bool = False  # the run is to be released
    is_running: bool = False  # some of its bodies run
    is_holding: bool = False  # some of its bodies will begin
    is_idle: bool = True  # the code only waits
    has_yielded: bool = False  # a step released its slot
    is_due_soon: bool = False  # releasing it is not worth while


def decide_next(facts: ClaimFacts) -> NextMove:
    """Decide what the claim does; the caller does it."""
    if facts.has_ended:
        if facts.is_running:
            return NextMove.STAY if facts.is_pausing else NextMove.STOP_BODIES
        return NextMove.RELEASE if facts.is_interrupted else NextMove.CONCLUDE
    if facts.is_running or facts.is_holding:
        return NextMove.STAY
    if facts.is_leaving:
        return NextMove.RELEASE
    if not facts.is_idle:
        return NextMove.STAY
    if facts.has_yielded:
        return NextMove.YIELD
    return NextMove.STAY if facts.is_due_soon else NextMove.PARK


def is_due_soon(
    deadline: Instant | None,
    end_at: Instant | None,
    now: Instant,
    *,
    waits_for_time_only: bool,
    hold_span: Span,
    ahead_span: Span,
) -> bool:
    """Whether releasing a run is not worth while: it waits only for a time that is near, or would be claimed again at
    once.
    """
    if deadline is not None and waits_for_time_only and deadline - now <= hold_span:
        return True
    due = end_at if deadline is None else deadline if end_at is None else min(deadline, end_at)
    return due is not None and ahead_span > 0 and due - now <= ahead_span


def stop_move(journal: Journal, late: FailureRecord | None) -> Move:
    """The move of a run whose forward code was stopped by a cancel, or because it is late."""
    return honour_cancel(journal) if late is None else expire(journal, late)


def is_interrupted(problem: ReplayError | None) -> bool:
    """Whether the code was stopped because the store, and with it an offloaded payload, is unavailable.

    Such a run is released, and the release waits for the store. A payload in an unreadable file needs a person.
    """
    cause = None if problem is None else problem.__cause__
    return isinstance(cause, StoreError) and not is_final(cause) and not isinstance(cause.__cause__, OSError)


def defect_of(error: BaseException) -> ReplayError:
    """The reason with which a run is paused after an internal error."""
    if isinstance(error, CorruptRecordError):
        return ReplayError(error.title, where=error.where, why=f"{error.code}: {error.why}", fix=error.fix)
    return ReplayError(f"internal error of stepwell in this run: {type(error).__name__}: {words_of(error)}")
