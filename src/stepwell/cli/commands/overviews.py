"""`stepwell failures`, `stepwell topics` and `stepwell waits`: many runs at once, in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.bodies import group_body
from stepwell.cli.client import ask
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.statuses import show_status
from stepwell.cli.texts import clean, moment

if TYPE_CHECKING:
    from stepwell.clock import Instant
    from stepwell.engine.error_groups import ErrorGroup
    from stepwell.stores.base.overviews import TopicUse, WaitGroup

_FAILURES = (
    Column("RUNS", is_fixed=True),
    Column("WORKFLOW"),
    Column("AT"),
    Column("ERROR"),
    Column("LAST (UTC)", is_fixed=True, dropped=1),
    Column("FIRST (UTC)", is_fixed=True, dropped=2),
    Column("SUCH AS", is_fixed=True),
    Column("GROUP", is_fixed=True, dropped=3),
)
_RUNS = (
    Column("RUN"),
    Column("VERSION", is_fixed=True),
    Column("STATUS", is_fixed=True),
    Column("ENDED (UTC)", is_fixed=True),
)
_TOPICS = (
    Column("TOPIC"),
    Column("WAITING", is_fixed=True),
    Column("KEPT", is_fixed=True),
    Column("PUBLISHED", is_fixed=True),
    Column("LAST (UTC)", is_fixed=True),
)
_WAITS = (
    Column("RUNS", is_fixed=True),
    Column("FOR", is_fixed=True),
    Column("NAME"),
    Column("WORKFLOW"),
    Column("GIVES UP (UTC)", is_fixed=True, dropped=1),
    Column("SUCH AS", is_fixed=True),
)


@command("failures")
@click.argument("fingerprint", required=False, metavar="[GROUP]")
@click.option("--where", metavar="FILTER", default="", help="Only these runs, such as 'workflow:order* since:24h'.")
@click.option("--limit", "-n", default=2_000, show_default=True, type=click.IntRange(1, 10_000), help="Failures read.")
def failures(settings: Settings, fingerprint: str | None, where: str, limit: int) -> None:
    """Group failed runs by what they failed with, and where; or list the runs of one GROUP, named by its fingerprint.

    A star stands for what differs: numbers and ids in messages, iterations in paths. The newest failures are read.

    \b
    Example:
      stepwell failures --where 'since:24h'
      stepwell failures 3f2c9a70b1d4 -o ids | stepwell redrive -
    """
    if fingerprint is not None:
        _show_group(settings, fingerprint, where, limit)
        return
    found = ask(settings, lambda client: client.engine.overviews.errors(where, limit=limit))
    out = Output(settings)
    ids = [run.run_id for group in found.groups for run in group.samples]
    facts = {"scanned": found.scanned, "is_whole": found.is_whole}
    if out.many("stepwell.failure/1", "failures", [group_body(one) for one in found.groups], run_ids=ids, **facts):
        return
    if not found.groups:
        out.note("No run has failed." if not where else "No failed run matches.")
        return
    out.table(_FAILURES, [_failure_row(one) for one in found.groups])
    if not found.is_whole:
        out.note(f"The newest {found.scanned:,} failures; --limit reads more.")


def _show_group(settings: Settings, fingerprint: str, where: str, limit: int) -> None:
    found = ask(settings, lambda client: client.engine.overviews.error_group(fingerprint, where, limit=limit))
    body, out = group_body(found), Output(settings)
    if out.many("stepwell.failed-run/1", "runs", body["samples"], run_ids=[one.run_id for one in found.samples]):
        return
    out.line(clean(f"{found.type}: {found.latest}" if found.latest else found.type))
    out.line(clean(f"{found.workflow}, at {found.path or 'the workflow itself'}"))
    out.line("")
    out.table(
        _RUNS,
        [
            [one.key or one.run_id, f"v{one.version}", show_status(one.status, ascii=out.ascii), moment(one.at)]
            for one in found.samples
        ],
    )


def _failure_row(group: ErrorGroup) -> list[str]:
    error = f"{group.type}: {group.message}" if group.message else group.type
    example = group.samples[0]
    shown = [group.workflow, group.path, error, moment(group.last_at), moment(group.first_at)]
    return [str(group.count), *shown, example.key or example.run_id, group.fingerprint]


@command("topics")
def topics(settings: Settings) -> None:
    """List the topics of waits and events: how many runs wait, and which events are kept.

    \b
    Example:
      stepwell topics
    """
    found, out = ask(settings, lambda client: client.engine.overviews.topics()), Output(settings)
    bodies = [{**one._asdict(), "last_at": _time(one.last_at)} for one in found]
    if out.many("stepwell.topic/1", "topics", bodies, run_ids=[]):
        return
    if not found:
        out.note("No event was published lately, and no run waits for one.")
        return
    out.table(_TOPICS, [_topic_row(one) for one in found])


def _topic_row(one: TopicUse) -> list[str]:
    return [one.topic, str(one.waiting), str(one.kept), str(one.published), _moment(one.last_at)]


@command("waits")
def waits(settings: Settings) -> None:
    """List what runs wait for, in groups: signals and events.

    \b
    Example:
      stepwell waits
    """
    found, out = ask(settings, lambda client: client.engine.overviews.waits()), Output(settings)
    bodies = [_wait_body(one) for one in found]
    if out.many("stepwell.wait-group/1", "waits", bodies, run_ids=[one.example for one in found]):
        return
    if not found:
        out.note("No run waits for a signal or an event.")
        return
    out.table(_WAITS, [_wait_row(one) for one in found])


def _wait_body(one: WaitGroup) -> dict[str, Any]:
    return {**one._asdict(), "kind": one.kind.value, "names": list(one.names), "next_due_at": _time(one.next_due_at)}


def _wait_row(one: WaitGroup) -> list[str]:
    names = " or ".join(one.names) or "of any name"
    workflow = f"{one.workflow} v{one.version}"
    return [str(one.runs), one.kind.value, names, workflow, _moment(one.next_due_at), one.example]


def _moment(instant: Instant | None) -> str:
    from stepwell.clock import to_datetime

    return "" if instant is None else moment(to_datetime(instant))


def _time(instant: Instant | None) -> str | None:
    from stepwell.clock import to_datetime

    return None if instant is None else to_datetime(instant).isoformat()
