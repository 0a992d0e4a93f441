"""`stepwell footprint` and `stepwell vacuum`: where the bytes of a database are, and giving back what is not used."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from stepwell.cli.client import ask, check_exists
from stepwell.cli.commands.retention import OUTCOMES_HELP, read_retention
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.engine.footprint import Footprint, WorkflowFootprint
    from stepwell.stores.base.upkeep import Vacuumed

_TABLES = (
    Column("TABLE", is_fixed=True),
    Column("ROWS", is_fixed=True),
    Column("DATA", is_fixed=True),
    Column("INDEXES", is_fixed=True),
)
_WORKFLOWS = (
    Column("WORKFLOW", is_fixed=True),
    Column("RUNS", is_fixed=True),
    Column("TAKES", is_fixed=True),
    Column("LAST DAY", is_fixed=True),
    Column("PRUNABLE", is_fixed=True),
)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1_024


@command("footprint")
@click.option("--older", metavar="TIME", help="What pruning of older runs would free, such as 30d. Default: the App's.")
@click.option("--keep", "keeps", multiple=True, metavar="OUTCOME=TIME", help=OUTCOMES_HELP)
@click.option("--workflow", "-w", "workflows", multiple=True, help="Only prune this workflow. May be repeated.")
@click.option("--all", "-a", "is_all", is_flag=True, help="Also list tables without rows.")
def footprint(
    settings: Settings, older: str | None, keeps: tuple[str, ...], workflows: tuple[str, ...], is_all: bool
) -> None:
    """Show where the bytes of a database are: by table and by workflow, how fast it grows, and what pruning would free.

    What a workflow takes is worked out from the weight of up to 2,000 runs. Nothing is changed.

    \b
    Example:
      stepwell footprint --older 30d
    """
    retention = read_retention(older, keeps, has_workflows=bool(workflows))
    found = ask(settings, lambda client: client.engine.retention.footprint(retention, workflows=workflows or None))
    out = Output(settings)
    if out.format != "table" or settings.fields:
        out.one("stepwell.footprint/1", asdict(found), run_ids=[], words=lambda: iter(()))
        return
    out.lines(_words(found))
    out.table(_WORKFLOWS, [_row(one) for one in found.workflows])
    shown = [one for one in found.tables if is_all or one.rows]
    out.table(
        _TABLES, [(one.name, f"{one.rows:,}", size_words(one.bytes), size_words(one.index_bytes)) for one in shown]
    )


def _row(one: WorkflowFootprint) -> tuple[str, ...]:
    prunable = ""
    if one.prunable_runs is not None:
        prunable = f"{one.prunable_runs:,} runs, {size_words(one.prunable_bytes or 0)}"
    daily = f"{one.daily_runs:,} runs, {size_words(one.daily_bytes)}"
    return one.workflow, f"{one.runs:,}", size_words(one.bytes), daily, prunable


def _words(found: Footprint) -> Iterator[str]:
    reusable = found.reusable_bytes
    free = "" if reusable is None else f", of which {size_words(reusable)} are free for new rows"
    log = f"; the log has {size_words(found.log_bytes)}" if found.log_bytes else ""
    yield f"{size_words(found.bytes)}{free}{log}. In the last day it grew by about {size_words(found.daily_bytes)}."
    if found.prunable_bytes is None:
        yield "Runs are kept for ever: nothing says how long. --older 30d shows what pruning would free."
    else:
        yield f"Pruning would free about {size_words(found.prunable_bytes)} for new rows."
    yield clean(f"{found.note[0].upper()}{found.note[1:]}.")


def size_words(size: int) -> str:
    """A number of bytes, short: 1.4 MiB."""
    value = float(size)
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= _STEP
    raise AssertionError  # the last unit takes all


@command("vacuum")
def vacuum(settings: Settings) -> None:
    """Give back the space of deleted rows.

    A SQLite file is rewritten and becomes smaller: stop its workers first. On PostgreSQL every table is vacuumed while
    work goes on, and functions of releases that no process uses are dropped. Neither is needed in ordinary operation:
    space is used again without it.

    \b
    Example:
      stepwell vacuum --db sqlite:///shop.db
    """
    from stepwell import addresses
    from stepwell.environment import system_environment

    check_exists(settings.db)
    environment = system_environment()
    try:
        done = addresses.upkeep(settings.db, environment).vacuum()
    finally:
        environment.executor.close()
    Output(settings).one("stepwell.vacuum/1", done._asdict(), run_ids=[], words=lambda: _vacuum_words(done))


def _vacuum_words(done: Vacuumed) -> Iterator[str]:
    yield clean(f"Vacuumed {done.where}: {size_words(done.before)} before, {size_words(done.after)} now.")
    for name in done.dropped:
        yield clean(f"Dropped {name}: the functions of a release that no process uses.")
