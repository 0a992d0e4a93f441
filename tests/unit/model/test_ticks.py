"""Ticks: when rules are due, against calculations that share nothing with them, and what is refused."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from stepwell.clock import DAY, SECOND, Instant, to_datetime, to_instant
from stepwell.errors import InvalidOptionError
from stepwell.model.ticks import (
    EveryRule,
    after,
    at_rule,
    before,
    clock_change,
    cron_rule,
    every_rule,
    in_words,
    ticks_between,
)

ZONES = (
    *("UTC", "Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Moscow", "Europe/Istanbul", "Europe/Chisinau"),
    *("America/New_York", "America/Chicago", "America/Denver", "America/Phoenix", "America/Los_Angeles"),
    *("America/St_Johns", "America/Havana", "America/Santiago", "America/Sao_Paulo", "America/Nuuk"),
    *("Africa/Cairo", "Africa/Casablanca", "Africa/Johannesburg", "Asia/Beirut", "Asia/Jerusalem", "Asia/Kolkata"),
    *("Asia/Kathmandu", "Asia/Tokyo", "Australia/Lord_Howe", "Australia/Adelaide", "Australia/Sydney"),
    *("Pacific/Chatham", "Pacific/Auckland"),
)


def instant(text: str) -> Instant:
    return to_instant(datetime.fromisoformat(text))


def first_at_or_after(day: date, at: time, zone: ZoneInfo) -> datetime:
    """The first moment at which the clocks of a zone show this time of this day or a later one, found by looking at
    them every five minutes.
    """
    moment = datetime.combine(day, at, UTC) - timedelta(hours=15)
    guess = datetime.combine(day, at, zone).astimezone(UTC) - timedelta(hours=3)
    moment = max(moment, guess)
    while not (moment.astimezone(zone).date() == day and moment.astimezone(zone).time() >= at):
        moment += timedelta(minutes=5)
    return moment


@pytest.mark.parametrize("name", ZONES)
def test_two_oclock_every_day_of_two_years_is_when_the_clocks_first_show_it(name: str) -> None:
    zone, rule = ZoneInfo(name), cron_rule("0 2 * * *", name)
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(730)]

    found = ticks_between(
        rule, to_instant(datetime(2026, 1, 1, tzinfo=zone)), to_instant(datetime(2028, 1, 1, tzinfo=zone))
    )

    assert [to_datetime(tick) for tick in found] == [first_at_or_after(day, time(2), zone) for day in days]


@pytest.mark.parametrize(
    ("cron", "zone", "begin", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        # Created between the first and the second 02:30: that day's tick is over.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T02:10+01:00", ["2026-10-26T02:30+01:00"]),
        (
            "0,30 2 * * *",
            "Europe/Berlin",
            "2026-03-29T00:00+01:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"],
        ),
        # A rule that follows the time that passes is due in both hours, and in none that is skipped.
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25T02:00+02:00",
            ["2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00"],
        ),
        ("0 * * * *", "Europe/Berlin", "2026-03-29T01:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00+02:00", ["2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"]),
        ("0 0 13 * 5", "UTC", "2026-11-05T00:00+00:00", ["2026-11-06T00:00+00:00", "2026-11-13T00:00+00:00"]),
        ("0 22 L * *", "UTC", "2027-02-01T00:00+00:00", ["2027-02-28T22:00+00:00", "2027-03-31T22:00+00:00"]),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00+00:00", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
        ("0 12 * * 7", "UTC", "2026-11-18T00:00+00:00", ["2026-11-22T12:00+00:00"]),
    ],
)
def test_changes_of_the_clocks_and_odd_days(cron: str, zone: str, begin: str, expected: list[str]) -> None:
    rule, at, found = cron_rule(cron, zone), instant(begin), list[Instant]()
    for _ in expected:
        tick = after(rule, at)
        assert tick is not None
        found.append(at := tick)
    assert found == [instant(one) for one in expected]


def test_the_tick_before_is_the_inverse_of_the_tick_after() -> None:
    rng = random.Random(7)
    crons = ("0 2 * * *", "30 1,2,3 * * *", "*/7 * * * *", "15 */6 * * 1-5", "0 0 1 * *", "5 2-4 * 3,10 *")
    for _ in range(400):
        rule: Any = cron_rule(rng.choice(crons), rng.choice(ZONES))
        if rng.random() < 0.2:
            rule = every_rule(rng.choice(["90s", "1h", "7d"]), rng.choice(["0s", "30s"]))
        # Mostly near a change of the clocks.
        month, day = rng.choice([(3, 8), (3, 29), (10, 25), (11, 1), (4, 5), (10, 4), (rng.randint(1, 12), 15)])
        at = to_instant(datetime(2026, month, day, rng.randint(0, 23), rng.randint(0, 59), tzinfo=UTC))
        tick = after(rule, at)
        assert tick is not None
        following = after(rule, tick)
        assert following is not None
        assert at < tick < following
        assert before(rule, following) == tick
        assert before(rule, Instant(tick + 1)) == tick
        earlier = before(rule, tick)
        assert earlier is not None
        assert earlier <= at
        assert after(rule, earlier) == tick


def test_intervals_begin_with_1970_and_once_is_once() -> None:
    hourly = every_rule("1h", "10m")
    assert hourly == EveryRule(3_600 * SECOND, 600 * SECOND)
    assert [
        to_datetime(tick).isoformat()
        for tick in ticks_between(hourly, instant("2026-11-19T06:10:00Z"), instant("2026-11-19T08:00:00Z"))
    ] == [
        "2026-11-19T06:10:00+00:00",
        "2026-11-19T07:10:00+00:00",
    ]
    once = at_rule("2026-12-31T08:00", "America/New_York")
    assert after(once, Instant(0)) == instant("2026-12-31T13:00:00Z")
    assert after(once, instant("2026-12-31T13:00:00Z")) is None
    assert after(hourly, Instant(253_402_300_799_000_000)) is None


@pytest.mark.parametrize(
    ("rule", "fix"),
    [
        (lambda: cron_rule("0 0 30 2 *"), "change its day or its month; L is the last day of a month"),
        (lambda: cron_rule("0 0 31 4,6,9,11 *"), "change its day or its month; L is the last day of a month"),
        (lambda: cron_rule("@daily"), 'cron="0 0 * * *"'),
        (lambda: cron_rule("30 0 6 * * 1-5"), 'cron="0 6 * * 1-5"'),
        (lambda: cron_rule("0 6 * *"), 'cron="0 6 * * 1-5"'),
        (lambda: cron_rule("0 24 * * *"), 'cron="0 6 * * 1-5" is 06:00 on weekdays'),
        (lambda: cron_rule("x" * 10_000), 'five fields, such as cron="0 6 * * 1-5"'),
        (lambda: cron_rule(None), 'five fields, such as cron="0 6 * * 1-5"'),
        (lambda: cron_rule("0 6 * * *", "Europe/Berlim"), "did you mean 'Europe/Berlin'?"),
        (lambda: cron_rule("0 6 * * *", "europe/berlin"), "did you mean 'Europe/Berlin'?"),
        (lambda: cron_rule("0 6 * * *", "Europe"), "did you mean"),
        (lambda: cron_rule("0 6 * * *", "../../etc/passwd"), "a name of the IANA list"),
        (lambda: cron_rule("0 6 * * *", 7), "a name of the IANA list"),
        (lambda: every_rule("0s"), 'every("5m"), for example'),
        (lambda: every_rule("1500ms"), 'every("5m"), for example'),
        (lambda: every_rule("5m", "5m"), "an offset below '5m'"),
        (lambda: at_rule("tomorrow"), "a datetime, or a text such as"),
        (lambda: at_rule("2026-12-31T08:00"), 'at("2026-12-31 08:00", tz="Europe/Berlin")'),
        (
            lambda: at_rule(datetime(2026, 10, 25, 2, 30), "Europe/Berlin"),
            'at("2026-10-25T02:30:00+02:00") or at("2026-10-25T02:30:00+01:00")',
        ),
        (lambda: at_rule(datetime(2026, 3, 29, 2, 30), "Europe/Berlin"), 'at("2026-03-29T03:30:00+02:00")'),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_with_the_line_to_write(rule: Any, fix: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rule()
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (cron_rule("0 6 * * 1-5", "Europe/Berlin"), "At 06:00 on Monday through Friday, Europe/Berlin"),
        (cron_rule("0 22 L * *"), "At 22:00 on the last day of every month, UTC"),
        (every_rule("5m"), "Every 5 minutes"),
        (every_rule("1h", "10m"), "Every hour, 10 minutes after the full interval"),
        (every_rule("36h"), "Every 1 day 12 hours"),
        (at_rule("2026-12-31 08:00", "America/New_York"), "Once, 31 Dec 2026 at 08:00, America/New_York"),
    ],
)
def test_rules_in_words(rule: Any, words: str) -> None:
    assert in_words(rule) == words


def test_a_change_of_the_clocks_is_said_in_words() -> None:
    rule = cron_rule("30 2 * * *", "Europe/Berlin")
    assert clock_change(rule, instant("2026-03-29T03:00:00+02:00")) == (
        "the clocks of Europe/Berlin skip its time on this day: it is due at the change"
    )
    assert clock_change(rule, instant("2026-10-25T02:30:00+02:00")) == (
        "02:30 comes twice in Europe/Berlin on this day: the first one counts"
    )
    assert clock_change(rule, instant("2026-06-01T02:30:00+02:00")) == ""


def test_a_year_of_minutes_is_not_walked_through() -> None:
    rule = cron_rule("* * * * *", "Europe/Berlin")
    now = instant("2026-11-19T06:00:30Z")
    assert before(rule, now) == Instant(now - 30 * SECOND)
    assert before(every_rule("1s"), Instant(now + 365 * DAY)) == Instant(now + 365 * DAY - SECOND)
