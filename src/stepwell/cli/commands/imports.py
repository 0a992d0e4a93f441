"""`stepwell import`: a run that was exported comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.client import Client, ask
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.statuses import show_status
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from stepwell.model.runs import Run


@command("import")
@click.argument("file")
@click.option("--id", "own", metavar="ID", help="Under this id, instead of the one that it had.")
@click.option("--new-id", is_flag=True, help="Under an id that is made for it.")
@click.option("--no-key", is_flag=True, help="Without its key.")
def import_(settings: Settings, file: str, own: str | None, new_id: bool, no_key: bool) -> None:
    """Add the run in FILE, which `stepwell export` wrote, to the database.

    One that has ended is there as it ended. Any other goes on where it was as soon as a worker knows its workflow and
    version. Refused are files that are damaged or of another release, and runs that are there already.

    \b
    Example:
      stepwell export order-42 -o order.json --db sqlite:///here.db
      stepwell import order.json --db sqlite:///there.db
    """
    from stepwell.check import histories

    if own is not None and new_id:
        raise click.UsageError("Give --id or --new-id, not both.")
    recording = histories.read(file)
    if no_key:
        recording = recording._replace(run=recording.run._replace(key=None))

    async def bring(client: Client) -> Run:
        from stepwell.check.importing import import_run
        from stepwell.cli.acts import operator
        from stepwell.clock import SystemClock
        from stepwell.engine.starts import check_run_id
        from stepwell.ids import SystemIds

        given = SystemIds(SystemClock()).uuid() if new_id else own
        run_id = None if given is None else check_run_id(given)
        return await import_run(client.store, recording, run_id=run_id, by=operator())

    run = ask(settings, bring, may_create=True)
    out = Output(settings)
    body = {"run_id": run.run_id, "status": run.status.value, "entries": len(recording.history.entries)}
    words = f"Imported: run {run.run_id} is {show_status(run.status.value, ascii=out.ascii)}"
    out.one("stepwell.import/1", body, run_ids=[run.run_id], words=lambda: [clean(words)])
