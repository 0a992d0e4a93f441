"""Where `stepwell dev` keeps its files, and the number of each `stepwell dev` on one database."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import IO, Any, Final

from stepwell.addresses import file_of, store_kind
from stepwell.cli.dev.clock import OWNER_ONLY, clock_file, open_private
from stepwell.cli.settings import DEV_DB
from stepwell.errors import InvalidOptionError

_SLOTS_MAX: Final = 64
_FOLDER: Final = Path(".stepwell")
OWNER_ONLY_FOLDER: Final = 0o700


class DevSlot:
    """The number of one `stepwell dev` on a database. The system frees it when the process ends in any way."""

    def __init__(self, file: IO[str], number: int, *, is_local: bool) -> None:
        self._file = file
        self.number = number
        # On a server, another machine may have a worker of the same name.
        self.worker = f"dev-{number}" if is_local else f"dev-{number}-{socket.gethostname()}"

    def note(self, facts: dict[str, Any]) -> None:
        """Leave facts for the process that takes the next slot."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(json.dumps(facts))
        self._file.flush()

    def leave(self) -> None:
        """Release the number."""
        self._file.close()


class Place:
    """The folder and the files that belong to one database."""

    def __init__(self, url: str) -> None:
        if store_kind(url) == "memory":
            raise InvalidOptionError(
                "a store in memory cannot be shared with a worker process", where="--db", fix="leave --db out"
            )
        self.url = url
        self.database = file_of(url)  # None: on a server
        self._folder = _FOLDER if self.database is None else self.database.parent
        self._stem = "server" if self.database is None else self.database.name

    def prepare(self) -> None:
        """Create the folder. Git ignores everything in our own folder."""
        try:
            self._folder.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            if self._folder.name == _FOLDER.name:
                self._keep_private()
                ignored = self._folder / ".gitignore"
                if not ignored.exists():
                    with open_private(ignored, "w") as file:
                        file.write("*\n")
        except OSError as error:
            raise InvalidOptionError(
                f"cannot write to {self._folder}: {error.strerror or error}", fix="use a folder that you can write to"
            ) from error

    def _keep_private(self) -> None:
        """Make our own folder accessible to its owner only, whatever an umask or an older version did."""
        if os.name != "posix":
            return
        self._folder.chmod(OWNER_ONLY_FOLDER)
        for each in self._folder.iterdir():
            if each.is_file() and not each.is_symlink() and each.stat().st_mode & 0o077:
                each.chmod(OWNER_ONLY)

    def take_slot(self) -> DevSlot:
        """The first free number."""
        for number in range(1, _SLOTS_MAX + 1):
            file = open_private(self._slot_file(number), "a+")
            if _lock(file):
                return DevSlot(file, number, is_local=self.database is not None)
            file.close()
        raise InvalidOptionError(
            f"{_SLOTS_MAX} stepwell dev processes already use {self._stem}", fix="stop some of them"
        )

    def neighbour(self, slot: DevSlot) -> dict[str, Any]:
        """The facts that the holder of the first slot left; empty for the holder itself."""
        if slot.number == 1:
            return {}
        try:
            found = json.loads(self._slot_file(1).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def clear(self, slot: DevSlot) -> None:
        """Delete the database. Raises unless it belongs to `stepwell dev`, and no other process has it open."""
        if self.url != DEV_DB or self.database is None:
            raise InvalidOptionError(
                "--fresh deletes only the database of stepwell dev",
                where="--db",
                fix="leave --db out, or name a database that does not exist yet",
            )
        if slot.number > 1:
            raise InvalidOptionError(
                "another stepwell dev has this database open", where="--fresh", fix="stop it first"
            )
        self.clear_files()

    def seed(self) -> None:
        """Fill the database with the demonstration. Raises unless it is a file that does not exist yet."""
        from stepwell.cli.dev.seeds import seed_demo
        from stepwell.clock import SystemClock

        if self.database is None:
            raise InvalidOptionError(
                "--seed fills a file only",
                where="--db",
                why="it writes a past, and the clock of a server has only the present",
                fix="leave --db out, or name a SQLite file that does not exist yet",
            )
        if self.database.exists():
            raise InvalidOptionError(
                f"{self.database} has runs already, or had",
                where="--seed",
                why="the past of the demonstration cannot come after them",
                fix="stepwell dev --fresh --seed demo, or name another file: --db sqlite:///demo.db",
            )
        try:
            seed_demo(self.database, SystemClock().now())
        except BaseException:
            self.clear_files()
            raise

    def clear_files(self) -> None:
        """Delete the files of the database."""
        if self.database is not None:
            for suffix in ("", "-wal", "-shm"):
                self.database.with_name(f"{self.database.name}{suffix}").unlink(missing_ok=True)
            clock_file(self.database).unlink(missing_ok=True)

    def _slot_file(self, number: int) -> Path:
        return self._folder / f"{self._stem}.slot-{number}"


def _lock(file: IO[str]) -> bool:
    """Lock a file, if it is free; whether that worked. The system unlocks it when the process ends."""
    if os.name != "posix":
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
