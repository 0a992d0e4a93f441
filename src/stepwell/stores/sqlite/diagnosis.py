"""Examines a SQLite file: the file itself, its durability, and its contents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from stepwell.clock import DAY, Clock, Instant, Span
from stepwell.environment import Environment
from stepwell.errors import StepwellError
from stepwell.model.ledger import Act, Verified, verify
from stepwell.stores.base.diagnosis import (
    Finding,
    Remedy,
    failure,
    fine,
    from_error,
    ids_between,
    judge_audit,
    judge_backlog,
    judge_blobs,
    judge_clock,
    judge_errors,
    judge_orphans,
    judge_served,
    judge_size,
    judge_stranded,
    judge_workers,
    warning,
)
from stepwell.stores.base.timeline import Timeline
from stepwell.stores.base.transfers import sealed
from stepwell.stores.sqlite.connections import SYNCHRONOUS, identify, is_shared_file, open_reader
from stepwell.stores.sqlite.database import read_state
from stepwell.stores.sqlite.faults import translated
from stepwell.stores.sqlite.retention import unused_blobs
from stepwell.stores.sqlite.texts import MIGRATIONS, SQL
from stepwell.stores.sqlite.transaction import row_of, rows_of
from stepwell.stores.sqlite.transitions.ledger import read_head
from stepwell.stores.sqlite.views import in_snapshot

_BUSY_SECONDS = 5.0
_OTHERS = 0o077
_MEBIBYTE = 1_048_576
_FREE_BYTES_MIN, _FREE_BYTES_FEW = 50 * _MEBIBYTE, 500 * _MEBIBYTE
_DUE_MAX = 1_000
_RECENT_MAX = 100_000
_LEAKED_AFTER = 2 * DAY
_FIXED_IN = (3, 51, 3)  # earlier versions lose pages if two processes write and checkpoint at once


@dataclass
class Target:
    """A file that could be opened."""

    file: Path
    connection: apsw.Connection
    clock: Clock
    is_shared: bool = False
    times: Timeline = field(default_factory=Timeline)

    @property
    def now(self) -> Instant:
        """The store's clock."""
        anchor, *_ = read_state(self.connection)
        self.times.adopt(anchor, self.clock)
        return self.times.now(self.clock)


class SqliteDiagnosis:
    """`Diagnosis` of a file."""

    def __init__(self, environment: Environment, file: Path, *, is_shared: bool = False) -> None:
        self._file = file
        self._is_shared = is_shared
        self._clock = environment.clock

    def examine(self, *, is_quick: bool = False) -> Iterator[Finding]:
        if not self._file.is_file():
            yield failure(
                "file",
                f"there is no file {self._file}",
                why="a worker or the first start creates it",
                fix="stepwell migrate, or name another file: --db sqlite:///…",
            )
            return
        yield check_file(self._file)
        try:
            with translated(str(self._file)):
                connection = open_reader(str(self._file), busy_seconds=_BUSY_SECONDS)
                is_shared = self._is_shared or is_shared_file(connection)
        except StepwellError as error:
            yield check_mode(self._file, is_shared=self._is_shared)
            yield check_disk(self._file)
            yield from_error("schema", error)
            return
        yield check_mode(self._file, is_shared=is_shared)
        yield check_disk(self._file)
        target = Target(self._file, connection, self._clock, is_shared)
        try:
            yield (schema := _run_check(check_schema, target))
            if schema.verdict == "ok":
                for check in _TABLE_CHECKS:
                    if not (is_quick and check in _SLOW_CHECKS):
                        yield _run_check(check, target)
        finally:
            connection.close()


def _run_check(check: Callable[[Target], Finding], target: Target) -> Finding:
    def once() -> Finding:
        with translated(str(target.file)):
            return check(target)

    return judge_errors(check.__name__.removeprefix("check_"), once)


# --- the file --------------------------------------------------------------------------------------------------


def check_file(file: Path) -> Finding:
    """How large the file is."""
    log = file.with_name(f"{file.name}-wal")
    size = file.stat().st_size + (log.stat().st_size if log.exists() else 0)
    return fine("file", f"{file}, {size / _MEBIBYTE:.1f} MiB")


def check_mode(file: Path, *, is_shared: bool) -> Finding:
    """Whether only the owner can read the file. The application decides about a shared file."""
    mode = file.stat().st_mode & 0o777
    if is_shared:
        return fine("mode", f"{mode:04o}: the file is shared with an application, which decides who may read it")
    if not mode & _OTHERS:
        return fine("mode", f"{mode:04o}: only its owner may read it")
    return warning(
        "mode",
        f"{mode:04o}: others may {'write' if mode & 0o022 else 'read'} it",
        why="it holds the input and output of every run, and a program that can write to it controls the workers",
        fix=f"chmod 600 {file}",
        remedy=Remedy.PROTECT,
    )


def check_disk(file: Path) -> Finding:
    """Whether there is free space."""
    free = shutil.disk_usage(file.parent).free
    found = f"{free / _MEBIBYTE:.0f} MiB free"
    if free >= _FREE_BYTES_FEW:
        return fine("disk", found)
    why, fix = "without space nothing can be recorded, so no run continues", "free some space; work continues by itself"
    if free >= _FREE_BYTES_MIN:
        return warning("disk", found, why=why, fix=fix)
    return failure("disk", found, why=why, fix=fix)


# --- the contents ---------------------------------------------------------------------------------------------


def check_schema(target: Target) -> Finding:
    """Whether the tables match this release."""
    found, needed = identify(target.connection, str(target.file), is_shared=target.is_shared), MIGRATIONS[-1].number
    if found == needed:
        beside = ", together with the tables of an application" if target.is_shared else ""
        return fine("schema", f"version {found}{beside}")
    return failure(
        "schema",
        f"version {found}, and this stepwell needs {needed}" if found else "there are no stepwell tables yet",
        why="workers and engines migrate it when they open it; the doctor does not",
        fix="stepwell migrate",
        remedy=Remedy.MIGRATE if found < needed else None,
    )


def check_durability(target: Target) -> Finding:
    """Whether acknowledged commits survive a power failure."""
    mode = target.connection.pragma("journal_mode")
    if mode != "wal":
        return warning(
            "durability",
            f"the journal mode is {mode}",
            why="stepwell uses the write-ahead log; in this mode readers and writers wait for each other",
            fix="stop everything that uses the file; the next worker restores the mode",
            remedy=Remedy.REOPEN,
        )
    return fine(
        "durability", f"write-ahead log, synchronous={SYNCHRONOUS}: a commit is acknowledged when it is on disk"
    )


def check_library(target: Target) -> Finding:
    """Whether this version of SQLite is safe."""
    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split("."))) >= _FIXED_IN:
        return fine("library", f"SQLite {version}")
    return failure(
        "library",
        f"SQLite {version}",
        why="before 3.51.3, two processes that write and checkpoint at once can lose committed data",
        fix='pip install --upgrade "apsw>=3.51.3.0"',
    )


def check_integrity(target: Target) -> Finding:
    """Whether the file is undamaged."""
    said = [str(row[0]) for row in rows_of(target.connection, "diagnosis.quick_check")]
    if said == ["ok"]:
        return fine("integrity", "quick_check found no errors")
    return failure(
        "integrity",
        "; ".join(said),
        why="the disk, or a program that wrote to the file without SQLite, damaged it",
        fix="stop everything that uses it, and restore it from a backup",
    )


def check_seal(target: Target) -> Finding:
    """Whether the database accepts writes; a moved database does not."""
    _, seal, _ = read_state(target.connection)
    return fine("seal", "it is open for writes") if seal is None else from_error("seal", sealed(seal))


def check_audit(target: Target) -> Finding:
    """Whether the audit is unchanged."""
    connection = target.connection

    def look() -> Verified:
        lines = connection.execute(SQL["transfers.list_acts"], {"after": 0})
        return verify(read_head(connection), (Act._make(row) for row in lines))

    return judge_audit(in_snapshot(connection, look))


def check_workers(target: Target) -> Finding:
    """Whether a worker is alive."""
    now = target.now
    rows = rows_of(target.connection, "workers.list")
    alive = [name for _, _, name, _, lease_until, _ in rows if lease_until > now]
    dead = [(name, lease_until) for _, _, name, _, lease_until, _ in rows if lease_until <= now]
    return judge_workers(alive, dead, has_unfinished=bool(_first(target, "has_unfinished")))


def check_stranded(target: Target) -> Finding:
    """Whether a worker that is gone still owns runs."""
    dead = rows_of(target.connection, "workers.list_dead_owners", now=target.now)
    return judge_stranded(sum(_first(target, "count_owned", owner=owner) for (owner,) in dead))


def check_orphans(target: Target) -> Finding:
    """Whether runs have no cause of progress."""
    return judge_orphans([run_id for (run_id,) in rows_of(target.connection, "views.list_orphans")])


def check_backlog(target: Target) -> Finding:
    """Whether runs wait for a worker."""
    [(due, oldest)] = rows_of(target.connection, "diagnosis.backlog", now=target.now, limit=_DUE_MAX + 1)
    return judge_backlog(due, _DUE_MAX, oldest)


def check_served(target: Target) -> Finding:
    """Whether live workers serve the due runs."""
    now = target.now
    known = [set(json.loads(row[5])) for row in rows_of(target.connection, "workers.list") if row[4] > now]
    due = {name for (name,) in rows_of(target.connection, "diagnosis.list_due_definitions", now=now)}
    return judge_served(sorted(due.difference(*known)), has_workers=bool(known))


def check_clock(target: Target) -> Finding:
    """Whether the machine's clock is behind the store's time."""
    ahead = Span(target.now - target.clock.now())
    return judge_clock(ahead, is_slowed=target.times.anchor.divisor > 1)


def check_size(target: Target) -> Finding:
    """How large the database is, and how fast it grows."""
    now = target.now
    since, until = ids_between(Instant(now - DAY), Instant(now + DAY))
    recent = _first(target, "count_recent", since=since, until=until, limit=_RECENT_MAX + 1)
    runs, size = _first(target, "count_runs"), target.file.stat().st_size
    return judge_size(size, runs, recent, _RECENT_MAX, shutil.disk_usage(target.file.parent).free)


def check_blobs(target: Target) -> Finding:
    """Whether large payloads are left that nothing refers to."""
    return judge_blobs(len(unused_blobs(target.connection, Instant(target.now - _LEAKED_AFTER))))


def _first(target: Target, statement: str, **parameters: Any) -> Any:
    row = row_of(target.connection, f"diagnosis.{statement}", **parameters)
    assert row is not None
    return row[0]


_TABLE_CHECKS = (
    check_durability,
    check_library,
    check_integrity,
    check_seal,
    check_audit,
    check_workers,
    check_stranded,
    check_orphans,
    check_backlog,
    check_served,
    check_clock,
    check_size,
    check_blobs,
)
_SLOW_CHECKS = (check_integrity, check_audit, check_blobs)  # they read the whole file, the audit, and all values
