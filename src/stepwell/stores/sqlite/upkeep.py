"""The space of a SQLite file, and giving it back."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from stepwell.clock import DAY, Clock, Instant
from stepwell.environment import Environment
from stepwell.errors import SchemaMissingError, StoreInUseError, StoreNotWritableError
from stepwell.stores.base.diagnosis import ids_between
from stepwell.stores.base.timeline import Timeline
from stepwell.stores.base.transfers import in_use
from stepwell.stores.base.upkeep import SAMPLE, Space, TableSpace, Vacuumed, Weighed, WorkflowCount
from stepwell.stores.sqlite.connections import identify, open_plain, open_reader
from stepwell.stores.sqlite.database import read_state
from stepwell.stores.sqlite.faults import translated
from stepwell.stores.sqlite.identity import SIDE_FILES
from stepwell.stores.sqlite.rows import to_worker
from stepwell.stores.sqlite.transaction import row_of, rows_of

_PREFIX: Final = "stepwell_"
_BUSY_SECONDS: Final = 5.0
_NOTE: Final = "the space of deleted rows is used again; the file shrinks with: stepwell vacuum"


class SqliteUpkeep:
    """`Upkeep` of a file."""

    def __init__(self, environment: Environment, file: Path) -> None:
        self._file = file
        self._clock = environment.clock

    def measure(self) -> Space:
        with translated(str(self._file)):
            reader = open_reader(str(self._file), busy_seconds=_BUSY_SECONDS)
            try:
                _check_schema(reader, self._file)
                reader.execute("begin")  # one moment
                return self._measure(reader)
            finally:
                reader.close()

    def _measure(self, reader: apsw.Connection) -> Space:
        now = _now(reader, self._clock)
        since, until = ids_between(Instant(now - DAY), Instant(now + DAY))
        free = row_of(reader, "upkeep.free")
        ends = row_of(reader, "upkeep.range")
        assert free is not None
        assert ends is not None
        first, last = ends
        some = list(range(first, last + 1, max(1, (last - first + 1) // SAMPLE)))
        return Space(
            total=free[0],
            reusable=free[1],
            log=_size(Path(f"{self._file}-wal")),
            tables=_tables(reader),
            workflows=tuple(WorkflowCount(*row) for row in rows_of(reader, "upkeep.count", since=since, until=until)),
            weighed=tuple(Weighed(*row) for row in rows_of(reader, "upkeep.weigh", runs=json.dumps(some))),
            note=_NOTE,
        )

    def vacuum(self) -> Vacuumed:
        file = self._file
        with translated(str(file)):
            connection = open_plain(str(file), busy_seconds=_BUSY_SECONDS)
            try:
                _check_schema(connection, file)
                before = _whole(file)
                _check_idle(connection, self._clock)
                _check_room(connection, file)
                connection.execute("vacuum")
                # The log has the whole new file: bring it home, if nobody reads.
                with suppress(apsw.BusyError, apsw.LockedError):
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.close()
        return Vacuumed(str(file), before, _whole(file))

    def tidy(self) -> tuple[str, ...]:
        return ()


def _tables(reader: apsw.Connection) -> tuple[TableSpace, ...]:
    found: dict[str, TableSpace] = {}
    for name, kind, size, rows in rows_of(reader, "upkeep.pages"):
        short = name.removeprefix(_PREFIX)
        one = found.get(short, TableSpace(short, 0, 0, 0))
        if kind == "table":
            found[short] = one._replace(bytes=size, rows=rows)
        else:
            found[short] = one._replace(index_bytes=size)
    return tuple(sorted(found.values(), key=lambda one: (-one.bytes - one.index_bytes, one.name)))


def _check_schema(connection: apsw.Connection, file: Path) -> None:
    if not identify(connection, str(file)):
        raise SchemaMissingError(
            f"{file} has no tables of stepwell", where=str(file), why="it is empty", fix="name another database"
        )


def _check_idle(connection: apsw.Connection, clock: Clock) -> None:
    """Raise `StoreInUseError` if a worker is alive: nothing can be written meanwhile, and its lease could expire."""
    live = rows_of(connection, "transfers.list_live_workers", now=_now(connection, clock))
    if live:
        found = in_use(map(to_worker, live))
        raise StoreInUseError(
            found.title,
            where=found.where,
            why="nothing can be written while the file is rewritten, so leases would expire",
            fix="stop the workers first; without a vacuum, the free space in the file is used for new rows",
        )


def _check_room(connection: apsw.Connection, file: Path) -> None:
    row = row_of(connection, "upkeep.free")
    assert row is not None
    needed, room = 2 * (row[0] - row[1]), shutil.disk_usage(file.parent).free
    if room < needed:
        raise StoreNotWritableError(
            f"{file} cannot be rewritten: the disk has {room:,} bytes free, and that takes up to {needed:,}",
            where=str(file),
            why="its rows are written to a temporary file first, and then to the log",
            fix="free some space, or move to a larger disk: stepwell move",
        )


def _now(connection: apsw.Connection, clock: Clock) -> Instant:
    times = Timeline()
    times.adopt(read_state(connection)[0], clock)
    return times.now(clock)


def _whole(file: Path) -> int:
    return _size(file) + sum(_size(Path(f"{file}{suffix}")) for suffix in SIDE_FILES if suffix.endswith("-wal"))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
