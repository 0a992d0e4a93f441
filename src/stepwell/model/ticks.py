"""When a schedule is due: its rule as data, and the ticks of a rule, one after the other.

A *tick* is a nominal time of a rule. A rule in a time zone follows its clocks: a local time that a change of the clocks
skips is due once, at the moment of the change, and a local time that comes twice is due the first time. The exceptions
are rules whose minute or hour begins with `*`: they follow the time that passes, as in cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import msgspec

from stepwell.clock import DAY, SECOND, Duration, Instant, Span, span, to_datetime, to_instant
from stepwell.errors import InvalidOptionError
from stepwell.nearest import nearest

if TYPE_CHECKING:
    from cronsim import CronSim

CRON_MAX: Final = 200  # characters
ZONE_MAX: Final = 60
EVERY_MIN: Final = SECOND
UTC_NAME: Final = "UTC"

_LAST: Final = Instant(253_370_764_800_000_000)  # the beginning of the year 9999: no tick is later
_BACK: Final = timedelta(hours=26)  # more than any clock is ever changed by
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class CronRule(msgspec.Struct, frozen=True, tag="cron"):
    """Five fields of cron, by the clocks of a time zone."""

    cron: str
    zone: str = UTC_NAME


class EveryRule(msgspec.Struct, frozen=True, tag="every"):
    """Every so many microseconds since 1970 in UTC, plus an offset: "1h" is due at each full hour."""

    every: int
    offset: int = 0


class AtRule(msgspec.Struct, frozen=True, tag="at"):
    """Once. The zone is only for people."""

    at: int
    zone: str = UTC_NAME


Rule: TypeAlias = CronRule | EveryRule | AtRule


# --- as people give them ---


def cron_rule(cron: Any, zone: Any = None) -> CronRule:
    """A rule of cron. Raises `InvalidOptionError` if it cannot be read, is never due, or for an unknown zone."""
    read = CronRule(_check_cron(cron), check_zone(zone))
    if after(read, Instant(0)) is None:
        raise _never(read.cron)
    return read


def every_rule(every: Duration, offset: Duration = 0) -> EveryRule:
    """A rule of intervals. Raises `InvalidOptionError` for one below a second, or with a part of a second."""
    length, shift = span(every, what="every"), span(offset, what="offset")
    if length < EVERY_MIN or length % SECOND or shift % SECOND:
        raise InvalidOptionError(
            f"every {every!r}" + (f" with offset {offset!r}" if shift else "") + " cannot be a schedule",
            why="an interval is at least a second, and whole seconds",
            fix='every("5m"), for example',
        )
    if shift >= length:
        raise InvalidOptionError(
            f"the offset {offset!r} is as long as the interval {every!r}, or longer",
            fix=f"an offset below {every!r}",
        )
    return EveryRule(length, shift)


def at_rule(when: Any, zone: Any = None) -> AtRule:
    """A rule that is due once: at a `datetime`, or at a text in ISO 8601.

    Without an offset it is the time of the clocks in the zone. Raises `InvalidOptionError` if it has neither, or if
    the clocks there show that time twice or never.
    """
    moment = _read_moment(when)
    if moment.tzinfo is None and zone is None:
        raise InvalidOptionError(
            f"at {when!r:.60} has no time zone",
            why="it is another moment in each of them",
            fix='at(datetime(..., tzinfo=UTC)), or at("2026-12-31 08:00", tz="Europe/Berlin")',
        )
    name = check_zone(zone)
    if moment.tzinfo is None:
        moment = _unambiguous(moment, name)
    elif zone is None and isinstance(getattr(moment.tzinfo, "key", None), str):
        name = check_zone(moment.tzinfo.key)  # type: ignore[attr-defined]
    return AtRule(to_instant(moment, what="at"), name)


def check_zone(name: Any) -> str:
    """The name of a time zone. Blank means UTC. Raises `InvalidOptionError` if it is not known here."""
    if name is None or (isinstance(name, str) and not name.strip()):
        return UTC_NAME
    if not isinstance(name, str) or not 0 < len(name) <= ZONE_MAX or find_zone(name) is None:
        raise InvalidOptionError(f"there is no time zone {name!r:.60}", fix=_zone_fix(name))
    return name


def find_zone(name: str) -> tzinfo | None:
    """A time zone by its name; None if this machine does not know it."""
    return UTC if name == UTC_NAME else _zone(name)


@lru_cache(maxsize=512)
def _zone(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, UnicodeError):  # names of folders and forbidden paths, too
        return None


def _zone_fix(name: Any) -> str:
    from zoneinfo import available_timezones

    known = available_timezones()
    if not known:
        return "this machine has no time zones: pip install tzdata"
    folded = {each.casefold(): each for each in known}
    exact = folded.get(str(name).casefold())
    near = [exact] if exact else [folded[each] for each in nearest(str(name).casefold(), folded)]
    return f"did you mean {near[0]!r}?" if near else 'a name of the IANA list, such as "Europe/Berlin"'


def _check_cron(cron: Any) -> str:
    if not isinstance(cron, str) or len(cron) > CRON_MAX:
        raise InvalidOptionError(f"cron is {cron!r:.80}", fix='five fields, such as cron="0 6 * * 1-5"')
    fields = cron.split()
    macro = _MACROS.get(cron.strip().lower())
    if macro is not None or len(fields) != 5:
        has = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
        raise InvalidOptionError(
            f"cron {cron!r:.80} has {has}",
            why="it has five: minute, hour, day of the month, month, day of the week"
            + (", and no seconds" if len(fields) == 6 else ""),
            fix=f'cron="{macro or "0 6 * * 1-5"}"' if len(fields) != 6 else f'cron="{" ".join(fields[1:])}"',
        )
    spelled = " ".join(fields)
    try:
        _parse(spelled)
    except _cron_error() as error:
        reason = str(error)
        if "day-of-month" in reason and _fits_alone(fields):
            raise _never(spelled) from None
        raise InvalidOptionError(
            f"cron {spelled!r} cannot be read: {reason[:1].lower()}{reason[1:]}",
            why="its fields are minute (0-59), hour (0-23), day of the month (1-31, L), month (1-12) and"
            " day of the week (0-7)",
            fix='cron="0 6 * * 1-5" is 06:00 on weekdays',
        ) from None
    return spelled


def _fits_alone(fields: list[str]) -> bool:
    """Whether the day of the month is readable, so that only the months have no such day."""
    try:
        _parse(f"0 0 {fields[2]} * *")
    except _cron_error():
        return False
    return True


def _cron_error() -> type[Exception]:
    from cronsim import CronSimError

    return CronSimError


def _never(cron: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"cron {cron!r} is never due",
        why="no month that it names has such a day",
        fix="change its day or its month; L is the last day of a month",
    )


def _read_moment(when: Any) -> datetime:
    if isinstance(when, datetime):
        return when
    try:
        return datetime.fromisoformat(when)
    except (TypeError, ValueError):
        raise InvalidOptionError(
            f"at {when!r:.60} is not a time", fix='a datetime, or a text such as "2026-12-31T08:00:00+01:00"'
        ) from None


def _unambiguous(local: datetime, name: str) -> datetime:
    """The moment at which the clocks of a zone show this time. Raises `InvalidOptionError` unless it is just one."""
    zone = find_zone(name)
    first, second = local.replace(tzinfo=zone, fold=0), local.replace(tzinfo=zone, fold=1)
    if first.utcoffset() == second.utcoffset():
        return first
    is_gap = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local
    shown = local.isoformat(" ")
    if is_gap:
        moved = first.astimezone(UTC).astimezone(zone)
        raise InvalidOptionError(
            f"there is no {shown} in {name}",
            why="the clocks skip it on that day",
            fix=f'at("{moved.isoformat()}") is the same distance after the change',
        )
    raise InvalidOptionError(
        f"{shown} comes twice in {name}",
        why="the clocks are put back on that day",
        fix=f'at("{first.isoformat()}") or at("{second.isoformat()}")',
    )


# --- ticks ---


def after(rule: Rule, instant: Instant) -> Instant | None:
    """The first tick after an instant; None if there is none. Raises `InvalidOptionError` for a rule that cannot be
    read here, such as a zone that this machine does not know.
    """
    match rule:
        case AtRule():
            return Instant(rule.at) if rule.at > instant else None
        case EveryRule():
            found = ((instant - rule.offset) // rule.every + 1) * rule.every + rule.offset
            return Instant(found) if found < _LAST else None
        case CronRule():
            return next((tick for tick in _cron_ticks(rule, instant) if tick > instant), None)
        case _:
            assert_never(rule)


def before(rule: Rule, instant: Instant) -> Instant | None:
    """The last tick before an instant; None if there is none. Raises as `after` does."""
    match rule:
        case AtRule():
            return Instant(rule.at) if rule.at < instant else None
        case EveryRule():
            return Instant(((instant - 1 - rule.offset) // rule.every) * rule.every + rule.offset)
        case CronRule():
            return _cron_before(rule, instant)
        case _:
            assert_never(rule)


def ticks_between(rule: Rule, begin: Instant, end: Instant) -> Iterator[Instant]:
    """The ticks from `begin` on and before `end`."""
    tick = after(rule, Instant(begin - 1))
    while tick is not None and tick < end:
        yield tick
        tick = after(rule, tick)


def _cron_ticks(rule: CronRule, instant: Instant) -> Iterator[Instant]:
    """Ticks from about an instant on. The first may be before it: the clocks may show the same time again."""
    if instant >= _LAST:
        return
    try:
        for tick in _begin(rule, to_datetime(instant)):
            yield to_instant(tick)
    except (OverflowError, ValueError):  # the end of the calendar
        return


def _cron_before(rule: CronRule, instant: Instant) -> Instant | None:
    """Backwards over a change of the clocks, ticks would be missed: so from a little before it, forwards."""
    moment = to_datetime(instant)
    try:
        near = next(_begin(rule, moment, reverse=True), None)
        if near is None:
            return None
        start = min(near.astimezone(UTC), moment)
        back = start - (timedelta(seconds=1) if _is_steady(rule) else _BACK)
    except (OverflowError, ValueError):
        return None
    found: Instant | None = None
    for tick in _cron_ticks(rule, to_instant(back)):
        if tick >= instant:
            break
        found = tick
    return found


def _is_steady(rule: CronRule) -> bool:
    """Whether its ticks follow the time that passes, in either direction alike."""
    minute, hour = rule.cron.split()[:2]
    return rule.zone == UTC_NAME or minute.startswith("*") or hour.startswith("*")


def _begin(rule: CronRule, moment: datetime, *, reverse: bool = False) -> CronSim:
    from cronsim import CronSim

    zone = find_zone(rule.zone)
    if zone is None:
        raise InvalidOptionError(f"there is no time zone {rule.zone!r:.60}", fix=_zone_fix(rule.zone))
    try:
        return CronSim(rule.cron, moment.astimezone(zone), reverse)
    except _cron_error() as error:
        raise InvalidOptionError(f"cron {rule.cron!r:.80} cannot be read: {error}") from None


def _parse(cron: str) -> CronSim:
    from cronsim import CronSim

    return CronSim(cron, datetime(2000, 1, 1))


# --- words ---


def zone_of(rule: Rule) -> str:
    """The time zone by whose clocks people read the times of a rule."""
    return UTC_NAME if isinstance(rule, EveryRule) else rule.zone


def local(instant: Instant, zone: str) -> datetime:
    """An instant by the clocks of a zone; in UTC if this machine does not know the zone."""
    return to_datetime(instant).astimezone(find_zone(zone) or timezone.utc)  # noqa: UP017


def in_words(rule: Rule) -> str:
    """A rule in words: "At 06:00 on Monday through Friday, Europe/Berlin"."""
    match rule:
        case AtRule():
            return (
                f"Once, {local(Instant(rule.at), rule.zone):%d %b %Y at %H:%M:%S}".removesuffix(":00")
                + f", {rule.zone}"
            )
        case EveryRule():
            shift = f", {length_in_words(Span(rule.offset))} after the full interval" if rule.offset else ""
            return f"Every {length_in_words(Span(rule.every), is_every=True)}{shift}"
        case CronRule():
            try:
                said = _parse(rule.cron).explain()
            except _cron_error():
                said = f"cron {rule.cron}"
            return said if rule.zone == UTC_NAME and "At " not in said else f"{said}, {rule.zone}"
        case _:
            assert_never(rule)


_UNITS: Final = ((7 * DAY, "week"), (DAY, "day"), (3_600 * SECOND, "hour"), (60 * SECOND, "minute"), (SECOND, "second"))


def length_in_words(length: Span, *, is_every: bool = False) -> str:
    """A duration in words: "5 minutes". After "every" a single unit has no number: "every hour"."""
    parts: list[str] = []
    left = int(length)
    for unit, name in _UNITS:
        count, left = divmod(left, unit)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}")
    if is_every and len(parts) == 1 and parts[0].startswith("1 "):
        return parts[0][2:]
    return " ".join(parts) or "0 seconds"


def clock_change(rule: Rule, tick: Instant) -> str:
    """What a change of the clocks does to a tick, in words; empty if nothing."""
    if not isinstance(rule, CronRule) or _is_steady(rule):
        return ""
    zone = find_zone(rule.zone)
    here = local(tick, rule.zone)
    # The ticks of a rule are at its own local times, except a tick that was moved to the end of a gap.
    if here.hour in _hours(rule) and here.minute in _minutes(rule):
        again = here.replace(fold=1)
        comes_twice = here.fold == 0 and again.utcoffset() != here.utcoffset()
        return f"{here:%H:%M} comes twice in {rule.zone} on this day: the first one counts" if comes_twice else ""
    assert zone is not None
    return f"the clocks of {rule.zone} skip its time on this day: it is due at the change"


def _minutes(rule: CronRule) -> set[int]:
    return _parse(rule.cron).minutes


def _hours(rule: CronRule) -> set[int]:
    return _parse(rule.cron).hours
