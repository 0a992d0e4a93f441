"""`stepwell outbox`: events that have not reached their sinks, and dead letters."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.client import ask
from stepwell.cli.operators import by_option
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings
from stepwell.cli.texts import clean, moment

if TYPE_CHECKING:
    from stepwell.engine.outbox import OwedEvent

_COLUMNS = (
    Column("EVENT", is_fixed=True),
    Column("NAME"),
    Column("SINK"),
    Column("KEY", dropped=2),
    Column("STATE", is_fixed=True),
    Column("ATTEMPTS", is_fixed=True, dropped=1),
    Column("ERROR", is_note=True),
)
_SINK = click.option("--sink", metavar="NAME", help="Only for this sink. Default: every sink that lacks the event.")


@click.group("outbox", cls=Group)
def outbox() -> None:
    """List events that have not reached their sinks; send or drop dead letters.

    \b
    Example:
      stepwell outbox ls --dead
    """


@outbox.command("ls")
@click.option("--dead", is_flag=True, help="Only dead letters: events that a sink rejected too often.")
@click.option("--limit", "-n", default=100, show_default=True, type=click.IntRange(1, 1_000))
@click.pass_obj
def listed(settings: Settings, dead: bool, limit: int) -> None:
    """List dead letters, and then the events that workers still have to send.

    \b
    Example:
      stepwell outbox ls --dead
    """
    out = Output(settings)
    found = ask(settings, lambda client: client.engine.outbox.list_dead(limit=limit))
    if not dead and len(found) < limit:
        found += ask(settings, lambda client: client.engine.outbox.list_pending(limit=limit - len(found)))
    ids = list(dict.fromkeys(event.run_id for event in found))
    if out.many("stepwell.event/1", "events", [_body(event) for event in found], run_ids=ids):
        return
    if not found:
        out.note("No dead letters." if dead else "Every event has reached its sink.")
        return
    out.table(_COLUMNS, [_row(event) for event in found])


@outbox.command("replay")
@click.argument("event", metavar="EVENT")
@_SINK
@by_option
@click.pass_obj
def replayed(settings: Settings, event: str, sink: str | None, by: str) -> None:
    """Send a dead letter again, with a new budget of attempts.

    \b
    Example:
      stepwell outbox replay 0190b3c2-7e1a-7abc-8def-0123456789ab
    """
    count = ask(settings, lambda client: client.engine.outbox.replay(event, sink, by=by))
    _report(settings, "replay", event, count, "Sending again")


@outbox.command("drop")
@click.argument("event", metavar="EVENT")
@_SINK
@by_option
@click.pass_obj
def dropped(settings: Settings, event: str, sink: str | None, by: str) -> None:
    """Drop an event that has not reached its sink, dead or not. An event that is being sent is left alone.

    \b
    Example:
      stepwell outbox drop 0190b3c2-7e1a-7abc-8def-0123456789ab --sink audit
    """
    count = ask(settings, lambda client: client.engine.outbox.drop(event, sink, by=by))
    _report(settings, "drop", event, count, "Dropped")


def _report(settings: Settings, verb: str, event: str, count: int, done: str) -> None:
    from stepwell.errors import NotFoundError

    if not count:
        raise NotFoundError("event", event, fix="stepwell outbox ls")
    line = clean(f"{done}: event {event}, for {count} {'sink' if count == 1 else 'sinks'}")
    body = {"event_id": event, "verb": verb, "sinks": count}
    Output(settings).one("stepwell.act/1", body, run_ids=[], words=lambda: [line])


def _body(event: OwedEvent) -> dict[str, Any]:
    facts = asdict(event)
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in facts.items()}


def _row(event: OwedEvent) -> list[str]:
    state = "dead letter" if event.died_at else f"due {moment(event.next_at)}" if event.next_at else "queued"
    return [
        event.event_id,
        event.name,
        event.sink,
        event.key or event.run_id,
        state,
        str(event.attempts or ""),
        event.failure,
    ]
