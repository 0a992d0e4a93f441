"""Runs: list and show them, follow one, wait for its result, cancel it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bodies import (
    HISTORY,
    RUN,
    act_bodies,
    entry_body,
    progress_bodies,
    run_body,
    undo_bodies,
    wait_bodies,
)
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.client import Client, ask
from stepwell.cli.commands.holds import hold_line
from stepwell.cli.operators import os_user
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.short_ids import short_ids
from stepwell.cli.statuses import show_status
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import clean, clean_lines, dump_json, duration, moment, shell_word, shorten, wrap
from stepwell.cli.tree import render_tree
from stepwell.cli.values import shown_value
from stepwell.engine.reasons import Surroundings, failures_of, look_around, origin_of, reason_of, undone_path
from stepwell.model.states import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwell.engine.saved_views import SavedView
    from stepwell.engine.undos import Undo
    from stepwell.engine.views import ActView, EntryView, ProgressView, RunView, WaitView

_COLUMNS = (
    Column("KEY"),
    Column("RUN", is_fixed=True),
    Column("WORKFLOW", dropped=1),
    Column("STATUS", is_fixed=True),
    Column("WHERE"),
    Column("WHY", is_note=True),
    Column("CREATED (UTC)", is_fixed=True, dropped=3),
    Column("TOOK", is_fixed=True, dropped=4),
    Column("TITLE", dropped=2),
)
_MORE = (
    *(Column("STARTED (UTC)"), Column("ENDED (UTC)"), Column("TAGS"), Column("PARENT", is_fixed=True)),
    *(Column("STARTED BY"), Column("ATTRIBUTES")),
)
# By their names in saved views.
_NAMED = {column.title.partition(" (")[0].lower().replace(" ", "_"): column for column in (*_COLUMNS, *_MORE)}
_ATTRIBUTE = "attr."
_COUNTED_MAX = 1_000  # matches, for the line below the table
_EXPLAINED_MAX = 50  # waiting runs whose waits are read for one page
_CHILDREN_MAX = 3  # named in one line
_PAUSE_SECONDS = 0.25
_VALUE_MAX = 60


@command("ls")
@click.option("--where", "-q", default="", metavar="FILTER", help="Such as 'status:failed sort:-took'.")
@click.option("--view", metavar="NAME", help="The filter, columns and order of a saved view; see `stepwell view`.")
@click.option("--status", "-s", multiple=True, type=click.Choice([status.value for status in RunStatus]))
@click.option("--workflow", "-w", help="Only runs of this workflow.")
@click.option("--limit", "-n", default=20, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--before", metavar="RUN", help="Only runs that come after this one in the list: the next page.")
@click.option("--all", "-a", "show_all", is_flag=True, help="Also runs of stepwell itself, such as stepwell.bulk.")
def ls(
    settings: Settings,
    where: str,
    view: str | None,
    status: tuple[str, ...],
    workflow: str | None,
    limit: int,
    before: str | None,
    show_all: bool,
) -> None:
    """List runs, newest first, with where each one is and why.

    A filter has the fields status, workflow, version, key, id, parent, at, error, waiting, tag, attr.NAME, title,
    started_by, input.NAME, since, until, took and sort. Prefix a term with - to exclude it. A plain word is searched in
    ids, keys, workflows, titles and errors.

    On a terminal, RUN is the shortest unique prefix of the id; every command takes it. The formats wide, json and ids
    print whole ids.

    \b
    Example:
      stepwell ls --where 'status:failed since:24h workflow:order* -tag:test sort:-started'
      stepwell ls --status failed --workflow checkout --limit 5
      stepwell ls --view slow
    """
    named = None if view is None else ask(settings, lambda client: _read_view(client, view))
    wanted = _filter(where if named is None else named.narrowed(where), status, workflow)
    out = Output(settings)
    found = ask(settings, lambda client: _read_page(client, wanted, limit, before, show_all, out))
    runs, following = found.runs, found.following
    if out.many(RUN, "runs", [run_body(run) for run in runs], run_ids=[run.run_id for run in runs], next=following):
        return
    if not runs:
        out.note("No runs match." if wanted or before else "No runs yet. Start one: stepwell start WORKFLOW")
        return
    usual = list(_NAMED)[: None if out.is_wide else len(_COLUMNS)]
    shown = usual if named is None or not named.columns else named.columns
    cells = [_cells(run, found, out) for run in runs]
    columns = [_NAMED.get(name) or Column(name.removeprefix(_ATTRIBUTE).upper()) for name in shown]
    out.table(columns, [[row.get(name, "") for name in shown] for row in cells])
    if following is not None or found.total > len(runs):
        dot = " - " if out.ascii else " · "
        count = f"more than {_COUNTED_MAX:,}" if found.total > _COUNTED_MAX else f"{found.total:,}"
        said = f"{len(runs):,} of {count} match"
        out.note(said if following is None else f"{said}{dot}next: --before {shell_word(following)}")


async def _read_view(client: Client, name: str) -> SavedView:
    """A view of the person who asks, or a shared one."""
    return await client.engine.saved_views.get(name, owner=os_user())


class Page(NamedTuple):
    """One page of a listing, with what its table shows besides the runs."""

    runs: list[RunView]
    following: str | None  # the run after which the next page begins
    total: int  # matches, as far as they were counted
    short: dict[str, str]  # prefixes of ids
    around: Surroundings | None


async def _read_page(client: Client, wanted: str, limit: int, before: str | None, show_all: bool, out: Output) -> Page:
    cursor = None if before is None else await get_run_id(client, before)
    found = await client.list_runs(wanted, limit=limit + 1, before=cursor, include_system=show_all)
    runs, following = found[:limit], found[limit - 1].run_id if len(found) > limit else None
    if not out.is_for_people:
        return Page(runs, following, len(found), {}, None)
    is_whole = cursor is None and len(found) <= limit
    total = len(found) if is_whole else await client.count_runs(wanted, limit=_COUNTED_MAX + 1, include_system=show_all)
    is_short = out.is_terminal and not out.is_wide
    short = await short_ids(client.views, [run.run_id for run in runs]) if is_short else {}
    return Page(runs, following, total, short, await look_around(client.store, runs))


def _filter(where: str, statuses: tuple[str, ...], workflow: str | None) -> str:
    """All options together, in the filter language."""
    terms = [where.strip()]
    if statuses:
        terms.append(f"status:{','.join(statuses)}")
    if workflow is not None:
        quoted = workflow.replace("\\", "\\\\").replace('"', '\\"')
        terms.append(f'workflow:"{quoted}"')
    return " ".join(term for term in terms if term)


def _cells(run: RunView, page: Page, out: Output) -> dict[str, str]:
    """Everything that a table can show of a run, by the names of columns."""
    attributes = {f"{_ATTRIBUTE}{name}": value for name, value in _attributes_of(run).items()}
    return dict(zip(_NAMED, [*_row(run, page, out), *_more(run)], strict=True)) | attributes


def _more(run: RunView) -> list[str]:
    times = [moment(run.started_at), moment(run.ended_at)]
    return [*times, _tags(run), run.parent or "", run.started_by or "", _attributes(run)]


def _tags(run: RunView) -> str:
    return ", ".join(f"{name}={value}" if value else name for name, value in run.tags.items())


def _attributes(run: RunView) -> str:
    return ", ".join(f"{name}={value}" for name, value in _attributes_of(run).items())


def _attributes_of(run: RunView) -> dict[str, str]:
    from stepwell.model.attributes import show_value

    return {name: show_value(value) for name, value in run.attributes.items()}


def _row(run: RunView, page: Page, out: Output) -> list[str]:
    assert page.around is not None
    begun = run.started_at or run.created_at
    reason = reason_of(run, page.around)
    return [
        run.key or "-",
        page.short.get(run.run_id, run.run_id),
        f"{run.workflow} v{run.version}",
        show_status("unreadable" if run.unreadable else run.status, ascii=out.ascii),
        reason.where,
        reason.why,
        moment(run.created_at),
        duration((run.ended_at - begun).total_seconds()) if run.ended_at else "",
        run.title or "",
    ]


class Seen(NamedTuple):
    """Everything about one run, from one consistent read."""

    run: RunView
    entries: Sequence[EntryView] = ()
    waits: Sequence[WaitView] = ()
    pending: Sequence[str] = ()  # names of signals that it has not received yet
    children: Sequence[RunView] = ()
    progress: Sequence[ProgressView] = ()
    undos: Sequence[Undo] = ()


async def look(client: Client, target: str) -> Seen:
    """Read one run with its history."""
    from stepwell.engine.undos import undo_stack
    from stepwell.engine.views import entry_views, progress_views, run_view, wait_views

    detail = client.readable(await client.engine.runs.detail(await get_run_id(client, target)))
    fetch = client.engine.runs.fetch
    run, entries = run_view(detail.run, fetch=fetch), entry_views(detail, fetch=fetch)
    return Seen(
        run,
        entries,
        wait_views(detail),
        [signal.name for signal in detail.signals],
        [run_view(child) for child in detail.children],
        progress_views(detail, fetch),
        undo_stack(run, detail.run.undo_floor, detail.history.names, detail.history.entries),
    )


@command("show")
@click.argument("run", shell_complete=complete_run)
def show(settings: Settings, run: str) -> None:
    """Show one run: what it did, what it waits for, what is undone, why it failed, and who repaired it.

    \b
    Example:
      stepwell show order-42
    """

    async def read(client: Client) -> tuple[Seen, list[ActView]]:
        from stepwell.engine.views import act_view
        from stepwell.ids import RunId

        seen = await look(client, run)
        return seen, [act_view(act) for act in await client.views.list_audit(RunId(seen.run.run_id))]

    seen, acts = ask(settings, read)
    out = Output(settings)
    body = {
        **run_body(seen.run),
        "entries": [entry_body(entry) for entry in seen.entries],
        "waits": wait_bodies(seen.waits),
        "pending_signals": list(seen.pending),
        "progress": progress_bodies(seen.progress),
        "children": [run_body(child) for child in seen.children],
        "undo_stack": undo_bodies(seen.undos),
        "acts": act_bodies(acts),
    }
    out.one(RUN, body, run_ids=[seen.run.run_id], words=lambda: _words(seen, acts, out))


def _words(seen: Seen, acts: Sequence[ActView], out: Output) -> Iterator[str]:
    run = seen.run
    tree = render_tree(run, seen.entries, seen.waits, undos=seen.undos, ascii=out.ascii, width=out.width)
    yield from tree
    yield from _remarks(seen)
    if acts:
        yield "operator actions"
        for act in acts:
            yield from wrap(_act_line(act, out), out.width, first="  ", rest=" " * 6)
    if seen.children:
        yield "children"
    for child in seen.children:
        state = f"unreadable: {child.unreadable}" if child.unreadable else show_status(child.status, ascii=out.ascii)
        yield "  " + clean(f"{child.run_id}  {child.key or '-'}  {child.workflow} v{child.version}  {state}")
    for title, trace in _tracebacks(run):
        yield clean(title)
        yield from (f"  {line}".rstrip() for line in clean_lines(trace.rstrip()))


def _remarks(seen: Seen) -> Iterator[str]:
    """Facts that have no place in the tree, a line for each."""
    from stepwell.engine.views import RUN_LINES

    if seen.run.unreadable:
        yield clean(f"this run cannot be read: {seen.run.unreadable}")
    for entry in seen.entries:
        if entry.unreadable:
            yield clean(f"{entry.path} cannot be read: {entry.unreadable}")
    if seen.run.hold is not None:
        yield hold_line(seen.run.hold)
    if seen.run.title is not None:
        yield clean(f"title {seen.run.title}")
    if seen.run.attributes:
        yield clean(f"attributes {_attributes(seen.run)}")
    if seen.run.tags:
        yield clean(f"tags {_tags(seen.run)}")
    if seen.run.attempt > 1:
        yield f"attempt {seen.run.attempt}"
    for name in RUN_LINES:
        value = getattr(seen.run, name)
        if value is not None:
            yield clean(f"{name.replace('_', ' ')} {value}")
    for step in seen.progress:
        yield clean(f"step {step.path}  {step.words}" + (f"  turn {step.turns + 1}" if step.turns else ""))
    if seen.pending:
        yield clean(f"signals not received yet: {', '.join(seen.pending)}")


def _act_line(act: ActView, out: Output) -> str:
    arrow = "->" if out.ascii else "→"
    who, why = f" by {act.by}" if act.by else "", f": {act.reason}" if act.reason else ""
    change = f" ({act.before} {arrow} {act.after})" if act.before != act.after else ""
    return clean(f"{moment(act.at)} UTC  {act.verb.replace('_', ' ')}{who}{why}{change}")


def _tracebacks(run: RunView) -> Iterator[tuple[str, str]]:
    """The tracebacks of the first failure and of the undo that failed, each with a title."""
    own, stopped = failures_of(run)
    what = "failed undo" if run.status == RunStatus.COMPENSATION_FAILED else "stop"
    for failure, title in ((own, "failure"), (stopped, what)):
        origin = None if failure is None else origin_of(failure)
        if origin is not None and origin.failure.trace:
            at = f" at {undone_path(origin.path)}" if origin.path else ""
            yield f"traceback of the {title}{at}", origin.failure.trace


@command("state")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("name", default="")
@click.option("--wait", metavar="10s", help="Wait this long until the run publishes it.")
def state(settings: Settings, run: str, name: str, wait: str | None) -> None:
    """Print what a run has published, under NAME or without a name.

    \b
    Example:
      stepwell state order-42 quote --wait 10s
    """

    async def read(client: Client) -> tuple[str, Any]:
        run_id = await get_run_id(client, run)
        return run_id, await client.engine.state(run_id, name, wait=wait)

    run_id, value = ask(settings, read)
    body = {"run_id": run_id, "name": name, "value": value}
    Output(settings).one("stepwell.state/1", body, run_ids=[run_id], words=lambda: [clean(dump_json(value))])


@command("watch")
@click.argument("run", shell_complete=complete_run)
@click.option("--timeout", metavar="TIME", help="Stop watching after this time (30s, 5m); the run continues.")
def watch(settings: Settings, run: str, timeout: str | None) -> None:
    """Follow a run until it ends: a line for each history entry and each change of its status.

    Ctrl-C stops watching; the run continues. Ends with exit code 8 after --timeout.

    \b
    Example:
      stepwell watch @last
    """
    out = Output(settings)
    if out.format == "json":
        out.format = "jsonl"  # lines, so that a reader need not wait for the last one
    try:
        ask(settings, lambda client: _follow(client, run, timeout, out))
    except KeyboardInterrupt:
        out.note(f"Stopped watching; the run continues. Again: stepwell watch {shell_word(run)}")


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
    """What makes a new line: the status, the waits, and the progress of long steps."""
    waits = ", ".join(f"{wait.kind} {'|'.join(wait.names)}".strip() + f" at {wait.path}" for wait in seen.waits)
    steps = ", ".join(f"{step.path} {step.words}" for step in seen.progress)
    return "  ".join(part for part in (seen.run.status, waits, steps) if part)


def _tell_entry(out: Output, run_id: str, entry: EntryView) -> None:
    mark = ("+" if out.ascii else "✓") if entry.status == "done" else ("x" if out.ascii else "✕")
    said = entry.failure.summary if entry.failure else shorten(shown_value(entry), _VALUE_MAX)
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
@click.option("--timeout", metavar="TIME", help="Stop waiting after this time (30s, 5m); the run continues.")
def result(settings: Settings, run: str, timeout: str | None) -> None:
    """Wait for the end of a run and print its result as JSON.

    Ends with exit code 7 if the run did not complete, and with 8 after --timeout.

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
    """Print a result: as bare JSON for people, inside an object for programs."""
    body = {"run_id": run_id, "status": "completed", "result": value}
    out.one("stepwell.result/1", body, run_ids=[run_id], words=lambda: [dump_json(value)])


@command("cancel")
@choosing
@click.option("--undo/--now", "undo", default=True, help="Undo its completed steps first (default), or end it at once.")
@click.option("--reason", default="", help="Why, shown with the run.")
def cancel(settings: Settings, undo: bool, reason: str, **which: Any) -> int:
    """Cancel a run and the children that it waits for.

    \b
    Example:
      stepwell cancel order-42 --reason "ordered twice"
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
