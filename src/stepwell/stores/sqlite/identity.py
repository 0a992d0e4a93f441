"""Whether the files of an open database are still those that it was opened with.

SQLite writes to descriptors. If somebody deletes, renames or replaces the file or its log, every write still succeeds
and goes into a file that no other process finds. So the names are looked at with every commit, before it is
acknowledged.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from stepwell.clock import Clock
from stepwell.errors import StoreLostError
from stepwell.stores.sqlite.presence import FileId, file_id

SIDE_FILES: Final = ("-wal", "-shm")

# The folder's time of change tells whether any name in it has changed. Two changes within a tick of the file system's
# clock leave the same time behind, so it counts only once it is this old, in microseconds.
_SETTLED: Final = 20_000
# Nevertheless all names are looked at with every so many commits: a folder further up may have moved, and some file
# systems do not tell.
LOOK_EVERY: Final = 64


class OpenFiles:
    """The database's file, its log and its index of the log. Close it: it keeps the folder open."""

    def __init__(self, path: str) -> None:
        real = Path(path).resolve()
        self._path = path
        # SQLite keeps its side files beside the real file; the name that was given may be a link to it.
        self._has_link = real != Path(path).absolute()
        self._names = (path, *(f"{real}{suffix}" for suffix in SIDE_FILES))
        self._ids: list[FileId | None] = [file_id(name) for name in self._names]
        # Asking a descriptor is several times quicker than walking a path. Without one, all names are looked at.
        self._folder = None if self._has_link else _open_folder(str(real.parent))
        self._settled = -1
        self._checks = 0

    def close(self) -> None:
        """Let the folder go."""
        folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)

    def check(self, clock: Clock) -> None:
        """Raise `StoreLostError` if a name stands for nothing, or for another file."""
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
        """Whether the file is in its place, and nobody has begun another log."""
        found = [file_id(name) for name in self._names]
        return found[0] == self._ids[0] and found[1] is None

    def _compare(self) -> None:
        for at, name in enumerate(self._names):
            found, known = file_id(name), self._ids[at]
            if known is None:
                self._ids[at] = found  # SQLite makes its side files when it first needs them
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
        why="what this process writes goes into a file that no other process finds, so nothing more is acknowledged",
        fix="stop every process that uses this database, put its files back or restore a backup (stepwell restore), "
        "and start the processes again",
    )
