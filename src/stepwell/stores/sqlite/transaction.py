"""One write transaction as a transition sees it: statements, the time, and hints to tell afterwards."""

from __future__ import annotations

from typing import Any

import apsw

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.stores.sqlite.texts import SQL

Row = tuple[Any, ...]


# The number and the revision that a claim or commit of this process left a run with. It may have changed since:
# whoever uses it makes sure.
Left = tuple[int, int]
_LEFT_MAX = 10_000


class Transaction:
    """What happens in it happens whole or not at all; `now` is one instant throughout."""

    __slots__ = ("_definitions", "_hints", "connection", "execute", "left", "now", "write")

    def __init__(self, connection: apsw.Connection, now: Instant, left: dict[RunId, Left]) -> None:
        self.connection = connection
        self.execute = connection.execute
        # For statements that give no rows: these can do with one cursor, and making one costs as much as a small write.
        self.write = connection.cursor().execute
        self.now = now
        self.left = left
        # Numbers given in this transaction only: one that is rolled back takes them with it.
        self._definitions: dict[tuple[str, int, int], int] = {}
        self._hints: dict[HintKind, dict[RunId, None]] = {}

    def run(self, statement: str, **parameters: Any) -> None:
        """Execute a named statement that gives no rows."""
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
        """The number of a definition at a priority, given now if it is new."""
        known = self._definitions.get((workflow, version, priority))
        if known is None:
            row = self.find("definitions.find", workflow=workflow, version=version, priority=priority) or self.find(
                "definitions.add", workflow=workflow, version=version, priority=priority
            )
            assert row is not None
            known = self._definitions[workflow, version, priority] = int(row[0])
        return known

    def leave(self, run_id: RunId, run: int, revision: int) -> None:
        """Note how a run is left: its next commit need not look."""
        if len(self.left) >= _LEFT_MAX:
            self.left.clear()
        self.left[run_id] = run, revision

    def hint(self, kind: HintKind, run_id: RunId) -> None:
        """Note what to tell after the commit."""
        self._hints.setdefault(kind, {})[run_id] = None

    def unhint(self, kind: HintKind, run_id: RunId) -> None:
        """What was to be told of a run is no news any more."""
        runs = self._hints.get(kind, {})
        runs.pop(run_id, None)
        if not runs:
            self._hints.pop(kind, None)

    def announce(self, kind: HintKind) -> None:
        """Note what to tell that is about no run in particular."""
        self._hints.setdefault(kind, {})

    def hints(self) -> list[Hint]:
        """What to tell."""
        return [Hint(kind, tuple(runs)) for kind, runs in self._hints.items()] if self._hints else []


def rows_of(connection: apsw.Connection, statement: str, **parameters: Any) -> list[Row]:
    """All rows of a named statement, for reads outside a transaction."""
    rows: list[Row] = connection.execute(SQL[statement], parameters).fetchall()
    return rows


def row_of(connection: apsw.Connection, statement: str, **parameters: Any) -> Row | None:
    """The first row of a named statement, for reads outside a transaction."""
    row: Row | None = connection.execute(SQL[statement], parameters).fetchone()
    return row
