"""Runs: one execution of a workflow."""

from __future__ import annotations

import unicodedata
from typing import Any, Final, Literal, NamedTuple

from stepwell.clock import Instant, Span
from stepwell.errors import InvalidKeyError
from stepwell.ids import COMPENSATES, Incarnation, RunId, derived_run_id
from stepwell.model.attributes import Attributes
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.events import IncomingEvent
from stepwell.model.holds import Hold
from stepwell.model.locations import Location, why_not_text
from stepwell.model.outbox import Announce
from stepwell.model.signals import Signal
from stepwell.model.states import RunStatus
from stepwell.model.tags import Tags
from stepwell.model.waits import Wait

KEY_MAX = 200
OnConflict = Literal["get", "raise", "replace"]

Ranges = tuple[tuple[int, int], ...]


def normal_key(key: str) -> str:
    """The stored spelling of a key: trimmed, composed, case folded. Raises `InvalidKeyError` if it is blank, too long
    or not a text.
    """
    check_text(key, "key")
    folded = unicodedata.normalize("NFC", key.strip()).casefold()
    if not folded or len(folded) > KEY_MAX or "\x00" in folded:
        raise InvalidKeyError(
            f"key {key[:60]!r} is {'blank' if not folded else 'not usable'}", why=f"a key has 1 to {KEY_MAX} characters"
        )
    return folded


def check_text(value: Any, what: str) -> str:
    """A key or an id that a caller gave. Raises `InvalidKeyError` if it is not a text that can be stored."""
    reason = why_not_text(value)
    if reason is not None:
        raise InvalidKeyError(f"{what} {value!r:.80} is not usable", why=reason, fix="give it as plain text")
    return str(value)


class Parent(NamedTuple):
    """Who started a run, and where."""

    run_id: RunId
    location: Location
    detached: bool = False  # the parent does not wait for it, and a cancel of the parent does not reach it
    tied: bool = False  # it is cancelled when its parent fails, is cancelled or ends


class Previous(NamedTuple):
    """The predecessor in a chain of continue-as-new."""

    run_id: RunId
    started_at: Instant
    finished_at: Instant


class NewRun(NamedTuple):
    """A run to create."""

    run_id: RunId
    workflow: str
    version: int
    input: bytes
    key: str | None = None  # normalised
    parent: Parent | None = None
    delay: Span = Span(0)
    dedup: Span = Span(0)  # how long a start returns an ended run of the same key
    own_id: bool = True  # the id was made for this call; a stored run with it means that the call was repeated
    priority: int = 0  # higher is claimed first
    tags: Tags = ()
    deadline_at: Instant | None = None  # by then it has ended, or it fails
    max_suspend: Span | None = None  # how long one wait may take
    on_conflict: OnConflict = "get"  # what a start does when another run has the key
    discards: bool = False  # signals that it leaves unread are dropped when it ends permanently
    announce: Announce | None = None  # sinks to notify of a run that this one replaces
    title: str | None = None
    started_by: str | None = None  # the person, as the caller names them
    attributes: Attributes = ()
    headers: bytes | None = None  # encoded
    retry: str | None = None  # whether the whole run is tried again, and how often it was; see model.run_retries

    @property
    def definition(self) -> str:
        """Name and version in one word, as workers declare them."""
        return f"{self.workflow}@{self.version}"


class Run(NamedTuple):
    """The row of a run, with its input and without its other payloads."""

    run_id: RunId
    workflow: str
    version: int  # of the workflow
    status: RunStatus
    key: str | None
    epoch: int
    owner: Incarnation | None
    revision: int  # +1 with every applied commit
    last_seq: int
    created_at: Instant
    started_at: Instant | None  # first claim
    ended_at: Instant | None
    wake_at: Instant | None  # when it may next be claimed; None while owned, ended, or waiting without a deadline
    input: bytes
    generation: int = 1
    parent: Parent | None = None
    previous: Previous | None = None
    successor: RunId | None = None
    cause: str | None = None  # of a rollback: "failed" or "cancelled"; decides how it ends
    reason: str = ""  # of a cancel, verbatim
    undo_floor: int = 0  # a rollback stops above this seq (a checkpoint)
    stalls: int = 0  # claims that died without progress
    retried_at: Instant | None = None  # the operator's last retry: older attempts no longer count against the policy
    failure: bytes | None = None
    output: bytes | None = None
    priority: int = 0
    tags: Tags = ()
    deadline_at: Instant | None = None  # by then it has ended, or it fails
    max_suspend: Span | None = None  # how long one wait may take
    replaced_by: RunId | None = None  # the run that took over its key
    debounced_until: Instant | None = None  # not begun, and its input may change; it begins no later than this
    hold: Hold | None = None  # a person paused it; a worker that still owns it releases it
    amendment: str | None = None  # the id of the repair that was applied last
    forked_from: RunId | None = None  # the run whose record it began with
    loose: Ranges = ()  # ranges of seq (above, up to) that code may leave out, because a repair removed earlier entries
    title: str | None = None
    started_by: str | None = None  # who started it, or the run that it descends from
    attributes: Attributes = ()
    dedup: Span = Span(0)  # how long after its end a start with its key gets this run: it is not pruned before
    headers: bytes | None = None  # encoded; see model.headers
    retry: str | None = None  # whether the whole run is tried again, and how often it was; see model.run_retries

    @property
    def damage(self) -> str:
        """Why the row cannot be read; empty if it can."""
        return ""

    @property
    def definition(self) -> str:
        """Name and version in one word, as workers declare them."""
        return f"{self.workflow}@{self.version}"

    @property
    def undoes(self) -> RunId | None:
        """The completed run that this one undoes; None for any other run."""
        origin = self.forked_from
        return origin if origin is not None and self.run_id == derived_run_id(origin, COMPENSATES) else None


class DamagedRun(Run):
    """The readable part of a listed run whose row is damaged. It is shown, and never stored or executed."""

    trouble: str = ""

    @property
    def damage(self) -> str:
        """Why the row cannot be read."""
        return self.trouble


class ChildOutcome(NamedTuple):
    """How a child ended."""

    location: Location  # in the parent
    run_id: RunId
    status: RunStatus
    output: bytes | None
    failure: bytes | None


AHEAD_OUTCOMES_MAX: Final = 100
AHEAD_WAITS_MAX: Final = 4


class Inbox(NamedTuple):
    """What reached a run from outside and is not consumed yet.

    `children` are the outcomes that the run's waits name. A run that waits for few children (`AHEAD_WAITS_MAX`) mostly
    waits for one after the other, so it also gets the outcomes of up to `AHEAD_OUTCOMES_MAX` spawned children at later
    places, if no operator can reopen them.
    """

    signals: tuple[Signal, ...] = ()
    children: tuple[ChildOutcome, ...] = ()
    events: tuple[IncomingEvent, ...] = ()


class History(NamedTuple):
    """Everything recorded of one run: what a replay reads."""

    names: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    cursors: tuple[Cursor, ...] = ()
    waits: tuple[Wait, ...] = ()
    progress: tuple[Progress, ...] = ()


class Claimed(NamedTuple):
    """A run now owned by the claimant, under `run.epoch`."""

    run: Run
    inbox: Inbox
    is_fresh: bool = False  # nothing is recorded yet: there is no history to load


class Debounced(NamedTuple):
    """The outcome of one debounced start."""

    run_id: RunId
    is_new: bool
    is_stale: bool = False  # nothing was written: another planned run has the key, or the given run has begun


class Created(NamedTuple):
    """The outcome of one start."""

    run_id: RunId
    is_new: bool
    same_input: bool = True
    is_duplicate_id: bool = False  # the caller's own run id is taken
    claimed: Claimed | None = None
    replaced: RunId | None = None  # the run whose key was taken over
