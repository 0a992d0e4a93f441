"""`stepwell bulk`: acts on many runs at once: list, show, resume and stop them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.client import Client, ask
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings
from stepwell.cli.texts import clean, shell_word

if TYPE_CHECKING:
    from stepwell.engine.bulks import BulkItem, BulkView

_COLUMNS = (
    Column("BULK", is_fixed=True),
    Column("VERB", is_fixed=True),
    Column("STATE", is_fixed=True),
    Column("DONE", is_fixed=True),
    Column("REFUSED", is_fixed=True),
    Column("BY", dropped=1),
    Column("BEGAN", dropped=2),
    Column("WHERE"),
)


@click.group("bulk", cls=Group)
def bulk() -> None:
    """List acts on many runs, and stop or resume one.

    \b
    Example:
      stepwell bulk show bulk-12
    """


@bulk.command("ls")
@click.pass_obj
def listed(settings: Settings) -> None:
    """List the latest acts on many runs.

    \b
    Example:
      stepwell bulk ls
    """
    found = ask(settings, lambda client: client.engine.bulks.list())
    out, items = Output(settings), [_body(each) for each in found]
    if out.many("stepwell.bulk/1", "bulks", items, run_ids=[]):
        return
    if not found:
        out.note("No act on many runs yet. --where makes one: stepwell cancel --where FILTER")
        return
    rows = [
        [
            one["bulk"],
            one["verb"],
            one["state"],
            f"{one['done'] + one['before']:,} of {one['matched']:,}",
            str(one["refused"] or ""),
            one["by"],
            one["began_at"][:19],
            one["where"],
        ]
        for one in items
    ]
    out.table(_COLUMNS, rows)


@bulk.command("show")
@click.argument("name", metavar="BULK")
@click.pass_obj
def shown(settings: Settings, name: str) -> None:
    """Show one act, with the outcome for each run.

    \b
    Example:
      stepwell bulk show bulk-12 -o json
    """

    async def look(client: Client) -> tuple[BulkView, list[BulkItem]]:
        return await client.engine.bulks.get(name), await client.engine.bulks.items(name)

    found, items = ask(settings, look)
    out = Output(settings)

    def words() -> list[str]:
        dot = " - " if out.ascii else " · "
        facts = [found.name, f"{found.verb} by {found.by}", found.state, f"{len(items):,} of {found.matched:,} runs"]
        counts = {"before": found.before, "done": found.done, "refused": found.refused}
        facts += [f"{count:,} {outcome}" for outcome, count in counts.items() if count]
        lines = [dot.join(facts), *([f"where {found.where}"] if found.where else [])]
        lines += [f"  {item.run_id}  {item.outcome}  {item.status}  {item.why}".rstrip() for item in items]
        return [clean(line) if not line.startswith(" ") else "  " + clean(line.strip()) for line in lines]

    ids = [item.run_id for item in items]
    body = {**_body(found), "items": [asdict(item) for item in items]}
    out.one("stepwell.bulk/1", body, run_ids=ids, words=words)


@bulk.command("resume")
@click.argument("name", metavar="BULK")
@click.pass_obj
def resumed(settings: Settings, name: str) -> None:
    """Continue an act whose process died, if no worker does.

    \b
    Example:
      stepwell bulk resume bulk-12
    """
    from stepwell.cli.bulk import execute
    from stepwell.errors import InvalidMoveError

    found = ask(settings, lambda client: client.engine.bulks.get(name))
    if found.is_over:
        raise InvalidMoveError(
            f"{found.name} has ended", why=f"it is {found.state}", fix=f"stepwell bulk show {shell_word(name)}"
        )

    async def begun(_: Client) -> str:
        return found.name

    code = execute(settings, begun, found.verb, "be acted on", found.matched)
    click.get_current_context().exit(code)


@bulk.command("abort")
@click.argument("name", metavar="BULK")
@click.pass_obj
def aborted(settings: Settings, name: str) -> None:
    """Stop a running act, wherever it was started. Runs that it has acted on stay as they are.

    \b
    Example:
      stepwell bulk abort bulk-12
    """
    from stepwell.errors import InvalidMoveError

    if not ask(settings, lambda client: client.engine.bulks.abort(name)):
        raise InvalidMoveError(
            f"{name} has ended", why="only a running act can be stopped", fix=f"stepwell bulk show {shell_word(name)}"
        )
    line = f"{name} stops after its current chunk; runs that it has acted on stay as they are"
    Output(settings).one("stepwell.act/1", {"bulk": name, "changed": True}, run_ids=[], words=lambda: [clean(line)])


def _body(bulk: BulkView) -> dict[str, Any]:
    """For programs."""
    facts = {"bulk": bulk.name, **asdict(bulk)}
    del facts["name"]
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in facts.items()}
