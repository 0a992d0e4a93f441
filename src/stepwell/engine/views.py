"""Read models: what people and programs see of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final, assert_never

from stepwell.clock import Instant, to_datetime
from stepwell.codec.envelopes import read_plainly
from stepwell.engine.facts import OMITTED, PAYLOAD
from stepwell.errors.records import FailureRecord
from stepwell.model.attributes import Attribute, AttributeValue, read_value, show
from stepwell.model.entries import Attempt, Entry, Progress
from stepwell.model.failures import decode_failure
from stepwell.model.holds import Hold
from stepwell.model.locations import ROOT, Location, Names, carried_from, format_path, is_undoing, undo
from stepwell.model.run_retries import retry_of
from stepwell.model.runs import Run
from stepwell.model.signals import Signal
from stepwell.model.states import EntryKind, EntryStatus, RunStatus
from stepwell.model.undos import is_settled
from stepwell.model.waits import Wait
from stepwell.replay.headers import unpack
from stepwell.stores.base.damage import UNREADABLE, cause_of, salvage
from stepwell.stores.base.overviews import Passage, Standing
from stepwell.stores.base.views import Audit, Detail, HeldSignal, StepProgress, UnreadSignal

_ROLLBACK = undo(ROOT)  # when the rollback began; code did nothing there


@dataclass(frozen=True, slots=True)
class ProgressView:
    """The progress of a running step, as its body reported it."""

    path: str
    done: int | None
    total: int | None
    unit: str
    note: str
    turns: int  # how often it released its slot
    at: datetime
    state: Any = field(default=None, metadata=PAYLOAD)

    @property
    def words(self) -> str:
        """In one line, such as `40 of 100 rows (40 %)`."""
        if self.done is None:
            figures = "under way"
        elif self.total:
            figures = f"{self.done:,} of {self.total:,} {self.unit}".rstrip() + f" ({100 * self.done // self.total} %)"
        else:
            figures = f"{self.done:,} {self.unit}".rstrip()
        return figures + (f", {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class HoldView:
    """Who paused a run, a workflow or all of them, why, and when."""

    by: str
    reason: str
    at: datetime
    workflow: str | None = field(default=None, metadata=OMITTED)  # that was paused; None also for all of them


@dataclass(frozen=True, slots=True)
class HoldActView:
    """A workflow, or all of them, was paused or resumed: by whom, why, and when."""

    at: datetime
    workflow: str | None  # None: all of them
    verb: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class ActView:
    """One act of an operator on a run."""

    at: datetime
    run_id: str
    verb: str
    by: str
    before: str
    after: str
    reason: str


A_LINE: Final = {"has_line": True}  # on a field: `stepwell show` prints it on its own line, after its name in words


@dataclass(frozen=True, slots=True)
class RunView:
    """One run, as Python, HTTP and the command line show it: the same fields in the same order.

    A field with the name of a field of `Run` has its value, and an instant is a `datetime`; `_run_view` fills the rest.
    """

    run_id: str
    workflow: str
    version: int
    status: str
    key: str | None
    generation: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    wake_at: datetime | None
    parent: str | None
    successor: str | None
    reason: str
    failure: FailureRecord | None
    input: Any = field(default=None, metadata=PAYLOAD)
    output: Any = field(default=None, metadata=PAYLOAD)
    priority: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    deadline_at: datetime | None = None
    replaced_by: str | None = None
    hold: HoldView | None = None  # a person paused it; while it runs, it stops between two steps
    forked_from: str | None = field(default=None, metadata=A_LINE)  # the run whose record it started from
    title: str | None = None
    started_by: str | None = field(default=None, metadata=A_LINE)  # a person
    attributes: dict[str, AttributeValue] = field(default_factory=dict)  # times are in UTC
    headers: Any = field(default=None, metadata=PAYLOAD)
    attempt: int = 1  # at the whole run: a failed run with a retry policy is continued
    unreadable: str = ""  # why its row cannot be read; then other fields may be missing
    progress: tuple[ProgressView, ...] = field(default=(), metadata=OMITTED)  # of its long steps; in `status` only

    @property
    def is_ended(self) -> bool:
        """Whether the status is terminal."""
        return self.ended_at is not None


RUN_LINES: Final = tuple(one.name for one in fields(RunView) if one.metadata == A_LINE)

_MADE: Final = frozenset(
    {
        "status",
        "parent",
        "failure",
        "input",
        "output",
        "tags",
        "attributes",
        "headers",
        "attempt",
        "hold",
        "progress",
        "unreadable",
    }
)
_TIMES: Final = tuple(one.name for one in fields(RunView) if str(one.type).startswith("datetime"))
_COPIED: Final = tuple(one.name for one in fields(RunView) if one.name not in _MADE and one.name not in _TIMES)


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One failed attempt."""

    number: int
    at: datetime
    error: str
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class EntryView:
    """One line of history."""

    seq: int
    path: str
    kind: str
    status: str
    attempts: int
    at: datetime
    took: float  # seconds
    value: Any = field(metadata=PAYLOAD)
    failure: FailureRecord | None
    can_undo: bool
    is_undone: bool
    failed_attempts: tuple[AttemptView, ...] = field(default=())
    unreadable: str = ""  # why its value or its failure cannot be read


@dataclass(frozen=True, slots=True)
class WaitView:
    """One thing that a run waits for."""

    path: str
    kind: str
    due_at: datetime | None
    names: tuple[str, ...]
    failed_attempts: tuple[AttemptView, ...] = field(default=())  # of a step that waits for its next attempt
    where: tuple[str, ...] = ()  # of a wait for an event: the conditions on the event


@dataclass(frozen=True, slots=True)
class SignalView:
    """A signal that no run will read: held for a key, or left unread or rejected by a run."""

    number: int
    target: str  # the key for which it is held, or the id of its run
    name: str
    payload: Any = field(metadata=PAYLOAD)
    sent_at: datetime
    is_held: bool
    run_status: str | None  # of its run; None while it is held
    reason: str  # why the run rejected it; empty if it did not
    stored: bytes = field(repr=False, compare=False, metadata=OMITTED)


def held_view(held: HeldSignal) -> SignalView:
    """The view of a held signal."""
    return _signal_view(held.signal, held.key)


def unread_view(unread: UnreadSignal) -> SignalView:
    """The view of a signal that its run did not read."""
    return _signal_view(unread.signal, unread.run_id, unread.status.value, unread.reason)


def _signal_view(signal: Signal, target: str, status: str | None = None, reason: str = "") -> SignalView:
    number, name, payload, sent_at, _ = signal
    sent = to_datetime(sent_at)
    return SignalView(number, target, name, plain(payload), sent, status is None, status, reason, payload)


def _time(instant: Instant | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


Fetch = Callable[[bytes], bytes]  # reads a payload that is stored outside its run; returns any other unchanged


BARE: Final = frozenset(
    {EntryKind.STEP, EntryKind.ONCE, EntryKind.LOOP, EntryKind.UNDO, EntryKind.CHECKPOINT, EntryKind.ITEM}
)
"""The kinds of entry whose value is a payload and nothing else."""


def as_stored(payload: bytes) -> bytes:
    """Fetch nothing: a payload outside its run is shown as a mark."""
    return payload


def plain(payload: bytes | None, fetch: Fetch = as_stored) -> Any:
    """A payload as plain JSON values; a mark if it is encrypted or not fetched; text if it cannot be read, because a
    view never fails.
    """
    return None if not payload else read_plainly(fetch(payload))


def progress_view(path: str, progress: Progress, fetch: Fetch = as_stored) -> ProgressView:
    """The view of the progress of a body."""
    _, at, state, done, total, unit, note, turns = progress
    return ProgressView(path, done, total, unit, note, turns, to_datetime(at), plain(state, fetch))


def progress_views(detail: Detail, fetch: Fetch = as_stored) -> list[ProgressView]:
    """The progress of the long steps of a run."""
    names = detail.history.names
    return [progress_view(format_path(one.location, names), one, fetch) for one in detail.history.progress]


def hold_view(hold: Hold, workflow: str | None = None) -> HoldView:
    """The view of a hold."""
    return HoldView(hold.by, hold.reason, to_datetime(hold.at), workflow)


def act_view(act: Audit) -> ActView:
    """The view of a line of a run's audit."""
    return ActView(to_datetime(act.at), act.run_id, act.verb, act.by, str(act.before), str(act.after), act.reason)


def run_view(run: Run, progress: Iterable[StepProgress] = (), fetch: Fetch = as_stored) -> RunView:
    """The view of a run's row. A view never fails: an unreadable row is marked, with the fields that can be read."""
    try:
        return _run_view(run, progress, fetch)
    except UNREADABLE as error:
        return _run_view(salvage((*run[:3], run.status.value, *run[4:]), error), (), fetch)


def _run_view(run: Run, progress: Iterable[StepProgress], fetch: Fetch) -> RunView:
    copied: dict[str, Any] = {name: getattr(run, name) for name in _COPIED}
    for name in _TIMES:
        copied[name] = _time(getattr(run, name))
    return RunView(
        **copied,
        status=run.status.value,
        parent=run.parent.run_id if run.parent else None,
        failure=decode_failure(run.failure) if run.failure else None,
        input=plain(run.input, fetch),
        output=plain(run.output, fetch) if run.status is RunStatus.COMPLETED else None,
        tags=dict(run.tags),
        attributes={one.name: read_value(one) for one in run.attributes},
        headers=plain(run.headers, fetch) if run.headers is not None else None,
        attempt=retry_of(run).attempt,
        hold=None if run.hold is None else hold_view(run.hold),
        progress=tuple(progress_view(*one, fetch) for one in progress),
        unreadable=run.damage,
    )


def entry_views(detail: Detail, after: int = 0, fetch: Fetch = as_stored) -> list[EntryView]:
    """The history of a run after a line, in the order of its commits."""
    names, history = detail.history.names, detail.history
    undone = {entry.location for entry in history.entries if entry.kind is EntryKind.UNDO}
    tries, known = _attempts(history.attempts, history.entries), {entry.location: entry for entry in history.entries}
    return [
        _entry_view(entry, names, undo(entry.location) in undone, tuple(tries.get(entry.location, ())), fetch)
        for entry in history.entries
        if entry.seq > after and entry.location != _ROLLBACK and not is_settled(entry, known)
    ]


def _entry_view(
    entry: Entry, names: tuple[str, ...], is_undone: bool, tries: tuple[AttemptView, ...], fetch: Fetch
) -> EntryView:
    value: Any = None
    failure: FailureRecord | None = None
    damage = ""
    try:
        if entry.status is EntryStatus.DONE:
            value = _value(entry.kind, entry.value, fetch)
        else:
            failure = decode_failure(entry.value)
    except UNREADABLE as error:
        damage = cause_of(error)
    return EntryView(
        seq=entry.seq,
        path=format_path(entry.location, names),
        kind=entry.kind.word,
        status="done" if entry.status is EntryStatus.DONE else "failed",
        attempts=entry.attempts,
        at=to_datetime(entry.at),
        took=entry.took / 1e6,
        value=value,
        failure=failure,
        can_undo=entry.undo is not None,
        is_undone=is_undone,
        failed_attempts=tries,
        unreadable=damage,
    )


def chain_views(details: Iterable[Detail]) -> list[EntryView]:
    """The history of a chain of continued runs as one: a step is shown in the run that executed it, even if a successor
    has undone it.
    """
    found, undone = [], set()
    for detail in details:
        names = Names(detail.history.names)
        undos = {entry.location for entry in detail.history.entries if entry.kind is EntryKind.UNDO}
        carried = {one.location: one for one in detail.history.entries if carried_from(one.location)}
        kept = {format_path(at, names.texts) for at in carried if not is_undoing(at)}
        for at, entry in carried.items():
            if entry.undo is not None and undo(at) in undos and not is_undoing(at):
                origin, path = unpack(entry.undo)[0][2], format_path(at, names.texts).partition("/")[2]
                undone.add((origin, path))
        found += [(detail.run.run_id, view) for view in entry_views(detail) if view.path not in kept]
    return [replace(view, is_undone=True) if (run_id, view.path) in undone else view for run_id, view in found]


def _attempts(attempts: Iterable[Attempt], entries: Iterable[Entry]) -> dict[Location, list[AttemptView]]:
    tries: dict[Location, list[AttemptView]] = {}
    if not attempts:
        return tries
    done = {entry.location for entry in entries if entry.status is EntryStatus.DONE}
    for attempt in attempts:
        if attempt.is_beginning or (attempt.is_unknown and attempt.location in done):
            continue
        error = _summary(attempt.failure) if attempt.failure else "started, outcome unknown"
        view = AttemptView(attempt.number, to_datetime(attempt.at), error, _time(attempt.next_at))
        tries.setdefault(attempt.location, []).append(view)
    return tries


def _summary(failure: bytes) -> str:
    try:
        return decode_failure(failure).summary
    except UNREADABLE as error:
        return f"cannot be read: {cause_of(error)}"


def _value(kind: EntryKind, value: bytes, fetch: Fetch) -> Any:
    """The readable part of an entry's value; kinds with a header are stored as header, newline, payloads."""
    match kind:
        case EntryKind.STEP | EntryKind.ONCE | EntryKind.LOOP | EntryKind.UNDO | EntryKind.CHECKPOINT | EntryKind.ITEM:
            return plain(value, fetch)  # see `BARE`
        case EntryKind.CHILD | EntryKind.RACE | EntryKind.TOPIC:
            header, payload = unpack(value)
            return [*header, plain(payload, fetch)]
        case EntryKind.RECEIVE | EntryKind.RECEIVE_MANY | EntryKind.RECORD | EntryKind.JOIN:
            header, payloads = unpack(value)
            found, at = [], 0
            for item in header:
                found.append([item[0], plain(payloads[at : at + item[-1]], fetch)])
                at += item[-1]
            return found
        case EntryKind.OBSERVE:
            return [name for _, name in unpack(value)[0]]
        case EntryKind.STREAM:
            return None  # the items are in the stream
        case EntryKind.SLEEP:
            return to_datetime(Instant(unpack(value)[0][0])).isoformat()
        case EntryKind.SPAWN | EntryKind.VERSION | EntryKind.MAP | EntryKind.WAIT_ANY | EntryKind.REPLY:
            return unpack(value)[0][0]
        case EntryKind.EFFECT | EntryKind.BEGUN:
            return None
        case EntryKind.EMIT:
            return unpack(value)[0]
        case EntryKind.START | EntryKind.SIGNAL | EntryKind.CANCEL | EntryKind.PUBLISH:
            return unpack(value)[0][0]
        case EntryKind.DESCRIBE:
            return _described(*unpack(value)[0])
        case _:
            assert_never(kind)


def _described(verb: str, change: Any) -> Any:
    """What was set, as plain JSON values."""
    if verb == "set_attributes":
        changes = [Attribute(*one) for one in change]
        return {one.name: _plain_value(one) if one.value else None for one in changes}
    if verb == "add_tags":
        return [f"{name}={value}" if value else name for name, value in change]
    return change


def _plain_value(attribute: Attribute) -> Any:
    value = read_value(attribute)
    return value if isinstance(value, (str, int)) else show(attribute)


def wait_views(detail: Detail) -> list[WaitView]:
    """What a run waits for."""
    history = detail.history
    return _wait_views(history.names, history.waits, _attempts(history.attempts, history.entries))


def standing_views(standing: Standing) -> list[WaitView]:
    """What a run waits for, from its standing."""
    return _wait_views(standing.names, standing.waits, _attempts(standing.attempts, ()))


def waits_at(names: tuple[str, ...], waits: Iterable[Wait]) -> list[WaitView]:
    """Waits without the attempts at their places."""
    return _wait_views(names, waits, {})


def _wait_views(
    names: tuple[str, ...], waits: Iterable[Wait], tries: Mapping[Location, list[AttemptView]]
) -> list[WaitView]:
    return [
        WaitView(
            format_path(wait.location, names),
            wait.kind.value,
            _time(wait.due_at),
            wait.names,
            tuple(tries.get(wait.location, ())),
            wait.where,
        )
        for wait in waits
    ]


def passage_views(passage: Passage, fetch: Fetch = as_stored) -> list[EntryView]:
    """The lines of a part of a history, in the order of their commits."""
    undone, tries = frozenset(passage.undone), _attempts(passage.attempts, passage.entries)
    return [
        _entry_view(entry, passage.names, entry.location in undone, tuple(tries.get(entry.location, ())), fetch)
        for entry in passage.entries
        if entry.location != _ROLLBACK
    ]
