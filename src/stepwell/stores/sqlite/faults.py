"""Translates the driver's errors; none of them leaves this package untranslated."""

from __future__ import annotations

import apsw

from stepwell.errors import (
    ForeignFileError,
    StepwellError,
    StoreFullError,
    StoreNotWritableError,
    StoreRefusedError,
    StoreUnavailableError,
)
from stepwell.stores.base.faults import FaultClass, classify_sqlite

LOCK_SECONDS_MAX = 60


class translated:  # noqa: N801  reads as a word in `with translated(path):`
    """Raise our own errors instead of the driver's."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, apsw.Error):
            raise translate(error, self._path) from error


def translate(error: apsw.Error, path: str) -> StepwellError:
    """The error that a user of the store gets for an error of the driver."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailableError(
                f"another process has held the write lock on {path} for {LOCK_SECONDS_MAX} s",
                where=path,
                why="only one process at a time may write to a SQLite file, and each holds it for milliseconds",
                fix="look for a process that was stopped in the middle of a write, or that copies the file",
            )
        case apsw.FullError():
            return StoreFullError(
                f"there is no space left to write to {path}",
                where=path,
                why="the disk or the file's quota is full; nothing was written",
                fix="free some space; work continues by itself",
            )
        case apsw.NotADBError() | apsw.CorruptError():
            return foreign(path, f"SQLite says: {error}")
        case apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return not_writable(path, str(error))
        case _ if classify_sqlite(code_of(error)) is FaultClass.FINAL:
            return StoreRefusedError(
                f"{path} rejects the request: {error}",
                where=path,
                fix="repeating the request would not help: check what is stored",
            )
        case _:
            return StoreUnavailableError(f"{path} did not answer: {error}", where=path, why="SQLite met an error")


def code_of(error: apsw.Error) -> str:
    """The primary result code, by the name of the driver's class."""
    name = type(error).__name__.removesuffix("Error").upper()
    return f"SQLITE_{'PERM' if name == 'PERMISSIONS' else name}"


def foreign(path: str, why: str) -> ForeignFileError:
    """The file belongs to another program, or it is damaged."""
    return ForeignFileError(
        f"{path} is not a stepwell database, or is damaged",
        where=path,
        why=why,
        fix="name another file, or restore this one from a backup; it was not changed. To keep runs together with "
        "the tables of an application, write sqlite:///app.db?shared=1",
    )


def not_writable(path: str, why: str) -> StoreNotWritableError:
    """The file or its folder cannot be written."""
    return StoreNotWritableError(
        f"{path} cannot be written",
        where=path,
        why=why,
        fix="give this user write access to the file and its folder, or name another file",
    )
