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
@click.option("--where", "-q", default="", metavar="FILTER", help="Such as 'status:failed sort:-took'.")
@click.option("--status", "-s", multiple=True, type=click.Choice([status.value for status in RunStatus]))
@click.option("--workflow", "-w", help="Only runs of this workflow.")
@click.option("--limit", "-n", default=20, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--before", metavar="RUN", help="Only runs older than this one: the next page.")
def ls(
    settings: Settings, where: str, status: tuple[str, ...], workflow: str | None, limit: int, before: str | None
) -> None:
    """List runs, newest first, or as the filter's sort: says.

    A filter has the fields status, workflow, version, key, id, parent, at, error, waiting, tag, attr.NAME, input.NAME,
    since, until, took and sort; a - in front turns one round; a plain word is looked for in ids, keys, workflows and
    errors.

    \b
    Example:
      stepwell ls --where 'status:failed since:24h workflow:order* -tag:test sort:-started'
      stepwell ls --status failed --workflow checkout --limit 5
    """
    wanted = _filter(where, status, workflow)

    async def look(client: Client) -> list[RunView]:
        cursor = None if before is None else await get_run_id(client, before)
        return await client.engine.list_runs(wanted, limit=limit + 1, before=cursor)

    found = ask(settings, look)
    runs, out = found[:limit], Output(settings)
    following = runs[-1].run_id if len(found) > limit else None
    if out.many(RUN, "runs", [run_body(run) for run in runs], run_ids=[run.run_id for run in runs], next=following):
        return
    if not runs:
        out.note("No runs match." if wanted or before else "No runs yet. Start one: stepwell start WORKFLOW")
        return
    out.table(_COLUMNS, [_row(run, out) for run in runs])
    if following is not None:
        out.note(f"There are more: --before {following}")


def _filter(where: str, statuses: tuple[str, ...], workflow: str | None) -> str:
    """What all options say together, in the filter language."""
    terms = [where.strip()]
    if statuses:
        terms.append(f"status:{','.join(statuses)}")
    if workflow is not None:
        quoted = workflow.replace("\\", "\\\\").replace('"', '\\"')
        terms.append(f'workflow:"{quoted}"')
    return " ".join(term for term in terms if term)


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
