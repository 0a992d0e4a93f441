"""Runs: list and show them, watch one, await its result, cancel it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bodies import HISTORY, RUN, entry_body, progress_bodies, run_body, wait_bodies
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.client import Client, ask
from stepwell.cli.commands.holds import hold_line
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.statuses import show_status
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import brief, clean, dump_json, duration, moment
from stepwell.cli.tree import render_tree
from stepwell.model.states import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.engine.views import EntryView, ProgressView, RunView, WaitView

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
_PAUSE_SECONDS = 0.25


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
        return page, await client.count_runs(wanted, limit=_COUNTED_MAX + 1)

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


class Seen(NamedTuple):
    """Everything about one run, from one consistent read."""

    run: RunView
    entries: list[EntryView]
    waits: list[WaitView]
    pending: list[str]  # names of signals that it has not asked for yet
    children: list[RunView]
    progress: list[ProgressView]


async def look(client: Client, target: str) -> Seen:
    """Read one run whole."""
    from stepwell.engine.views import entry_views, progress_views, run_view, wait_views

    detail = await client.engine.runs.detail(await get_run_id(client, target))
    fetch = client.engine.runs.fetch
    return Seen(
        run_view(detail.run, fetch=fetch),
        entry_views(detail, fetch=fetch),
        wait_views(detail),
        [signal.name for signal in detail.signals],
        [run_view(child) for child in detail.children],
        progress_views(detail, fetch),
    )


@command("show")
@click.argument("run", shell_complete=complete_run)
def show(settings: Settings, run: str) -> None:
    """Show what a run did and what it waits for, as a tree.

    \b
    Example:
      stepwell show order-42
    """
    seen = ask(settings, lambda client: look(client, run))
    out = Output(settings)
    body = {
        **run_body(seen.run),
        "entries": [entry_body(entry) for entry in seen.entries],
        "waits": wait_bodies(seen.waits),
        "pending_signals": seen.pending,
        "progress": progress_bodies(seen.progress),
        "children": [run_body(child) for child in seen.children],
    }
    out.one(RUN, body, run_ids=[seen.run.run_id], words=lambda: _words(seen, out))


def _words(seen: Seen, out: Output) -> Iterator[str]:
    from stepwell.engine.views import RUN_LINES

    yield from out.clipped(render_tree(seen.run, seen.entries, seen.waits, ascii=out.ascii))
    if seen.run.unreadable:
        yield clean(f"this run cannot be read: {seen.run.unreadable}")
    for entry in seen.entries:
        if entry.unreadable:
            yield clean(f"{entry.path} cannot be read: {entry.unreadable}")
    if seen.run.hold is not None:
        yield hold_line(seen.run.hold)
    for name in RUN_LINES:
        value = getattr(seen.run, name)
        if value is not None:
            yield clean(f"{name.replace('_', ' ')} {value}")
    for step in seen.progress:
        yield clean(f"step {step.path}  {step.words}" + (f"  turn {step.turns + 1}" if step.turns else ""))
    if seen.pending:
        yield clean(f"signals not asked for yet: {', '.join(seen.pending)}")
    for child in seen.children:
        yield clean(
            f"child {child.run_id}  {child.workflow} v{child.version}  "
            + ("unreadable: " + child.unreadable if child.unreadable else child.status)
        )


@command("watch")
@click.argument("run", shell_complete=complete_run)
@click.option("--timeout", metavar="TIME", help="Stop watching after this time (30s, 5m); the run goes on.")
def watch(settings: Settings, run: str, timeout: str | None) -> None:
    """Follow a run until it ends: a line for each thing recorded, and for each change of its status.

    Ctrl-C leaves the run alone. Ends with exit code 8 if --timeout has passed.

    \b
    Example:
      stepwell watch @last
    """
    out = Output(settings)
    if out.format == "json":
        out.format = "jsonl"  # lines, because whoever reads them does not wait for the last one
    try:
        ask(settings, lambda client: _follow(client, run, timeout, out))
    except KeyboardInterrupt:
        out.note(f"Stopped watching; the run goes on. Again: stepwell watch {run}")


async def _follow(client: Client, run: str, timeout: str | None, out: Output) -> None:
    import asyncio

    from stepwell.advice import Advice, Verb
    from stepwell.clock import span
    from stepwell.errors import ResultTimeout

    run_id = await get_run_id(client, run)
    limit = None if timeout is None else client.engine.now() + span(timeout, what="timeout")
    shown, status = 0, ""
    while True:
        seen = await look(client, run_id)
        fresh = [entry for entry in seen.entries if entry.seq > shown]
        for entry in sorted(fresh, key=lambda one: one.seq):
            _tell_entry(out, run_id, entry)
            shown = entry.seq
        now = _state(seen)
        if now != status:
            _tell_run(out, seen.run, now)
            status = now
        if seen.run.is_ended:
            return
        if limit is not None and client.engine.now() >= limit:
            raise ResultTimeout(f"run {run_id} is {seen.run.status} after {timeout}", fix=Advice(Verb.WHY, run_id))
        await asyncio.sleep(_PAUSE_SECONDS)


def _state(seen: Seen) -> str:
    """What changes a line: the status, what it waits for, and how far its long steps have come."""
    waits = ", ".join(f"{wait.kind} {'|'.join(wait.names)}".strip() + f" at {wait.path}" for wait in seen.waits)
    steps = ", ".join(f"{step.path} {step.words}" for step in seen.progress)
    return "  ".join(part for part in (seen.run.status, waits, steps) if part)


def _tell_entry(out: Output, run_id: str, entry: EntryView) -> None:
    mark = ("+" if out.ascii else "✓") if entry.status == "done" else ("x" if out.ascii else "✕")
    said = entry.failure.summary if entry.failure else "" if entry.value is None else brief(entry.value)
    line = clean(f"{entry.at:%H:%M:%S}    {mark} {entry.path}  {duration(entry.took)}  {said}").rstrip()
    out.one(HISTORY, {"run_id": run_id, **entry_body(entry)}, run_ids=[], words=lambda: [line])


def _tell_run(out: Output, run: RunView, state: str) -> None:
    details = state.removeprefix(run.status).strip()
    cause = run.failure.summary if run.failure else run.reason
    head = f"{run.run_id}  {run.workflow} v{run.version}  {show_status(run.status, ascii=out.ascii)}"
    line = clean("  ".join(part for part in (head, details, cause) if part))
    out.one(RUN, run_body(run), run_ids=[run.run_id] if run.is_ended else [], words=lambda: [line])


@command("result")
@click.argument("run", shell_complete=complete_run)
@click.option("--timeout", metavar="TIME", help="Stop waiting after this time (30s, 5m); the run goes on.")
def result(settings: Settings, run: str, timeout: str | None) -> None:
    """Wait for the end of a run and print its result as JSON.

    Ends with exit code 7 if the run did not complete, and 8 if it had not ended in time.

    \b
    Example:
      stepwell result order-42 --timeout 30s
    """

    async def wait(client: Client) -> tuple[str, Any]:
        run_id = await get_run_id(client, run)
        return run_id, await client.engine.result(run_id, timeout=timeout)

    run_id, value = ask(settings, wait)
    print_result(Output(settings), run_id, value)


def print_result(out: Output, run_id: str, value: Any) -> None:
    """Print a result: as JSON by itself for people, inside of an object for programs."""
    body = {"run_id": run_id, "status": "completed", "result": value}
    out.one("stepwell.result/1", body, run_ids=[run_id], words=lambda: [dump_json(value)])


@command("cancel")
@choosing
@click.option("--undo/--now", "undo", default=True, help="Undo its completed steps first (default), or end it at once.")
@click.option("--reason", default="", help="Kept with the run.")
def cancel(settings: Settings, undo: bool, reason: str, **which: Any) -> int:
    """Cancel a run and the children that it waits for.

    \b
    Example:
      stepwell cancel order-42 --reason "the customer changed her mind"
      stepwell cancel --where 'workflow:import* status:waiting since:1h' --dry-run
    """
    act = Act(
        "cancel",
        {"reason": reason, "compensate": undo},
        done="Cancelled",
        impossible="be cancelled",
        needs="a run that has not ended and is not being undone",
    )
    return act_on(settings, RunSelection(**which), act)
