"""Durations, instants, keys and ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.clock import SPAN_MAX, Duration, Instant, span, to_datetime, to_instant
from stepwell.errors import InvalidKeyError, InvalidOptionError
from stepwell.ids import RunId, derived_run_id, format_uuid7
from stepwell.model.runs import normal_key


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("100ms", 100_000),
        ("1h30m", 5_400_000_000),
        ("1.5s", 1_500_000),
        (2, 2_000_000),
        (0.25, 250_000),
        (timedelta(days=3), 259_200_000_000),
        ("0s", 0),
    ],
)
def test_a_duration_is_read_in_any_of_its_forms(written: str | float | timedelta, micros: int) -> None:
    assert span(written) == micros


@pytest.mark.parametrize("wrong", ["", "soon", "5", "1h x", "-1s", -1, timedelta(seconds=-1), None, True])
def test_a_duration_that_means_nothing_is_refused_with_an_example(wrong: object) -> None:
    with pytest.raises(InvalidOptionError):
        span(wrong)  # type: ignore[arg-type]


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_and_datetimes_are_the_same_to_the_microsecond(when: datetime) -> None:
    assert to_datetime(to_instant(when)) == when


def test_a_datetime_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no time zone"):
        to_instant(datetime(2026, 1, 1))


def test_a_key_has_one_spelling() -> None:
    assert normal_key("  Order-ÄB ") == normal_key("order-a\u0308b") == "order-äb"


@pytest.mark.parametrize("key", ["", "   ", "x" * 201, "a\x00b"])
def test_a_blank_or_unusable_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidKeyError):
        normal_key(key)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1), st.integers(0, 2**74 - 1))
def test_ids_sort_by_time_and_carry_their_version(a: int, b: int, entropy: int) -> None:
    first, second = format_uuid7(a, entropy), format_uuid7(b, entropy)

    assert (first < second) == (a < b)
    assert first[14] == "7"
    assert first[19] in "89ab"


def test_a_childs_id_is_the_same_however_often_it_is_computed_and_sorts_with_its_parent() -> None:
    parent = RunId(format_uuid7(Instant(1_700_000_000_000), 5))

    assert derived_run_id(parent, "a/b") == derived_run_id(parent, "a/b") != derived_run_id(parent, "a/c")
    assert derived_run_id(parent, "a/b")[:13] == parent[:13]
    assert derived_run_id(RunId("my-own-id"), "a") != derived_run_id(RunId("my-other-id"), "a")


@pytest.mark.parametrize("far", ["999999999w", "9" * 400 + "d", 1e300, float("inf"), 10**40, timedelta.max])
def test_a_duration_is_never_longer_than_a_century(far: Duration) -> None:
    assert span(far) == SPAN_MAX


def test_a_duration_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="not a number"):
        span(float("nan"))


def test_an_instant_after_the_calendar_is_shown_as_its_last_day() -> None:
    assert to_datetime(Instant(2**63 - 1)) == datetime(9999, 12, 31, tzinfo=UTC)
