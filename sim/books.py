"""The records of a seed, as a noun of the engine would keep them: notes of people, and forms that runs wait for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from stepwell.clock import Instant
from stepwell.codec.base import Codec, Place
from stepwell.engine.backend import Backend
from stepwell.engine.record_answers import new_answer
from stepwell.engine.records import Document, Draft, NewLine, Records
from stepwell.model.records import Changed, NewRecord, NewRecordEvent, Record, RecordChange
from stepwell.model.signals import NewSignal
from stepwell.model.states import Lifecycle
from stepwell.replay.primitives.record import RecordAwaited

NOTE: Final = "note"
FORM: Final = "form"
KINDS: Final = (NOTE, FORM)
RANG: Final = "rang"  # the verb of what the keeper does when a record is due
LABELS: Final = ("blue", "red")


class Shelf(StrEnum):
    """The state of a note or a form."""

    OPEN = "open"
    CLAIMED = "claimed"
    CLOSED = "closed"
    ENDED = "ended"  # with its run
    WITHDRAWN = "withdrawn"  # by the code that waited for it


_S = Shelf
LIFE: Final = Lifecycle(
    frozenset({_S.OPEN}),
    {
        _S.OPEN: frozenset({_S.CLAIMED, _S.CLOSED}),
        _S.CLAIMED: frozenset({_S.OPEN, _S.CLOSED}),
        _S.CLOSED: frozenset({_S.OPEN}),
        _S.ENDED: frozenset(),
        _S.WITHDRAWN: frozenset(),
    },
    frozenset({_S.CLOSED, _S.ENDED, _S.WITHDRAWN}),
)


class Page(msgspec.Struct, frozen=True):
    """The body of a record: the marks of all changes that made it, in order, and how often it may ring again."""

    marks: tuple[str, ...] = ()
    rings: int = 0


class Books(Records[Page]):
    """The records of one kind, as a process sees them."""

    def __init__(self, backend: Backend, kind: str) -> None:
        self._backend = backend
        self.kind: Any = kind  # no kind of the engine's own
        self._body = Page
        self._life = LIFE

    def prepare(self, record_id: str, before: Document[Page] | None, draft: Draft[Page]) -> RecordChange:
        """A change made from what was read. It can be sent more than once, and by any process."""
        return self._change(record_id, before, draft)

    async def send(self, change: RecordChange) -> Changed:
        """Send a change, again and again until the store answers."""
        backend = self._backend
        [changed] = await backend.retrying(
            lambda store: backend.with_offer(lambda offer: store.records.change([change], offer))
        )
        backend.adopt(changed.claimed)
        return changed


def page_of(record: Record) -> Page:
    """The body of a stored record."""
    return msgspec.json.decode(record.body[1:], type=Page)


def answer_of(backend: Backend, record: Record, mark: str, by: str) -> NewSignal:
    """What closing a form tells its run."""
    return new_answer(backend, record, {"mark": mark, "by": by})


def closing(backend: Backend, form: Document[Page], mark: str, by: str, line: NewLine) -> Draft[Page]:
    """A form with its answer."""
    return Draft(
        state=Shelf.CLOSED,
        body=Page((*form.body.marks, mark)),
        lines=(line, NewLine("answered", by)),
        labels=form.record.labels,
        end_state=Shelf.ENDED,
        signals=(answer_of(backend, form.record, mark, by),),
    )


def form(codec: Codec, within: float | None) -> RecordAwaited:
    """What code opens and waits for, and until when."""

    def make(record_id: str, now: Instant) -> NewRecord:
        due_at = None if within is None else Instant(now + round(within * 1e6))
        body = codec.encode(Page(), Page, place=Place("", f"{FORM} {record_id}", "the body"))
        return NewRecord(FORM, record_id, Shelf.OPEN, body, LABELS[:1], due_at, end_state=Shelf.ENDED)

    return RecordAwaited(FORM, make, NewRecordEvent("opened"), NewRecordEvent("withdrawn"), Shelf.WITHDRAWN)
