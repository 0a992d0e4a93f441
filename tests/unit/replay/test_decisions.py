"""What happens after a failed attempt, decided by a pure function."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell import Failure, Fatal, Retry, RetryAfter, Rollback
from stepwell.clock import Instant, Span
from stepwell.replay.bodies import Raised, TimedOut
from stepwell.replay.primitives.step import GiveUp, RetryAt, decide

NOW = Instant(1_000_000)
POLICY = Retry(max_attempts=3, initial="1s", jitter=0)


def after(error: BaseException, attempt: int = 1, policy: Retry = POLICY) -> RetryAt | GiveUp:
    return decide(Raised(error), attempt=attempt, policy=policy, now=NOW, chance=0.5)


def test_an_ordinary_error_is_retried_until_the_attempts_are_used() -> None:
    decisions = [after(ValueError("x"), attempt) for attempt in (1, 2, 3)]

    assert [type(decision) for decision in decisions] == [RetryAt, RetryAt, GiveUp]
    assert [each.at - NOW for each in decisions if isinstance(each, RetryAt)] == [1_000_000, 2_000_000]


@pytest.mark.parametrize("error", [Fatal("x"), Failure("x"), Rollback("x"), SystemExit(1), KeyboardInterrupt()])
def test_errors_that_mean_to_be_final_are_final(error: BaseException) -> None:
    assert isinstance(after(error), GiveUp)


def test_retry_after_sets_the_delay_but_not_the_number_of_attempts() -> None:
    decision = after(RetryAfter("1h"))

    assert isinstance(decision, RetryAt)
    assert decision.at == NOW + 3_600_000_000
    assert isinstance(after(RetryAfter("1h"), attempt=3), GiveUp)


@pytest.mark.parametrize(("on_timeout", "expected"), [(False, GiveUp), (True, RetryAt)])
def test_a_timeout_is_final_unless_the_policy_says_otherwise(on_timeout: bool, expected: type) -> None:
    policy = Retry(on_timeout=on_timeout)
    decision = decide(TimedOut(Span(5_000_000)), attempt=1, policy=policy, now=NOW, chance=0)

    assert isinstance(decision, expected)
    assert decision.failure.summary == "TimeoutError: it ran longer than its limit of 0:00:05"


@given(
    st.integers(1, 60),
    st.floats(0, 1, exclude_max=True),
    st.floats(1, 10),
    st.floats(0, 3),
    st.integers(1, 10_000),
    st.integers(1, 10_000),
)
def test_the_wait_is_never_shorter_than_computed_and_never_above_the_cap_and_its_jitter(
    attempt: int, chance: float, factor: float, jitter: float, initial: int, cap: int
) -> None:
    policy = Retry(max_attempts=100, initial=initial, factor=factor, max_delay=cap, jitter=jitter)
    decision = decide(Raised(ValueError()), attempt=attempt, policy=policy, now=NOW, chance=chance)

    assert isinstance(decision, RetryAt)
    base = min(max(cap, initial) * 1e6, initial * 1e6 * factor ** min(attempt - 1, 64))
    assert base - 1 <= decision.at - NOW <= base * (1 + jitter) + 1
