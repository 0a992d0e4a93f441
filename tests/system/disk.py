"""A disk that remembers every write, so that the power can be cut afterwards, at any moment, as often as one likes.

What was written to a file and not synced may be there after a cut, or not, or in part: each sector by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

SECTOR_BYTES = 512
_BASE, _NAME = "unix", "stepwell-recording"
_LOGS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class Change(NamedTuple):
    """One thing that was done to a file."""

    file: str  # its name, without its folder
    kind: str  # "write", "truncate", "delete", "sync", or "sync folder": then every file that was deleted stays so
    offset: int = 0  # or the new size
    data: bytes = b""


Image = dict[str, bytes]  # what is left, by the file's name


class RecordingDisk(apsw.VFS):
    """SQLite's usual way to files, with a record of all changes; the default of this process while it is entered."""

    def __init__(self) -> None:
        super().__init__(_NAME, _BASE)
        self.changes: list[Change] = []

    def __enter__(self) -> RecordingDisk:
        apsw.set_default_vfs(_NAME)
        return self

    def __exit__(self, *_: object) -> None:
        apsw.set_default_vfs(_BASE)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        # SQLite syncs the folder with the first sync of a log that it has made.
        is_new_log = bool(flags[0] & _LOGS) and not Path(path).exists()
        return _RecordingFile(self.changes, name, flags, Path(path or "").name, is_new_log=is_new_log)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.changes.append(Change(Path(filename).name, "delete"))
        if syncdir:
            self.changes.append(Change("", "sync folder"))


class _RecordingFile(apsw.VFSFile):
    def __init__(self, changes: list[Change], name: Any, flags: list[int], plain: str, *, is_new_log: bool) -> None:
        super().__init__(_BASE, name, flags)
        self._changes = changes
        self._name = plain  # a temporary file has none, and nobody misses it
        self._is_new_log = is_new_log

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._note(Change(self._name, "write", offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._note(Change(self._name, "truncate", newsize))

    def xSync(self, flags: int) -> None:
        # The real disk is not asked: whether it was to be asked is what counts.
        self._note(Change(self._name, "sync"))
        if self._is_new_log:
            self._note(Change("", "sync folder"))
            self._is_new_log = False

    def _note(self, change: Change) -> None:
        if self._name:
            self._changes.append(change)


class Cut(NamedTuple):
    """What the power leaves of the changes that were not synced."""

    at: int  # how many changes had been made
    share: float  # of the unsynced ones that are kept
    tears: bool  # whether each sector has its own luck


def images(changes: list[Change], cuts: Iterable[Cut], rng: random.Random) -> Iterator[tuple[Cut, Image]]:
    """What is left of the files after each cut; the cuts by time."""
    durable: dict[str, bytearray] = {}
    unsynced: list[Change] = []
    done = 0
    for cut in sorted(cuts):
        for change in changes[done : cut.at]:
            if change.kind not in ("sync", "sync folder"):
                unsynced.append(change)
                continue
            kept = [each for each in unsynced if not _is_synced_by(each, change)]
            _apply(durable, [each for each in unsynced if _is_synced_by(each, change)])
            unsynced = kept
        done = cut.at
        left = {name: bytearray(content) for name, content in durable.items()}
        _apply(left, _survivors(unsynced, cut, rng))
        yield cut, {name: bytes(content) for name, content in left.items()}


def _is_synced_by(change: Change, sync: Change) -> bool:
    return change.kind == "delete" if sync.kind == "sync folder" else change.file == sync.file


def write_image(image: Image, folder: Path) -> None:
    """Have these files in a folder, and no other ones."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, content in image.items():
        (folder / name).write_bytes(content)


def _survivors(changes: Iterable[Change], cut: Cut, rng: random.Random) -> Iterator[Change]:
    for change in changes:
        if change.kind == "write" and cut.tears:
            for begin in range(0, len(change.data), SECTOR_BYTES):
                if rng.random() < cut.share:
                    data = change.data[begin : begin + SECTOR_BYTES]
                    yield Change(change.file, "write", change.offset + begin, data)
        elif rng.random() < cut.share:
            yield change


def _apply(files: dict[str, bytearray], changes: Iterable[Change]) -> None:
    for file, kind, offset, data in changes:
        content = files.setdefault(file, bytearray())
        if kind == "write":
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        elif kind == "truncate":
            del content[offset:]
            content.extend(bytes(offset - len(content)))
        else:
            files.pop(file, None)
