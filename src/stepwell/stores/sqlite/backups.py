"""Copying a file while it is used, and putting a copy in the place of a database."""

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
from stepwell.stores.sqlite.database import SqliteDatabase, read_heed
from stepwell.stores.sqlite.faults import LOCK_SECONDS_MAX, foreign, translated
from stepwell.stores.sqlite.identity import SIDE_FILES
from stepwell.stores.sqlite.rows import to_worker
from stepwell.stores.sqlite.transaction import Transaction, row_of, rows_of
from stepwell.stores.sqlite.transitions.rescues import retire

_OWNER_ONLY = 0o600


def back_up(source: Path, target: Path) -> BackedUp:
    """Copy the database as it is at one moment; workers go on meanwhile. The copy is examined before it gets its name.

    Raises `AlreadyExistsError` if there is something at the target, and `ForeignFileError` if the copy is damaged.
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
    """Put a copy in the place of a database, and fence it. A database that is there is kept under another name.

    Raises `AlreadyExistsError` if one is there and `is_forced` is not given, `StoreInUseError` if it is used, and
    `ForeignFileError`, `SchemaMissingError` or `SchemaMismatchError` for a copy that cannot be used.
    """
    if target.exists() and copy.samefile(target):
        raise InvalidOptionError(f"{copy} is the database itself, not a copy of it", where=str(copy))
    there = [file for file in _files_of(target) if file.exists()]
    if there and not is_forced:
        raise _taken(there[0], "move it away, or add --force: then it is kept under another name")
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
                _check_unused(target, environment)  # again: copying takes its time
            kept = _move_away(target)
            _publish(fresh, target)
    finally:
        reader.close()
    return Restored(str(copy), str(target), kept, fenced._replace(where=str(target)))


def fence(path: Path, environment: Environment) -> Fenced:
    """Raise every epoch and every number that was shown outside, and take their runs from all workers.

    A worker that used the database before it was put back can write nothing more to it.
    """
    database = SqliteDatabase(str(path))
    database.open(environment.clock)

    def transition(tx: Transaction) -> Fenced:
        workers = tx.rows("workers.list")
        for row in workers:
            retire(tx, Incarnation(row[1]))
        tx.run("backups.raise_epochs", skipped=EPOCHS_SKIPPED)
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
        raise StoreError(f"there is no database at {path}", where=str(path), fix="name a file that is there")
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
    """A new file beside the target, for its owner's eyes only. This name of it is gone in the end."""
    fresh = target.with_name(f".{target.name}.part")
    for old in _files_of(fresh):
        old.unlink(missing_ok=True)  # of an attempt that was killed
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY))
    try:
        yield fresh
    finally:
        for file in _files_of(fresh):
            file.unlink(missing_ok=True)


def _copy(reader: apsw.Connection, fresh: Path) -> None:
    """All pages in one step: one snapshot, while others write."""
    with translated(str(fresh)):
        written = open_plain(str(fresh))
        try:
            with written.backup("main", reader, "main") as copying:
                while not copying.done:
                    copying.step()
            # One file without a log beside it, which can be copied as it is.
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
    """Give the copy its name once it is on disk. Nothing is overwritten."""
    _sync(fresh, os.O_RDWR)
    try:
        target.hardlink_to(fresh)
    except FileExistsError:
        raise _taken(target, "name a file that is not there yet") from None
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
            raise _taken(file, "name a file that is not there yet")
    if not target.parent.is_dir():
        raise InvalidOptionError(f"there is no folder {target.parent}", where=str(target), fix="make the folder first")


def _taken(file: Path, fix: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"{file} is there already", where=str(file), why="nothing is overwritten", fix=fix)


def _check_unused(target: Path, environment: Environment) -> None:
    """Raise `StoreInUseError` if workers are alive there, or if any process has the file open."""
    with translated(str(target)):
        connection = open_plain(str(target), busy_seconds=1.0)
        try:
            if identify(connection, str(target)):
                times = Timeline()
                times.adopt(read_heed(connection)[0], environment.clock)
                live = rows_of(connection, "transfers.list_live_workers", now=times.now(environment.clock))
                if live:
                    raise in_use(map(to_worker, live))
            # This needs the file for itself alone.
            with suppress(apsw.BusyError, apsw.LockedError):
                if connection.pragma("journal_mode", "delete") == "delete":
                    return
        finally:
            connection.close()
    raise StoreInUseError(
        f"a process has {target} open",
        where=str(target),
        why="it would go on with the file that is replaced, and what it writes would be lost",
        fix="stop every process that uses the database first",
    )


def _move_away(target: Path) -> str:
    """Give what is there another name; which one."""
    number = 1
    while (kept := target.with_name(f"{target.name}.before-restore-{number}")).exists():
        number += 1
    for file, suffix in zip(_files_of(target), ("", *SIDE_FILES), strict=True):
        if file.exists():
            file.rename(f"{kept}{suffix}")
    return str(kept) if kept.exists() else ""


def _files_of(path: Path) -> list[Path]:
    return [path, *(Path(f"{path}{suffix}") for suffix in SIDE_FILES)]
