"""The footprint: where the bytes of a database are, how fast it grows, and what pruning would free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stepwell.engine.backend import Backend
from stepwell.errors import InvalidOptionError
from stepwell.stores.base.upkeep import OF_RUNS, Space, Upkeep

_ROW_BYTES: Final = 1_000  # of a run, if none was weighed


@dataclass(frozen=True, slots=True)
class TableFootprint:
    """What a table takes. Rows of a server are those of its statistics."""

    name: str
    bytes: int
    index_bytes: int
    rows: int
    dead_rows: int


@dataclass(frozen=True, slots=True)
class WorkflowFootprint:
    """What the runs of a workflow take, about: the bytes of all tables of runs, spread by the weight of some runs."""

    workflow: str
    runs: int
    bytes: int
    daily_runs: int
    daily_bytes: int
    prunable_runs: int | None  # None: nothing says how long runs are kept
    prunable_bytes: int | None


@dataclass(frozen=True, slots=True)
class Footprint:
    """Where the bytes of a database are. `reusable` bytes are free for new rows, as far as that is known."""

    bytes: int
    reusable_bytes: int | None
    log_bytes: int
    daily_bytes: int  # by which it grew in the last day, about
    prunable_bytes: int | None  # that pruning would free now, about
    tables: tuple[TableFootprint, ...]
    workflows: tuple[WorkflowFootprint, ...]
    note: str


def upkeep_of(backend: Backend) -> Upkeep:
    """The upkeep of this database. Raises `InvalidOptionError` if it exists only in this process."""
    found = backend.store.upkeep()
    if found is None:
        raise InvalidOptionError(
            "this database exists only in this process", why="it has no file and no server", fix="sqlite:///shop.db"
        )
    return found


def footprint_of(space: Space, prunable: Mapping[str, int] | None) -> Footprint:
    """The footprint from what a store measured, and the runs of each workflow that pruning would delete now."""
    tables = tuple(TableFootprint(one.name, one.bytes, one.index_bytes, one.rows, one.dead) for one in space.tables)
    of_runs = sum(one.bytes + one.index_bytes for one in tables if one.name in OF_RUNS)
    workflows = _workflows(space, of_runs, prunable)
    return Footprint(
        bytes=space.total,
        reusable_bytes=space.reusable,
        log_bytes=space.log,
        daily_bytes=sum(one.daily_bytes for one in workflows),
        prunable_bytes=None if prunable is None else sum(one.prunable_bytes or 0 for one in workflows),
        tables=tables,
        workflows=workflows,
        note=space.note,
    )


def _workflows(space: Space, of_runs: int, prunable: Mapping[str, int] | None) -> tuple[WorkflowFootprint, ...]:
    """Spread the bytes of the tables of runs. A workflow of which no run was weighed counts with the average."""
    weighed = {one.workflow: one.bytes / one.runs for one in space.weighed if one.runs}
    runs = sum(one.runs for one in space.weighed)
    average = sum(one.bytes for one in space.weighed) / runs if runs else _ROW_BYTES
    weights = {one.workflow: one.runs * weighed.get(one.workflow, average) for one in space.workflows}
    whole = sum(weights.values())
    found: list[WorkflowFootprint] = []
    for one in space.workflows:
        each = of_runs * weights[one.workflow] / whole / one.runs if whole and one.runs else 0.0
        gone = None if prunable is None else prunable.get(one.workflow, 0)
        found.append(
            WorkflowFootprint(
                workflow=one.workflow,
                runs=one.runs,
                bytes=round(each * one.runs),
                daily_runs=one.recent,
                daily_bytes=round(each * one.recent),
                prunable_runs=gone,
                prunable_bytes=None if gone is None else round(each * gone),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.workflow)))
