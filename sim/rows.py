"""The row of every run, as it is after each transition of the store."""

from __future__ import annotations

import json
from typing import Protocol

import apsw

from sim.coroutines import at_once
from stepwell.model.runs import Run
from stepwell.stores.base.filters import in_order
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import RunFilter
from stepwell.stores.sqlite.rows import to_listed_run
from stepwell.stores.sqlite.transaction import rows_of

_EVERY = RunFilter()


class Rows(Protocol):
    """Reads the rows."""

    def read(self) -> dict[str, Run]:
        """Every row as it is; the same object as the last time if none was written since."""
        ...

    def read_all(self) -> dict[str, Run]:
        """The same, and nothing that was read earlier is used."""
        ...


class StoredRows:
    """Reads all of them each time, as anybody would."""

    def __init__(self, inspector: Store) -> None:
        self._inspector = inspector

    def read(self) -> dict[str, Run]:
        return self.read_all()

    def read_all(self) -> dict[str, Run]:
        return {row.run_id: row for row in at_once(self._inspector.views.list_runs(_EVERY, limit=10_000))}


class WrittenRows(StoredRows):
    """Reads those that were written since the last time: SQLite itself tells of every row that any statement writes.

    It tells of it also if the transaction is rolled back later, but not if the table has no row numbers. The tables
    that a run's row is read from have them.
    """

    def __init__(self, inspector: Store, connection: apsw.Connection) -> None:
        super().__init__(inspector)
        self._connection = connection
        self._rows: dict[str, Run] = {}
        self._workers: list[tuple[object, ...]] = []
        self._written: set[int] = set()  # the numbers of runs
        self._are_workers_written = False
        self._are_all_read_next = True
        connection.set_update_hook(self._note)

    def _note(self, _: int, __: str, table: str, number: int) -> None:
        match table:
            case "stepwell_runs" | "stepwell_payloads":
                self._written.add(number)
            case "stepwell_workers":
                self._are_workers_written = True
            case "stepwell_definitions":
                self._are_all_read_next = True
            case _:
                pass

    def read(self) -> dict[str, Run]:
        if self._are_workers_written:
            self._compare_workers()
        written, self._written = self._written, set()
        changed = None if self._are_all_read_next else self._find(written)
        self._are_all_read_next = False
        if changed is None:
            self._rows = self.read_all()
        elif changed:
            are_new = not changed.keys() <= self._rows.keys()
            self._rows = self._rows | changed
            if are_new:
                self._rows = {row.run_id: row for row in in_order([*self._rows.values()], _EVERY.order)}
        return self._rows

    def _compare_workers(self) -> None:
        """A heartbeat writes a worker's row, and no run's row has anything of it but the name of its owner."""
        workers = [*self._connection.execute("select id, incarnation from stepwell_workers order by id")]
        self._are_all_read_next |= workers != self._workers
        self._workers, self._are_workers_written = workers, False

    def _find(self, numbers: set[int]) -> dict[str, Run] | None:
        """The rows with these numbers; None if one is gone or cannot be read, which only `read_all` can tell."""
        if not numbers:
            return {}
        try:
            found = rows_of(self._connection, "views.find_many", ids=json.dumps(sorted(numbers)))
        except UnicodeDecodeError:
            return None
        if len(found) != len(numbers):
            return None
        return {row.run_id: row for row in map(to_listed_run, found)}
