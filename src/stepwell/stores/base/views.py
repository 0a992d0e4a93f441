"""Reads for people: they never decide a write."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.entries import Progress
from stepwell.model.runs import History, Run
from stepwell.model.signals import Signal
from stepwell.model.states import RunStatus
from stepwell.model.workers import Worker


class RunFilter(NamedTuple):
    """Which runs to list. Empty means all."""

    statuses: tuple[RunStatus, ...] = ()
    workflow: str | None = None
    key: str | None = None
    parent: RunId | None = None


class Detail(NamedTuple):
    """One run with all that is recorded of it, in one consistent read."""

    run: Run
    history: History
    signals: tuple[Signal, ...]  # pending
    children: tuple[Run, ...]


class StepProgress(NamedTuple):
    """How far the body of one step has come."""

    path: str
    progress: Progress


class HeldSignal(NamedTuple):
    """A signal for a key that had no active run."""

    key: str
    signal: Signal


class Audit(NamedTuple):
    """One act of an operator."""

    at: Instant
    run_id: RunId
    verb: str
    by: str
    before: str
    after: str
    reason: str


class ViewStore(Protocol):
    """Read-only listings."""

    async def find(self, target: str) -> Run | None:
        """The run with this id; else the run of this (normalised) key: the active one, or the one created last."""
        ...

    async def find_many(self, targets: Sequence[str]) -> list[Run | None]:
        """`find` for each, in a constant number of queries."""
        ...

    async def find_by_prefix(self, prefix: str, *, limit: int) -> list[RunId]:
        """Ids that begin with a prefix."""
        ...

    async def detail(self, run_id: RunId) -> Detail | None:
        """Everything about one run, payloads included."""
        ...

    async def list_progress(self, run_ids: Sequence[RunId]) -> list[list[StepProgress]]:
        """How far the long steps of each run have come, by location, in a constant number of queries."""
        ...

    async def list_runs(self, where: RunFilter, *, limit: int, before: RunId | None = None) -> list[Run]:
        """Newest first (by id), at most `limit`, those with ids below `before`."""
        ...

    async def list_workers(self) -> list[Worker]:
        """Registered workers, live or not, oldest first."""
        ...

    async def list_held(self, *, limit: int) -> list[HeldSignal]:
        """Held signals, oldest first."""
        ...

    async def list_audit(self, run_id: RunId) -> list[Audit]:
        """Acts on one run, oldest first."""
        ...

    async def list_definitions(self) -> list[str]:
        """Every "name@version" that a run or a worker in this store names."""
        ...

    async def next_wake(self, definitions: Collection[str]) -> Instant | None:
        """The earliest `wake_at` among runs of these definitions. One index look-up each; writes nothing."""
        ...

    async def has_stranded(self) -> bool:
        """Whether `rescue` would find anything. Writes nothing."""
        ...

    async def orphans(self) -> list[RunId]:
        """Active runs with no durable cause of progress; must always be empty.

        A cause is: an owner; a `wake_at`; being paused or compensation_failed (an operator's turn); being parked with
        at least one signal wait, or
        with a child wait whose child is active.
        """
        ...
