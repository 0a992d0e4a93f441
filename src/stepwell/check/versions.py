"""Which patches inside workflows runs still need."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from stepwell.check.dry import FILES_CODEC
from stepwell.check.exports import export_runs
from stepwell.check.histories import Recording
from stepwell.check.inflight import PAGE, Code, Tell
from stepwell.clock import Instant
from stepwell.engine.versions import REDRIVABLE
from stepwell.model.locations import format_path, shown_gate
from stepwell.model.runs import Run
from stepwell.model.states import ACTIVE, EntryKind
from stepwell.replay.headers import unpack
from stepwell.replay.rehearsals import perform
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import RunFilter

OLD: Final = 1  # the version of runs that passed a gate before the gate was added
NEEDING: Final = ACTIVE | REDRIVABLE


class PatchUse(NamedTuple):
    """How many runs that may continue are on which side of a version gate (`ctx.version`, `ctx.patched`)."""

    workflow: str
    name: str
    old: int  # runs on the old path
    new: int  # runs on a new one
    unknown: int  # older than the first run at the gate, and without a record of it: on the old path if they passed it

    @property
    def may_delete(self) -> bool:
        """Whether no run needs the old path."""
        return self.old == 0 and self.unknown == 0


async def patch_uses(
    store: Store, *, workflow: str | None = None, code: Code | None = None, tell: Tell = lambda done: None
) -> list[PatchUse]:
    """Every version gate that a run which may continue has recorded, or would record with the current code.

    With `code`, nothing is unknown: each run is replayed, which shows the path that it takes.
    """
    found = _Pins()
    where, before, done = RunFilter(statuses=tuple(sorted(NEEDING)), workflow=workflow), None, 0
    while page := await store.views.list_runs(where, limit=PAGE, before=before):
        for recording in await export_runs(store, page):
            pins, is_sure = _pins_of(recording, code)
            found.add(recording.run, pins, is_sure=is_sure)
        before, done = page[-1].run_id, done + len(page)
        tell(done)
    return found.uses()


def _pins_of(recording: Recording, code: Code | None) -> tuple[list[tuple[str, int]], bool]:
    """The gates of a run with their recorded versions, and whether the run has passed no other gate."""
    names = recording.history.names
    recorded = [
        (shown_gate(format_path(entry.location, names)), int(unpack(entry.value)[0][0]))
        for entry in recording.history.entries
        if entry.kind is EntryKind.VERSION
    ]
    workflow = None if code is None else code.registry.find(recording.run.definition)
    if code is None or workflow is None:
        return recorded, False
    try:
        rehearsal = perform(workflow, recording.run, recording.history, code.codec or FILES_CODEC, code.threads)
    except Exception:  # noqa: BLE001  this code does not fit the run, so its record counts
        return recorded, False
    return (list(rehearsal.pins), True) if rehearsal.problem is None else (recorded, False)


class _Pins:
    """Collects the gates of runs."""

    def __init__(self) -> None:
        self._old: Counter[tuple[str, str]] = Counter()
        self._new: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], Instant] = {}  # when the earliest run with a new path was created
        self._doubtful: list[tuple[Run, frozenset[str]]] = []  # with the known gates of each

    def add(self, run: Run, pins: list[tuple[str, int]], *, is_sure: bool) -> None:
        # A gate in a loop is decided in each round: one round on the old path puts the run on the old path.
        lowest: dict[str, int] = {}
        for path, pinned in pins:
            name = path.rpartition("/")[2]
            lowest[name] = min(pinned, lowest.get(name, pinned))
        for name, pinned in lowest.items():
            gate = run.workflow, name
            (self._old if pinned == OLD else self._new)[gate] += 1
            if pinned != OLD:
                self._first[gate] = min(run.created_at, self._first.get(gate, run.created_at))
        if not is_sure:
            self._doubtful.append((run, frozenset(lowest)))

    def uses(self) -> list[PatchUse]:
        gates = sorted({*self._old, *self._new})
        return [PatchUse(*gate, self._old[gate], self._new[gate], self._unknown(gate)) for gate in gates]

    def _unknown(self, gate: tuple[str, str]) -> int:
        first = self._first.get(gate)
        return sum(
            run.workflow == gate[0] and gate[1] not in known and (first is None or run.created_at < first)
            for run, known in self._doubtful
        )
