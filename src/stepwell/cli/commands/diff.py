"""`stepwell diff`: two runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.bodies import entry_body
from stepwell.cli.client import Client, ask
from stepwell.cli.commands.show import Seen, look
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.statuses import show_status
from stepwell.cli.texts import brief, clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.check.differences import Difference, Line
    from stepwell.engine.views import EntryView

_COLUMNS = (
    Column("PATH", is_fixed=True),
    Column("DIFFERENT"),
    Column("FIRST RUN"),
    Column("SECOND RUN"),
    Column("SLOWER BY", is_fixed=True, dropped=1),
)


@command("diff")
@click.argument("run_a")
@click.argument("run_b")
@click.option("--all", "show_all", is_flag=True, help="Also the places at which they are equal.")
def diff(settings: Settings, run_a: str, run_b: str, show_all: bool) -> None:
    """Compare two runs: structure, values and timing, and where they first part.

    \b
    Example:
      stepwell diff order-41 order-42
    """
    from stepwell.check.differences import compare

    a, b = ask(settings, lambda client: _read(client, run_a, run_b))
    found, out = compare((a.run, a.entries, a.waits), (b.run, b.entries, b.waits)), Output(settings)
    if out.format != "table":
        out.one("stepwell.diff/1", _body(found), run_ids=[found.left.run_id, found.right.run_id], words=list)
        return
    out.lines(_head(found, ascii=out.ascii))
    lines = [line for line in found.lines if show_all or line.is_only_one or line.changes]
    if lines:
        out.line("")
        out.table(_COLUMNS, [_row(line) for line in lines])


async def _read(client: Client, run_a: str, run_b: str) -> tuple[Seen, Seen]:
    return await look(client, run_a), await look(client, run_b)


def _head(found: Difference, *, ascii: bool) -> Iterator[str]:
    for label, run in (("first ", found.left), ("second", found.right)):
        name = f" {run.key}" if run.key else ""
        yield clean(
            f"{label}  {run.run_id}{name}  {run.workflow} v{run.version}  {show_status(run.status, ascii=ascii)}"
        )
    for name, one, other in found.facts:
        if name != "status":
            yield f"{name}:  {brief(one)}  |  {brief(other)}"
    if found.waits[0] != found.waits[1]:
        yield clean(f"waits:  {', '.join(found.waits[0]) or 'none'}  |  {', '.join(found.waits[1]) or 'none'}")
    if found.is_same:
        yield "They did the same."
    elif found.first is not None:
        yield clean(f"They first part at {found.first.path}: {_what(found.first)}")


def _what(line: Line) -> str:
    if line.left is None:
        return "only the second has it"
    return "only the first has it" if line.right is None else ", ".join(line.changes)


def _row(line: Line) -> list[str]:
    slower = f"{line.slower_by:+.2f} s" if not line.is_only_one else ""
    return [clean(line.path), _what(line) or "=", _side(line.left), _side(line.right), slower]


def _side(entry: EntryView | None) -> str:
    if entry is None:
        return "-"
    outcome = brief(entry.value) if entry.failure is None else clean(entry.failure.summary)
    tries = f" ({entry.attempts} attempts)" if entry.attempts > 1 else ""
    return f"{entry.kind} {outcome}{tries}"


def _body(found: Difference) -> dict[str, Any]:
    return {
        "first": found.left.run_id,
        "second": found.right.run_id,
        "same": found.is_same,
        "parts_at": None if found.first is None else found.first.path,
        "facts": {name: [one, other] for name, one, other in found.facts},
        "waits": [list(paths) for paths in found.waits],
        "places": [
            {
                "path": line.path,
                "changes": list(line.changes),
                "first": None if line.left is None else entry_body(line.left),
                "second": None if line.right is None else entry_body(line.right),
                "slower_by": line.slower_by,
            }
            for line in found.lines
        ],
    }
