"""One write transaction, as a transition uses it: statements, the time, and hints to send afterwards."""

from __future__ import annotations

from typing import Any

import apsw

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.stores.sqlite.texts import SQL

Row = tuple[Any, ...]


# The row number and the revision of a run after a claim or commit of this process. They may be outdated, so a caller
# that uses them must verify them.
KnownRevision = tuple[int, int]
_KNOWN_MAX = 10_000


class Transaction:
    """Everything in it is written completely or not at all; `now` does not change."""

    __slots__ = ("_definitions", "_hints", "connection", "execute", "known_revisions", "now", "write")

    def __init__(self, connection: apsw.Connection, now: Instant, known_revisions: dict[RunId, KnownRevision]) -> None:
        self.connection = connection
        self.execute = connection.execute
        # For statements without rows: they can share one cursor, and creating one costs as much as a small write.
        self.write = connection.cursor().execute
        self.now = now
        self.known_revisions = known_revisions
        # Only the numbers that this transaction read or assigned: after a rollback they would be wrong.
        self._definitions: dict[tuple[str, int, int], int] = {}
        self._hints: dict[HintKind, dict[RunId, None]] = {}

    def run(self, statement: str, **parameters: Any) -> None:
        """Execute a named statement that returns no rows."""
        self.write(SQL[statement], parameters)

    def find(self, statement: str, **parameters: Any) -> Row | None:
        """The first row of a named statement."""
        row: Row | None = self.execute(SQL[statement], parameters).fetchone()
        return row

    def rows(self, statement: str, **parameters: Any) -> list[Row]:
        """All rows of a named statement."""
        found: list[Row] = self.execute(SQL[statement], parameters).fetchall()
        return found

    def definition(self, workflow: str, version: int, priority: int) -> int:
        """The number of a definition at a priority; a new definition gets its number now."""
        known = self._definitions.get((workflow, version, priority))
        if known is None:
            row = self.find("definitions.find", workflow=workflow, version=version, priority=priority) or self.find(
                "definitions.add", workflow=workflow, version=version, priority=priority
            )
            assert row is not None
            known = self._definitions[workflow, version, priority] = int(row[0])
        return known

    def remember(self, run_id: RunId, run: int, revision: int) -> None:
        """Remember the state of a run, so that its next commit need not read it."""
        if len(self.known_revisions) >= _KNOWN_MAX:
            self.known_revisions.clear()
        self.known_revisions[run_id] = run, revision

    def hint(self, kind: HintKind, run_id: RunId) -> None:
        """Send this hint after the commit."""
        self._hints.setdefault(kind, {})[run_id] = None

    def unhint(self, kind: HintKind, run_id: RunId) -> None:
        """Do not send this hint after all."""
        runs = self._hints.get(kind, {})
        runs.pop(run_id, None)
        if not runs:
            self._hints.pop(kind, None)

    def hint_all(self, kind: HintKind) -> None:
        """Send a hint that is about no particular run."""
        self._hints.setdefault(kind, {})

    def hints(self) -> list[Hint]:
        """The hints to send."""
        return [Hint(kind, tuple(runs)) for kind, runs in self._hints.items()] if self._hints else []


def rows_of(connection: apsw.Connection, statement: str, **parameters: Any) -> list[Row]:
    """All rows of a named statement, for reads outside a transaction."""
    rows: list[Row] = connection.execute(SQL[statement], parameters).fetchall()
    return rows


def row_of(connection: apsw.Connection, statement: str, **parameters: Any) -> Row | None:
    """The first row of a named statement, for reads outside a transaction."""
    row: Row | None = connection.execute(SQL[statement], parameters).fetchone()
    return row
