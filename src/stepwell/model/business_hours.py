"""Business hours: when an office is open, and when a number of open hours has passed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from stepwell.clock import SPAN_MAX, Instant, Span, span, to_datetime, to_instant
from stepwell.errors import InvalidOptionError

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_OPEN = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_DAYS_MAX: Final = SPAN_MAX // (86_400 * 1_000_000)
_WRITE: Final = 'write: BusinessHours({"mon-fri": "09:00-17:00"}, zone="Europe/Berlin")'


class _Opening(NamedTuple):
    """From when to when, in minutes of the local day."""

    first: int
    end: int


class BusinessHours:
    """When an office is open: by weekday, in the time of its zone, except on holidays.

        office = BusinessHours({"mon-fri": "09:00-12:30, 13:00-17:00", "sat": "10:00-14:00"}, zone="Europe/Berlin",
                               holidays=[date(2026, 12, 25)])

    A day is "mon" … "sun" or a range ("mon-fri"); an end of "24:00" is midnight. Raises `InvalidOptionError` for hours
    that cannot be.
    """

    __slots__ = ("_holidays", "_openings", "_zone")

    def __init__(self, hours: Mapping[str, str], *, zone: str, holidays: Iterable[date] = ()) -> None:
        self._zone = _zone_of(zone)
        self._holidays = frozenset(_day_of(one) for one in holidays)
        openings: dict[int, list[_Opening]] = {}
        for days, text in hours.items():
            for day in _weekdays(days):
                if day in openings:
                    raise _refuse(f"{_DAYS[day]!r} is given twice", "give each day once")
                openings[day] = _openings(days, text)
        if not any(openings.values()):
            raise _refuse("the office is never open", _WRITE)
        self._openings = openings

    def is_open(self, at: datetime) -> bool:
        """Whether the office is open at a point in time."""
        instant = to_instant(at, what="at")
        return any(first <= instant < end for first, end in self._periods(instant, days=1))

    def after(self, begin: datetime, hours: float | str | timedelta) -> datetime:
        """When so many open hours have passed since `begin`; after 0 hours, the next time at which it is open."""
        return to_datetime(self.due_at(to_instant(begin, what="begin"), open_span(hours)))

    def due_at(self, begin: Instant, lasts: Span) -> Instant:
        """The same, as an instant."""
        left = int(lasts)
        for first, end in self._periods(begin, days=_DAYS_MAX):
            opened = max(first, begin)
            if opened >= end:
                continue
            if left <= end - opened:
                return Instant(opened + left)
            left -= end - opened
        raise InvalidOptionError(
            "the business hours do not end within 100 years",
            where="BusinessHours",
            fix="wait for fewer hours, or open the office on more days",
        )

    def _periods(self, begin: Instant, *, days: int) -> Iterator[tuple[Instant, Instant]]:
        """From when to when it is open, from the day of `begin` on."""
        day = to_datetime(begin).astimezone(self._zone).date()
        for _ in range(days):
            if day not in self._holidays:
                for opening in self._openings.get(day.weekday(), ()):
                    yield self._instant(day, opening.first), self._instant(day, opening.end)
            if day == date.max:
                return
            day += timedelta(days=1)

    def _instant(self, day: date, minutes: int) -> Instant:
        """A local time. An hour that the clock skips is the next one; of an hour that it repeats, the first counts."""
        if minutes == 24 * 60:
            day, minutes = day + timedelta(days=1), 0
        local = datetime.combine(day, time(minutes // 60, minutes % 60), self._zone)
        return to_instant(local.astimezone(UTC), what="business hours")


def open_span(hours: float | str | timedelta) -> Span:
    """A number of hours, or a duration ("90m"). Raises `InvalidOptionError` for anything else."""
    if isinstance(hours, bool) or not isinstance(hours, int | float | str | timedelta):
        raise _refuse(f"hours is {hours!r}", 'write a number of hours, or a duration such as "90m"')
    return span(hours * 3600 if isinstance(hours, int | float) else hours, what="hours")


def _zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError) as error:
        raise InvalidOptionError(
            f"the time zone {name!r} is not known here", where="BusinessHours", fix='use a name such as "Europe/Berlin"'
        ) from error


def _day_of(day: date) -> date:
    if type(day) is not date:
        raise _refuse(f"the holiday {day!r} is not a date", "write: holidays=[date(2026, 12, 25)]")
    return day


def _weekdays(text: str) -> Iterable[int]:
    first, dash, last = (part.strip().lower() for part in text.partition("-"))
    last = last if dash else first
    if first not in _DAYS or last not in _DAYS or _DAYS.index(first) > _DAYS.index(last):
        raise _refuse(f"{text!r} is not a day or a range of days", 'write "mon", or "mon-fri"; a week begins on Monday')
    return range(_DAYS.index(first), _DAYS.index(last) + 1)


def _openings(days: str, text: str) -> list[_Opening]:
    found: list[_Opening] = []
    for part in text.split(","):
        matched = _OPEN.fullmatch(part.strip())
        if matched is None:
            raise _refuse(
                f"{days} is open at {part.strip()!r}", 'write times as "09:00-17:00", with commas between them'
            )
        first, end = (_minutes(days, *matched.group(at, at + 1)) for at in (1, 3))
        if first >= end or (found and found[-1].end > first):
            fix = 'write periods in order; for a night write "22:00-24:00" and on the next day "00:00-06:00"'
            raise _refuse(f"{days} is open at {text!r}, where a period ends before it begins or before the last", fix)
        found.append(_Opening(first, end))
    return found


def _minutes(days: str, hour: str, minute: str) -> int:
    total = int(hour) * 60 + int(minute)
    if int(minute) >= 60 or total > 24 * 60:
        raise _refuse(f"{days} has no {hour}:{minute}", "write times from 00:00 to 24:00")
    return total


def _refuse(title: str, fix: str) -> InvalidOptionError:
    return InvalidOptionError(title, where="BusinessHours", fix=fix)
