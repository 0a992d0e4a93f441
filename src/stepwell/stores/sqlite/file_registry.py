"""Which database files this process has open, by device and inode, so that names and links do not matter."""

from __future__ import annotations

import gc
import os
import sqlite3
from collections import Counter
from threading import Lock
from typing import NamedTuple
from weakref import finalize

import apsw

from stepwell.errors import InvalidOptionError

_FILE_OF_MAIN = "select file from pragma_database_list where name = 'main'"
_LOCK = Lock()
_DESCRIPTORS = "/dev/fd"


class FileId(NamedTuple):
    """A file, independent of its name."""

    device: int
    inode: int


_OPEN: Counter[FileId] = Counter()
_CALLER_FILES: dict[int, FileId] = {}  # by the `id` of the connection, while it exists


def file_id(path: str) -> FileId | None:
    """The file at a path, or None. It opens nothing: closing a descriptor would drop SQLite's locks."""
    try:
        found = os.stat(path)  # noqa: PTH116  this runs with every commit, and pathlib is slow
    except OSError:
        return None
    return FileId(found.st_dev, found.st_ino)


def register(file: FileId) -> None:
    """Count that an engine of this process opened the file."""
    with _LOCK:
        _OPEN[file] += 1


def unregister(file: FileId) -> None:
    """Count that it closed the file."""
    with _LOCK:
        _OPEN[file] -= 1
        if _OPEN[file] <= 0:
            del _OPEN[file]


def is_open(file: FileId) -> bool:
    """Whether any engine of this process has the file open."""
    with _LOCK:
        return file in _OPEN


def has_two_copies() -> bool:
    """Whether `apsw` and `sqlite3` are two copies of SQLite. POSIX locks belong to a process, so neither copy sees the
    locks of the other, and closing the file in one drops the locks of both.
    """
    return bool(apsw.using_amalgamation)


def note_caller(connection: sqlite3.Connection, file: FileId) -> None:
    """Note which file a caller's `sqlite3` connection uses: another thread cannot ask the connection."""
    identity = id(connection)
    if identity in _CALLER_FILES:
        return
    # A later connection may get the same id, and connections do not support weak references. So the connection keeps a
    # function until it is destroyed, and the function's finalizer removes the entry. The finalizer takes no lock,
    # because it may run wherever the garbage collector runs.
    tag = _Tag()
    finalize(tag, _CALLER_FILES.pop, identity, None)
    connection.create_function("stepwell_noted", 0, tag)
    _CALLER_FILES[identity] = file


class _Tag:
    """A function that a connection keeps until it is destroyed."""

    def __call__(self) -> int:
        return 1


def check_exclusive(path: str) -> None:
    """Raise `InvalidOptionError` if a `sqlite3` connection of this process has the file open."""
    file = file_id(path)
    if file is None or not has_two_copies() or not _has_descriptor(file):
        return
    # If no apsw connection has the file open, the descriptor belongs to something else.
    is_ours = is_open(file) or any(_has_open(one, file) for one in apsw.connections())
    if any(_is_of(connection, file, otherwise=not is_ours) for connection in _connections()):
        raise InvalidOptionError(
            f"a sqlite3 connection of this process has {path} open",
            where=path,
            why="sqlite3 and apsw are two copies of SQLite; in one process they do not see each other's locks, and the "
            "file would be damaged",
            fix="close that connection before the engine is opened, and use apsw.Connection(path) while it is open",
        )


def _has_open(connection: apsw.Connection, file: FileId) -> bool:
    """Whether an apsw connection has the file open. False for a connection that another thread is using: it cannot be
    asked.
    """
    try:
        return bool(connection.filename) and file_id(connection.filename) == file
    except apsw.ThreadingViolationError:
        return False


def _has_descriptor(file: FileId) -> bool:
    """Whether this process has the file open at all. True where that cannot be determined."""
    try:
        names = os.listdir(_DESCRIPTORS)  # noqa: PTH208
    except OSError:
        return True
    for name in names:
        try:
            found = os.fstat(int(name))
        except (OSError, ValueError):
            continue
        if (found.st_dev, found.st_ino) == file:
            return True
    return False


def _connections() -> list[sqlite3.Connection]:
    """Every `sqlite3` connection of this process that has not been collected. No other list of them exists.

    Each connection refers to its class. A list of all objects would also hold the cursors of other threads; if the
    owner of a cursor dropped it meanwhile, it would be destroyed in this thread and its statement would never be
    finished.
    """
    classes, found = [sqlite3.Connection], []
    for each in classes:
        classes += each.__subclasses__()
        found += [one for one in gc.get_referrers(each) if type(one) is each]
    return found


def _is_of(connection: sqlite3.Connection, file: FileId, *, otherwise: bool) -> bool:
    """Whether the connection has the file open; `otherwise` is the answer for a connection of another thread, which
    cannot be asked.
    """
    try:
        _ = connection.in_transaction  # raises if it is closed
    except sqlite3.Error:
        return False
    try:
        cursor = connection.cursor()
        cursor.row_factory = None
        [(path,)] = cursor.execute(_FILE_OF_MAIN).fetchall()
    except sqlite3.Error:
        noted = _CALLER_FILES.get(id(connection))
        return otherwise if noted is None else noted == file
    return bool(path) and file_id(str(path)) == file
