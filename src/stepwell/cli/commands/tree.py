"""`stepwell tree`: a run and the runs below it, as trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stepwell.cli.bodies import entry_body, run_body, wait_bodies
from stepwell.cli.client import Client, ask
from stepwell.cli.commands.show import Seen, look
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run
from stepwell.cli.tree import render_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHILDREN_MAX = 50


class Family(NamedTuple):
    """A run with the families of its children."""

    seen: Seen
    children: list[Family]


@command("tree")
@click.argument("run", shell_complete=complete_run)
@click.option("--depth", type=click.IntRange(0, 20), default=3, show_default=True, help="Generations of children.")
def tree(settings: Settings, run: str, depth: int) -> None:
    """Show what a run and its children did, as trees.

    \b
    Example:
      stepwell tree order-42 --depth 1
    """
    family = ask(settings, lambda client: _gather(client, run, depth))
    out = Output(settings)
    out.one("stepwell.tree/1", _body(family), run_ids=[*_ids(family)], words=lambda: _words(family, out, ""))


async def _gather(client: Client, run: str, depth: int) -> Family:
    seen = await look(client, run)
    children: list[Family] = []
    for child in seen.children[:_CHILDREN_MAX] if depth else ():
        is_known = not child.unreadable
        children.append(
            await _gather(client, child.run_id, depth - 1) if is_known else Family(Seen(child, [], [], [], [], []), [])
        )
    return Family(seen, children)


def _body(family: Family) -> dict[str, Any]:
    seen = family.seen
    return {
        **run_body(seen.run),
        "entries": [entry_body(entry) for entry in seen.entries],
        "waits": wait_bodies(seen.waits),
        "children": [_body(child) for child in family.children],
        "children_count": len(seen.children),
    }


def _ids(family: Family) -> Iterator[str]:
    yield family.seen.run.run_id
    for child in family.children:
        yield from _ids(child)


def _words(family: Family, out: Output, lead: str) -> Iterator[str]:
    seen = family.seen
    for line in out.clipped(render_tree(seen.run, seen.entries, seen.waits, ascii=out.ascii)):
        yield lead + line
    for child in family.children:
        yield from _words(child, out, lead + "    ")
    if len(seen.children) > len(family.children):
        more = len(seen.children) - len(family.children)
        yield f"{lead}    and {more} more below: stepwell tree {seen.run.run_id} --depth 20"
