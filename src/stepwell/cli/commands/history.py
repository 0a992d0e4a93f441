"""`stepwell history`: every recorded line of a run."""

from __future__ import annotations

import click

from stepwell.cli.bodies import HISTORY, entry_body
from stepwell.cli.client import ask
from stepwell.cli.commands.show import look
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run
from stepwell.cli.texts import dump_json, duration, moment

_COLUMNS = (
    Column("SEQ", is_fixed=True),
    Column("PATH", is_fixed=True),
    Column("KIND"),
    Column("STATUS"),
    Column("ATTEMPTS", dropped=2),
    Column("AT (UTC)", is_fixed=True, dropped=1),
    Column("TOOK", is_fixed=True),
    Column("VALUE"),
)


@command("history")
@click.argument("run", shell_complete=complete_run)
def history(settings: Settings, run: str) -> None:
    """List every recorded line of a run, in the order of its commits.

    \b
    Example:
      stepwell history order-42 -o jsonl
    """
    seen = ask(settings, lambda client: look(client, run))
    run_id, out = seen.run.run_id, Output(settings)
    if out.many(HISTORY, "entries", [entry_body(entry) for entry in seen.entries], run_ids=[run_id], run_id=run_id):
        return
    if not seen.entries:
        out.note(f"Nothing is recorded yet. Why: stepwell why {run_id}")
        return
    rows = [
        [
            str(entry.seq),
            entry.path,
            entry.kind,
            entry.status,
            str(entry.attempts or ""),
            moment(entry.at),
            duration(entry.took),
            entry.failure.summary if entry.failure else dump_json(entry.value, is_compact=True),
        ]
        for entry in seen.entries
    ]
    out.table(_COLUMNS, rows)
