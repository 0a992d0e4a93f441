"""`stepwell watch`: what a run does, line by line while it does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.bodies import HISTORY, RUN, entry_body, run_body
from stepwell.cli.client import Client, ask
from stepwell.cli.commands.show import Seen, look
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.statuses import show_status
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import brief, clean, duration

if TYPE_CHECKING:
    from stepwell.engine.views import EntryView, RunView

_PAUSE_SECONDS = 0.25


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
            raise ResultTimeout(f"run {run_id} is {seen.run.status} after {timeout}", fix=f"stepwell why {run_id}")
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
