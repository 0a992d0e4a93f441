"""Who servers run as and where they may keep files: database servers refuse to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

# A container has 64 MB by default; a server has up to 200 MB and some databases.
_MEMORY_BYTES_MIN = 1 << 30


class ProcessOwner(TypedDict, total=False):
    """The arguments of `subprocess` that start a program under another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """The account that owns a server's processes and files; `uid` is None when it is simply ours."""

    uid: int | None = None
    gid: int | None = None

    @property
    def owner(self) -> ProcessOwner:
        """What to hand to `subprocess` so that a program runs under this account."""
        if self.uid is None or self.gid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def give(self, folder: Path) -> None:
        """Let the account own the folder, and nobody else enter it."""
        folder.chmod(0o700)
        if self.uid is not None and self.gid is not None:
            os.chown(folder, self.uid, self.gid)

    def can_enter(self, folder: Path) -> bool:
        """Whether the account may pass through the folder and everything above it."""
        if self.uid is None:
            return True
        resolved = folder.resolve()
        return all(part.stat().st_mode & stat.S_IXOTH for part in (resolved, *resolved.parents))


def server_account() -> Account:
    """`nobody` when we are root, otherwise ourselves."""
    if os.geteuid() != 0:
        return Account()
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def temporary_root(account: Account) -> Path:
    """A folder for temporary files that the account can reach.

    Raises OSError when there is none: a root whose TMPDIR is private to it, on a machine without the usual ones.
    """
    for candidate in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        if candidate.is_dir() and account.can_enter(candidate):
            return candidate
    raise OSError("no temporary folder that the account of the test servers can enter; set TMPDIR to one")


def memory_root(account: Account) -> Path:
    """A folder in memory with room for a small server; where there is none, the one for temporary files.

    Files are made there ten times as fast as on a disk, and a new database is 300 files.
    """
    memory = Path("/dev/shm")
    if memory.is_dir() and account.can_enter(memory) and shutil.disk_usage(memory).free >= _MEMORY_BYTES_MIN:
        return memory
    return temporary_root(account)


def make_folder(prefix: str, account: Account, *, root: Path) -> Path:
    """A new folder below the root that belongs to the account."""
    folder = Path(tempfile.mkdtemp(prefix=f"stepwell-{prefix}-", dir=root)).resolve()
    account.give(folder)
    return folder
