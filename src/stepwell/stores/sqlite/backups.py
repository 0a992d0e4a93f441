"""Copies a file while it is in use, and replaces a database by a copy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from stepwell.environment import Environment
from stepwell.errors import AlreadyExistsError, InvalidOptionError, SchemaMissingError, StoreError, StoreInUseError
from stepwell.ids import Incarnation
from stepwell.stores.base.backups import EPOCHS_SKIPPED, NUMBERS_SKIPPED, BackedUp, Fenced, Restored
from stepwell.stores.base.timeline import Timeline
from stepwell.stores.base.transfers import in_use
from stepwell.stores.sqlite.connections import identify, open_plain, open_reader
from stepwell.stores.sqlite.database import SqliteDatabase, read_state
from stepwell.stores.sqlite.faults import LOCK_SECONDS_MAX, foreign, translated
from stepwell.stores.sqlite.identity import SIDE_FILES
from stepwell.stores.sqlite.rows import to_worker
from stepwell.stores.sqlite.transaction import Transaction, row_of, rows_of
from stepwell.stores.sqlite.transitions.rescues import retire

_OWNER_ONLY = 0o600


def back_up(source: Path, target: Path) -> BackedUp:
    """Copy the database as of one moment, while workers continue. The copy is verified before it gets its name.

    Raises `AlreadyExistsError` if the target exists, and `ForeignFileError` if the copy is damaged.
    """
    _check_free(target)
    reader = _open(source)
    try:
        with translated(str(source)):
            schema = _check_version(reader, source)
        with _new_file(target) as fresh:
            _copy(reader, fresh)
            runs = _examine(fresh)
            _publish(fresh, target)
    finally:
        reader.close()
    return BackedUp(str(source), str(target), target.stat().st_size, schema, runs)


def restore(copy: Path, target: Path, environment: Environment, *, is_forced: bool) -> Restored:
    """Replace a database by a copy, and fence it. An existing database is kept under another name.

    Raises `AlreadyExistsError` if a database is there and `is_forced` is not given, `StoreInUseError` if it is in use,
    and
    `ForeignFileError`, `SchemaMissingError` or `SchemaMismatchError` for a copy that cannot be used.
    """
    if target.exists() and copy.samefile(target):
        raise InvalidOptionError(f"{copy} is the database itself, not a copy of it", where=str(copy))
    there = [file for file in _files_of(target) if file.exists()]
    if there and not is_forced:
        raise _taken(there[0], "move it away, or add --force, which keeps it under another name")
    if target.exists():
        _check_unused(target, environment)
    reader = _open(copy)
    try:
        with translated(str(copy)):
            _check_version(reader, copy)
        with _new_file(target) as fresh:
            _copy(reader, fresh)
            _examine(fresh)
            fenced = fence(fresh, environment)
            if target.exists():
                _check_unused(target, environment)  # again: copying takes a while
            kept = _move_away(target)
            _publish(fresh, target)
    finally:
        reader.close()
    return Restored(str(copy), str(target), kept, fenced._replace(where=str(target)))


def fence(path: Path, environment: Environment) -> Fenced:
    """Raise every epoch, version and number that was visible outside, and release the runs of all workers.

    A worker that used the database before it was restored can no longer write to it.
    """
    database = SqliteDatabase(str(path))
    database.open(environment.clock)

    def transition(tx: Transaction) -> Fenced:
        workers = tx.rows("workers.list")
        for row in workers:
            retire(tx, Incarnation(row[1]))
        tx.run("backups.raise_epochs", skipped=EPOCHS_SKIPPED)
        tx.run("backups.raise_versions", skipped=EPOCHS_SKIPPED)
        tx.run("backups.raise_numbers", skipped=NUMBERS_SKIPPED)
        return Fenced(str(path), _count(tx.connection), len(workers))

    try:
        fenced, _ = database.transact(transition, environment.clock)
    finally:
        database.close()
    return fenced


# --- the parts ---


def _open(path: Path) -> apsw.Connection:
    if not path.is_file():
        raise StoreError(f"there is no database at {path}", where=str(path), fix="name an existing file")
    with translated(str(path)):
        return open_reader(str(path), busy_seconds=LOCK_SECONDS_MAX)


def _check_version(connection: apsw.Connection, path: Path) -> int:
    version = identify(connection, str(path))
    if not version:
        raise SchemaMissingError(
            f"{path} has no tables of stepwell", where=str(path), why="it is empty", fix="name a backup of a database"
        )
    return version


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """A new file next to the target, readable only by its owner. This name is deleted at the end."""
    fresh = target.with_name(f".{target.name}.part")
    for old in _files_of(fresh):
        old.unlink(missing_ok=True)  # left by an attempt that was killed
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY))
    try:
        yield fresh
    finally:
        for file in _files_of(fresh):
            file.unlink(missing_ok=True)


def _copy(reader: apsw.Connection, fresh: Path) -> None:
    """Copy all pages in one step: one snapshot, while others write."""
    with translated(str(fresh)):
        written = open_plain(str(fresh))
        try:
            with written.backup("main", reader, "main") as copying:
                while not copying.done:
                    copying.step()
            # One file without a log, which can be copied directly.
            written.pragma("journal_mode", "delete")
        finally:
            written.close()


def _examine(fresh: Path) -> int:
    with translated(str(fresh)):
        connection = open_plain(str(fresh))
        try:
            said = [str(row[0]) for row in rows_of(connection, "backups.integrity_check")]
            if said != ["ok"]:
                raise foreign(str(fresh), f"integrity_check says: {'; '.join(said)}")
            return _count(connection)
        finally:
            connection.close()


def _count(connection: apsw.Connection) -> int:
    row = row_of(connection, "backups.count_runs")
    assert row is not None
    return int(row[0])


def _publish(fresh: Path, target: Path) -> None:
    """Give the copy its name when it is on disk. Nothing is overwritten."""
    _sync(fresh, os.O_RDWR)
    try:
        target.hardlink_to(fresh)
    except FileExistsError:
        raise _taken(target, "name a new file") from None
    _sync(target.parent, os.O_RDONLY)


def _sync(path: Path, how: int) -> None:
    descriptor = os.open(path, how | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_free(target: Path) -> None:
    for file in _files_of(target):
        if file.exists():
            raise _taken(file, "name a new file")
    if not target.parent.is_dir():
        raise InvalidOptionError(
            f"there is no folder {target.parent}", where=str(target), fix="create the folder first"
        )


def _taken(file: Path, fix: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"{file} already exists", where=str(file), why="nothing is overwritten", fix=fix)


def _check_unused(target: Path, environment: Environment) -> None:
    """Raise `StoreInUseError` if workers are alive there, or if any process has the file open."""
    with translated(str(target)):
        connection = open_plain(str(target), busy_seconds=1.0)
        try:
            if identify(connection, str(target)):
                times = Timeline()
                times.adopt(read_state(connection)[0], environment.clock)
                live = rows_of(connection, "transfers.list_live_workers", now=times.now(environment.clock))
                if live:
                    raise in_use(map(to_worker, live))
            # This succeeds only if no other process has the file open.
            with suppress(apsw.BusyError, apsw.LockedError):
                if connection.pragma("journal_mode", "delete") == "delete":
                    return
        finally:
            connection.close()
    raise StoreInUseError(
        f"a process has {target} open",
        where=str(target),
        why="it would continue with the replaced file, and its writes would be lost",
        fix="stop every process that uses the database first",
    )


def _move_away(target: Path) -> str:
    """Rename the existing files. Returns the new name."""
    number = 1
    while (kept := target.with_name(f"{target.name}.before-restore-{number}")).exists():
        number += 1
    for file, suffix in zip(_files_of(target), ("", *SIDE_FILES), strict=True):
        if file.exists():
            file.rename(f"{kept}{suffix}")
    return str(kept) if kept.exists() else ""


def _files_of(path: Path) -> list[Path]:
    return [path, *(Path(f"{path}{suffix}") for suffix in SIDE_FILES)]
