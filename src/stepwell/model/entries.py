"""Lines of a run's history."""

from __future__ import annotations

from typing import Final, NamedTuple

from stepwell.clock import Instant
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus


class Entry(NamedTuple):
    """The recorded result of one operation. It never changes once it is committed."""

    seq: int
    location: Location
    kind: EntryKind
    status: EntryStatus
    value: bytes  # the encoded value, or the encoded failure
    at: Instant  # when it ended, by the store's clock
    took: int  # microseconds from the first attempt's start to the end
    attempts: int = 0
    undo: bytes | None = None  # of a step with a compensation: its step name and input, until undone
    fingerprint: bytes | None = None  # of the arguments, if the name is numbered; see replay.fingerprints


# The value of the undo of a step whose effect a person has undone.
UNDONE_BY_HAND: Final = b"jnull"


class Attempt(NamedTuple):
    """One failed attempt at a step, or the recorded beginning of one.

    The beginning of an at-most-once step has no `next_at`. Any other beginning counts as an attempt only from `next_at`
    on, when the step's timeout has passed; it never counts if `next_at` equals `at`.
    """

    location: Location
    number: int
    at: Instant
    failure: bytes | None  # None: started, outcome unknown
    next_at: Instant | None  # when the next attempt is due; None after the last

    @property
    def is_beginning(self) -> bool:
        """Whether it records only that a body was about to begin. That is not progress of the run."""
        return self.failure is None and self.next_at is not None

    @property
    def is_unknown(self) -> bool:
        """Whether it is the beginning of an at-most-once step. It stays once the step is done: the result counts."""
        return self.failure is None and self.next_at is None


class Progress(NamedTuple):
    """How far the body of a step has come, as the body reported it. Kept until the step is done."""

    location: Location
    at: Instant
    state: bytes | None = None  # where the body continues when it runs again
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
