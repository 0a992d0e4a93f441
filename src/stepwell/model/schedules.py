"""Schedules: workflows that time starts. Here is what authors write, and what a tick gives to its run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from stepwell.clock import DAY, Duration, Instant, Span, span, to_datetime, to_instant
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId, format_uuid7, hashed
from stepwell.model.attributes import Attribute, AttributeKind, Attributes, read_value, write_time
from stepwell.model.locations import why_not_text
from stepwell.model.runs import normal_key
from stepwell.model.ticks import Rule, after, at_rule, cron_rule, every_rule, local, zone_of
from stepwell.nearest import nearest

NAME_MAX: Final = 160  # the key of a run is the name with a time after it
JITTER_MAX: Final = Span(7 * DAY)
NO_JITTER: Final = Span(0)
ON_TIME: Final = Span(60_000_000)  # a tick that is started later than this was missed

SCHEDULE: Final = "stepwell.schedule"
FIRE_TIME: Final = "stepwell.fire_time"
PREVIOUS: Final = "stepwell.previous_fire_time"


class Overlap(StrEnum):
    """What happens to a tick while a run of the schedule is active."""

    SKIP = "skip"  # it starts nothing
    ALLOW = "allow"  # it starts another run
    CANCEL_RUNNING = "cancel_running"  # it starts a run, and the active runs are cancelled
    BUFFER_ONE = "buffer_one"  # the latest of them starts a run when the active run has ended


class CatchUp(StrEnum):
    """What happens to ticks that came while no worker was there."""

    LATEST = "latest"  # the last of them starts a run
    ALL = "all"  # each of them does
    NONE = "none"  # none does


class Spec(msgspec.Struct, frozen=True):
    """What a schedule starts, when, and under which rules. `window` is None without a limit."""

    rule: Rule
    workflow: str
    input: Any = None  # plain JSON, with templates
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    window: int | None = None
    jitter: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to start a workflow, in its own code: `@workflow(schedule=cron("0 6 * * 1-5", tz="Europe/Berlin"))`.

    `cron`, `every` and `at` make it. Without a name it has that of its workflow.
    """

    rule: Rule
    input: Any = None
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    window: Span | None = None
    jitter: Span = NO_JITTER
    name: str | None = None

    def next(self, count: int = 10, *, after: datetime) -> list[datetime]:
        """The next times at which it is due, by the clocks of its zone."""
        return [
            local(tick, zone_of(self.rule)) for tick in following(self.rule, to_instant(after, what="after"), count)
        ]


def cron(
    expression: str,
    *,
    tz: str | None = None,
    input: Any = None,
    overlap: str = "skip",
    catch_up: str = "latest",
    window: Duration | None = None,
    jitter: Duration = 0,
    name: str | None = None,
) -> Schedule:
    """Start the workflow at times of cron: minute, hour, day of the month, month and day of the week, by the clocks of
    the zone `tz` (UTC without it).

        @workflow(schedule=cron("0 6 * * 1-5", tz="Europe/Berlin"))

    `input` may contain `{{fire_time}}`, `{{fire_date}}`, `{{previous_fire_time}}` and `{{schedule}}`. `overlap`
    ("skip", "allow", "cancel_running", "buffer_one") decides what happens while an earlier run is active, `catch_up`
    ("latest", "all", "none") what happens to times at which no worker was there, if they are not longer ago than
    `window`. `jitter` delays each start by up to this much.

    Raises `InvalidOptionError` for an expression that cannot be read or is never due, and for an unknown zone.
    """
    return _schedule(cron_rule(expression, tz), input, overlap, catch_up, window, jitter, name)


def every(
    interval: Duration,
    *,
    offset: Duration = 0,
    input: Any = None,
    overlap: str = "skip",
    catch_up: str = "latest",
    window: Duration | None = None,
    jitter: Duration = 0,
    name: str | None = None,
) -> Schedule:
    """Start the workflow at each full interval of UTC, plus an offset: `every("1h", offset="10m")` is ten past each
    hour. The other options are those of `cron`.
    """
    return _schedule(every_rule(interval, offset), input, overlap, catch_up, window, jitter, name)


def at(
    when: datetime | str,
    *,
    tz: str | None = None,
    input: Any = None,
    catch_up: str = "latest",
    window: Duration | None = None,
    jitter: Duration = 0,
    name: str | None = None,
) -> Schedule:
    """Start the workflow once: at a `datetime`, or at a text in ISO 8601. Without an offset it is the time of the
    clocks in the zone `tz`. The other options are those of `cron`.
    """
    return _schedule(at_rule(when, tz), input, "allow", catch_up, window, jitter, name)


def _schedule(
    rule: Rule, input: Any, overlap: Any, catch_up: Any, window: Duration | None, jitter: Duration, name: str | None
) -> Schedule:
    return Schedule(
        rule,
        input,
        read_overlap(overlap),
        read_catch_up(catch_up),
        read_window(window),
        read_jitter(jitter),
        None if name is None else check_name(name),
    )


# --- options ---


def check_name(name: Any) -> str:
    """The stored spelling of a schedule's name: like a key, upper and lower case are the same. Raises
    `InvalidOptionError`.
    """
    reason = why_not_text(name)
    folded = "" if reason else normal_key(name) if name.strip() else ""
    if reason is None and not 0 < len(folded) <= NAME_MAX:
        reason = f"it has 1 to {NAME_MAX} characters"
    if reason is None and (not folded.isprintable() or folded[0] == "-" or "/" in folded):
        reason = "it does not begin with a dash, and has no slashes and no control characters"
    if reason is not None:
        raise InvalidOptionError(f"{name!r:.80} cannot be the name of a schedule", why=reason)
    return folded


def read_overlap(given: Any) -> Overlap:
    """Raises `InvalidOptionError`."""
    return _one_of(Overlap, given, "overlap")


def read_catch_up(given: Any) -> CatchUp:
    """Raises `InvalidOptionError`."""
    return _one_of(CatchUp, given, "catch_up")


def read_window(given: Duration | None) -> Span | None:
    """How long ago a missed tick may be; None without a limit. Raises `InvalidOptionError`."""
    return None if given is None else span(given, what="window")


def read_jitter(given: Duration) -> Span:
    """By how much a start is delayed at most. Raises `InvalidOptionError`."""
    found = span(given, what="jitter")
    if found > JITTER_MAX:
        raise InvalidOptionError(f"jitter is {given!r}", why="it is at most 7 days", fix='jitter="30s", for example')
    return found


K = TypeVar("K", bound=StrEnum)


def _one_of(kind: type[K], given: Any, what: str) -> K:
    try:
        return kind(given)
    except ValueError:
        near = nearest(str(given), [each.value for each in kind])
        raise InvalidOptionError(
            f"{what} is {given!r:.40}",
            fix=f"did you mean {near[0]!r}?" if near else f"one of {', '.join(each.value for each in kind)}",
        ) from None


def by_name(schedules: Iterable[Schedule], workflow: str) -> dict[str, Schedule]:
    """The schedules of one workflow by their names. Raises `InvalidOptionError` if two have the same."""
    found: dict[str, Schedule] = {}
    for each in schedules:
        if not isinstance(each, Schedule):
            raise InvalidOptionError(
                f"{each!r:.80} is not a schedule",
                where=f"workflow {workflow}",
                fix='schedule=cron("0 6 * * *"), every("5m") or at(...)',
            )
        name = check_name(workflow) if each.name is None else each.name
        if name in found:
            raise InvalidOptionError(
                f"workflow {workflow!r} has two schedules called {name!r}",
                fix='give one of them another name: cron("0 6 * * *", name="mornings")',
            )
        found[name] = each
    return found


# --- ticks of a schedule ---


def following(rule: Rule, instant: Instant, count: int) -> list[Instant]:
    """The next ticks after an instant, at most `count`."""
    found: list[Instant] = []
    tick = after(rule, instant)
    while tick is not None and len(found) < count:
        found.append(tick)
        tick = after(rule, tick)
    return found


def jitter_of(name: str, tick: Instant, jitter: int) -> Span:
    """By how much a start is delayed: always the same for one tick of one schedule."""
    if jitter <= 0:
        return Span(0)
    return Span(int.from_bytes(hashed(f"jitter {name}\x1f{tick}")[:8], "big") % jitter)


def tick_key(name: str, tick: Instant) -> str:
    """The key of the run of a tick: `nightly_20261119t050000z`."""
    moment = to_datetime(tick)
    fraction = f".{moment:%f}" if moment.microsecond else ""
    return f"{name}_{moment:%Y%m%dt%H%M%S}{fraction}z"


def tick_run_id(name: str, tick: Instant) -> RunId:
    """The id of the run of a tick: whichever process starts it, and however often."""
    entropy = int.from_bytes(hashed(f"tick {name}\x1f{tick}")[:10], "big") & (1 << 74) - 1
    return RunId(format_uuid7(max(0, tick) // 1_000, entropy))


# --- what a run knows of its tick ---


class Scheduled(NamedTuple):
    """The schedule that started a run, and for which time. The times are by the clocks of UTC."""

    name: str
    fire_time: datetime
    previous_fire_time: datetime | None  # the tick before it that started a run; at first, the one before in its rule


def tick_attributes(name: str, tick: Instant, previous: Instant | None) -> Attributes:
    """What a run stores of its tick: so people find it, and its continuations keep it."""
    found = [Attribute(FIRE_TIME, write_time(tick)), Attribute(SCHEDULE, AttributeKind.TEXT.value + name)]
    if previous is not None:
        found.append(Attribute(PREVIOUS, write_time(previous)))
    return tuple(sorted(found))


def scheduled_of(attributes: Attributes) -> Scheduled | None:
    """The tick for which a run was started, if a schedule started it."""
    if not attributes:
        return None
    known = {one.name: read_value(one) for one in attributes if one.name in (SCHEDULE, FIRE_TIME, PREVIOUS)}
    name, tick, previous = known.get(SCHEDULE), known.get(FIRE_TIME), known.get(PREVIOUS)
    if not isinstance(name, str) or not isinstance(tick, datetime):
        return None
    return Scheduled(name, tick, previous if isinstance(previous, datetime) else None)


# --- templates ---

_MARK: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_NAMES: Final = ("fire_time", "fire_date", "previous_fire_time", "schedule")


def check_input(value: Any) -> None:
    """Raise `InvalidOptionError` if a template in plain JSON names something that a tick does not have."""
    match value:
        case str():
            for found in _MARK.finditer(value):
                if found[1] not in _NAMES:
                    near = nearest(found[1], _NAMES)
                    raise InvalidOptionError(
                        f"input names {{{{{found[1]}}}}}, which no tick has",
                        fix=f"did you mean {{{{{near[0]}}}}}?" if near else f"one of {', '.join(_NAMES)}",
                    )
        case dict():
            for each in value.values():
                check_input(each)
        case list():
            for each in value:
                check_input(each)
        case _:
            return


def fill_input(value: Any, name: str, rule: Rule, tick: Instant, previous: Instant | None) -> Any:
    """The input of a tick: plain JSON with its templates replaced. Times are in ISO 8601, by the clocks of the zone."""
    if not _has_marks(value):
        return value
    zone = zone_of(rule)
    here = local(tick, zone)
    known = {
        "fire_time": here.isoformat(),
        "fire_date": here.date().isoformat(),
        "previous_fire_time": None if previous is None else local(previous, zone).isoformat(),
        "schedule": name,
    }
    return _fill(value, known)


def _has_marks(value: Any) -> bool:
    match value:
        case str():
            return "{{" in value
        case dict():
            return any(map(_has_marks, value.values()))
        case list():
            return any(map(_has_marks, value))
        case _:
            return False


def _fill(value: Any, known: dict[str, str | None]) -> Any:
    match value:
        case str():
            whole = _MARK.fullmatch(value)
            if whole is not None and whole[1] in known:
                return known[whole[1]]
            return _MARK.sub(lambda found: str(known.get(found[1], found[0]) or ""), value)
        case dict():
            return {name: _fill(each, known) for name, each in value.items()}
        case list():
            return [_fill(each, known) for each in value]
        case _:
            return value
