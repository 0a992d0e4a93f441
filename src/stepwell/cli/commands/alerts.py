"""`stepwell alert`: rules that watch runs: list, create, test, acknowledge, mute and delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.bodies import fact_body
from stepwell.cli.client import Client, ask
from stepwell.cli.operators import by_option
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.texts import clean, moment
from stepwell.model.states import AlertState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from stepwell.engine.alerts import AlertActView, AlertView

_COLUMNS = (
    Column("ALERT", is_fixed=True),
    Column("STATE", is_fixed=True),
    Column("RULE"),
    Column("SINCE", is_fixed=True, dropped=2),
    Column("FIRED", is_fixed=True, dropped=1),
    Column("NOTE", is_note=True),
)
_STATES = [state.value for state in AlertState if state is not AlertState.DELETED]
_LINES_MAX = 20


@click.group("alert", cls=Group)
def alert() -> None:
    """Rules that watch runs, and tell the notifiers once when they fire and once when that is over.

    \b
    Example:
      stepwell alert ack "orders fail" --note "the card API is down"
    """


@command("ls")
@click.option("--state", "-s", type=click.Choice(_STATES))
@click.option("--limit", "-n", default=100, show_default=True, type=click.IntRange(1, 1_000))
def _ls(settings: Settings, state: str | None, limit: int) -> None:
    """List rules and their states, those that fire first.

    \b
    Example:
      stepwell alert ls --state firing
    """
    found = ask(settings, lambda client: client.engine.alerts.list(state=state, limit=limit))
    found.sort(key=lambda one: one.state == AlertState.OK)
    out = Output(settings)
    if out.many("stepwell.alert/1", "alerts", [fact_body(one) for one in found], run_ids=[]):
        return
    if not found:
        out.note("No rule matches." if state else "Nothing is watched: App(alerts=[...]), or stepwell alert create.")
        return
    out.table(_COLUMNS, [_row(one) for one in found])


@command("show")
@click.argument("name", metavar="ALERT")
def _show(settings: Settings, name: str) -> None:
    """Show one rule: what it finds now, and what happened to it.

    \b
    Example:
      stepwell alert show "orders fail"
    """

    async def look(client: Client) -> tuple[AlertView, list[AlertActView]]:
        return await client.engine.alerts.get(name), await client.engine.alerts.history(name, limit=_LINES_MAX)

    found, acts = ask(settings, look)
    body = {**fact_body(found), "acts": [fact_body(act) for act in acts]}
    Output(settings).one("stepwell.alert/1", body, run_ids=list(found.runs), words=lambda: _words(found, acts))


@command("create")
@click.argument("name", metavar="ALERT")
@click.option("--workflow", "-w", help="Only runs of this workflow.")
@click.option("--failed", is_flag=True, help="Fire at any failure.")
@click.option("--count", type=int, metavar="N", help="Fire at so many failures within --within.")
@click.option("--within", metavar="TIME", help="The time of --count, such as 10m.")
@click.option("--consecutive", type=int, metavar="N", help="Fire at so many failures in a row.")
@click.option("--stalled", metavar="TIME", help="Fire if a run makes no progress for so long.")
@click.option("--rollback-incomplete", is_flag=True, help="Fire if an undo has failed for good.")
@click.option("--oldest-ready", metavar="TIME", help="Fire if no worker claims a due run for so long.")
@by_option
def _create(settings: Settings, name: str, by: str, workflow: str | None, **condition: Any) -> None:
    """Create a rule, or change it. Workers of an App with alerts look at it.

    \b
    Example:
      stepwell alert create "orders fail" --workflow order --count 5 --within 10m
    """
    from stepwell.engine.alert_rules import Alert

    rule = Alert(name, workflow, **condition)
    _act(
        settings, name, "create", lambda client: client.engine.alerts.create(rule, by=by), ("is watched", "is the same")
    )


@command("test")
@click.argument("name", metavar="ALERT")
@by_option
def _test(settings: Settings, name: str, by: str) -> None:
    """Tell the notifiers about a rule, marked as a test. A notifier that does not take it is in `stepwell outbox ls`.

    \b
    Example:
      stepwell alert test "orders fail"
    """
    run_id = ask(settings, lambda client: client.engine.alerts.test(name, by=by))
    line = clean(f"Alert {name} is being tested: stepwell watch {run_id}")
    body = {"alert": name, "verb": "test", "run_id": run_id}
    Output(settings).one("stepwell.act/1", body, run_ids=[run_id], words=lambda: [line])


@command("ack")
@click.argument("name", metavar="ALERT")
@click.option("--note", default="", help="What you know about it, shown with the rule.")
@by_option
def _ack(settings: Settings, name: str, note: str, by: str) -> None:
    """Note that you know that a rule fires.

    \b
    Example:
      stepwell alert ack "orders fail" --note "the card API is down"
    """
    _act(
        settings,
        name,
        "ack",
        lambda client: client.engine.alerts.acknowledge(name, by=by, note=note),
        ("is acknowledged", "does not fire, or somebody knows already"),
    )


@command("mute")
@click.argument("name", metavar="ALERT")
@click.option("--for", "duration", default="1h", show_default=True, metavar="TIME", help="0 ends it.")
@click.option("--note", default="", help="Why, shown with the rule.")
@by_option
def _mute(settings: Settings, name: str, duration: str, note: str, by: str) -> None:
    """Tell nobody about a rule for a time. Its state still changes.

    \b
    Example:
      stepwell alert mute "orders fail" --for 2h --note "a deploy"
    """
    is_end = duration.strip() in ("0", "0s")
    _act(
        settings,
        name,
        "mute",
        lambda client: client.engine.alerts.mute(name, 0 if is_end else duration, by=by, note=note),
        ("is heard again" if is_end else f"is muted for {duration}", "was not muted"),
    )


@command("delete")
@click.argument("name", metavar="ALERT")
@by_option
def _delete(settings: Settings, name: str, by: str) -> None:
    """Delete a rule. A worker whose code has it declares it again when it starts the next time.

    \b
    Example:
      stepwell alert delete "orders fail"
    """
    done = ("is deleted", "was already deleted")
    _act(settings, name, "delete", lambda client: client.engine.alerts.delete(name, by=by), done)


for each in (_ls, _show, _create, _test, _ack, _mute, _delete):
    alert.add_command(each)


def _act(
    settings: Settings,
    name: str,
    verb: str,
    act: Callable[[Client], Coroutine[Any, Any, bool]],
    said: tuple[str, str],
) -> None:
    changed = ask(settings, act)
    line = clean(f"Alert {name} {said[0] if changed else said[1]}")
    body = {"alert": name, "verb": verb, "changed": changed}
    Output(settings).one("stepwell.act/1", body, run_ids=[], words=lambda: [line])


def _row(one: AlertView) -> list[str]:
    return [one.name, one.state, one.rule, moment(one.since) if one.since else "", str(one.fired or ""), _note(one)]


def _note(one: AlertView) -> str:
    if one.unreadable:
        return f"cannot be read: {one.unreadable}"
    muted = f"muted by {one.muted_by} until {moment(one.muted_until)} UTC" if one.muted_until else ""
    seen = f"seen by {one.seen_by}" if one.seen_by else ""
    return ", ".join(part for part in (seen, muted, one.note) if part)


def _words(one: AlertView, acts: list[AlertActView]) -> Iterator[str]:
    from stepwell.engine.alerts import describe

    yield clean(f"{one.name}  {one.state}")
    yield clean(f"  rule   {one.rule}")
    yield clean(f"  now    {describe(one)}")
    if one.since:
        yield f"  since  {moment(one.since)} UTC"
    if note := _note(one):
        yield clean(f"  note   {note}")
    for run in one.runs:
        yield clean(f"  run    {run}")
    for act in acts:
        who = f" by {act.by}" if act.by else ""
        yield clean(f"  {moment(act.at)} UTC  {act.verb}{who}")
