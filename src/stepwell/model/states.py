"""Every lifecycle as an enum plus its table of allowed moves."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from stepwell.errors import InvalidMoveError


class RunStatus(StrEnum):
    """The state of a run. What it waits for is a separate fact, never a status."""

    PENDING = "pending"  # created, not begun
    RUNNING = "running"  # held by a worker under a lease
    WAITING = "waiting"  # unowned, until a wait is satisfied
    PAUSED = "paused"  # by a person or by changed code; an operator resumes it
    CANCELLING = "cancelling"  # a cancel is recorded; its compensations have not begun
    COMPENSATING = "compensating"  # rolling back, last in first out
    COMPENSATION_FAILED = "compensation_failed"  # rollback incomplete: a compensation failed permanently
    COMPLETED = "completed"
    FAILED = "failed"
    COMPENSATED = "compensated"  # failed, and everything undone
    CANCELLED = "cancelled"
    CONTINUED = "continued"  # a successor with the same key continues, or is its next attempt


_S = RunStatus

TERMINAL = frozenset({_S.COMPLETED, _S.FAILED, _S.COMPENSATED, _S.CANCELLED, _S.CONTINUED})
ACTIVE = frozenset(RunStatus) - TERMINAL
# A worker may own the run.
OWNABLE = frozenset({_S.RUNNING, _S.CANCELLING, _S.COMPENSATING})
# No operator can reopen a run in one of these.
ENDS_FOR_GOOD = frozenset({_S.COMPLETED, _S.COMPENSATED, _S.CANCELLED})
# Ends that an operator may reopen: the code is replayed then, and a loop must continue where it was.
KEEPS_CURSORS = frozenset({_S.FAILED, _S.COMPENSATION_FAILED})

RUN_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    _S.PENDING: frozenset({_S.RUNNING, _S.PAUSED, _S.CANCELLED, _S.CANCELLING}),
    _S.RUNNING: frozenset(
        {
            _S.PENDING,
            _S.WAITING,
            _S.PAUSED,
            _S.CANCELLING,
            _S.COMPENSATING,
            _S.COMPLETED,
            _S.FAILED,
            _S.CANCELLED,
            _S.CONTINUED,
        }
    ),
    # To pending: by an operator's repair, with an audit row and a new epoch.
    _S.WAITING: frozenset({_S.RUNNING, _S.PENDING, _S.PAUSED, _S.CANCELLING, _S.CANCELLED}),
    _S.PAUSED: frozenset({_S.PENDING, _S.COMPENSATING, _S.CANCELLING, _S.CANCELLED}),
    _S.CANCELLING: frozenset({_S.COMPENSATING, _S.CANCELLED, _S.PAUSED}),
    _S.COMPENSATING: frozenset(
        {_S.COMPENSATED, _S.CANCELLED, _S.FAILED, _S.COMPENSATION_FAILED, _S.PAUSED, _S.CONTINUED}
    ),
    _S.COMPENSATION_FAILED: frozenset({_S.COMPENSATING}),
    _S.COMPLETED: frozenset(),
    # An operator's retry or repair, with an audit row and a new epoch.
    _S.FAILED: frozenset({_S.PENDING}),
    _S.COMPENSATED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.CONTINUED: frozenset(),
}


def may_move(current: RunStatus, target: RunStatus) -> bool:
    """Whether the table allows it; staying is always allowed."""
    return current is target or target in RUN_MOVES[current]


def check_move(current: RunStatus, target: RunStatus) -> None:
    """Raise `InvalidMoveError` unless the table allows the move."""
    if not may_move(current, target):
        raise InvalidMoveError(f"a run that is {current.value} cannot become {target.value}")


class Lifecycle(NamedTuple):
    """The states of one kind of record: in which it may begin, its moves, and in which it is closed."""

    begins: frozenset[StrEnum]
    moves: Mapping[StrEnum, frozenset[StrEnum]]
    closed: frozenset[StrEnum]


class TriggerState(StrEnum):
    """The state of a trigger, which starts runs for events."""

    ACTIVE = "active"
    PAUSED = "paused"  # by a person
    UNDECLARED = "undeclared"  # paused, because no live worker has declared it for a day
    DELETED = "deleted"


class ScheduleState(StrEnum):
    """The state of a schedule, which starts runs at certain times."""

    ACTIVE = "active"
    PAUSED = "paused"  # by a person, or by code that no longer has it
    ENDED = "ended"  # it is never due again
    DELETED = "deleted"


class SavedViewState(StrEnum):
    """The state of a saved view."""

    SAVED = "saved"
    DELETED = "deleted"


class CareState(StrEnum):
    """The state of a round of care: deleting what is past its time."""

    RUNNING = "running"
    RESTING = "resting"


class AlertState(StrEnum):
    """The state of an alert rule."""

    OK = "ok"
    FIRING = "firing"
    SEEN = "seen"  # it fires, and a person knows
    DELETED = "deleted"


class LetterState(StrEnum):
    """The state of a letter: something that could not be handled."""

    OPEN = "open"  # only of a letter that nothing else in the store holds
    RETRIED = "retried"
    DROPPED = "dropped"


class ServiceState(StrEnum):
    """The state of a service on one worker. A service that has never failed there has none."""

    FAILING = "failing"
    RECOVERED = "recovered"  # or its worker is gone


_T, _D, _V, _R = TriggerState, ScheduleState, SavedViewState, ServiceState
_A, _C, _L = AlertState, CareState, LetterState

TRIGGER_LIFE: Final = Lifecycle(
    frozenset({_T.ACTIVE}),
    {
        _T.ACTIVE: frozenset({_T.PAUSED, _T.UNDECLARED, _T.DELETED}),
        _T.PAUSED: frozenset({_T.ACTIVE, _T.DELETED}),
        # A declaration makes it active again, and so does a person, for one more day.
        _T.UNDECLARED: frozenset({_T.ACTIVE, _T.PAUSED, _T.DELETED}),
        _T.DELETED: frozenset({_T.ACTIVE}),
    },
    frozenset({_T.DELETED}),
)
SCHEDULE_LIFE: Final = Lifecycle(
    frozenset({_D.ACTIVE, _D.PAUSED, _D.ENDED}),
    {
        _D.ACTIVE: frozenset({_D.PAUSED, _D.ENDED, _D.DELETED}),
        _D.PAUSED: frozenset({_D.ACTIVE, _D.ENDED, _D.DELETED}),
        # When it gets another rule.
        _D.ENDED: frozenset({_D.ACTIVE, _D.PAUSED, _D.DELETED}),
        _D.DELETED: frozenset({_D.ACTIVE, _D.PAUSED, _D.ENDED}),
    },
    frozenset({_D.DELETED}),
)
SAVED_VIEW_LIFE: Final = Lifecycle(
    frozenset({_V.SAVED}),
    {_V.SAVED: frozenset({_V.DELETED}), _V.DELETED: frozenset({_V.SAVED})},
    frozenset({_V.DELETED}),
)
CARE_LIFE: Final = Lifecycle(
    frozenset({_C.RUNNING, _C.RESTING}),
    {_C.RUNNING: frozenset({_C.RESTING}), _C.RESTING: frozenset({_C.RUNNING})},
    frozenset(),
)
ALERT_LIFE: Final = Lifecycle(
    frozenset({_A.OK}),
    {
        _A.OK: frozenset({_A.FIRING, _A.DELETED}),
        _A.FIRING: frozenset({_A.SEEN, _A.OK, _A.DELETED}),
        _A.SEEN: frozenset({_A.OK, _A.DELETED}),
        _A.DELETED: frozenset({_A.OK}),
    },
    frozenset({_A.DELETED}),
)
LETTER_LIFE: Final = Lifecycle(
    frozenset(_L),
    # What could not be handled may come back after a retry.
    {state: frozenset(_L) for state in _L},
    frozenset({_L.RETRIED, _L.DROPPED}),
)
SERVICE_LIFE: Final = Lifecycle(
    frozenset({_R.FAILING}),
    {_R.FAILING: frozenset({_R.RECOVERED}), _R.RECOVERED: frozenset({_R.FAILING})},
    frozenset({_R.RECOVERED}),
)


class EntryKind(StrEnum):
    """The kind of an operation. The letter is stored."""

    STEP = "s"
    ONCE = "o"
    SLEEP = "z"
    RECEIVE = "r"
    RECEIVE_MANY = "m"
    TOPIC = "t"
    JOIN = "j"
    RACE = "x"
    LOOP = "l"
    CHILD = "c"
    SPAWN = "p"
    VERSION = "v"
    CHECKPOINT = "k"
    MAP = "a"
    ITEM = "i"  # of a map
    WAIT_ANY = "y"
    EMIT = "e"
    STREAM = "n"  # an append from the workflow
    UNDO = "u"
    OBSERVE = "b"
    REPLY = "w"
    DESCRIBE = "d"  # attributes, the title or tags were set
    RECORD = "q"
    START = "R"  # a run that is not a child
    SIGNAL = "S"  # to another run
    CANCEL = "C"  # of another run
    PUBLISH = "P"
    EFFECT = "f"  # outside of steps, with its compensation
    BEGUN = "g"  # the beginning of a step whose outcome may stay unknown, or of a block with a clean-up

    @property
    def word(self) -> str:
        """The kind as a word for people."""
        return self.name.lower()


# The code passes these at once: no result is handed over there. Code that has changed may leave them out.
NOTES: Final = frozenset({EntryKind.VERSION, EntryKind.DESCRIBE})


class EntryStatus(StrEnum):
    """How an operation ended. An operation that has not ended has no entry."""

    DONE = "d"
    FAILED = "f"


class WaitKind(StrEnum):
    """What a run waits for."""

    TIMER = "timer"
    SIGNAL = "signal"
    TOPIC = "topic"
    CHILD = "child"
    RETRY = "retry"
    RUN = "run"  # the end of a run that is not a child


# The kinds of entry that may be recorded at a wait, the usual kind first.
ENTRIES_OF_WAITS: Final[dict[WaitKind, tuple[EntryKind, ...]]] = {
    WaitKind.TIMER: (EntryKind.SLEEP,),
    WaitKind.SIGNAL: (EntryKind.RECEIVE, EntryKind.RECEIVE_MANY, EntryKind.RECORD),
    WaitKind.TOPIC: (EntryKind.TOPIC,),
    WaitKind.CHILD: (EntryKind.CHILD,),
    WaitKind.RUN: (EntryKind.WAIT_ANY,),
    WaitKind.RETRY: (EntryKind.STEP, EntryKind.UNDO),
}
