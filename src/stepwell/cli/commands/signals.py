"""`stepwell signal`: send a signal to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from stepwell.cli.client import Client, ask
from stepwell.cli.inputs import read_input
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run, find_run_id
from stepwell.cli.texts import clean

if TYPE_CHECKING:
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
