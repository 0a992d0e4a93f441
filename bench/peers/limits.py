"""What the machine itself allows, in the same run: syncs of the disk, and raw commits through the stores' drivers."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench.raw import postgres_limit, sqlite_limit
from tests.servers.postgres import PostgresServer

_COUNT = 1_000  # as many as W1 has steps
_BLOCK = b"\0" * 4_096


def measure_limits(postgres: PostgresServer | None) -> dict[str, float]:
    """Per second."""
    with tempfile.TemporaryDirectory(prefix="stepwell-limits-") as folder:
        raw = sqlite_limit(Path(folder) / "raw.db", _COUNT)
        figures = {
            "fsync_per_s": _syncs(Path(folder) / "block"),
            "sqlite_per_s": raw.limit,
            "sqlite_best_per_s": raw.best,
        }
    if postgres is not None:
        url = postgres.create_database()
        try:
            figures["postgres_per_s"] = postgres_limit(url, _COUNT).limit
        finally:
            postgres.drop_database(url)
    return figures


def _syncs(path: Path) -> float:
    """One block after the other into a file that does not grow."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, _BLOCK, 0)
        os.fsync(file)
        began = time.perf_counter()
        for _ in range(_COUNT):
            os.pwrite(file, _BLOCK, 0)
            os.fdatasync(file)
        return _COUNT / (time.perf_counter() - began)
    finally:
        os.close(file)
