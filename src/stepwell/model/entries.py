"""Lines of a run's history."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.clock import Instant
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus


class Entry(NamedTuple):
    """The one recorded result of one operation. Never changes once committed."""

    seq: int
    location: Location
    kind: EntryKind
    status: EntryStatus
    value: bytes  # the encoded value, or the encoded failure
    at: Instant  # when it ended, by the store's clock
    took: int  # microseconds from the first attempt's start to the end
    attempts: int = 0
    undo: bytes | None = None  # of a step with a compensation: its step name and input, until undone


class Attempt(NamedTuple):
    """One failed attempt at a step, or the recorded beginning of one.

    The beginning of an at-most-once step has no `next_at`. Any other one is no attempt yet: it becomes one at
    `next_at`, when the step's timeout has passed, and never if that is its own time.
    """

    location: Location
    number: int
    at: Instant
    failure: bytes | None  # None: started, outcome unknown
    next_at: Instant | None  # when the next attempt is due; None after the last

    @property
    def is_beginning(self) -> bool:
        """Whether it says only that a body was about to begin, which is no progress of the run."""
        return self.failure is None and self.next_at is not None

    @property
    def is_unknown(self) -> bool:
        """Whether it is the beginning of an at-most-once step. It stays when the step is done: the result says more."""
        return self.failure is None and self.next_at is None


class Progress(NamedTuple):
    """How far the body of a step has come, as it said itself. Kept until the step is done."""

    location: Location
    at: Instant
    state: bytes | None = None  # where it goes on when it is run again
    done: int | None = None
    total: int | None = None
    unit: str = ""
    note: str = ""
    turns: int = 0  # how often it gave its slot back


class Cursor(NamedTuple):
    """How far a loop has come: the next iteration and the state it begins with."""

    location: Location
    iteration: int
    trimmed: int  # iterations below this one are deleted
    state: bytes
