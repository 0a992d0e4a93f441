"""Records with their meaning: kinds, states, bodies and changes. Each noun that people keep is built on this."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from stepwell.clock import Instant, Span, to_instant
from stepwell.codec.base import Place, Row
from stepwell.engine.backend import PAUSE, Backend
from stepwell.errors import InvalidMoveError, InvalidOptionError, NotFoundError, StepwellError, StoreUnavailableError
from stepwell.model.locations import why_not_text
from stepwell.model.records import (
    DUE_MAX,
    ID_MAX,
    LABEL_MAX,
    LABELS_MAX,
    Changed,
    ChangeOutcome,
    NewRecord,
    NewRecordEvent,
    Record,
    RecordChange,
    RecordEvent,
    RecordFilter,
    RecordOrder,
)
from stepwell.model.runs import NewRun
from stepwell.model.signals import NewSignal
from stepwell.model.states import (
    ALERT_LIFE,
    CARE_LIFE,
    LETTER_LIFE,
    SAVED_VIEW_LIFE,
    SCHEDULE_LIFE,
    SERVICE_LIFE,
    TRIGGER_LIFE,
    Lifecycle,
)
from stepwell.nearest import nearest

B = TypeVar("B")

TRIES_MAX: Final = 40  # of a change that others make stale again and again
PAGE: Final = 200


class RecordKind(StrEnum):
    """Every kind of record. A store knows none of them."""

    ALERT = "alert"  # a rule that watches runs, and its state
    CARE = "care"  # rounds of deleting, and the last backup
    LETTER = "letter"  # what could not be handled
    SCHEDULE = "schedule"
    SERVICE = "service"  # a service that fails on a worker
    TRIGGER = "trigger"
    VIEW = "view"


LIVES: Final[Mapping[RecordKind, Lifecycle]] = {
    RecordKind.ALERT: ALERT_LIFE,
    RecordKind.CARE: CARE_LIFE,
    RecordKind.LETTER: LETTER_LIFE,
    RecordKind.SCHEDULE: SCHEDULE_LIFE,
    RecordKind.SERVICE: SERVICE_LIFE,
    RecordKind.TRIGGER: TRIGGER_LIFE,
    RecordKind.VIEW: SAVED_VIEW_LIFE,
}


def kind_of(name: str) -> RecordKind:
    """The kind of that name. Raises `InvalidOptionError` for any other."""
    try:
        return RecordKind(name)
    except ValueError:
        near = nearest(name, RecordKind)
        raise InvalidOptionError(
            f"there is no kind of record {name!r:.60}",
            fix=f"did you mean {near[0]!r}?" if near else f"one of {', '.join(RecordKind)}",
        ) from None


@dataclass(frozen=True, slots=True)
class Document(Generic[B]):
    """A record whose body is decoded. If that fails, `problem` is the reason, and everything else can be read."""

    record: Record
    content: B | None
    problem: StepwellError | None = None

    @property
    def body(self) -> B:
        """The body. Raises the reason if it could not be decoded."""
        if self.problem is not None:
            raise self.problem
        assert self.content is not None
        return self.content


class NewLine(NamedTuple):
    """A line of a record's history to append. `data` is stored by the codec, the rest in plain."""

    verb: str
    by: str = ""
    data: Any = None
    replaces: bool = False  # the earlier lines with this verb are removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Generic[B]):
    """What a record is to be, the lines of its history that say so, and what else happens in that transaction."""

    state: StrEnum
    lines: tuple[NewLine, ...]
    body: B | None = None  # None: as it is, also if it cannot be read here
    labels: tuple[str, ...] | None = None  # None: as they are
    due_at: Instant | None = None
    end_state: StrEnum | None = None
    signals: tuple[NewSignal, ...] = ()
    starts: tuple[NewRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a record's history. `data` is plain JSON, or a mark if it cannot be decoded."""

    number: int
    at: Instant
    by: str
    verb: str
    version: int
    data: Any


Decide = Callable[["Document[B] | None"], "Draft[B] | None"]
"""Decides what a record becomes, from what it is (None: there is none). It is a pure function, because it is called
again if another process changes the record meanwhile. None leaves the record as it is."""


class Records(Generic[B]):
    """The records of one kind. A noun has one of these, and gives its verbs and views to people."""

    def __init__(self, backend: Backend, kind: RecordKind, body: type[B]) -> None:
        self._backend = backend
        self.kind = kind_of(kind)
        self._body = body
        self._life = LIVES[self.kind]

    # --- reading ---

    async def find(self, record_id: str) -> Document[B] | None:
        """The record, open or closed; None if there is none."""
        found = await self._backend.retrying(lambda store: store.records.find(self.kind, record_id))
        return None if found is None else self.read(found)

    async def get(self, record_id: str, *, fix: str = "") -> Document[B]:
        """The open record. Raises `NotFoundError`."""
        found = await self.find(record_id)
        if found is None or not found.record.is_open:
            known = await self.list(limit=PAGE)
            near = nearest(record_id, [one.record.record_id for one in known])
            raise NotFoundError(self.kind, record_id, near=near, fix=fix)
        return found

    async def due(self, limit: int = PAGE) -> list[Document[B]]:
        """The open records whose time has come, longest due first."""
        found = await self._backend.retrying(lambda store: store.records.due([self.kind], limit=limit))
        return [self.read(one) for one in found]

    async def count(self, *, states: Sequence[StrEnum] = (), labels: Sequence[str] = (), limit: int) -> int:
        """How many open records have one of these states and all of these labels; the count stops at `limit`."""
        where = self._where(states, labels, "newest")
        return await self._backend.retrying(lambda store: store.records.count(where, limit=limit))

    async def history(self, record_id: str, *, limit: int = 50, before: int | None = None) -> list[Line]:
        """The last lines of a record's history, newest first."""
        found = await self._backend.retrying(
            lambda store: store.records.list_events(self.kind, record_id, limit=limit, before=before)
        )
        return [self._line(record_id, one) for one in found]

    def read(self, record: Record) -> Document[B]:
        """A stored record with its body. Never fails: a listing must show the others."""
        try:
            body = self._backend.codec.decode(record.body, self._body, place=body_place(self.kind, record.record_id))
        except StepwellError as error:
            return Document(record, None, error)
        return Document(record, body)

    # --- changing ---

    async def change(self, record_id: str, decide: Decide[B]) -> bool:
        """Read the record, decide, and change it; again if another process changed it meanwhile. Returns whether it was
        changed.

        Raises `InvalidMoveError` for a state that the record cannot have next, and `InvalidOptionError` for an id or a
        label that cannot be stored.
        """
        check_id(record_id, self.kind)
        for tries in range(TRIES_MAX):
            if tries > 1:
                await asyncio.sleep(PAUSE * tries)
            before = await self.find(record_id)
            draft = decide(before)
            if draft is None:
                return False
            if (await self._apply(record_id, before, draft)).outcome is ChangeOutcome.CHANGED:
                return True
        raise StoreUnavailableError(
            f"{self.kind} {record_id!r} could not be changed",
            why=f"other processes changed it {TRIES_MAX} times meanwhile",
            fix="try again",
        )

    async def apply(self, drafts: Sequence[tuple[Document[B], Draft[B]]]) -> list[Changed]:
        """Change many records that were read before, in one transaction. A record that another process changed
        meanwhile is stale, and stays as it is.
        """
        return await self._send([self._change(before.record.record_id, before, draft) for before, draft in drafts])

    async def _apply(self, record_id: str, before: Document[B] | None, draft: Draft[B]) -> Changed:
        [changed] = await self._send([self._change(record_id, before, draft)])
        return changed

    async def _send(self, changes: list[RecordChange]) -> list[Changed]:
        answers = await self._backend.retrying(
            lambda store: self._backend.with_offer(lambda offer: store.records.change(changes, offer))
        )
        for changed in answers:
            self._backend.adopt(changed.claimed)
        return answers

    def _change(self, record_id: str, before: Document[B] | None, draft: Draft[B]) -> RecordChange:
        self._check_move(record_id, before, draft.state)
        if draft.body is not None:
            body = self._backend.codec.encode(draft.body, self._body, place=body_place(self.kind, record_id))
        else:
            assert before is not None, "a new record has a body"
            body = before.record.body
        labels = draft.labels if draft.labels is not None else () if before is None else before.record.labels
        record = NewRecord(
            self.kind,
            record_id,
            draft.state,
            body,
            check_labels(labels, self.kind),
            draft.due_at,
            draft.state not in self._life.closed,
            draft.end_state,
        )
        version, act = 0 if before is None else before.record.version, self._backend.new_act()
        events = tuple(self._event(record_id, line) for line in draft.lines)
        return RecordChange(act, version, record, events, draft.signals, draft.starts)

    def _event(self, record_id: str, line: NewLine) -> NewRecordEvent:
        place = line_place(self.kind, record_id, line.verb)
        data = b"" if line.data is None else self._backend.codec.encode(line.data, place=place)
        return NewRecordEvent(line.verb, line.by, data, line.replaces)

    def _check_move(self, record_id: str, before: Document[B] | None, target: StrEnum) -> None:
        state = None if before is None else before.record.state
        allowed = (
            self._life.begins
            if state is None
            else next(
                (targets for current, targets in self._life.moves.items() if current == state), frozenset[StrEnum]()
            )
        )
        if target != state and target not in allowed:
            is_now = "does not exist yet" if state is None else f"is {state}"
            raise InvalidMoveError(f"{self.kind} {record_id!r} {is_now} and cannot become {target}")

    # --- inside ---

    def _where(self, states: Sequence[StrEnum], labels: Sequence[str], order: RecordOrder) -> RecordFilter:
        return RecordFilter(self.kind, tuple(map(str, states)), tuple(labels), is_open=True, order=order)

    def _line(self, record_id: str, event: RecordEvent) -> Line:
        data: Any = None
        if event.data:
            try:
                place = line_place(self.kind, record_id, event.verb)
                data = self._backend.codec.decode(event.data, Any, place=place)
            except StepwellError as error:
                data = {"unreadable": error.title}
        return Line(event.number, event.at, event.by, event.verb, event.version, data)

    # Last, because below it `list` is this method.
    async def list(
        self,
        *,
        states: Sequence[StrEnum] = (),
        labels: Sequence[str] = (),
        order: RecordOrder = "newest",
        limit: int = 50,
        after: str | None = None,
    ) -> list[Document[B]]:
        """Open records that have one of these states and all of these labels. The next page is behind `after`, the id
        of the last record of this one; it is empty if that record is gone.
        """
        where = self._where(states, labels, order)
        last = None
        if after is not None:
            last = await self._backend.retrying(lambda store: store.records.find(self.kind, after))
            if last is None:
                return []
        found = await self._backend.retrying(lambda store: store.records.list_records(where, limit=limit, after=last))
        return [self.read(one) for one in found]


def check_id(record_id: Any, kind: RecordKind) -> str:
    """The id of a record. Raises `InvalidOptionError` if it cannot be stored or typed."""
    reason = why_not_text(record_id)
    if reason is None and not 0 < len(record_id) <= ID_MAX:
        reason = f"it has 1 to {ID_MAX} characters"
    if reason is None and (not record_id.isprintable() or record_id != record_id.strip() or record_id[0] == "-"):
        reason = "it does not begin with a dash, has no control characters, and no blanks around it"
    if reason is not None:
        raise InvalidOptionError(f"{record_id!r:.80} cannot be the name of a {kind}", why=reason)
    return str(record_id)


def check_labels(labels: Sequence[str], kind: RecordKind) -> tuple[str, ...]:
    """Labels as they are stored: sorted, each once. Raises `InvalidOptionError` for an invalid label."""
    found = tuple(sorted(set(labels)))
    for label in found:
        if why_not_text(label) is not None or not 0 < len(label) <= LABEL_MAX or "\x00" in label:
            raise InvalidOptionError(
                f"the label {label!r:.80} of a {kind} cannot be stored", why=f"a label has 1 to {LABEL_MAX} characters"
            )
    if len(found) > LABELS_MAX:
        raise InvalidOptionError(f"a {kind} has {len(found)} labels", why=f"{LABELS_MAX} is the most")
    return found


def due_at(when: datetime | Span, now: Instant, *, what: str = "due") -> Instant:
    """A due time: at a moment, or this long from now. The past means now.

    Raises `InvalidOptionError` for a moment without a time zone, or after the year 9999.
    """
    at = to_instant(when, what=what) if isinstance(when, datetime) else Instant(now + when)
    if at > DUE_MAX:
        raise InvalidOptionError(f"{what}: {when!r} is after the year 9999", fix="give an earlier time")
    return max(at, now)


def body_place(kind: RecordKind, record_id: str) -> Place:
    """The place of a record's body. The kind is part of the row, so an encrypted body fits no other record."""
    return Place("", f"{kind} {record_id}", "the body", row=Row(f"record {kind}", record_id, "body"))


def line_place(kind: RecordKind, record_id: str, verb: str) -> Place:
    """The place of the data of a line. Its number is not known before it is stored."""
    return Place("", f"{kind} {record_id}", "the change", row=Row(f"record {kind}", record_id, f"line {verb}"))
