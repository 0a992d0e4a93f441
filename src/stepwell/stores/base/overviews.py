"""Overviews: reads for pages that are shown and refreshed often. The cost of each has a limit, whatever is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from stepwell.clock import Instant, Span
from stepwell.ids import EventId, RunId
from stepwell.model.entries import Attempt, Entry, Progress
from stepwell.model.locations import Location
from stepwell.model.runs import Run
from stepwell.model.signals import Signal
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.stores.base.views import HeldSignal, RunFilter, UnreadSignal

FAILED = frozenset({RunStatus.FAILED, RunStatus.COMPENSATED, RunStatus.COMPENSATION_FAILED})
"""The statuses that a histogram counts as failed."""


class Summary(NamedTuple):
    """A run without its input and output."""

    run_id: RunId
    workflow: str
    version: int
    status: RunStatus
    key: str | None
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    failure: bytes | None


class Bin(NamedTuple):
    """How many runs were created in one part of a range of time."""

    number: int  # from 0
    runs: int
    failed: int  # of them


class Histogram(NamedTuple):
    """The parts with runs, in order.

    `since` is the beginning of the range, or of what was counted of the ended runs. `is_whole` is false if not all runs
    that have not ended were counted.
    """

    bins: tuple[Bin, ...]
    since: Instant
    is_whole: bool


class State(NamedTuple):
    """The state of a run, for those who look for changes."""

    run_id: RunId
    workflow: str
    version: int
    status: RunStatus
    key: str | None
    revision: int
    created_at: Instant
    ended_at: Instant | None


class Standing(NamedTuple):
    """Where a run stands: what it waits for and has not received, without its history."""

    names: tuple[str, ...]
    waits: tuple[Wait, ...]
    attempts: tuple[Attempt, ...]  # at the places of the waits
    progress: tuple[Progress, ...]
    signals: tuple[Signal, ...]  # pending, the oldest
    children: tuple[State, ...]  # that have not ended, the oldest


class Movement(NamedTuple):
    """Runs that may have changed. `is_whole` is false if more than the limit were created or have ended."""

    runs: tuple[State, ...]
    is_whole: bool


NOWHERE = Standing((), (), (), (), (), ())
"""The standing of an unknown run."""


class TopicUse(NamedTuple):
    """What happens on a topic."""

    topic: str
    waiting: int  # open waits
    kept: int  # events for future waits
    published: int  # of the latest events of all topics
    last_at: Instant | None  # of them


class PastEvent(NamedTuple):
    """An event that was published, without its payload, as long as its id is remembered."""

    event_id: EventId
    topic: str
    deliver: str
    published_at: Instant
    reached: int  # runs that got it when it was published, or were started by it
    kept_until: Instant | None  # for later waits; None if the topic does not keep it now


class SinkUse(NamedTuple):
    """What one sink is owed."""

    sink: str
    pending: int
    failing: int  # of them: they failed at least once
    dead: int
    oldest_at: Instant | None  # when the oldest pending event was emitted
    failure: str  # the last one of the newest event that failed; empty if none did


class WaitGroup(NamedTuple):
    """Runs of one workflow that wait for the same signal or topic."""

    kind: WaitKind
    names: tuple[str, ...]
    workflow: str
    version: int
    runs: int
    next_due_at: Instant | None  # when the first of them gives up
    example: RunId


def largest_first(groups: Iterable[WaitGroup]) -> list[WaitGroup]:
    """Groups in the order in which they are listed."""
    return sorted(groups, key=lambda one: (-one.runs, one.kind, one.names, one.workflow, one.version))


class Outline(NamedTuple):
    """The history of a run without its values: an entry has an empty value, and an empty undo if it can be undone."""

    run: Run
    names: tuple[str, ...]
    entries: tuple[Entry, ...]  # by seq
    waits: tuple[Wait, ...]
    progress: tuple[Progress, ...]


class Passage(NamedTuple):
    """A part of the history of a run."""

    names: tuple[str, ...]
    entries: tuple[Entry, ...]  # by seq
    attempts: tuple[Attempt, ...]  # at the places of these entries
    undone: tuple[Location, ...]  # the places of these entries that are undone


class OverviewStore(Protocol):
    """Reads with a bounded cost. No write depends on them."""

    async def list_summaries(self, where: RunFilter, *, limit: int, before: RunId | None = None) -> list[Summary]:
        """`ViewStore.list_runs` without payloads. A run whose row cannot be read is left out."""
        ...

    async def count_created(
        self, where: RunFilter, *, since: Instant, until: Instant, width: Span, scan_max: int
    ) -> Histogram:
        """How many runs of a filter were created from `since` to before `until`, in parts of a width.

        At most `scan_max` ended runs of the range are looked at, the newest, and as many that have not ended. If there
        are more ended runs, `since` of the answer is later than asked: no ended run from before it is counted.
        """
        ...

    async def list_standings(self, run_ids: Sequence[RunId], *, limit: int) -> list[Standing]:
        """Where each run stands, in one consistent read, with at most `limit` signals and children of each.

        The standing of an unknown run is empty.
        """
        ...

    async def list_movement(self, since: Instant, watched: Sequence[RunId], *, limit: int) -> Movement:
        """Runs that were created or ended at or after `since`, runs that have an owner, are paused or stopped, and the
        watched runs; at most `limit` of each kind.

        A run that has begun to wait since then is here only if it is watched or was created since.
        """
        ...

    async def list_topics(self, *, limit: int) -> list[TopicUse]:
        """The topics of open waits, of kept events and of the latest events, by name. At most `limit` rows of each are
        counted.
        """
        ...

    async def list_past_events(self, topic: str | None, *, limit: int, scan_max: int) -> list[PastEvent]:
        """The latest events of a topic, or of all, newest first. At most `scan_max` events are looked at."""
        ...

    async def tally_owed(self, *, limit: int) -> list[SinkUse]:
        """What each sink is owed, by its name. At most `limit` events are counted, the oldest."""
        ...

    async def tally_waits(self, *, limit: int) -> list[WaitGroup]:
        """Waits for signals and topics, grouped; the largest group first. At most `limit` waits are counted."""
        ...

    async def find_undelivered(self, number: int) -> HeldSignal | UnreadSignal | None:
        """A signal that no run will read, by its number: held, refused, or left by an ended run."""
        ...

    async def read_outline(self, run_id: RunId) -> Outline | None:
        """The history of a run without its values."""
        ...

    async def list_entries(self, run_id: RunId, *, after: int, limit: int) -> Passage:
        """At most `limit` entries with a seq above `after`, in their order. Of an unknown run there are none."""
        ...

    async def find_entries(self, run_id: RunId, seqs: Sequence[int]) -> Passage:
        """The entries with these numbers; those that do not exist are left out."""
        ...
