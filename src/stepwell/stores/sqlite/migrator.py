"""Migrates a file without using it."""

from __future__ import annotations

from pathlib import Path

from stepwell.stores.base.migrations import Migrated
from stepwell.stores.sqlite.connections import SYNCHRONOUS, identify, open_reader, open_writer
from stepwell.stores.sqlite.faults import LOCK_SECONDS_MAX, translated
from stepwell.stores.sqlite.texts import MIGRATIONS


def migrate(path: Path, *, is_plan: bool, is_shared: bool = False) -> Migrated:
    """Create or migrate a file, as opening it does; with `is_plan`, only report what that would do."""
    before = 0
    with translated(str(path)):
        if path.exists():
            reader = open_reader(str(path), busy_seconds=LOCK_SECONDS_MAX)
            try:
                before = identify(reader, str(path), is_shared=is_shared)
            finally:
                reader.close()
        if not is_plan:
            open_writer(str(path), SYNCHRONOUS, is_shared=is_shared).close()
    return Migrated(str(path), before, MIGRATIONS[-1].number)
