"""`stepwell migrate`: prepare a database for this release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.stores.base.migrations import Migrated


@command("migrate")
@click.option("--plan", is_flag=True, help="Only print what would change.")
def migrate(settings: Settings, plan: bool) -> None:
    """Create or migrate the tables of a database, and install the functions of this release.

    Workers of the previous release may keep running. The migration is applied as a whole or not at all, and running it
    again changes nothing. Functions of releases that no process uses any more are dropped. A SQLite file is also
    migrated by every command that writes to it.

    \b
    Example:
      stepwell migrate --db postgresql://migrator@db.example/shop
    """
    from stepwell import addresses

    done = addresses.migrate(settings.db, is_plan=plan)
    body = {
        "db": done.where,
        "before": done.before,
        "after": done.after,
        "functions": done.functions,
        "dropped": list(done.dropped),
        "is_done": done.is_change and not plan,
    }
    out = Output(settings)
    out.one("stepwell.migration/1", body, run_ids=[], words=lambda: _words(done, is_plan=plan, ascii=out.ascii))


def _words(done: Migrated, *, is_plan: bool, ascii: bool) -> Iterator[str]:
    if not done.is_change:
        yield clean(f"Nothing to do: {done.where} has schema {done.after}, which this release needs.")
        return
    yield clean(f"{'Would make' if is_plan else 'Made'} {done.where} ready.")
    if done.before != done.after:
        arrow = "->" if ascii else "→"
        before = f"{done.before} {arrow} " if done.before else "created: "
        yield f"  schema     {before}{done.after}"
    if done.functions:
        yield clean(f"  functions  {done.functions}")
    for name in done.dropped:
        yield clean(f"  dropped    {name}: no process uses that release")
    if is_plan:
        yield "  next       the same without --plan"
