"""Reads for people. No write depends on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from stepwell.clock import Instant
from stepwell.ids import RunId, SignalId
from stepwell.model.attributes import AttributeKind
from stepwell.model.entries import Progress
from stepwell.model.events import IncomingEvent, KeptEvent
from stepwell.model.live import Page, Published
from stepwell.model.runs import History, Run
from stepwell.model.signals import Question, Signal
from stepwell.model.states import RunStatus
from stepwell.model.workers import Worker
from stepwell.stores.base.filters import Condition, Order


class RunFilter(NamedTuple):
    """Which runs to list, and in which order. Empty means all, newest first by id."""

    statuses: tuple[RunStatus, ...] = ()
    workflow: str | None = None
    key: str | None = None
    parent: RunId | None = None
    conditions: tuple[Condition, ...] = ()  # all of them hold
    order: Order = Order()


class Detail(NamedTuple):
    """One run with its complete record, in one consistent read."""

    run: Run
    history: History
    signals: tuple[Signal, ...]  # pending
    children: tuple[Run, ...]
    events: tuple[IncomingEvent, ...] = ()  # not received yet


class StepProgress(NamedTuple):
    """How far the body of one step has come."""

    path: str
    progress: Progress


class HeldSignal(NamedTuple):
    """A signal for a key that had no active run."""

    key: str
    signal: Signal


class UnreadSignal(NamedTuple):
    """A signal that its run did not read before it ended, or that its run refused."""

    run_id: RunId
    status: RunStatus  # of the run
    reason: str  # of a refusal; empty if the run ended
    signal: Signal
    refused_by: str = ""  # the incarnation of the worker that refused it


class Audit(NamedTuple):
    """One act of an operator."""

    at: Instant
    run_id: RunId
    verb: str
    by: str
    before: str
    after: str
    reason: str


class Tally(NamedTuple):
    """How many runs of a definition have a status."""

    definition: str
    status: RunStatus
    runs: int
    last_at: Instant  # when one of them was last created, started or ended


class UnfinishedCounts(NamedTuple):
    """How many runs have not ended."""

    runs: Mapping[RunStatus, int]  # by status; statuses without runs are left out
    due: int  # runs that may be claimed now
    due_since: Instant | None  # since when the oldest of these may be claimed


class UpcomingWork(NamedTuple):
    """What an idle worker needs to know."""

    next_wake: Instant | None  # the earliest `wake_at` among the runs that it serves and may claim
    has_stranded: bool  # whether `rescue` would find a run
    lease_ends_at: Instant | None  # when the first live lease expires, unless it is renewed


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

    async def list_published(self, run_id: RunId) -> list[Published]:
        """What the run has published, by name; also after its end."""
        ...

    async def list_streams(self, run_id: RunId) -> list[str]:
        """The names of the streams that the run has appended to, sorted."""
        ...

    async def read_stream(self, run_id: RunId, stream: str, *, after: int, limit: int) -> Page:
        """At most `limit` chunks with an offset above `after`, in their order, in one consistent read.

        A stream without any lines is empty; a stream of an unknown run has ended.
        """
        ...

    async def list_progress(self, run_ids: Sequence[RunId]) -> list[list[StepProgress]]:
        """How far the long steps of each run have come, by location, in a constant number of queries."""
        ...

    async def list_runs(self, where: RunFilter, *, limit: int, before: RunId | None = None) -> list[Run]:
        """At most `limit` runs in the filter's order, after the run `before`.

        In an order by id, `before` need not be the id of a run. In any other order, an unknown `before` gives an empty
        list.
        """
        ...

    async def count_runs(self, where: RunFilter, *, limit: int) -> int:
        """How many runs match a filter; the count stops at `limit`."""
        ...

    async def list_workers(self) -> list[Worker]:
        """Registered workers, live or not, oldest first."""
        ...

    async def list_held(self, *, limit: int, key: str | None = None) -> list[HeldSignal]:
        """Held signals, of one key or of all, oldest first."""
        ...

    async def list_unread(
        self, *, limit: int, run_id: RunId | None = None, after: int = 0, is_refused: bool = False
    ) -> list[UnreadSignal]:
        """Signals that ended runs did not read, and signals that runs refused, oldest first, with numbers above
        `after`; with `is_refused` only the latter.
        """
        ...

    async def find_question(self, signal_id: SignalId) -> Question | None:
        """What became of a signal that asked; None if there is no such signal."""
        ...

    async def list_events(self, *, limit: int, topic: str | None = None) -> list[KeptEvent]:
        """The events that topics (or one topic) keep for future waits, oldest first; expired events are left out."""
        ...

    async def list_audit(self, run_id: RunId) -> list[Audit]:
        """Acts on one run, oldest first."""
        ...

    async def list_definitions(self) -> list[str]:
        """Every "name@version" that a run or a worker in this store names."""
        ...

    async def list_attribute_kinds(self, name: str) -> list[AttributeKind]:
        """The types that an attribute has, over all runs; none if no run has it."""
        ...

    async def tally_runs(self) -> list[Tally]:
        """All runs, counted by definition and status, in the order of both. It reads every run, so it is for people
        only.
        """
        ...

    async def count_unfinished(self) -> UnfinishedCounts:
        """Counts of the runs that have not ended, from indexes; for monitors that ask every few seconds."""
        ...

    async def next_wake(self, definitions: Collection[str]) -> Instant | None:
        """The earliest `wake_at` among runs of these definitions, except those of paused workflows. One index look-up
        each; writes nothing.
        """
        ...

    async def has_stranded(self) -> bool:
        """Whether `rescue` would find a run. Writes nothing."""
        ...

    async def upcoming_work(self, definitions: Collection[str]) -> UpcomingWork:
        """`next_wake` and `has_stranded` in one read, and when the first lease expires. Writes nothing."""
        ...

    async def orphans(self) -> list[RunId]:
        """Active runs with no durable cause of progress; must always be empty.

        A cause of progress is: an owner; a `wake_at`; being paused or compensation_failed (an operator must act); or
        having, while the run waits, at least one signal wait or open topic wait, or a child wait whose child is active.
        """
        ...
