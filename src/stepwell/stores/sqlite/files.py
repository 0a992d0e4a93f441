"""Creates the database's file, readable only by its owner."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from stepwell.stores.sqlite.faults import not_writable

MEMORY = ":memory:"
_OWNER_ONLY = 0o600
_FOLDER_OWNER_ONLY = 0o700


def prepare_file(path: str) -> None:
    """Create the file and its folder if they are missing. SQLite gives its side files the mode of the main one.

    Raises `StoreNotWritableError` if this fails or the file cannot be written.
    """
    file = Path(path)
    try:
        if not file.parent.exists():
            file.parent.mkdir(mode=_FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
        # An existing file is not opened: closing it again would drop the locks that this process has on it.
        if not file.exists():
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY))
    except FileExistsError:
        pass  # another process was quicker
    except OSError as error:
        raise not_writable(path, f"the system says: {error.strerror}") from error
    if file.is_dir() or not os.access(file, os.R_OK | os.W_OK):
        reason = errno.EISDIR if file.is_dir() else errno.EACCES
        raise not_writable(path, f"the system says: {os.strerror(reason)}")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise not_writable(path, "SQLite needs to write side files next to it, and the folder does not allow that")
