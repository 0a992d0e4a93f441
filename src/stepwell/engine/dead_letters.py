"""Dead letters: everything that could not be handled, in one list, until a person retries or drops it.

Most letters are views of what the store holds anyway: an event that its sink rejected too often, a signal that its run
refused, a run that is paused because it kills workers or cannot be decoded, a run whose workflow no worker knows. So
there is nothing to keep in step. Only messages of webhooks that did not fit have a record of their own, and so has what
people did with letters.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from stepwell.clock import SECOND, Instant, Span, to_datetime
from stepwell.codec.addressed import move_signal
from stepwell.codec.base import Place
from stepwell.codec.envelopes import read_plainly
from stepwell.engine.backend import Backend
from stepwell.engine.cancellations import cancel_run
from stepwell.engine.facts import OMITTED, PAYLOAD
from stepwell.engine.holds import Holds
from stepwell.engine.records import PAGE, Document, Draft, NewLine, RecordKind, Records
from stepwell.errors import (
    CorruptRecordError,
    HistoryDivergedError,
    InvalidInputError,
    InvalidMoveError,
    InvalidOptionError,
    NotFoundError,
    PoisonError,
    ReplayError,
    SinkError,
    UnknownWorkflowError,
)
from stepwell.errors.records import FailureRecord
from stepwell.ids import EventId
from stepwell.model.failures import decode_failure
from stepwell.model.holds import workflow_of
from stepwell.model.outbox import Owed
from stepwell.model.records import RecordFilter
from stepwell.model.runs import Run
from stepwell.model.signals import Delivery, Redelivery
from stepwell.model.states import LetterState, RunStatus
from stepwell.redaction import redact
from stepwell.stores.base.filters import Condition, Field
from stepwell.stores.base.views import RunFilter, UnreadSignal

GRACE: Final = Span(900 * SECOND)  # how long a run waits for a worker that knows its workflow, before it is a letter
KINDS: Final = ("event", "signal", "poison", "history", "unserved", "hook")
_DAMAGED: Final = (CorruptRecordError.code, HistoryDivergedError.code, ReplayError.code)
_READ_MAX: Final = 1_000  # runs of one kind
_ALL_MAX: Final = 10_000  # letters that one act in bulk handles


@dataclass(frozen=True, slots=True)
class Letter:
    """What could not be handled. `original` are its bytes as they were stored or received."""

    letter: str  # its name: the kind, a dash and a number or id
    kind: str
    code: str
    reason: str
    fix: str  # what makes a retry succeed
    name: str  # of the event, signal or hook
    run_id: str
    workflow: str
    key: str | None
    target: str  # the sink or the run that could not take it
    worker: str  # the incarnation that gave up; empty if it is not known
    at: datetime  # when it was sent, emitted or received
    died_at: datetime  # when it was given up
    attempts: int
    payload: Any = field(metadata=PAYLOAD)  # as far as it can be shown without the codec
    original: bytes = field(repr=False, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class HandledLetter:
    """What a person did with a letter."""

    letter: str
    kind: str
    state: str
    name: str
    run_id: str
    reason: str  # why it could not be handled
    by: str
    why: str  # why it was dropped
    at: datetime


@dataclass(frozen=True, slots=True)
class LettersActed:
    """How many letters an act in bulk handled. `failed` names those that are left, with the reason."""

    handled: int
    failed: Mapping[str, str]


class LetterBody(msgspec.Struct, frozen=True):
    """What is stored of a letter that only a record holds, and of one that was handled."""

    kind: str
    name: str
    run_id: str
    code: str
    reason: str
    by: str = ""
    why: str = ""
    original: bytes = b""
    at: int = 0
    attempts: int = 0


class HookTaker(Protocol):
    """Hands the message of a webhook over again."""

    async def __call__(self, hook: str, own_id: str, message: bytes) -> None: ...


class DeadLetters:
    """`engine.dead_letters`: what could not be handled. List it, retry it, edit it, or drop it with a reason."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._holds = Holds(backend)
        self._records = Records(backend, RecordKind.LETTER, LetterBody)
        self.take_hook: HookTaker | None = None  # set where the hooks are

    # --- reading ---

    async def get(self, letter: str) -> Letter:
        """One letter. Raises `NotFoundError`, also if it was handled meanwhile."""
        kind, _, rest = letter.partition("-")
        found: Letter | None = None
        match kind:
            case "event" if rest.isdecimal():
                after = int(rest) - 1
                owed = await self._backend.retrying(
                    lambda store: store.outbox.list_owed(is_dead=True, limit=1, after=after)
                )
                found = next((_of_event(one) for one in owed if one.number == after + 1), None)
            case "signal" if rest.isdecimal():
                after = int(rest) - 1
                unread = await self._backend.retrying(
                    lambda store: store.views.list_unread(limit=1, after=after, is_refused=True)
                )
                if unread and unread[0].signal.number == after + 1:
                    found = await self._of_signal(unread[0])
            case "poison" | "history" | "unserved":
                run = await self._backend.find(rest)
                served = await self._served() if kind == "unserved" else None
                found = None if run is None else _of_run(run, kind, served, self._backend.store.now())
            case "hook":
                kept = await self._records.find(letter)
                found = None if kept is None or not kept.record.is_open else _of_hook(kept)
            case _:
                pass
        if found is None:
            raise NotFoundError("dead letter", letter, fix="stepwell dlq ls")
        return found

    async def count(self, kind: str | None = None, *, limit: int = 1_000) -> int:
        """How many letters there are; the count stops at `limit`."""
        return len(await self.list(kind, limit=limit))

    async def handled(self, *, limit: int = 50) -> list[HandledLetter]:
        """What people did with letters, the latest first, for as long as retention keeps closed records."""
        where = RecordFilter(RecordKind.LETTER, is_open=False)
        found = await self._backend.retrying(lambda store: store.records.list_records(where, limit=limit))
        read = [self._records.read(one) for one in found]
        return [_handled(one) for one in read if one.content is not None]

    # --- acting ---

    async def retry(self, letter: str, *, to: str | None = None, by: str = "") -> bool:
        """Handle a letter again, and wake what waits for it. False if it was handled before.

        An event goes to its sink with a new budget of attempts and its own id. A signal goes to its run, or to the run
        `to`. A paused run is resumed. Raises `InvalidMoveError` if a retry cannot succeed yet.
        """
        return await self._act(letter, by, lambda one: self._retry(one, to, by))

    async def edit(self, letter: str, payload: Any, *, to: str | None = None, by: str = "") -> bool:
        """Retry a letter with another payload, under its own id. False if it was handled before.

        Raises `InvalidOptionError` for a run, which has no payload: repair it instead.
        """
        return await self._act(letter, by, lambda one: self._edit(one, payload, to, by))

    async def drop(self, letter: str, reason: str, *, by: str = "") -> bool:
        """Drop a letter for ever, with the reason. False if it was handled before. A run is cancelled without undoing
        anything.
        """
        said = redact(reason).strip()
        if not said:
            raise InvalidOptionError("a letter is dropped with a reason", fix='drop(letter, "sent twice by the shop")')
        return await self._act(letter, by, lambda one: self._drop(one, said, by), state=LetterState.DROPPED, why=said)

    async def retry_all(
        self,
        *,
        kind: str | None = None,
        workflow: str | None = None,
        run: str | None = None,
        code: str | None = None,
        by: str = "",
    ) -> LettersActed:
        """Retry all letters that match. Letters whose retry cannot succeed yet are left."""
        letters = await self.list(kind, workflow=workflow, run=run, code=code, limit=_ALL_MAX)
        return await self._act_on_all(letters, lambda one: self.retry(one.letter, by=by))

    async def drop_all(
        self,
        reason: str,
        *,
        kind: str | None = None,
        workflow: str | None = None,
        run: str | None = None,
        code: str | None = None,
        by: str = "",
    ) -> LettersActed:
        """Drop all letters that match, with a reason."""
        letters = await self.list(kind, workflow=workflow, run=run, code=code, limit=_ALL_MAX)
        return await self._act_on_all(letters, lambda one: self.drop(one.letter, reason, by=by))

    async def keep_hook(self, hook: str, own_id: str, message: bytes, error: Exception) -> None:
        """Keep a message whose signature was right and that could not be handed over. A repetition is counted."""
        now, code = self._backend.store.now(), getattr(error, "code", "")
        title = redact(str(getattr(error, "title", error)))[:500]

        def decide(it: Document[LetterBody] | None) -> Draft[LetterBody]:
            before = None if it is None or not it.record.is_open else it.content
            at, attempts = (now, 1) if before is None else (before.at, before.attempts + 1)
            body = LetterBody("hook", hook, "", code, title, original=message, at=at, attempts=attempts)
            return Draft(state=LetterState.OPEN, body=body, lines=(NewLine("failed", data={"reason": title}),))

        await self._records.change(f"hook-{own_id.removeprefix('hook-')}", decide)

    async def settle_hook(self, own_id: str) -> None:
        """Close the letter of a message that came again and was handed over, if there is one."""
        name = f"hook-{own_id.removeprefix('hook-')}"
        kept = await self._records.find(name)
        if kept is not None and kept.record.is_open:
            await self._note(_of_hook(kept), LetterState.RETRIED, "its sender", "")

    # --- inside ---

    async def _act(
        self, letter: str, by: str, act: Any, *, state: LetterState = LetterState.RETRIED, why: str = ""
    ) -> bool:
        try:
            found = await self.get(letter)
        except NotFoundError:
            known = await self._records.find(letter)
            if known is None or known.record.is_open:
                raise
            return False
        is_done = await act(found)
        if is_done:
            await self._note(found, state, by, why)
        return bool(is_done)

    async def _note(self, letter: Letter, state: LetterState, by: str, why: str) -> None:
        at = self._backend.store.now()

        def decide(it: Document[LetterBody] | None) -> Draft[LetterBody]:
            body = LetterBody(
                letter.kind, letter.name, letter.run_id, letter.code, letter.reason, by, why, b"", at, letter.attempts
            )
            return Draft(state=state, body=body, lines=(NewLine(state.value, by),))

        await self._records.change(letter.letter, decide)

    async def _act_on_all(self, letters: Sequence[Letter], act: Any) -> LettersActed:
        handled, failed = 0, dict[str, str]()
        for one in letters:
            try:
                handled += await act(one)
            except (InvalidMoveError, NotFoundError) as error:
                failed[one.letter] = error.title
            await asyncio.sleep(0)
        return LettersActed(handled, failed)

    async def _retry(self, letter: Letter, to: str | None, by: str) -> bool:
        match letter.kind:
            case "event":
                return await self._replay(letter, None, by)
            case "signal":
                return await self._redeliver(letter, letter.original, to)
            case "hook":
                return await self._take(letter, letter.original)
            case "unserved":
                raise InvalidMoveError(
                    f"no worker knows {letter.workflow} of run {letter.run_id}",
                    where=letter.run_id,
                    why="the run goes on by itself as soon as one does",
                    fix="start a worker whose module has this workflow and version, or drop the letter",
                )
            case _:
                return await self._holds.resume(letter.run_id, by=by)

    async def _edit(self, letter: Letter, payload: Any, to: str | None, by: str) -> bool:
        codec = self._backend.codec
        match letter.kind:
            case "event":
                stored = codec.encode(payload, place=Place("", f"event {letter.name}", "the payload"))
                return await self._replay(letter, stored, by)
            case "signal":
                place = Place("", f"signal {letter.name}", "the payload")
                return await self._redeliver(letter, codec.encode(payload, place=place), to)
            case "hook":
                return await self._take(letter, msgspec.json.encode(payload))
            case _:
                raise InvalidOptionError(
                    f"{letter.letter} is a run, and has no payload",
                    fix=f"stepwell show {letter.run_id}, then rewind it, skip the step or retry the letter",
                )

    async def _drop(self, letter: Letter, reason: str, by: str) -> bool:
        match letter.kind:
            case "event":
                event = _event_id(letter)
                return bool(
                    await self._backend.retrying(
                        lambda store: store.outbox.drop(event, letter.target, by=by, reason=reason)
                    )
                )
            case "signal":
                number = int(letter.letter.rpartition("-")[2])
                return await self._backend.retrying(lambda store: store.signals.drop(number, by=by, reason=reason))
            case "hook":
                return True
            case _:
                return await cancel_run(self._backend, letter.run_id, reason, compensate=False, by=by)

    async def _replay(self, letter: Letter, payload: bytes | None, by: str) -> bool:
        event = _event_id(letter)
        return bool(
            await self._backend.retrying(
                lambda store: store.outbox.replay(event, letter.target, by=by, payload=payload)
            )
        )

    async def _redeliver(self, letter: Letter, stored: bytes, to: str | None) -> bool:
        target, number = to or letter.run_id, int(letter.letter.rpartition("-")[2])
        run = await self._backend.get_last(target)
        moved = move_signal(self._backend.codec, stored, name=letter.name, target=run.run_id)
        (delivered,), claimed = await self._backend.retrying(
            lambda store: self._backend.with_offer(
                lambda offer: store.signals.redeliver([Redelivery(number, run.run_id, moved)], offer)
            )
        )
        self._backend.adopt(claimed)
        if delivered.delivery is Delivery.MISSING and run.ended_at is not None:
            raise InvalidMoveError(
                f"run {run.run_id} has ended ({run.status.value}), so it reads no signal",
                where=letter.letter,
                fix=f"stepwell dlq retry {letter.letter} --to RUN, or drop it",
            )
        return delivered.delivery is not Delivery.MISSING

    async def _take(self, letter: Letter, message: bytes) -> bool:
        if self.take_hook is None:
            raise InvalidMoveError(
                f"hook {letter.name!r} is not known here",
                why="hooks belong to the HTTP server, and only it can hand a message over",
                fix=f"POST /dead-letters/{letter.letter}/retry to the server that has the hook",
            )
        await self.take_hook(letter.name, letter.letter, message)
        return True

    async def _of_signal(self, unread: UnreadSignal) -> Letter:
        run = await self._backend.find(unread.run_id)
        return _of_signal(unread, run)

    async def _served(self) -> frozenset[str] | None:
        """What live workers serve; None while there is no worker that has lived longer than the grace time."""
        now = self._backend.store.now()
        workers = await self._backend.retrying(lambda store: store.views.list_workers())
        alive = [one for one in workers if one.lease_until > now]
        if not any(one.started_at + GRACE <= now for one in alive):
            return None
        return frozenset(name for one in alive for name in one.definitions)

    async def _events(self) -> AsyncIterator[Letter]:
        after = 0
        while True:
            found = await self._backend.retrying(
                lambda store, after=after: store.outbox.list_owed(  # type: ignore[misc]
                    is_dead=True, limit=PAGE, after=after
                )
            )
            for one in found:
                yield _of_event(one)
            if len(found) < PAGE:
                return
            after = found[-1].number

    async def _signals(self) -> AsyncIterator[Letter]:
        after = 0
        while True:
            found = await self._backend.retrying(
                lambda store, after=after: store.views.list_unread(  # type: ignore[misc]
                    limit=PAGE, after=after, is_refused=True
                )
            )
            for one in found:
                yield await self._of_signal(one)
            if len(found) < PAGE:
                return
            after = found[-1].signal.number

    async def _paused(self, kind: str) -> AsyncIterator[Letter]:
        codes = (PoisonError.code,) if kind == "poison" else _DAMAGED
        parts = tuple((f"{code.lower()} ", "") for code in codes)
        where = RunFilter(statuses=(RunStatus.PAUSED,), conditions=(Condition(Field.ERROR, parts),))
        for run in await self._backend.retrying(lambda store: store.views.list_runs(where, limit=_READ_MAX)):
            found = _of_run(run, kind, None, self._backend.store.now())
            if found is not None:
                yield found

    async def _unserved(self) -> AsyncIterator[Letter]:
        served, now = await self._served(), self._backend.store.now()
        if served is None:
            return
        known = await self._backend.retrying(lambda store: store.views.list_definitions())
        for name in sorted({workflow_of(one) for one in known if one not in served}):
            where = RunFilter(statuses=(RunStatus.PENDING, RunStatus.WAITING), workflow=name)
            for run in await self._backend.retrying(
                lambda store, where=where: store.views.list_runs(where, limit=_READ_MAX)  # type: ignore[misc]
            ):
                found = _of_run(run, "unserved", served, now)
                if found is not None:
                    yield found

    async def _hooks(self) -> AsyncIterator[Letter]:
        for one in await self._records.list(limit=_READ_MAX, order="oldest"):
            yield _of_hook(one)

    # Last, because below it `list` is this method.
    async def list(
        self,
        kind: str | None = None,
        *,
        workflow: str | None = None,
        run: str | None = None,
        code: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[Letter]:
        """Letters by kind, the oldest of each first: all, or those of one kind, workflow, run or code. The next page is
        behind `after`, the name of the last letter of this one.
        """
        if kind is not None and kind not in KINDS:
            raise InvalidOptionError(f"there is no kind of letter {kind!r:.40}", fix=f"one of {', '.join(KINDS)}")
        sources = {
            "event": self._events,
            "signal": self._signals,
            "poison": lambda: self._paused("poison"),
            "history": lambda: self._paused("history"),
            "unserved": self._unserved,
            "hook": self._hooks,
        }
        kinds: tuple[str, ...] = KINDS if kind is None else (kind,)
        begun = "" if after is None else after.partition("-")[0]
        if after is not None:
            kinds = kinds[kinds.index(begun) :] if begun in kinds else ()
        found: list[Letter] = []
        is_behind = after is None
        for each in kinds:
            async for letter in sources[each]():
                if not is_behind and letter.kind == begun:
                    is_behind = letter.letter == after or _is_past(letter.letter, after or "")
                    if letter.letter == after or not is_behind:
                        continue
                is_wanted = workflow in (None, letter.workflow) and code in (None, letter.code)
                if is_wanted and run in (None, letter.run_id, letter.key):
                    found.append(letter)
                if len(found) == limit:
                    return found
            is_behind = True
        return found


def _is_past(letter: str, after: str) -> bool:
    """Whether a numbered letter comes after a letter that may be gone."""
    one, other = letter.partition("-")[2], after.partition("-")[2]
    return one.isdecimal() and other.isdecimal() and int(one) > int(other)


def _of_event(owed: Owed) -> Letter:
    died_at = owed.at if owed.died_at is None else owed.died_at
    return Letter(
        letter=f"event-{owed.number}",
        kind="event",
        code=SinkError.code,
        reason=owed.failure,
        fix="fix the sink, then retry",
        name=owed.name,
        run_id=owed.run_id,
        workflow=owed.workflow,
        key=owed.key,
        target=owed.sink,
        worker=owed.died_by,
        at=to_datetime(owed.at),
        died_at=to_datetime(died_at),
        attempts=owed.attempts,
        payload={"event_id": owed.event_id, "payload": read_plainly(owed.payload)},
        original=owed.payload,
    )


def _event_id(letter: Letter) -> EventId:
    return EventId(str(letter.payload["event_id"]))


def _of_signal(unread: UnreadSignal, run: Run | None) -> Letter:
    signal = unread.signal
    return Letter(
        letter=f"signal-{signal.number}",
        kind="signal",
        code=InvalidInputError.code,
        reason=unread.reason,
        fix="edit and retry it, or deploy code that takes it and retry",
        name=signal.name,
        run_id=unread.run_id,
        workflow="" if run is None else run.workflow,
        key=None if run is None else run.key,
        target=unread.run_id,
        worker=unread.refused_by,
        at=to_datetime(signal.sent_at),
        died_at=to_datetime(signal.sent_at),
        attempts=1,
        payload=read_plainly(signal.payload),
        original=signal.payload,
    )


def _of_run(run: Run, kind: str, served: frozenset[str] | None, now: Instant) -> Letter | None:
    at = run.wake_at or run.started_at or run.created_at
    if kind == "unserved":
        is_due = run.wake_at is not None and run.wake_at + GRACE <= now
        if served is None or run.definition in served or not is_due:
            return None
        code, reason = UnknownWorkflowError.code, f"no worker knows {run.workflow} version {run.version}"
        fix, attempts = "start a worker that has this workflow and version; the run then goes on by itself", 0
    else:
        if run.status is not RunStatus.PAUSED or run.failure is None:
            return None
        failure = decode_failure(run.failure)
        if not (failure.code == PoisonError.code if kind == "poison" else _is_damaged(failure)):
            return None
        code, reason, attempts = failure.code, failure.message, run.stalls
        fix = "fix the step after the last recorded one, restart the workers, then retry"
        if kind == "history":
            fix = "restore what is damaged, or deploy code that can read it, then retry"
    return Letter(
        letter=f"{kind}-{run.run_id}",
        kind=kind,
        code=code,
        reason=reason,
        fix=fix,
        name=run.workflow,
        run_id=run.run_id,
        workflow=run.workflow,
        key=run.key,
        target=run.run_id,
        worker="",
        at=to_datetime(run.created_at),
        died_at=to_datetime(at),
        attempts=attempts,
        payload=read_plainly(run.input),
        original=run.input,
    )


def _is_damaged(failure: FailureRecord) -> bool:
    """Whether a run is paused because something of its record cannot be read: the run, its history or a value in it."""
    corrupt = CorruptRecordError.code
    return failure.code == corrupt or (failure.code in _DAMAGED and failure.why.startswith(f"{corrupt}:"))


def _of_hook(kept: Document[LetterBody]) -> Letter:
    body, record = kept.content, kept.record
    original = record.body if body is None else body.original
    return Letter(
        letter=record.record_id,
        kind="hook",
        code="" if body is None else body.code,
        reason=kept.problem.title if body is None and kept.problem is not None else "" if body is None else body.reason,
        fix="edit and retry it, or deploy code that takes it and retry",
        name="" if body is None else body.name,
        run_id="",
        workflow="",
        key=None,
        target="" if body is None else body.name,
        worker="",
        at=to_datetime(record.created_at),
        died_at=to_datetime(record.updated_at),
        attempts=0 if body is None else body.attempts,
        payload=original.decode(errors="replace"),
        original=original,
    )


def _handled(kept: Document[LetterBody]) -> HandledLetter:
    body, record = kept.content, kept.record
    assert body is not None
    return HandledLetter(
        record.record_id,
        body.kind,
        record.state,
        body.name,
        body.run_id,
        body.reason,
        body.by,
        body.why,
        to_datetime(record.updated_at),
    )
