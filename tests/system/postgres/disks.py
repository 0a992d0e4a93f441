"""Disks that become full: a small one in memory where we may mount it, else the server's own words for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from psycopg import sql

from tests.servers.databases import database_name
from tests.servers.postgres import PostgresServer
from tests.system.postgres.sabotage import refuse_space, relent

_SIZE = 48 << 20  # an empty database has 8 MB


class Disk(Protocol):
    """Where a database is."""

    url: str

    def fill(self) -> None:
        """Leave no space on it."""
        ...

    def free(self) -> None:
        """Let there be space again."""
        ...


class MountedDisk:
    """A tablespace on a small file system of its own; what is written before a commit, the log, is elsewhere."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._ballast = folder / "ballast"
        tables = folder / "tables"
        tables.mkdir(mode=0o700)
        os.chown(tables, server.data.stat().st_uid, server.data.stat().st_gid)
        server.execute(sql.SQL("create tablespace small location {}").format(sql.Literal(str(tables))))
        self.url = server.create_database()
        name = sql.Identifier(database_name(self.url))
        server.execute(sql.SQL("alter database {} set tablespace small").format(name))

    def fill(self) -> None:
        with self._ballast.open("wb") as file:
            try:
                while True:
                    os.write(file.fileno(), bytes(4096))
            except OSError:
                return

    def free(self) -> None:
        self._ballast.unlink()


class SaidDisk:
    """A disk of which the server only says that it is full."""

    def __init__(self, server: PostgresServer) -> None:
        self.url = server.create_database()

    def fill(self) -> None:
        refuse_space(self.url)

    def free(self) -> None:
        relent(self.url)


@contextmanager
def small_disk(server: PostgresServer) -> Iterator[Disk]:
    """A database on a disk that can be filled; it is gone afterwards."""
    folder = server.folder / "small"
    folder.mkdir(mode=0o755)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        yield SaidDisk(server)
        return
    try:
        disk = MountedDisk(server, folder)
        yield disk
        server.drop_database(disk.url)
        server.execute("drop tablespace small")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()
