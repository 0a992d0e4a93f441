"""The functions of the database as Python knows them: what goes in, what comes out."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, assert_never

import msgspec

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release
from stepwell.model.events import KeptEvent
from stepwell.model.events import Published as Publication
from stepwell.model.failures import key_taken
from stepwell.model.live import Page, Published
from stepwell.model.outbox import Owed
from stepwell.model.runs import Claimed, Created, Debounced, History, Inbox, NewRun, Run
from stepwell.model.signals import Delivered, Question
from stepwell.model.workers import Renewed, Worker
from stepwell.stores.base.views import Audit, Detail, HeldSignal, StepProgress, UnreadSignal
from stepwell.stores.base.wakeups import HintKind

T = TypeVar("T")

Value = bytes | None
Hints = tuple[tuple[HintKind, RunId], ...]

encode = msgspec.json.Encoder().encode


def base64(value: bytes) -> str:
    """Bytes as the functions read them."""
    return b64encode(value).decode()


def _json(value: Any) -> Value:
    return None if value is None else encode(value)


def _bigint(value: int | None) -> Value:
    return None if value is None else b"%d" % value


def _text(value: str | None) -> Value:
    return None if value is None else value.encode()


def _boolean(value: bool | None) -> Value:
    return None if value is None else b"t" if value else b"f"


_ENCODERS: dict[str, Callable[[Any], Value]] = {
    "jsonb": _json,
    "bigint": _bigint,
    "text": _text,
    "boolean": _boolean,
}


class Call(Generic[T]):
    """One function of the database. Every call also carries the time, as `Transition` and `Reading` say."""

    __slots__ = ("_encoders", "decode", "name", "placeholders")

    def __init__(self, name: str, parameters: str, decode: Callable[[bytes], T]) -> None:
        types = parameters.split()
        self.name = name
        self.decode = decode
        self._encoders = tuple(_ENCODERS[one] for one in types)
        self.placeholders = ", ".join(f"${n}::{one}" for n, one in enumerate(("bigint", "bigint", *types), 1))

    def values(self, told: Instant | None, seen: Instant, arguments: Sequence[Any]) -> list[Value]:
        """The parameters as the driver sends them: the time that a test tells, the latest instant seen, and these."""
        return [
            _bigint(told),
            b"%d" % seen,
            *[encoder(argument) for encoder, argument in zip(self._encoders, arguments, strict=True)],
        ]


def transition(name: str, parameters: str, result: type[T] | Any) -> Call[tuple[Instant, T, Hints]]:
    """A function that writes: its answer has the time and the hints."""
    return Call(name, parameters, msgspec.json.Decoder(tuple[Instant, result, Hints]).decode)


def reading(name: str, parameters: str, result: type[T] | Any) -> Call[T]:
    """A function that only reads."""
    return Call(name, parameters, msgspec.json.Decoder(result).decode)


# What `rescue` found and could not free: id, epoch, stalls, latest place, and what it was undoing for.
Poisoned = tuple[RunId, int, int, str, bytes | None]

CREATE = transition("create_runs", "jsonb jsonb", list[Created])
DEBOUNCE = transition("debounce", "jsonb bigint bigint", Debounced)
CLAIM = transition("claim", "jsonb", list[Claimed])
APPLY = transition("apply", "jsonb jsonb", list[Applied])
FIND_REFUSAL = transition("find_refusal", "jsonb", Applied | None)
CANCEL = transition("cancel", "text boolean text jsonb", Cancelled)
RESUME = transition("resume", "text text", bool)
RESUME_ROLLBACK = transition("resume_rollback", "text text", bool)
RETRY = transition("retry", "text text", bool)
RESCUE = transition("rescue", "bigint", tuple[list[RunId], list[Poisoned]])
QUARANTINE = transition("quarantine", "text bigint bigint text", bool)
RELINQUISH = transition("relinquish", "text jsonb", list[RunId])
REGISTER = transition("register", "jsonb", Worker)
RENEW = transition("renew", "text bigint", Renewed)
RETIRE = transition("retire", "text", None)
DELIVER = transition("deliver", "jsonb jsonb", tuple[list[Delivered], list[Claimed]])
DELIVER_OR_CREATE = transition("deliver_or_create", "jsonb jsonb jsonb", tuple[Created, Delivered, list[Claimed]])
REDELIVER = transition("redeliver", "jsonb jsonb", tuple[list[Delivered], list[Claimed]])
PUBLISH = transition("publish", "jsonb jsonb", tuple[list[Publication], list[Claimed]])
TAKE = transition("take", "text text bigint bigint jsonb", list[tuple[Owed, ...]])
SETTLE = transition("settle", "text jsonb", list[bool])
REPLAY = transition("replay", "text text text", int)
DROP = transition("drop_event", "text text text", int)
STORE_BLOBS = transition("store_blobs", "jsonb", None)

LOAD = reading("load", "jsonb", list[History])
INBOX = reading("inbox", "text", Inbox)
NEXT_DUE = reading("next_due", "text", Instant | None)
LIST_OWED = reading("list_owed", "boolean bigint bigint", list[Owed])
READ_BLOB = reading("read_blob", "text", bytes | None)
READ_TIME = reading("read_time", "", Instant)
FIND_MANY = reading("find_many", "jsonb", list[Run | None])
FIND_BY_PREFIX = reading("find_by_prefix", "text bigint", list[RunId])
DETAIL = reading("detail", "text", Detail | None)
LIST_PUBLISHED = reading("list_published", "text", list[Published])
LIST_STREAMS = reading("list_streams", "text", list[str])
READ_STREAM = reading("read_stream", "text text bigint bigint", Page)
LIST_PROGRESS = reading("list_progress", "jsonb", list[list[StepProgress]])
LIST_RUNS = reading("list_runs", "jsonb bigint text", list[Run])
LIST_WORKERS = reading("list_workers", "", list[Worker])
LIST_HELD = reading("list_held", "bigint text", list[HeldSignal])
LIST_UNREAD = reading("list_unread", "bigint text", list[UnreadSignal])
FIND_QUESTION = reading("find_question", "text", Question | None)
LIST_KEPT = reading("list_kept", "bigint text", list[KeptEvent])
LIST_AUDIT = reading("list_audit", "text", list[Audit])
LIST_DEFINITIONS = reading("list_definitions", "", list[str])
NEXT_WAKE = reading("next_wake", "jsonb", Instant | None)
HAS_STRANDED = reading("has_stranded", "", bool)
ORPHANS = reading("orphans", "", list[RunId])

_BEHIND_ENTRIES = 5


def commits_out(commits: Sequence[Commit]) -> list[Any]:
    """Commits as `apply` reads them. Nearly every one has nothing behind its entries, and ends there."""
    return [
        commit[:_BEHIND_ENTRIES]
        if commit.move is None and commit.waits is None and not any(commit[_BEHIND_ENTRIES:])
        else commit._replace(
            move=_move_out(commit.move),  # type: ignore[arg-type]
            children=tuple(map(_child_out, commit.children)),  # type: ignore[arg-type]
        )
        for commit in commits
    ]


def _move_out(move: Move | None) -> tuple[Any, ...] | None:
    match move:
        case None:
            return None
        case Park():
            return ("park", *move)
        case Release():
            return ("release",)
        case Pause():
            return ("pause", *move)
        case BeginRollback():
            return ("rollback", *move)
        case End():
            return ("end", *move)
        case _:
            assert_never(move)


def _child_out(new: NewRun) -> tuple[Any, ...]:
    """A child, with its failure for the case that another run has its key. Who that is, and the child's path, are filled
    in there.
    """
    return new if new.key is None else (*new, key_taken(new.key, "@holder@", "@path@"))
