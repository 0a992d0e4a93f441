"""What a storm leaves behind: the ledger on one side, the database on the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from stepwell import Engine, EntryView
from stepwell.engine.views import entry_views, plain
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail
from tests.system.ledger import Line

_PAGE = 500


@dataclass(slots=True, eq=False)
class Execution:
    """One time that a body ran."""

    run: str
    path: str
    attempt: int
    key: str
    value: str
    given: str
    pid: int
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One run, as the database has it."""

    detail: Detail
    entries: list[EntryView]

    @property
    def status(self) -> RunStatus:
        """How it ended, if it did."""
        return self.detail.run.status

    @property
    def output(self) -> Any:
        """What it returned."""
        return plain(self.detail.run.output)


@dataclass(slots=True)
class Observed:
    """Entries that were seen while the storm went on: none of them may ever change."""

    entries: dict[tuple[str, int], tuple[bytes, bytes]] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)

    def see(self, detail: Detail) -> None:
        """Remember what is recorded of a run, and compare it with what was seen before."""
        for entry in detail.history.entries:
            seen = self.entries.setdefault((detail.run.run_id, entry.seq), (entry.location, entry.value))
            if seen != (entry.location, entry.value):
                self.changed.append(f"run {detail.run.run_id} entry {entry.seq} changed")


@dataclass(slots=True)
class Evidence:
    """All of it."""

    lines: list[Line]
    runs: dict[str, Found]
    orphans: list[str]
    observed: Observed
    owed: list[str] = field(default_factory=list)  # events that no sink got
    executions: list[Execution] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.executions = executions_of(self.lines)

    def of(self, kind: str) -> list[Line]:
        """The lines of one kind, by time."""
        return [line for line in self.lines if line.kind == kind]

    def last_of_chain(self, run_id: str) -> Found | None:
        """The run that ended a chain of continue-as-new."""
        found = self.runs.get(run_id)
        while found is not None and found.detail.run.successor is not None:
            found = self.runs.get(found.detail.run.successor)
        return found


def executions_of(lines: list[Line]) -> list[Execution]:
    """Every body that was begun, by time."""
    begun: dict[str, Execution] = {}
    for line in lines:
        match line.kind:
            case "begin":
                execution = Execution(**line.facts, pid=line.pid, began=line.at)
                begun[execution.value] = execution
            case "end":
                begun[line.facts["value"]].ended = line.at
            case _:
                pass
    return list(begun.values())


async def collect(engine: Engine, store: Store, lines: list[Line], observed: Observed) -> Evidence:
    """Read every run through the engine."""
    runs: dict[str, Found] = {}
    before: str | None = None
    while page := await engine.list_runs(limit=_PAGE, before=before):
        before = page[-1].run_id
        for view in page:
            detail = await engine.detail(view.run_id)
            observed.see(detail)
            runs[view.run_id] = Found(detail, entry_views(detail))
    left = [*await engine.outbox.pending(), *await engine.outbox.dead()]
    owed = [f"{event.name} of run {event.run_id}" for event in left]
    return Evidence(lines, runs, list(await store.views.orphans()), observed, owed)


def check_file(path: Path) -> list[str]:
    """SQLite's own opinion of the file, once everybody has closed it."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        answers = [str(row[0]) for row in connection.execute("pragma integrity_check")]
        twice = connection.execute(
            "select count(*) from (select 1 from stepwell_entries group by run, seq having count(*) > 1)"
        ).fetchone()
    finally:
        connection.close()
    problems = [] if answers == ["ok"] else [f"integrity check: {answer}" for answer in answers]
    if twice is None or twice[0] != 0:
        problems.append(f"{twice} numbers in histories are used twice")
    return problems
