"""How a process estimates the server's time from its answers."""

from __future__ import annotations

from stepwell.clock import SECOND, Instant
from stepwell.stores.postgres.server_clock import ServerClock

AHEAD = 1_000_000.0  # seconds by which the server's clock is ahead of our monotonic one


def answered(times: ServerClock, given: float, came: float) -> None:
    """An answer was given at one moment of our clock, and came at another."""
    times.note(Instant(int((AHEAD + given) * SECOND)), came)


def shown(times: ServerClock, at: float) -> float:
    return round(times.show(times.estimate(at)) / SECOND - AHEAD, 3)


def test_nothing_is_known_before_the_first_answer() -> None:
    assert ServerClock().estimate(12.0) == 0


def test_time_continues_between_answers() -> None:
    times = ServerClock()
    answered(times, 5.0, 5.0)

    assert [shown(times, at) for at in (5.0, 6.5, 9.0)] == [5.0, 6.5, 9.0]


def test_an_answer_that_has_waited_for_a_busy_loop_does_not_hold_time_up() -> None:
    times = ServerClock()
    answered(times, 5.0, 5.0)
    answered(times, 6.0, 6.3)

    assert shown(times, 7.0) == 7.0


def test_a_prompt_answer_counts_more_than_a_late_one_before_it() -> None:
    times = ServerClock()
    answered(times, 5.0, 5.3)
    assert shown(times, 5.5) == 5.2
    answered(times, 6.0, 6.0)

    assert shown(times, 7.0) == 7.0


def test_after_a_while_another_answer_counts_because_clocks_drift_apart() -> None:
    times = ServerClock()
    answered(times, 5.0, 5.0)
    answered(times, 15.5, 16.0)

    assert shown(times, 17.0) == 16.5


def test_time_never_goes_back() -> None:
    times = ServerClock()
    answered(times, 5.0, 5.0)
    assert shown(times, 16.0) == 16.0
    answered(times, 15.5, 16.0)

    assert [shown(times, at) for at in (16.1, 16.5, 16.7)] == [16.0, 16.0, 16.2]


def test_a_server_whose_clock_was_set_back_changes_nothing_until_it_shows_a_later_time_again() -> None:
    times = ServerClock()
    answered(times, 5.0, 5.0)
    answered(times, 1.0, 30.0)

    assert (times.seen, shown(times, 31.0)) == (Instant(int((AHEAD + 5.0) * SECOND)), 31.0)
