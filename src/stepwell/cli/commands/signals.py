"""`stepwell signal` and `stepwell signals`: send a signal; list and deliver signals that no run has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from stepwell.cli.bodies import signal_body
from stepwell.cli.client import Client, ask
from stepwell.cli.errors import PROBLEMS
from stepwell.cli.inputs import read_input
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.targets import complete_run, find_run_id
from stepwell.cli.texts import brief, clean, moment

if TYPE_CHECKING:
    from stepwell.engine.views import SignalView
    from stepwell.model.signals import IfMissing

_WORDS = {
    "delivered": "Delivered {name} to {target}.",
    "duplicate": "Nothing sent: {target} already had a signal with this dedup key.",
    "held": "Held {name}: no active run has the key {target}; the next run with this key receives it.",
    "missing": "Dropped {name}: no active run has the key {target}.",
}


@command("signal")
@click.argument("run", shell_complete=complete_run)
@click.argument("name")
@click.argument("payload", nargs=-1, metavar="[name=text | name:=json | @file | -]...")
@click.option("--dedup-key", metavar="KEY", help="Deliver it once, however often this command is repeated.")
@click.option("--if-missing", type=click.Choice(["raise", "hold", "drop"]), default="raise", show_default=True)
def signal(
    settings: Settings, run: str, name: str, payload: tuple[str, ...], dedup_key: str | None, if_missing: str
) -> None:
    """Send a signal to a run. It is kept until the run receives it.

    \b
    Example:
      stepwell signal order-42 approval approved:=true by=ann
    """
    value = read_input(payload, what="the payload")

    async def send(client: Client) -> tuple[str, str, list[str]]:
        target = await _target(client, run)
        waits = await _waited_names(client, target)
        policy = cast("IfMissing", if_missing)
        sent = await client.engine.signal(target, name, value, dedup_key=dedup_key, if_missing=policy)
        return target, sent.value, waits

    target, delivery, waits = ask(settings, send)
    out = Output(settings)
    if delivery == "delivered" and waits and name not in waits:
        out.note(f"The run waits for {' or '.join(repr(each) for each in waits)} now, and keeps {name!r} for later.")
    body: dict[str, Any] = {"target": target, "name": name, "delivery": delivery}
    line = clean(_WORDS[delivery].format(name=repr(name), target=target))
    out.one("stepwell.delivery/1", body, run_ids=[target], words=lambda: [line])


async def _target(client: Client, run: str) -> str:
    """A key stays a key, so that a signal for a future run can be held; shortcuts and prefixes become ids."""
    if not run.startswith("@") and await client.engine.status(run) is not None:
        return run
    return await find_run_id(client, run) or run


async def _waited_names(client: Client, target: str) -> list[str]:
    """The signals that a run waits for now; none if it does not wait, or takes any name."""
    from stepwell.engine.views import wait_views

    if await client.engine.status(target) is None:
        return []
    waits = wait_views(await client.engine.runs.detail(target))
    return [name for wait in waits if wait.kind == "signal" for name in wait.names]


_COLUMNS = (
    Column("NUMBER", is_fixed=True),
    Column("NAME"),
    Column("FOR"),
    Column("STATE", is_fixed=True),
    Column("SENT (UTC)", is_fixed=True, dropped=1),
    Column("VALUE"),
    Column("WHY", is_note=True),
)


@click.group("signals", cls=Group)
def signals() -> None:
    """List signals that no run has read, and deliver one again.

    \b
    Example:
      stepwell signals ls
    """


@signals.command("ls")
@click.option("--held", "which", flag_value="held", help="Only those that wait for a run with their key.")
@click.option("--unread", "which", flag_value="unread", help="Only those that a run left unread, or rejected.")
@click.option("--limit", "-n", default=100, show_default=True, type=click.IntRange(1, 1_000))
@click.pass_obj
def listed(settings: Settings, which: str | None, limit: int) -> None:
    """List signals that are held for a key, and signals that runs left unread.

    \b
    Example:
      stepwell signals ls --held
    """

    async def read(client: Client) -> list[SignalView]:
        nouns = client.engine.signals
        held = [] if which == "unread" else await nouns.list_held(limit=limit)
        return held + ([] if which == "held" else await nouns.list_unread(limit=limit))

    found, out = ask(settings, read), Output(settings)
    ids = [one.target for one in found if not one.is_held]
    if out.many("stepwell.signal/1", "signals", [signal_body(one) for one in found], run_ids=ids):
        return
    if not found:
        out.note("Every signal has reached a run, and was read.")
        return
    out.table(_COLUMNS, [_row(one) for one in found])


def _row(one: SignalView) -> list[str]:
    state = "held" if one.is_held else f"unread, run is {one.run_status}"
    return [str(one.number), one.name, one.target, state, moment(one.sent_at), brief(one.payload), one.reason]


@signals.command("redeliver")
@click.argument("number", type=click.IntRange(0))
@click.option("--to", metavar="RUN", help="Another run, by id or key. Default: the target that it was sent to.")
@click.pass_obj
def redelivered(settings: Settings, number: int, to: str | None) -> int:
    """Deliver a signal again that no run has read.

    Ends with exit code 9 if its target has no active run; the signal then stays where it is.

    \b
    Example:
      stepwell signals redeliver 3 --to order-42
    """

    async def send(client: Client) -> tuple[SignalView, str]:
        found = await client.engine.signals.find_undelivered(number)
        [delivery] = await client.engine.signals.redeliver(found, to=to)
        return found, delivery.value

    one, delivery = ask(settings, send)
    target = to or one.target
    words = {
        "delivered": f"Delivered {one.name!r} to {target}.",
        "duplicate": f"Dropped {one.name!r}: {target} already had a signal with this dedup key.",
        "missing": f"Nothing done: no active run is meant by {target}.",
    }
    body: dict[str, Any] = {"number": number, "target": target, "name": one.name, "delivery": delivery}
    Output(settings).one("stepwell.delivery/1", body, run_ids=[target], words=lambda: [clean(words[delivery])])
    return PROBLEMS if delivery == "missing" else 0
