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
_MORE = (Column("STARTED (UTC)"), Column("ENDED (UTC)"), Column("TAGS"), Column("PARENT", is_fixed=True))
_COUNTED_MAX = 1_000  # matches, for the line below the table


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

    out = Output(settings)

    async def look(client: Client) -> tuple[list[RunView], int]:
        cursor = None if before is None else await get_run_id(client, before)
        page = await client.list_runs(wanted, limit=limit + 1, before=cursor)
        if not out.is_for_people or (cursor is None and len(page) <= limit):
            return page, len(page)
        from stepwell.engine.filters import parse_filter

        return page, await client.views.count_runs(parse_filter(wanted, client.store.now()), limit=_COUNTED_MAX + 1)

    found, total = ask(settings, look)
    runs = found[:limit]
    following = runs[-1].run_id if len(found) > limit else None
    if out.many(RUN, "runs", [run_body(run) for run in runs], run_ids=[run.run_id for run in runs], next=following):
        return
    if not runs:
        out.note("No runs match." if wanted or before else "No runs yet. Start one: stepwell start WORKFLOW")
        return
    columns = (*_COLUMNS, *_MORE) if out.is_wide else _COLUMNS
    out.table(columns, [[*_row(run, out), *(_more(run) if out.is_wide else ())] for run in runs])
    if following is not None or total > len(runs):
        dot = " - " if out.ascii else " · "
        count = f"more than {_COUNTED_MAX:,}" if total > _COUNTED_MAX else f"{total:,}"
        said = f"{len(runs):,} of {count} match"
        out.note(said if following is None else f"{said}{dot}next: --before {following}")


def _filter(where: str, statuses: tuple[str, ...], workflow: str | None) -> str:
    """What all options say together, in the filter language."""
    terms = [where.strip()]
    if statuses:
        terms.append(f"status:{','.join(statuses)}")
    if workflow is not None:
        quoted = workflow.replace("\\", "\\\\").replace('"', '\\"')
        terms.append(f'workflow:"{quoted}"')
    return " ".join(term for term in terms if term)


def _more(run: RunView) -> list[str]:
    tags = ", ".join(f"{name}={value}" if value else name for name, value in run.tags.items())
    return [moment(run.started_at), moment(run.ended_at), tags, run.parent or ""]


def _row(run: RunView, out: Output) -> list[str]:
    failure = run.failure
    begun = run.started_at or run.created_at
    return [
        run.run_id,
        run.key or "",
        f"{run.workflow} v{run.version}",
        show_status("unreadable" if run.unreadable else run.status, ascii=out.ascii),
        failure.path if failure else "",
        run.unreadable or (failure.summary if failure else run.reason),
        moment(run.created_at),
        duration((run.ended_at - begun).total_seconds()) if run.ended_at else "",
    ]
