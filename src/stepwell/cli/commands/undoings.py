"""Undoing a completed run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.client import Client, ask
from stepwell.cli.operators import by_option
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from stepwell.engine.handles import Handle


@command("compensate")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--reason", default="", help="Why, kept in the audit of the run.")
@by_option
def compensate(settings: Settings, run: str, reason: str, by: str) -> None:
    """Undo a completed run: its compensations run in a new run, last in, first out.

    A second call starts nothing, and names the run of the first one.

    \b
    Example:
      stepwell compensate order-42 --reason "the customer returned it"
    """

    async def undo(client: Client) -> Handle[Any]:
        return await client.engine.compensate(await get_run_id(client, run), by=by, reason=reason)

    handle = ask(settings, undo)
    body = {"run_id": handle.run_id, "is_new": handle.is_new}
    words = "Undoing in run" if handle.is_new else "It was undone before, in run"
    line = clean(f"{words} {handle.run_id}")
    Output(settings).one("stepwell.compensation/1", body, run_ids=[handle.run_id], words=lambda: [line])
