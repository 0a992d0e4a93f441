"""`stepwell show`: one run as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from stepwell.cli.bodies import RUN, entry_body, progress_bodies, run_body, wait_bodies
from stepwell.cli.client import Client, ask
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import clean
from stepwell.cli.tree import render_tree
from stepwell.cli.workflow_holds import hold_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.engine.views import EntryView, ProgressView, RunView, WaitView


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
    yield from out.clipped(render_tree(seen.run, seen.entries, seen.waits, ascii=out.ascii))
    if seen.run.unreadable:
        yield clean(f"this run cannot be read: {seen.run.unreadable}")
    for entry in seen.entries:
        if entry.unreadable:
            yield clean(f"{entry.path} cannot be read: {entry.unreadable}")
    if seen.run.hold is not None:
        yield hold_line(seen.run.hold)
    if seen.run.forked_from is not None:
        yield clean(f"forked from {seen.run.forked_from}")
    for step in seen.progress:
        yield clean(f"step {step.path}  {step.words}" + (f"  turn {step.turns + 1}" if step.turns else ""))
    if seen.pending:
        yield clean(f"signals not asked for yet: {', '.join(seen.pending)}")
    for child in seen.children:
        yield clean(
            f"child {child.run_id}  {child.workflow} v{child.version}  "
            + ("unreadable: " + child.unreadable if child.unreadable else child.status)
        )
