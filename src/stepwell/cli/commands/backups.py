"""`stepwell backup` and `stepwell restore`: a copy of a database, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.stores.base.backups import Fenced, Restored

_MEBIBYTE = 1_048_576


@command("backup")
@click.argument("source", metavar="DATABASE")
@click.argument("target", metavar="COPY", type=click.Path(path_type=Path, dir_okay=False))
def backup(settings: Settings, source: str, target: Path) -> None:
    """Copy DATABASE, a SQLite file or its URL, into the new file COPY. Workers go on meanwhile.

    The copy is the database as it was at one moment, with tables of your own that are in the same file. It is examined
    and written to disk before it gets its name; nothing is overwritten, and nobody but its owner may read it.

    \b
    Example:
      stepwell backup shop.db /backups/shop-monday.db
    """
    from stepwell import addresses
    from stepwell.cli.client import check_exists

    url = _url(source)
    check_exists(url)
    done = addresses.back_up(url, target)

    def words() -> Iterator[str]:
        size = f"{done.runs} runs, {done.size / _MEBIBYTE:.1f} MiB"
        yield clean(f"Copied {done.source} to {done.target}: {size}, examined.")
        yield clean(f"The way back: stepwell restore {done.target} {done.source}")

    Output(settings).one("stepwell.backup/1", done._asdict(), run_ids=[], words=words)


@command("restore")
@click.argument("copy", metavar="[COPY]", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.argument("target", metavar="[DATABASE]", required=False)
@click.option("--force", is_flag=True, help="Also if DATABASE is there; it is kept under another name.")
@click.option("--fence", metavar="URL", help="Only fence a database that was put back by other means.")
def restore(settings: Settings, copy: Path | None, target: str | None, force: bool, fence: str | None) -> None:
    """Put COPY in the place of DATABASE, a SQLite file or its URL. Stop everything that uses it first.

    A database that was put back is fenced: epochs and numbers go on far above those of the copy, and all runs are taken
    from the workers that it names. So nothing that was seen outside before is used again, and a worker that still has
    the lost database can write nothing to this one. `--fence URL` does only that, after `pg_restore` for example.

    \b
    Example:
      stepwell restore /backups/shop-monday.db shop.db
      stepwell restore --fence postgresql://ann@db.example/shop
    """
    from stepwell import addresses
    from stepwell.cli.client import check_exists
    from stepwell.environment import system_environment

    environment, out = system_environment(), Output(settings)
    try:
        if fence is not None:
            if copy is not None:
                raise click.UsageError("--fence stands alone: the database is there already.")
            check_exists(_url(fence))
            fenced = addresses.fence(_url(fence), environment)
            out.one("stepwell.fence/1", fenced._asdict(), run_ids=[], words=lambda: _fence_words(fenced))
            return
        if copy is None or target is None:
            raise click.UsageError("Name the copy and the database: stepwell restore COPY DATABASE")
        done = addresses.restore(copy, _url(target), environment, is_forced=force)
        body = {**done._asdict(), "fenced": done.fenced._asdict()}
        out.one("stepwell.restore/1", body, run_ids=[], words=lambda: _restore_words(done))
    finally:
        environment.executor.close()


def _restore_words(done: Restored) -> Iterator[str]:
    yield clean(f"Put {done.copy} in the place of {done.target}.")
    if done.kept:
        yield clean(f"What was there is kept as {done.kept}")
    yield from _fence_words(done.fenced)


def _fence_words(fenced: Fenced) -> Iterator[str]:
    done = f"{fenced.runs} runs have new epochs, and {fenced.workers} workers lost their lease"
    yield clean(f"Fenced {fenced.where}: {done}.")


def _url(database: str) -> str:
    """A URL, also of a file that was named by its path."""
    if ":" in database.partition("/")[0]:
        return database
    from urllib.parse import quote

    return f"sqlite:///{quote(database)}"
