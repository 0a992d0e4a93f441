"""`stepwell bulk`: what was done to many runs at once, and how to stop it."""

from __future__ import annotations

import click

from stepwell.cli.client import ask
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings
from stepwell.cli.texts import clean

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
    """Look at acts on many runs, and stop one.

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
    from stepwell.cli.records import list_bulks

    found = ask(settings, lambda client: list_bulks(client.engine))
    out, items = Output(settings), [each.body() for each in found]
    if out.many("stepwell.bulk/1", "bulks", items, run_ids=[]):
        return
    if not found:
        out.note("No act on many runs is on record. One is made by --where: stepwell cancel --where FILTER")
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
    """Show one act, and what became of each run.

    \b
    Example:
      stepwell bulk show bulk-12 -o json
    """
    from stepwell.cli.records import get_bulk

    found, items = ask(settings, lambda client: get_bulk(client.engine, name))
    body = found.body()

    def words() -> list[str]:
        dot = " - " if out.ascii else " · "
        facts = [found.name, f"{found.verb} by {found.who}", found.state, f"{len(items):,} of {found.total:,} runs"]
        facts += [f"{count:,} {outcome}" for outcome, count in sorted(found.counts.items())]
        lines = [dot.join(facts), *([f"where {found.chosen}"] if found.chosen else [])]
        lines += [f"  {item.run_id}  {item.outcome}  {item.status}" for item in items]
        return [clean(line) if not line.startswith(" ") else "  " + clean(line.strip()) for line in lines]

    out = Output(settings)
    ids = [item.run_id for item in items]
    out.one("stepwell.bulk/1", {**body, "items": [item._asdict() for item in items]}, run_ids=ids, words=words)


@bulk.command("abort")
@click.argument("name", metavar="BULK")
@click.pass_obj
def aborted(settings: Settings, name: str) -> None:
    """Stop an act that is going on, wherever it was begun. What was done stays done.

    \b
    Example:
      stepwell bulk abort bulk-12
    """
    from stepwell.cli.records import abort
    from stepwell.errors import InvalidMoveError

    if not ask(settings, lambda client: abort(client.engine, name)):
        raise InvalidMoveError(
            f"{name} is over", why="what is over cannot be stopped", fix=f"stepwell bulk show {name}"
        )
    line = f"{name} stops soon; what was done stays done"
    Output(settings).one("stepwell.act/1", {"bulk": name, "changed": True}, run_ids=[], words=lambda: [clean(line)])
