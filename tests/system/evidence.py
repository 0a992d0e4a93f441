"""What a storm leaves behind: the ledger on one side, the database on the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stepwell import Engine
from stepwell.engine.views import entry_views, plain
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail
from stepwell.views import EntryView
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
    cleared: float  # when its worker decided to begin it, and under which incarnation
    incarnation: str
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
    effects: list[tuple[str, str]] = field(default_factory=list)  # run and value of each row of transactional steps
    executions: list[Execution] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)  # the value of every step that is recorded anywhere

    def __post_init__(self) -> None:
        self.executions = executions_of(self.lines)
        self.recorded = {
            str(entry.value)
            for found in self.runs.values()
            for entry in found.entries
            if entry.kind == "step" and entry.status == "done"
        }

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
    cleared: dict[tuple[Any, ...], tuple[float, str]] = {}
    begun: dict[str, Execution] = {}
    for line in lines:
        facts = line.facts
        match line.kind:
            case "cleared":
                place = (line.pid, facts["run"], facts["path"], facts["attempt"])
                cleared[place] = (facts["decided"], facts["incarnation"])
            case "begin":
                place = (line.pid, facts["run"], facts["path"], facts["attempt"])
                at, incarnation = cleared.get(place, (line.at, ""))  # not every worker notes what it decides
                execution = Execution(**facts, pid=line.pid, began=line.at, cleared=at, incarnation=incarnation)
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
    while page := await engine.runs.list(limit=_PAGE, before=before):
        before = page[-1].run_id
        for view in page:
            detail = await engine.runs.detail(view.run_id)
            observed.see(detail)
            runs[view.run_id] = Found(detail, entry_views(detail))
    left = [*await engine.outbox.list_pending(), *await engine.outbox.list_dead()]
    owed = [f"{event.name} of run {event.run_id}" for event in left]
    return Evidence(lines, runs, list(await store.views.orphans()), observed, owed)
