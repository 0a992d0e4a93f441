"""`stepwell trigger`: workflows that events start: list, show, pause, resume and delete them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.bodies import trigger_act_body, trigger_body
from stepwell.cli.client import Client, ask
from stepwell.cli.operators import by_option
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.texts import clean, dump_json, moment
from stepwell.model.states import TriggerState

if TYPE_CHECKING:
    from stepwell.engine.triggers import TriggerActView, TriggerView

_COLUMNS = (
    Column("TRIGGER", is_fixed=True),
    Column("STATE", is_fixed=True),
    Column("TOPIC", dropped=2),
    Column("WORKFLOW", dropped=1),
    Column("KEY", dropped=3),
    Column("WHY", is_note=True),
)
_LINES_MAX = 20
_STATES = [state.value for state in TriggerState if state is not TriggerState.DELETED]


@click.group("trigger", cls=Group)
def trigger() -> None:
    """List workflows that events start; pause, resume or delete such a trigger.

    \b
    Example:
      stepwell trigger pause Shipped:invoice --reason "invoices are wrong"
    """


@command("ls")
@click.option("--topic", help="Only triggers of this topic.")
@click.option("--state", "-s", type=click.Choice(_STATES))
@click.option("--limit", "-n", default=100, show_default=True, type=click.IntRange(1, 1_000))
def _ls(settings: Settings, topic: str | None, state: str | None, limit: int) -> None:
    """List triggers, newest first.

    \b
    Example:
      stepwell trigger ls --state undeclared
    """
    found = ask(settings, lambda client: client.engine.triggers.list(topic=topic, state=state, limit=limit))
    out = Output(settings)
    if out.many("stepwell.trigger/1", "triggers", [trigger_body(one) for one in found], run_ids=[]):
        return
    if not found:
        out.note("No trigger matches." if topic or state else "No event starts a workflow: no worker has a trigger.")
        return
    out.table(_COLUMNS, [_row(one) for one in found])


@command("show")
@click.argument("name", metavar="TRIGGER")
def _show(settings: Settings, name: str) -> None:
    """Show one trigger: what it starts, its last error, and what happened to it.

    \b
    Example:
      stepwell trigger show Shipped:invoice
    """

    async def look(client: Client) -> tuple[TriggerView, list[TriggerActView]]:
        triggers = client.engine.triggers
        return await triggers.get(name), await triggers.history(name, limit=_LINES_MAX)

    found, acts = ask(settings, look)
    body = {**trigger_body(found), "acts": [trigger_act_body(act) for act in acts]}
    Output(settings).one("stepwell.trigger/1", body, run_ids=[], words=lambda: _words(found, acts))


@command("pause")
@click.argument("name", metavar="TRIGGER")
@click.option("--reason", default="", help="Why, shown with the trigger.")
@by_option
def _pause(settings: Settings, name: str, reason: str, by: str) -> None:
    """Pause a trigger: events on its topic start no runs until a person resumes it.

    \b
    Example:
      stepwell trigger pause Shipped:invoice --reason "invoices are wrong"
    """
    _act(
        settings,
        name,
        "pause",
        lambda client: client.engine.triggers.pause(name, by=by, reason=reason),
        ("is paused", "was already paused"),
    )


@command("resume")
@click.argument("name", metavar="TRIGGER")
@by_option
def _resume(settings: Settings, name: str, by: str) -> None:
    """Resume a trigger. Events that were published meanwhile start nothing.

    \b
    Example:
      stepwell trigger resume Shipped:invoice
    """
    _act(
        settings,
        name,
        "resume",
        lambda client: client.engine.triggers.resume(name, by=by),
        ("is resumed", "was already active"),
    )


@command("delete")
@click.argument("name", metavar="TRIGGER")
@by_option
def _delete(settings: Settings, name: str, by: str) -> None:
    """Delete a trigger. A worker whose code has it declares it again when it starts the next time.

    \b
    Example:
      stepwell trigger delete Shipped:invoice
    """
    _act(
        settings,
        name,
        "delete",
        lambda client: client.engine.triggers.delete(name, by=by),
        ("is deleted", "was already deleted"),
    )


for each in (_ls, _show, _pause, _resume, _delete):
    trigger.add_command(each)


def _act(
    settings: Settings,
    name: str,
    verb: str,
    act: Callable[[Client], Coroutine[Any, Any, bool]],
    said: tuple[str, str],
) -> None:
    is_done = ask(settings, act)
    line = clean(f"Trigger {name} {said[0] if is_done else said[1]}")
    body = {"trigger": name, "verb": verb, "changed": is_done}
    Output(settings).one("stepwell.act/1", body, run_ids=[], words=lambda: [line])


def _row(one: TriggerView) -> list[str]:
    return [one.name, one.state, one.topic, f"{one.workflow} v{one.version}", one.key or "", _why(one)]


def _why(one: TriggerView) -> str:
    """What people should know of a trigger, if anything."""
    if one.unreadable:
        return f"cannot be read: {one.unreadable}"
    if one.state == TriggerState.PAUSED:
        who = f"by {one.by}" if one.by else ""
        return ": ".join(part for part in (who, one.reason) if part)
    if one.state == TriggerState.UNDECLARED:
        return "no live worker has it in its code"
    return "" if one.failure is None else f"event {one.failure.event_id} did not fit: {one.failure.message}"


def _words(one: TriggerView, acts: list[TriggerActView]) -> Iterator[str]:
    yield clean(f"{one.name}  {one.state}")
    if one.unreadable:
        yield clean(f"  cannot be read: {one.unreadable}")
    else:
        yield clean(f"  topic     {one.topic}")
        yield clean(f"  starts    {one.workflow} v{one.version}")
        yield clean(f"  key       {one.key or 'none: every event starts a run'}")
        yield clean(f"  input     {'the event' if one.input is None else dump_json(one.input, is_compact=True)}")
        yield clean(f"  declared  {moment(one.declared_at)} UTC")
    if why := _why(one):
        yield clean(f"  why       {why}")
    for act in acts:
        who = f" by {act.by}" if act.by else ""
        reason = f": {act.details['reason']}" if isinstance(act.details, dict) and "reason" in act.details else ""
        yield clean(f"  {moment(act.at)} UTC  {act.verb}{who}{reason}")
