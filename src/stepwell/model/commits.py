"""Commits: everything a turn writes, applied whole under a fence or not at all."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.live import Append, Published
from stepwell.model.locations import Location
from stepwell.model.outbox import Announce, Emit
from stepwell.model.runs import Claimed, NewRun
from stepwell.model.signals import Refusal, Reply
from stepwell.model.states import RunStatus
from stepwell.model.waits import Wait
from stepwell.model.workers import Fence


class Park(NamedTuple):
    """Give the run up until a wait is satisfied. The store checks, in the same transaction, whether one already is."""

    wake_at: Instant | None  # the earliest deadline of the waits


class Release(NamedTuple):
    """Give the run up as it is; anybody may claim it at once."""


class Pause(NamedTuple):
    """Stop until an operator resumes it."""

    failure: bytes


class BeginRollback(NamedTuple):
    """Enter `compensating`, still owned."""

    cause: str  # "failed" or "cancelled"
    failure: bytes | None
    undo_floor: int = 0


class End(NamedTuple):
    """Reach a terminal status, or `compensation_failed`."""

    status: RunStatus
    output: bytes | None = None
    failure: bytes | None = None
    successor: NewRun | None = None  # with `continued`
    names: tuple[str, ...] = ()  # of the successor, and what it begins with: entries that are left to undo, from seq 1
    entries: tuple[Entry, ...] = ()


Move = Park | Release | Pause | BeginRollback | End


class Commit(NamedTuple):
    """One atomic write of a turn.

    `number` counts 1, 2, 3 … within an epoch: applying the number that was applied last again changes nothing
    and gives the same answer, so a lost acknowledgement can be repeated.
    """

    run_id: RunId
    fence: Fence
    number: int
    names: tuple[str, ...] = ()  # appended to the run's numbered names
    entries: tuple[Entry, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    cursors: tuple[Cursor, ...] = ()
    ended_cursors: tuple[Location, ...] = ()
    # Key ranges that the run no longer needs (expired loop iterations, a race's losers). Their attempts and cursors are
    # deleted, and their entries but those with `undo`; attached children started there that are still active are
    # cancelled (with compensation).
    trims: tuple[tuple[Location, Location], ...] = ()
    consumed: tuple[int, ...] = ()  # signal numbers
    children: tuple[NewRun, ...] = ()
    waits: tuple[Wait, ...] | None = None  # the whole set, when it changed
    move: Move | None = None  # None: stays running and owned
    refused: tuple[Refusal, ...] = ()  # signals that do not fit; no longer pending, and kept for people
    replies: tuple[Reply, ...] = ()
    received: tuple[int, ...] = ()  # numbers of events in the run's inbox
    emits: tuple[Emit, ...] = ()
    announce: Announce | None = None  # who hears of the runs that this commit ends
    published: tuple[Published, ...] = ()
    appends: tuple[Append, ...] = ()
    progress: tuple[Progress, ...] = ()  # of bodies that are running, or gave their slot back
    ended_progress: tuple[Location, ...] = ()
    ended_attempts: tuple[tuple[Location, int], ...] = ()  # beginnings that were recorded, of steps that are done


class Verdict(StrEnum):
    """What became of a commit."""

    APPLIED = "applied"
    FENCED = "fenced"  # the run belongs to somebody else, or to nobody: nothing was written
    CANCELLING = "cancelling"  # a cancel came first and `move` is impossible now: nothing was written
    EXPIRED = "expired"  # the run's deadline came first and `move` is impossible now: nothing was written


class Applied(NamedTuple):
    """The outcome of one commit."""

    verdict: Verdict
    cancelling: bool = False  # applied, and a cancel is waiting to be honoured
    revision: int = 0
    is_awake: bool = False  # parked, and a wait is satisfied already
    claimed: tuple[Claimed, ...] = ()  # children claimed for the committer in the same transaction
    held: bool = False  # applied, and a person has paused the run: it is to be given up between two steps
