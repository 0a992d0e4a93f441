"""What a claim does next: decided from what is true of it, in one place."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stepwell.clock import Instant, Span
from stepwell.errors import ReplayError, StoreError
from stepwell.errors.records import FailureRecord
from stepwell.model.commits import Move
from stepwell.model.failures import words_of
from stepwell.replay.driver import expire, honour_cancel
from stepwell.replay.journal import Journal
from stepwell.stores.base.faults import is_final


class Next(StrEnum):
    """The ways on for a claim whose code stands still."""

    STAY = "stay"  # bodies run or will, or it would be claimed again at once
    STOP_BODIES = "stop bodies"  # the code has ended, and nobody waits for them
    CONCLUDE = "conclude"  # commit how the code ended
    RELEASE = "release"  # give the run up as it is
    YIELD = "yield"  # park it as due now, behind all runs that are due already
    PARK = "park"  # until a wait is satisfied


class Standing(NamedTuple):
    """Where a run stands when its code goes no further by itself."""

    has_ended: bool = False  # the code returned, raised or diverged
    is_interrupted: bool = False  # it was stopped because the store is away
    is_leaving: bool = False  # the run is to be given back
    is_running: bool = False  # some of its bodies run
    is_holding: bool = False  # some of its bodies will begin
    is_idle: bool = True  # nothing but waiting is left
    has_yielded: bool = False  # a step gave its slot back
    is_due_soon: bool = False  # giving it up is not worth while


def decide_next(standing: Standing) -> Next:
    """Say what the claim does; the caller carries it out."""
    if standing.has_ended:
        if standing.is_running:
            return Next.STOP_BODIES
        return Next.RELEASE if standing.is_interrupted else Next.CONCLUDE
    if standing.is_running or standing.is_holding:
        return Next.STAY
    if standing.is_leaving:
        return Next.RELEASE
    if not standing.is_idle:
        return Next.STAY
    if standing.has_yielded:
        return Next.YIELD
    return Next.STAY if standing.is_due_soon else Next.PARK


def is_due_soon(
    deadline: Instant | None,
    end_at: Instant | None,
    now: Instant,
    *,
    waits_for_time_only: bool,
    hold_span: Span,
    ahead_span: Span,
) -> bool:
    """Whether it is not worth while to give a run up: it only waits for a time that is near, or would be claimed again
    at once.
    """
    if deadline is not None and waits_for_time_only and deadline - now <= hold_span:
        return True
    due = end_at if deadline is None else deadline if end_at is None else min(deadline, end_at)
    return due is not None and ahead_span > 0 and due - now <= ahead_span


def stop_move(journal: Journal, late: FailureRecord | None) -> Move:
    """The move of a run whose forward code was stopped: for a cancel, or because it is late."""
    return honour_cancel(journal) if late is None else expire(journal, late)


def is_interrupted(problem: ReplayError | None) -> bool:
    """Whether the code was stopped because the store is away, and with it a payload that is kept apart in it.

    The run is given back, which waits until the store is there again. A payload in a file that cannot be read needs a
    person.
    """
    cause = None if problem is None else problem.__cause__
    return isinstance(cause, StoreError) and not is_final(cause) and not isinstance(cause.__cause__, OSError)


def defect_of(error: BaseException) -> ReplayError:
    """What a run is paused with when stepwell itself failed on it."""
    return ReplayError(f"stepwell itself failed on this run: {type(error).__name__}: {words_of(error)}")
