"""`stepwell ls`: which runs there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.bodies import RUN, run_body
from stepwell.cli.client import Client, ask
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.statuses import show_status
from stepwell.cli.targets import get_run_id
from stepwell.cli.texts import duration, moment
from stepwell.model.states import RunStatus

if TYPE_CHECKING:
    from stepwell.engine.views import RunView

_COLUMNS = (
    Column("RUN", is_fixed=True),
    Column("KEY"),
    Column("WORKFLOW", dropped=1),
    Column("STATUS", is_fixed=True),
    Column("WHERE", dropped=3),
    Column("WHY"),
    Column("CREATED (UTC)", is_fixed=True, dropped=2),
    Column("TOOK", is_fixed=True, dropped=4),
)


@command("ls")
@click.option("--status", "-s", multiple=True, type=click.Choice([status.value for status in RunStatus]))
@click.option("--workflow", "-w", help="Only runs of this workflow.")
@click.option("--limit", "-n", default=20, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--before", metavar="RUN", help="Only runs older than this one: the next page.")
def ls(settings: Settings, status: tuple[str, ...], workflow: str | None, limit: int, before: str | None) -> None:
    """List runs, newest first.

    \b
    Example:
      stepwell ls --status failed --workflow checkout --limit 5
    """

    async def look(client: Client) -> list[RunView]:
        from stepwell.stores.base.views import RunFilter

        where = RunFilter(statuses=tuple(RunStatus(value) for value in status), workflow=workflow)
        cursor = None if before is None else await get_run_id(client, before)
        return await client.engine.list_runs(where, limit=limit + 1, before=cursor)

    found = ask(settings, look)
    runs, out = found[:limit], Output(settings)
    following = runs[-1].run_id if len(found) > limit else None
    if out.many(RUN, "runs", [run_body(run) for run in runs], run_ids=[run.run_id for run in runs], next=following):
        return
    if not runs:
        out.note(
            "No runs match." if status or workflow or before else "No runs yet. Start one: stepwell start WORKFLOW"
        )
        return
    out.table(_COLUMNS, [_row(run, out) for run in runs])
    if following is not None:
        out.note(f"There are more: --before {following}")


def _row(run: RunView, out: Output) -> list[str]:
    failure = run.failure
    begun = run.started_at or run.created_at
    return [
        run.run_id,
        run.key or "",
        f"{run.workflow} v{run.version}",
        show_status(run.status, ascii=out.ascii),
        failure.path if failure else "",
        failure.summary if failure else run.reason,
        moment(run.created_at),
        duration((run.ended_at - begun).total_seconds()) if run.ended_at else "",
    ]
