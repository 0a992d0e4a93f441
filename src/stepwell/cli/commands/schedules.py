"""`stepwell schedule`: workflows that are started at certain times."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stepwell.cli.bodies import backfill_body, schedule_act_body, schedule_body, tick_body
from stepwell.cli.client import Client, ask
from stepwell.cli.inputs import read_input
from stepwell.cli.operators import by_option
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.texts import clean, dump_json, duration, moment, shell_word
from stepwell.errors import InvalidOptionError
from stepwell.model.states import ScheduleState

if TYPE_CHECKING:
    from datetime import datetime

    from stepwell.engine.schedule_views import (
        BackfillView,
        PreviewedTickView,
        ScheduleActView,
        ScheduleOutcomeView,
        ScheduleView,
        TickView,
        TriggeredView,
    )
    from stepwell.replay.workflows import Workflow

F = TypeVar("F", bound=Callable[..., Any])

SCHEDULE = "stepwell.schedule/1"
_COLUMNS = (
    Column("SCHEDULE", is_fixed=True),
    Column("STATE", is_fixed=True),
    Column("WORKFLOW", dropped=3),
    Column("WHEN", dropped=1),
    Column("NEXT", is_fixed=True),
    Column("LAST", dropped=2),
    Column("WHY", is_note=True),
)
_TICKS = (Column("TIME", is_fixed=True), Column("UTC", is_fixed=True), Column("IN"), Column("NOTE", is_note=True))
_PREVIEW = (
    Column("TIME", is_fixed=True),
    Column("FATE", is_fixed=True),
    Column("RUN", dropped=1),
    Column("WHY", is_note=True),
)
_LINES_MAX = 20
_STATES = [state.value for state in ScheduleState if state is not ScheduleState.DELETED]
_OVERLAPS = click.Choice(["skip", "allow", "cancel_running", "buffer_one"])
_CATCH_UPS = click.Choice(["latest", "all", "none"])


@click.group("schedule", cls=Group)
def schedule() -> None:
    """Start workflows at certain times: list, create, change, pause, trigger and backfill schedules.

    \b
    Example:
      stepwell schedule new nightly report --cron "0 6 * * 1-5" --tz Europe/Berlin
    """


def _time_options(function: F) -> F:
    """When a schedule is due."""
    for option in (
        click.option("--at", metavar="TIME", help="Once, such as 2026-12-31T08:00 (with --tz, or with an offset)."),
        click.option("--offset", metavar="TIME", help="With --every: so long after each full interval."),
        click.option("--every", metavar="TIME", help="At each full interval, such as 5m or 1h."),
        click.option(
            "--tz", "timezone", metavar="ZONE", help="By whose clocks, such as Europe/Berlin; UTC by default."
        ),
        click.option("--cron", metavar="FIELDS", help="Minute, hour, day, month and day of the week."),
    ):
        function = option(function)
    return function


def _rule_options(function: F) -> F:
    """What happens with overlaps and missed ticks."""
    for option in (
        click.option("--jitter", metavar="TIME", help="Delay each start by up to this much."),
        click.option("--window", metavar="TIME", help="Missed ticks longer ago than this start nothing."),
        click.option("--catch-up", type=_CATCH_UPS, help="Which missed ticks start runs; latest by default."),
        click.option("--overlap", type=_OVERLAPS, help="What a tick does while a run is active; skip by default."),
    ):
        function = option(function)
    return function


@command("ls")
@click.option("--state", "-s", type=click.Choice(_STATES))
@click.option("--workflow", "-w", help="Only schedules of this workflow.")
@click.option("--cannot-fire", is_flag=True, help="Only schedules that cannot start runs.")
@click.option("--limit", "-n", default=100, show_default=True, type=click.IntRange(1, 1_000))
def _ls(settings: Settings, state: str | None, workflow: str | None, cannot_fire: bool, limit: int) -> None:
    """List schedules, newest first.

    \b
    Example:
      stepwell schedule ls --cannot-fire
    """
    found = ask(
        settings,
        lambda client: client.engine.schedules.list(
            state=state, workflow=workflow, cannot_fire=cannot_fire, limit=limit
        ),
    )
    out = Output(settings)
    if out.many(SCHEDULE, "schedules", [schedule_body(one) for one in found], run_ids=[]):
        return
    if not found:
        is_filtered = state or workflow or cannot_fire
        out.note("No schedule matches." if is_filtered else "No schedules yet: stepwell schedule new --help")
        return
    out.table(_COLUMNS, [_row(one) for one in found])


@command("show")
@click.argument("name", metavar="SCHEDULE")
def _show(settings: Settings, name: str) -> None:
    """Show one schedule: its rules, its last 20 outcomes, its next ticks, and what happened to it.

    \b
    Example:
      stepwell schedule show nightly
    """

    async def look(client: Client) -> tuple[ScheduleView, list[TickView], list[ScheduleActView]]:
        schedules = client.engine.schedules
        found = await schedules.get(name)
        ticks = [] if found.unreadable else await schedules.next(name, 5)
        return found, ticks, await schedules.history(name, limit=_LINES_MAX)

    found, ticks, acts = ask(settings, look)
    body = {
        **schedule_body(found),
        "next": [tick_body(one) for one in ticks],
        "acts": [schedule_act_body(act) for act in acts],
    }
    Output(settings).one(SCHEDULE, body, run_ids=_run_ids(found), words=lambda: _words(found, ticks, acts))


@command("new")
@click.argument("name", metavar="SCHEDULE")
@click.argument("workflow")
@click.argument("input", nargs=-1, metavar="[INPUT]...")
@_time_options
@_rule_options
@click.option("--paused", is_flag=True, help="It starts nothing until it is resumed.")
@by_option
def _new(
    settings: Settings, name: str, workflow: str, input: tuple[str, ...], paused: bool, by: str, **options: Any
) -> None:
    """Create a schedule. INPUT is name=text, name:=json, @file.json or -, and may contain {{fire_time}}, {{fire_date}},
    {{previous_fire_time}} and {{schedule}}.

    \b
    Example:
      stepwell schedule new nightly report day={{fire_date}} --cron "0 6 * * 1-5" --tz Europe/Berlin
    """
    chosen: Any = _given(options)
    if input:
        chosen["input"] = read_input(input, what="the input")

    async def make(client: Client) -> ScheduleView:
        return await client.engine.schedules.create(name, workflow=workflow, is_paused=paused, by=by, **chosen)

    found = ask(settings, make, workflows=_load(settings))
    line = f"Schedule {found.name}: {found.when}" + (
        "" if found.next_at is None else f"; next {moment(found.next_at)} UTC"
    )
    Output(settings).one(SCHEDULE, schedule_body(found), run_ids=[], words=lambda: [clean(line)])


@command("update")
@click.argument("name", metavar="SCHEDULE")
@click.argument("input", nargs=-1, metavar="[INPUT]...")
@click.option("--workflow", "-w", help="The workflow to start.")
@_time_options
@_rule_options
@by_option
def _update(settings: Settings, name: str, input: tuple[str, ...], by: str, **options: Any) -> None:
    """Change parts of a schedule. The rest stays as it is; INPUT replaces the whole input.

    \b
    Example:
      stepwell schedule update nightly --jitter 30s
    """
    chosen: Any = _given(options)
    if input:
        chosen["input"] = read_input(input, what="the input")
    if not chosen:
        raise click.UsageError("Say what to change, such as --jitter 30s.")
    _act(
        settings,
        name,
        "update",
        lambda client: client.engine.schedules.update(name, by=by, **chosen),
        ("is changed", "is so already"),
        workflows=_load(settings),
    )


@command("use-code")
@click.argument("name", metavar="SCHEDULE")
@by_option
def _use_code(settings: Settings, name: str, by: str) -> None:
    """Give up what people changed of a schedule in code.

    \b
    Example:
      stepwell schedule use-code nightly
    """
    _act(
        settings,
        name,
        "use-code",
        lambda client: client.engine.schedules.use_code(name, by=by),
        ("is as in the code", "did not differ from the code"),
    )


@command("pause")
@click.argument("name", metavar="SCHEDULE")
@click.option("--reason", default="", help="Why, shown with the schedule.")
@by_option
def _pause(settings: Settings, name: str, reason: str, by: str) -> None:
    """Pause a schedule: it starts nothing until a person resumes it.

    \b
    Example:
      stepwell schedule pause nightly --reason "the source is down"
    """
    _act(
        settings,
        name,
        "pause",
        lambda client: client.engine.schedules.pause(name, by=by, reason=reason),
        ("is paused", "was already paused"),
    )


@command("resume")
@click.argument("name", metavar="SCHEDULE")
@by_option
def _resume(settings: Settings, name: str, by: str) -> None:
    """Resume a schedule. Ticks that came meanwhile start nothing; backfill starts them.

    \b
    Example:
      stepwell schedule resume nightly
    """
    _act(
        settings,
        name,
        "resume",
        lambda client: client.engine.schedules.resume(name, by=by),
        ("is resumed", "was not paused"),
    )


@command("rm")
@click.argument("name", metavar="SCHEDULE")
@by_option
def _rm(settings: Settings, name: str, by: str) -> None:
    """Delete a schedule. Its runs stay. A schedule in the code of a workflow can only be paused.

    \b
    Example:
      stepwell schedule rm nightly
    """
    _act(
        settings,
        name,
        "delete",
        lambda client: client.engine.schedules.delete(name, by=by),
        ("is deleted", "was already deleted"),
    )


@command("trigger")
@click.argument("name", metavar="SCHEDULE")
@click.option("--overlap", type=_OVERLAPS, help="What to do if a run is active, instead of what the schedule says.")
@by_option
def _trigger(settings: Settings, name: str, overlap: str | None, by: str) -> None:
    """Start a run of a schedule now, also if it is paused. Its ticks stay due.

    \b
    Example:
      stepwell schedule trigger nightly
    """

    async def start(client: Client) -> TriggeredView:
        return await client.engine.schedules.trigger(name, overlap=overlap, by=by)

    found = ask(settings, start, workflows=_load(settings))
    line = (
        f"Started: {found.key}"
        if found.run_id
        else f"{found.note}: {found.in_the_way or ''}; --overlap allow starts one"
    )
    Output(settings).one(
        "stepwell.act/1",
        backfill_body(found),
        run_ids=[found.run_id] if found.run_id else [],
        words=lambda: [clean(line)],
    )


@command("backfill")
@click.argument("name", metavar="SCHEDULE")
@click.option("--from", "since", required=True, metavar="TIME", help="The first time, such as 2026-11-01.")
@click.option("--to", "until", required=True, metavar="TIME", help="The end; a date includes that day.")
@click.option("--dry-run", is_flag=True, help="Only list what it would start.")
@click.option("--limit", "-n", default=1_000, show_default=True, help="More ticks are refused.", type=int)
@by_option
def _backfill(settings: Settings, name: str, since: str, until: str, dry_run: bool, limit: int, by: str) -> None:
    """Start the runs of ticks in the past, at once. A tick whose run is there starts none.

    Times without an offset are by the clocks of the schedule's zone.

    \b
    Example:
      stepwell schedule backfill nightly --from 2026-11-01 --to 2026-11-10 --dry-run
    """

    async def start(client: Client) -> BackfillView:
        begin, end = await _range(client, name, since, until)
        return await client.engine.schedules.backfill(name, begin, end, dry_run=dry_run, limit=limit, by=by)

    found = ask(settings, start, workflows=_load(settings))
    run_ids = [one.run_id for one in found.ticks if one.is_new]
    Output(settings).one("stepwell.backfill/1", backfill_body(found), run_ids=run_ids, words=lambda: _filled(found))


@command("preview")
@click.argument("name", metavar="SCHEDULE")
@click.option("--from", "since", required=True, metavar="TIME", help="The first time, such as 2026-11-01.")
@click.option("--to", "until", required=True, metavar="TIME", help="The end; a date includes that day.")
@click.option("--limit", "-n", default=1_000, show_default=True, help="More ticks are refused.", type=int)
def _preview(settings: Settings, name: str, since: str, until: str, limit: int) -> None:
    """List each tick between two times: what became of it or what will, and why.

    \b
    Example:
      stepwell schedule preview nightly --from 2026-11-01 --to 2026-11-30
    """

    async def look(client: Client) -> list[PreviewedTickView]:
        begin, end = await _range(client, name, since, until)
        return await client.engine.schedules.preview(name, begin, end, limit=limit)

    found = ask(settings, look)
    out = Output(settings)
    run_ids = [one.run_id for one in found if one.run_id]
    if out.many("stepwell.tick/1", "ticks", [tick_body(one) for one in found], run_ids=run_ids):
        return
    if not found:
        out.note("No tick is in this range.")
        return
    out.table(_PREVIEW, [[_local(one.local_time), one.fate, _run_of(one), one.reason] for one in found])


@command("next")
@click.argument("name", metavar="[SCHEDULE]", required=False)
@click.option("-n", "count", default=10, show_default=True, type=click.IntRange(1, 1_000), help="How many.")
@_time_options
def _next(settings: Settings, name: str | None, count: int, **options: Any) -> None:
    """List the next ticks of a schedule, or of times that are no schedule yet.

    \b
    Example:
      stepwell schedule next nightly -n 3
      stepwell schedule next --cron "30 2 * * *" --tz Europe/Berlin
    """
    times: Any = _given(options)
    if (name is None) == (not times):
        raise click.UsageError("Name a schedule, or give times such as --cron.")

    async def look(client: Client) -> tuple[list[TickView], datetime]:
        from stepwell.clock import to_datetime

        schedules = client.engine.schedules
        found = await (schedules.next_of(count, **times) if name is None else schedules.next(name, count))
        return found, to_datetime(client.store.now())

    found, now = ask(settings, look)
    out = Output(settings)
    if out.many("stepwell.tick/1", "ticks", [tick_body(one) for one in found], run_ids=[]):
        return
    if not found:
        out.note("It is never due again.")
        return
    rows = [
        [_local(one.local_time), moment(one.fire_time), duration((one.fire_time - now).total_seconds()), one.note]
        for one in found
    ]
    out.table(_TICKS, rows)


for each in (_ls, _show, _new, _update, _use_code, _pause, _resume, _trigger, _backfill, _preview, _next, _rm):
    schedule.add_command(each)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _load(settings: Settings) -> list[Workflow[Any, Any]]:
    loaded = settings.load()
    return [] if loaded is None else list(loaded.app.workflows)


async def _range(client: Client, name: str, since: str, until: str) -> tuple[datetime, datetime]:
    zone = (await client.engine.schedules.get(name)).timezone
    return _moment(since, zone, is_end=False), _moment(until, zone, is_end=True)


def _moment(text: str, zone: str, *, is_end: bool) -> datetime:
    """A time that a person typed: by the clocks of the zone unless it has an offset. The end of a day as an end."""
    from datetime import date, datetime, timedelta

    from stepwell.model.ticks import find_zone

    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOptionError(f"{text!r:.60} is not a time", fix="2026-11-01, or 2026-11-01T06:00") from None
    try:
        date.fromisoformat(text)
    except ValueError:
        is_day = False
    else:
        is_day = True
    if is_day and is_end:
        when += timedelta(days=1)
    return when if when.tzinfo is not None else when.replace(tzinfo=find_zone(zone))


def _act(
    settings: Settings,
    name: str,
    verb: str,
    act: Callable[[Client], Coroutine[Any, Any, bool]],
    said: tuple[str, str],
    *,
    workflows: list[Workflow[Any, Any]] | None = None,
) -> None:
    is_done = ask(settings, act, workflows=workflows or ())
    line = clean(f"Schedule {name} {said[0] if is_done else said[1]}")
    body = {"schedule": name, "verb": verb, "changed": is_done}
    Output(settings).one("stepwell.act/1", body, run_ids=[], words=lambda: [line])


# --- words ---


def _row(one: ScheduleView) -> list[str]:
    following = "never" if one.next_at is None and one.state == ScheduleState.ACTIVE else moment(one.next_at)
    return [one.name, one.state, one.workflow, one.when, following, _last(one), _why(one)]


def _last(one: ScheduleView) -> str:
    """The newest outcome in a word."""
    return "" if not one.outcomes else _fate(one.outcomes[0])


def _fate(one: ScheduleOutcomeView) -> str:
    return one.run_status or one.kind if one.kind in ("started", "triggered") else one.kind


def _why(one: ScheduleView) -> str:
    """What people should know of a schedule, if anything."""
    if one.unreadable:
        return f"cannot be read: {one.unreadable}"
    if one.problem is not None:
        return f"cannot fire: {one.problem.message}"
    if one.state == ScheduleState.PAUSED:
        who = f"by {one.by}" if one.by else ""
        return ": ".join(part for part in (who, one.reason) if part)
    if one.differences:
        return f"differs from the code: {', '.join(each.part for each in one.differences)}"
    return ""


def _words(one: ScheduleView, ticks: list[TickView], acts: list[ScheduleActView]) -> Iterator[str]:
    yield clean(f"{one.name}  {one.state}")
    if not one.unreadable:
        yield clean(f"  starts    {one.workflow}")
        yield clean(f"  when      {one.when}")
        window = "" if one.window_seconds is None else f", within {duration(one.window_seconds)}"
        yield clean(f"  rules     overlap {one.overlap}, catch-up {one.catch_up}{window}")
        if one.jitter_seconds:
            yield clean(f"  jitter    {duration(one.jitter_seconds)}")
        if one.input is not None:
            yield clean(f"  input     {dump_json(one.input, is_compact=True)}")
        yield clean(f"  declared  {'in code' if one.is_in_code else 'by hand'}")
    if why := _why(one):
        yield clean(f"  why       {why}")
    for each in one.differences:
        by = f", changed by {each.by}" if each.by else ""
        yield clean(f"  differs   {each.part}: {_shown(each.in_code)} in the code, {_shown(each.now)} now{by}")
    if one.differences:
        yield clean(f"            stepwell schedule use-code {shell_word(one.name)}")
    if one.held is not None:
        yield clean(f"  held      {moment(one.held)} UTC starts when the active run has ended")
    for tick in ticks:
        note = f"  {tick.note}" if tick.note else ""
        yield clean(f"  next      {_local(tick.local_time)}{note}")
    for outcome in one.outcomes:
        yield clean(f"  {_line(outcome)}")
    for act in acts:
        if act.verb == "ticked":
            continue
        who = f" by {act.by}" if act.by else ""
        reason = f": {act.details['reason']}" if isinstance(act.details, dict) and "reason" in act.details else ""
        yield clean(f"  {moment(act.at)} UTC  {act.verb}{who}{reason}")


def _line(one: ScheduleOutcomeView) -> str:
    until = "" if one.until is None else f" to {moment(one.until)}"
    run = f"  {one.run_id}" if one.run_id else ""
    status = f" ({one.run_status})" if one.run_status and one.kind in ("started", "triggered") else ""
    note = f"  {one.note}" if one.note else ""
    return f"{moment(one.fire_time)}{until} UTC  {one.kind}{status}{run}{note}"


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, str) else dump_json(value, is_compact=True)


def _local(text: str) -> str:
    """A time by the clocks of a zone, for people: `Mon 2026-11-23 06:00:00 +01:00`."""
    from datetime import datetime

    when = datetime.fromisoformat(text)
    offset = text[-6:] if when.utcoffset() else "UTC"
    return f"{when:%a %Y-%m-%d %H:%M:%S} {offset}"


def _run_of(one: PreviewedTickView) -> str:
    return "" if one.run_id is None else f"{one.run_id}{f' ({one.run_status})' if one.run_status else ''}"


def _filled(found: BackfillView) -> Iterator[str]:
    for one in found.ticks:
        mark = "start" if found.is_dry_run else "started"
        yield clean(f"  {_local(one.local_time)}  {mark if one.is_new else 'there'}  {one.run_id}  {one.note}".rstrip())
    would = "would start" if found.is_dry_run else "started"
    there = f"; {found.existing:,} were there" if found.existing else ""
    yield clean(f"{found.name}: {would} {found.new:,} of {len(found.ticks):,} ticks{there}")


def _run_ids(found: ScheduleView) -> list[str]:
    return [one.run_id for one in found.outcomes if one.run_id is not None and one.kind in ("started", "triggered")]
