"""Blobs: large payloads, kept by the hash of their content outside the rows that refer to them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from stepwell.ids import random_bytes

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, because the path may be a pipe.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DamagedBlobError(ValueError):
    """The stored content does not match the hash in its name. Never leaves the codec."""


class Blobs(Protocol):
    """Bytes by the SHA-256 of their content. The same content is kept once, however often it is put."""

    def put(self, content: bytes) -> str:
        """Store the content; returns its name, the hash in hexadecimal.

        It is durable when this returns; in the database of a store, no later than any write that follows it.

        Raises `OSError`. What may be left of the content is then not referred to.
        """
        ...

    def get(self, name: str) -> bytes:
        """The content of that name.

        Raises:
            LookupError: there is no such blob.
            DamagedBlobError: the stored content has another hash.
            OSError: it cannot be read now.
        """
        ...


class FolderBlobs:
    """Blobs as files of one folder, named by their hash.

    A file appears under its name whole or not at all: it is written under another name, forced to disk, renamed, and
    the folder is forced to disk, in that order. Links are never followed. Several processes may share the folder.

    Not promised: that files are removed once nothing refers to them.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).absolute()
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sync_parents()

    def put(self, content: bytes) -> str:
        """Store the content; see `Blobs.put`."""
        name = hashlib.sha256(content).hexdigest()
        with self._opened() as folder:
            if not _holds(folder, name):
                _write(folder, name, content)
            # Also if it existed: the process that renamed it may not have reached this line yet.
            os.fsync(folder)
        return name

    def get(self, name: str) -> bytes:
        """The content of that name; see `Blobs.get`."""
        with self._opened() as folder:
            return _read(folder, name)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        folder = os.open(self._folder, _DIRECTORY)
        try:
            yield folder
        finally:
            os.close(folder)

    def _sync_parents(self) -> None:
        for parent in self._folder.parents[:2]:
            handle = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def __repr__(self) -> str:
        return f"FolderBlobs({str(self._folder)!r})"


def _holds(folder: int, name: str) -> bool:
    """Whether that content is stored already, undamaged."""
    try:
        _read(folder, name)
    except (LookupError, DamagedBlobError):
        return False
    return True


def _read(folder: int, name: str) -> bytes:
    if not _NAME.fullmatch(name):
        raise LookupError(f"{name[:80]!r} is not the name of a blob")
    try:
        handle = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        raise LookupError(f"there is no blob {name}") from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise DamagedBlobError(f"blob {name} is a link") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise DamagedBlobError(f"blob {name} is not a file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read()
    finally:
        os.close(handle)
    if hashlib.sha256(content).hexdigest() != name:
        raise DamagedBlobError(f"blob {name} has another content than its name says")
    return content


def _write(folder: int, name: str, content: bytes) -> None:
    temporary = f".{random_bytes(12).hex()}.new"
    handle = os.open(temporary, _NEW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
