"""Amendments: what a repair changes in the record of a run, applied whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from stepwell.ids import RunId
from stepwell.model.entries import Attempt, Cursor, Entry
from stepwell.model.locations import Location
from stepwell.model.outbox import Announce
from stepwell.model.runs import NewRun, Ranges
from stepwell.model.states import RunStatus
from stepwell.model.waits import Wait

# What no worker holds and no end has closed for good.
AMENDABLE: Final = frozenset({RunStatus.PENDING, RunStatus.WAITING, RunStatus.PAUSED, RunStatus.FAILED})

REWOUND: Final = "its parent was rewound"


class Dropped(NamedTuple):
    """A child that its parent calls no more."""

    run_id: RunId
    location: Location  # in the parent, from now on
    successor: RunId | None = None  # the child that will stand where it stood, and gets its key


class Amendment(NamedTuple):
    """One repair of one run, planned from the state that it expects to find."""

    amendment_id: str  # of this very repair: asking again does not repair twice
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
    attempts: tuple[Attempt, ...] = ()  # what is known of results that are deleted
    entries: tuple[Entry, ...] = ()  # supplied; they continue the run's seq
    waits: tuple[Wait, ...] = ()  # the whole set
    children: tuple[Dropped, ...] = ()
    retries: tuple[RunId, ...] = ()  # failed children that try again
    version: int | None = None  # of the workflow, if it changes
    input: bytes | None = None  # if it changes
    announce: Announce | None = None  # who hears of children that are cancelled
    names: tuple[str, ...] = ()  # appended to the run's numbered names
    consumed: tuple[int, ...] = ()  # signals that the supplied entries count as having used
    loose: Ranges = ()  # `Run.loose` from now on


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


def loosened(loose: Ranges, taken: Iterable[int], kept: Iterable[int]) -> Ranges:
    """What the code may leave out once entries of these numbers are taken out and those are kept.

    What was recorded after the first of them may be the consequence of it: a failure that was handled, say, and will
    not happen again. What was recorded before is as binding as ever.
    """
    first = min(taken, default=None)
    after = [] if first is None else [seq for seq in kept if seq > first]
    return (*loose, (first, max(after))) if first is not None and after else loose
