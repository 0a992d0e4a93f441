"""Amendments: what a repair changes in the record of a run, applied whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.entries import Attempt, Cursor, Entry
from stepwell.model.locations import Location
from stepwell.model.outbox import Announce
from stepwell.model.runs import NewRun, Ranges
from stepwell.model.states import RunStatus
from stepwell.model.waits import Wait

# Statuses that a repair may start from: no worker owns the run, and it has not ended permanently.
AMENDABLE: Final = frozenset({RunStatus.PENDING, RunStatus.WAITING, RunStatus.PAUSED, RunStatus.FAILED})

REWOUND: Final = "its parent was rewound"


class Dropped(NamedTuple):
    """A child that its parent no longer calls."""

    run_id: RunId
    location: Location  # in the parent, from now on
    successor: RunId | None = None  # the child that takes its place and its key


class Amendment(NamedTuple):
    """One repair of one run, planned from the state that it expects to find."""

    amendment_id: str  # of this repair: a repeated request does not repair twice
    run_id: RunId
    status: RunStatus  # expected, as are the next two
    epoch: int
    revision: int
    verb: str
    by: str = ""
    reason: str = ""
    forgotten: tuple[Location, ...] = ()  # places whose entries are deleted
    ended_cursors: tuple[Location, ...] = ()
    ended_progress: tuple[Location, ...] = ()
    attempts: tuple[Attempt, ...] = ()  # kept of results that are deleted
    entries: tuple[Entry, ...] = ()  # supplied by the operator; numbered from the run's last seq on
    waits: tuple[Wait, ...] = ()  # the whole set
    children: tuple[Dropped, ...] = ()
    retries: tuple[RunId, ...] = ()  # failed children that try again
    version: int | None = None  # of the workflow, if it changes
    input: bytes | None = None  # if it changes
    announce: Announce | None = None  # sinks to notify of children that are cancelled
    names: tuple[str, ...] = ()  # appended to the run's numbered names
    consumed: tuple[int, ...] = ()  # signals that the supplied entries count as having used
    loose: Ranges = ()  # `Run.loose` from now on
    # Of a run that is only woken or rescheduled: when it is due. None: now, with a fresh budget of attempts.
    wake_at: Instant | None = None


class Amended(StrEnum):
    """What became of an amendment."""

    APPLIED = "applied"
    STALE = "stale"  # the run is not as expected: nothing was written
    KEY_TAKEN = "key_taken"  # another active run has the key of this ended one: nothing was written


class Fork(NamedTuple):
    """A new run that begins with a part of what another one has recorded."""

    new: NewRun
    source: RunId
    epoch: int  # of the source, expected, as is the revision
    revision: int
    names: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()  # numbered from 1 without a gap
    cursors: tuple[Cursor, ...] = ()
    by: str = ""
    reason: str = ""
    loose: Ranges = ()
    verb: str = "fork"  # for the audit of the source


def loosened(loose: Ranges, taken: Iterable[int], kept: Iterable[int]) -> Ranges:
    """The entries that code may leave out once the entries `taken` are deleted and the entries `kept` are not.

    An entry recorded after the first deleted one may be its consequence: the handling of a failure, for example, that
    will not happen again. Entries recorded before it must still be reached.
    """
    first = min(taken, default=None)
    after = [] if first is None else [seq for seq in kept if seq > first]
    return (*loose, (first, max(after))) if first is not None and after else loose
