"""Checks that the files of an open database have not been replaced since it was opened.

SQLite writes to descriptors. If another process deletes, renames or replaces the file or its log, every write still
succeeds, but goes into a file that no other process can find. So every commit checks the names before it is
acknowledged.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from stepwell.clock import Clock
from stepwell.errors import StoreLostError
from stepwell.stores.sqlite.file_registry import FileId, file_id

SIDE_FILES: Final = ("-wal", "-shm")

# The folder's change time shows whether any name in it has changed. Two changes within one tick of the file system's
# clock leave the same time, so it counts only when it is this old, in microseconds.
_SETTLED: Final = 20_000
# Every so many commits, all names are checked anyway: a folder further up may have moved, and some file systems do not
# report changes.
LOOK_EVERY: Final = 64


class OpenFiles:
    """The database's file, its log and the index of its log. Call `close`: this keeps the folder open."""

    def __init__(self, path: str) -> None:
        real = Path(path).resolve()
        self._path = path
        # SQLite keeps its side files next to the real file; the given name may be a link to it.
        self._has_link = real != Path(path).absolute()
        self._names = (path, *(f"{real}{suffix}" for suffix in SIDE_FILES))
        self._ids: list[FileId | None] = [file_id(name) for name in self._names]
        # Asking a descriptor is several times faster than walking a path. Without a descriptor, all names are checked.
        self._folder = None if self._has_link else _open_folder(str(real.parent))
        self._settled = -1
        self._checks = 0

    def close(self) -> None:
        """Close the folder."""
        folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)

    def check(self, clock: Clock) -> None:
        """Raise `StoreLostError` if a name no longer exists or refers to another file."""
        if self._folder is None:
            self._compare()
            return
        changed = os.fstat(self._folder).st_ctime_ns
        self._checks += 1
        if changed == self._settled and self._checks % LOOK_EVERY:
            return
        self._compare()
        self._settled = changed if clock.now() - changed // 1_000 > _SETTLED else -1

    @property
    def has_lost_only_its_log(self) -> bool:
        """Whether the file is in its place and no process has created another log."""
        found = [file_id(name) for name in self._names]
        return found[0] == self._ids[0] and found[1] is None

    def _compare(self) -> None:
        for at, name in enumerate(self._names):
            found, known = file_id(name), self._ids[at]
            if known is None:
                self._ids[at] = found  # SQLite creates its side files when it first needs them
            elif found != known:
                raise _lost(name, self._path, is_gone=found is None)


def _open_folder(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None


def _lost(name: str, path: str, *, is_gone: bool) -> StoreLostError:
    what = "was deleted or renamed" if is_gone else "was replaced by another file"
    return StoreLostError(
        f"{name} {what} while it was open",
        where=path,
        why="its writes would go into a file that no other process can find, so writes are rejected",
        fix="stop every process that uses this database, put its files back or restore a backup (stepwell restore), "
        "and start the processes again",
    )
