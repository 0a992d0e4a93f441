"""Retry arithmetic."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import Failure, Fatal, InvalidOptionError, RetryAfter, Rollback
from stepwell.model.retries import Retry

ERROR = ValueError("x")


def test_waits_double_up_to_the_cap() -> None:
    policy = Retry(initial="1s", factor=2, max_delay="5s", jitter=0)

    assert [policy.wait_after(n, ERROR, 0.5) for n in range(1, 6)] == [
        1_000_000,
        2_000_000,
        4_000_000,
        5_000_000,
        5_000_000,
    ]


def test_a_first_wait_above_the_cap_is_kept() -> None:
    assert Retry(initial="1h", jitter=0).wait_after(1, ERROR, 0) == 3_600_000_000
    assert Retry(initial="1h", jitter=0).wait_after(5, ERROR, 0) == 3_600_000_000


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_jitter_only_lengthens_a_wait(attempt: int, chance: float) -> None:
    plain, jittery = Retry(jitter=0), Retry(jitter=0.5)

    assert plain.wait_after(attempt, ERROR, chance) <= jittery.wait_after(attempt, ERROR, chance)


def test_an_error_or_a_callable_may_set_its_own_delay() -> None:
    assert Retry().wait_after(1, RetryAfter("7s"), 0.9) == 7_000_000
    assert Retry(delay=lambda attempt, _: timedelta(seconds=attempt)).wait_after(3, ERROR, 0.9) == 3_000_000


def test_final_errors_are_never_retried() -> None:
    assert not any(Retry().may_retry(error) for error in (Fatal(), Failure("no"), Rollback()))
    assert Retry(give_up_on=(RetryAfter,)).may_retry(RetryAfter("1s"))


def test_types_and_predicates_choose_what_is_retried() -> None:
    assert Retry(retry_on=(OSError,)).may_retry(TimeoutError())
    assert not Retry(retry_on=(OSError,)).may_retry(ERROR)
    assert not Retry(give_up_on=(ValueError,)).may_retry(ERROR)
    assert Retry(retry_on=lambda error: "x" in str(error)).may_retry(ERROR)


@pytest.mark.parametrize(
    "wrong",
    [{"max_attempts": 0}, {"factor": 0.5}, {"jitter": -1}, {"initial": "-1s"}, {"initial": -1}, {"max_delay": "soon"}],
)
def test_a_policy_that_can_have_no_meaning_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError):
        Retry(**wrong)  # type: ignore[arg-type]
