"""What has to be known of the machine and of the settings, to read the figures."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import apsw
import psutil

from tests.servers.postgres import PostgresServer


def describe(postgres: PostgresServer | None) -> dict[str, str]:
    """In words; nothing that names the machine or whose it is."""
    said = {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "stepwell's SQLite": f"{apsw.sqlite_lib_version()}, WAL, synchronous=FULL",
    }
    if postgres is not None:
        named = ("server_version", "fsync", "synchronous_commit", "wal_sync_method", "shared_buffers")
        [values] = postgres.execute("select " + ", ".join(["current_setting(%s)"] * len(named)), named)
        version, *others = (f"{name}={value}" for name, value in zip(named, values, strict=True))
        said["PostgreSQL"] = (
            f"{version.partition('=')[2]}, {', '.join(others)}; one server, a database for each measure"
        )
    return said


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
