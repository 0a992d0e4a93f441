"""Business hours: when they have passed, and which calendars are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from stepwell import BusinessHours
from stepwell.errors import InvalidOptionError

BERLIN = ZoneInfo("Europe/Berlin")
OFFICE = BusinessHours(
    {"mon-thu": "09:00-12:00, 13:00-17:00", "fri": "09:00-12:00"}, zone="Europe/Berlin", holidays=[date(2026, 12, 25)]
)


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("begin", "hours", "end"),
    [
        ("2026-11-16T09:00", 1, "2026-11-16T10:00"),
        ("2026-11-16T11:30", 1, "2026-11-16T13:30"),  # over lunch
        ("2026-11-16T16:30", 1, "2026-11-17T09:30"),  # over night
        ("2026-11-16T10:00", 6, "2026-11-16T17:00"),  # until it closes, and not until it opens again
        ("2026-11-20T11:00", 2, "2026-11-23T10:00"),  # over the weekend
        ("2026-12-24T16:00", 2, "2026-12-28T10:00"),  # over Christmas, a Friday
        ("2026-11-16T07:00", 0, "2026-11-16T09:00"),
        ("2026-11-16T10:15", 0, "2026-11-16T10:15"),
        ("2026-11-16T12:00", 0, "2026-11-16T13:00"),
        ("2026-11-21T10:00", "90m", "2026-11-23T10:30"),
        ("2026-11-16T09:00", timedelta(minutes=1), "2026-11-16T09:01"),
    ],
)
def test_hours_pass_while_the_office_is_open(begin: str, hours: Any, end: str) -> None:
    assert OFFICE.after(berlin(begin), hours).astimezone(BERLIN).isoformat()[:16] == end


def test_a_day_of_the_clock_change_is_as_long_as_it_is() -> None:
    always = BusinessHours({"mon-sun": "00:00-24:00"}, zone="Europe/Berlin")
    spring, autumn = berlin("2027-03-28T00:00"), berlin("2027-10-31T00:00")

    assert always.after(spring, 23).astimezone(BERLIN) == berlin("2027-03-29T00:00")
    assert always.after(autumn, 25).astimezone(BERLIN) == berlin("2027-11-01T00:00")


def test_it_is_open_from_the_first_minute_and_closed_at_the_last() -> None:
    assert [OFFICE.is_open(berlin(f"2026-11-16T{at}")) for at in ("08:59", "09:00", "12:00", "16:59", "17:00")] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert not OFFICE.is_open(datetime(2026, 12, 25, 10, tzinfo=UTC))


@pytest.mark.parametrize(
    ("hours", "more", "says"),
    [
        ({}, {}, "never open"),
        ({"mo": "09:00-17:00"}, {}, "'mo' is not a day"),
        ({"fri-mon": "09:00-17:00"}, {}, "a week begins on Monday"),
        ({"mon-fri": "09:00-17:00", "tue": "10:00-11:00"}, {}, "'tue' is given twice"),
        ({"mon": "9-17"}, {}, "09:00-17:00"),
        ({"mon": "09:00-25:00"}, {}, "no 25:00"),
        ({"mon": "22:00-06:00"}, {}, "22:00-24:00"),
        ({"mon": "09:00-12:00, 11:00-13:00"}, {}, "before the last"),
        ({"mon": "09:00-17:00"}, {"zone": "Europe/Atlantis"}, "Europe/Atlantis"),
        ({"mon": "09:00-17:00"}, {"holidays": ["2026-12-25"]}, "not a date"),
        ({"mon": "09:00-17:00"}, {"holidays": [datetime(2026, 12, 25, tzinfo=UTC)]}, "not a date"),
    ],
)
def test_hours_that_cannot_be_are_refused(hours: dict[str, str], more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        BusinessHours(hours, **{"zone": "UTC", **more})
    assert says in str(caught.value)


def test_hours_that_never_pass_are_refused() -> None:
    monday = BusinessHours({"mon": "00:00-00:01"}, zone="UTC")

    with pytest.raises(InvalidOptionError, match="100 years"):
        monday.after(datetime(2026, 1, 1, tzinfo=UTC), 10_000)
    for wrong in ("soon", True, None, -1):
        with pytest.raises(InvalidOptionError):
            monday.after(datetime(2026, 1, 1, tzinfo=UTC), wrong)  # type: ignore[arg-type]
