"""`stepwell backup` and `stepwell restore`: copy a database, and restore it from a copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean, shell_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.stores.base.backups import Fenced, Restored

_MEBIBYTE = 1_048_576


@command("backup")
@click.argument("source", metavar="DATABASE")
@click.argument("target", metavar="COPY", type=click.Path(path_type=Path, dir_okay=False))
def backup(settings: Settings, source: str, target: Path) -> None:
    """Copy DATABASE, a SQLite file or its URL, to the new file COPY. Workers may keep running.

    The copy has the state of one moment, and includes your own tables in the same file. It is checked and written to
    disk before it gets its name. It never overwrites a file, and only its owner can read it.

    \b
    Example:
      stepwell backup shop.db /backups/shop-monday.db
    """
    from stepwell import addresses
    from stepwell.cli.client import check_exists

    url = _url(source)
    check_exists(url)
    done = addresses.back_up(url, target)
    _note(url, str(target), done.size)

    def words() -> Iterator[str]:
        size = f"{done.runs} runs, {done.size / _MEBIBYTE:.1f} MiB"
        yield clean(f"Copied {done.source} to {done.target}: {size}, checked.")
        yield f"To restore it: stepwell restore {shell_word(str(done.target))} {shell_word(str(done.source))}"

    Output(settings).one("stepwell.backup/1", done._asdict(), run_ids=[], words=words)


def _note(url: str, target: str, size: int) -> None:
    """Tell the database that it was copied, so that doctor knows the age of the copy. The copy is good without it."""
    from stepwell.cli.client import ask
    from stepwell.errors import StepwellError

    try:
        ask(Settings(url, app=""), lambda client: client.engine.retention.note_backup(target, size))
    except StepwellError as error:
        click.echo(clean(f"The copy could not be noted in the database: {error.title}"), err=True)


@command("restore")
@click.argument("copy", metavar="[COPY]", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.argument("target", metavar="[DATABASE]", required=False)
@click.option("--force", is_flag=True, help="Replace an existing DATABASE; it is kept under another name.")
@click.option("--fence", metavar="URL", help="Only fence a database that was restored by other means.")
def restore(settings: Settings, copy: Path | None, target: str | None, force: bool, fence: str | None) -> None:
    """Restore DATABASE, a SQLite file or its URL, from COPY. Stop everything that uses it first.

    A restored database is fenced: epochs and numbers continue far above those of the copy, and all runs are taken from
    the workers that it lists. So no number is used twice, and a worker of the lost database cannot write to this one.
    `--fence URL` only fences, for example after `pg_restore`.

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
                raise click.UsageError("--fence takes no COPY: the database is already restored.")
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
    yield clean(f"Restored {done.target} from {done.copy}.")
    if done.kept:
        yield clean(f"The database before is kept as {done.kept}")
    yield from _fence_words(done.fenced)


def _fence_words(fenced: Fenced) -> Iterator[str]:
    done = f"{fenced.runs} runs have new epochs, and {fenced.workers} workers lost their lease"
    yield clean(f"Fenced {fenced.where}: {done}.")


def _url(database: str) -> str:
    """The URL of a database that is named by a URL or a path."""
    if ":" in database.partition("/")[0]:
        return database
    from urllib.parse import quote

    return f"sqlite:///{quote(database)}"
