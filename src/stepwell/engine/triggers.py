"""Triggers: workflows that events start, whoever publishes them. Workers declare them, and the store keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from stepwell.clock import SECOND, Duration, Instant, Span, span, to_datetime
from stepwell.codec.base import ANY
from stepwell.engine.backend import Backend
from stepwell.engine.records import Document, Draft, Line, NewLine, RecordKind, Records
from stepwell.engine.starts import FOREVER
from stepwell.errors import DuplicateNameError, InvalidOptionError
from stepwell.model.locations import check_name
from stepwell.model.records import ID_MAX, LABEL_MAX
from stepwell.model.states import TriggerState
from stepwell.model.templates import Template, check_template, first_names
from stepwell.model.topics import Event, topic_of
from stepwell.nearest import nearest
from stepwell.redaction import redact
from stepwell.replay.workflows import Workflow

RENEW_EVERY: Final = span("6h")
KEPT: Final = Span(span("24h") + RENEW_EVERY)
"""How long a trigger stays active after its last declaration: a day, and the time until its next renewal."""

_AGAIN: Final = Span(60 * SECOND)  # an error of a trigger is recorded at most once in this time
_FIX: Final = "stepwell trigger ls"


@dataclass(frozen=True, slots=True, init=False)
class Trigger:
    """Starts a run of a workflow for each event on a topic, whichever process publishes the event.

        App(workflows=[invoice], triggers=[Trigger(Shipped, start=invoice, key="order")])

    `key` and `input` are read from the event: a path (`"order.id"`), or a text with paths (`"order-{order.id}"`).
    `input` may also be a dict of these; without it the whole event is the input. An event starts no run if its key has
    a run that is active or ended within `dedup`. `name` is for people; without it, it is made of topic and workflow.

    Raises `InvalidOptionError` for a function in place of a path, because it could not be stored.
    """

    name: str
    topic: str
    start: Workflow[Any, Any]
    key: str | None
    input: Template
    dedup: Span

    def __init__(
        self,
        topic: str | type[Event],
        *,
        start: Workflow[Any, Any],
        key: str | None = None,
        input: Template = None,
        dedup: Duration = "24h",
        name: str | None = None,
    ) -> None:
        def put(attribute: str, value: Any) -> None:
            object.__setattr__(self, attribute, value)  # it is frozen for everybody else

        of, hint = topic_of(topic)
        workflow: Any = start
        if not isinstance(workflow, Workflow):
            raise InvalidOptionError(
                f"{workflow!r:.80} is not a workflow", where=f"topic {of}", fix="start=a function with @workflow"
            )
        if input is not None and not workflow.takes_input:
            raise InvalidOptionError(
                f"workflow {workflow.name!r} takes no input", where=f"topic {of}", fix="leave `input` out"
            )
        put("topic", of)
        put("start", workflow)
        put("key", _check_key(key))
        put("input", check_template(input, what="input"))
        put("dedup", min(span(dedup, what="dedup"), FOREVER))
        put("name", _name_of(of, workflow.name) if name is None else check_name(name, what="trigger name"))
        for template in (key, input):
            _check_fields(template, of, hint)


class TriggerFailure(msgspec.Struct, frozen=True):
    """Why an event could not start a run. Its texts do not quote the event."""

    at: int
    event_id: str
    code: str
    message: str


class TriggerBody(msgspec.Struct, frozen=True):
    """What is stored of a trigger."""

    topic: str
    workflow: str
    version: int
    takes_input: bool
    discards: bool
    key: str | None
    input: Any
    dedup: int
    declared_at: int
    by: str = ""  # who paused it
    reason: str = ""
    failure: TriggerFailure | None = None

    @property
    def definition(self) -> str:
        """The workflow that it starts, as workers declare it."""
        return f"{self.workflow}@{self.version}"


@dataclass(frozen=True, slots=True)
class TriggerFailureView:
    """The last event that could not start a run."""

    at: datetime
    event_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class TriggerView:
    """A trigger. `unreadable` is the reason if its content cannot be read; then only name, state and times are known."""

    name: str
    state: str
    topic: str
    workflow: str
    version: int
    key: str | None
    input: Any
    dedup_seconds: float
    declared_at: datetime | None
    by: str  # who paused it
    reason: str
    failure: TriggerFailureView | None
    created_at: datetime
    updated_at: datetime
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class TriggerActView:
    """A line of a trigger's history."""

    at: datetime
    verb: str
    by: str
    details: Any


class Triggers:
    """`engine.triggers`: workflows that events start. Code declares them; here they are listed, paused and deleted."""

    def __init__(self, backend: Backend, triggers: Iterable[Trigger], *, may_declare: bool) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.TRIGGER, TriggerBody)
        self._in_code = by_name(triggers)
        self._may_declare = may_declare
        self._renew_at: dict[str, Instant] = {}  # of the declared ones

    # --- declaring ---

    async def declare(self, trigger: Trigger) -> None:
        """Declare a trigger. Every publish that begins after this returns starts a run, in whichever process.

        The worker of this engine renews the declaration while it lives. If no live worker has declared the trigger for
        a day, it becomes `undeclared` and starts nothing until it is declared again. A trigger that a person paused
        stays paused. Raises `InvalidOptionError` in an engine without a worker.
        """
        if not self._may_declare:
            raise InvalidOptionError(
                "this engine has no worker, so it cannot declare a trigger",
                where=f"trigger {trigger.name}",
                why="a trigger lasts while a worker declares it",
                fix="declare it in the app of the workers: App(workflows=[...], triggers=[Trigger(...)])",
            )
        self._in_code[trigger.name] = trigger
        await self._declare(trigger)

    async def declare_all(self) -> None:
        """Declare the triggers of the app, before its worker begins."""
        for trigger in tuple(self._in_code.values()):
            await self._declare(trigger)

    async def _declare(self, trigger: Trigger) -> None:
        await self._records.change(trigger.name, lambda now: _declared(trigger, now, self._backend.store.now()))
        self._renew_at[trigger.name] = Instant(self._backend.store.now() + RENEW_EVERY)

    async def renew(self) -> Instant | None:
        """Renew the declarations of this engine whose time has come; returns the time of the next one."""
        now = self._backend.store.now()
        for name in [name for name, at in self._renew_at.items() if at <= now]:
            await self._records.change(name, partial(_renewed, _body(self._in_code[name], now)))
            self._renew_at[name] = Instant(now + RENEW_EVERY)
        return min(self._renew_at.values(), default=None)

    async def list_lapsed(self) -> list[str]:
        """The triggers that no worker has declared for a day."""
        return [one.record.record_id for one in await self._records.due()]

    async def expire(self, name: str) -> bool:
        """Make a trigger `undeclared`, unless a worker has declared it meanwhile."""
        return await self._records.change(name, lambda it: _expired(it, self._backend.store.now()))

    # --- verbs of people ---

    async def pause(self, name: str, *, by: str = "", reason: str = "") -> bool:
        """Pause a trigger: events start no runs until it is resumed. False if it was paused. Raises `NotFoundError`."""
        await self._records.get(name, fix=_FIX)
        said = redact(reason)
        return await self._records.change(name, lambda it: _paused(it, by, said))

    async def resume(self, name: str, *, by: str = "") -> bool:
        """Resume a trigger. Events that were published meanwhile start nothing. False if it is active.

        An undeclared one is active for another day; if no worker declares it by then, it is undeclared again.
        """
        await self._records.get(name, fix=_FIX)
        return await self._records.change(name, lambda it: _resumed(it, by, self._backend.store.now()))

    async def delete(self, name: str, *, by: str = "") -> bool:
        """Delete a trigger. A worker whose code still has it declares it again when it starts the next time."""
        await self._records.get(name, fix=_FIX)
        return await self._records.change(name, lambda it: _deleted(it, by))

    async def get(self, name: str) -> TriggerView:
        """One trigger. Raises `NotFoundError`."""
        return _view(await self._records.get(name, fix=_FIX))

    async def history(self, name: str, *, limit: int = 20) -> list[TriggerActView]:
        """What happened to a trigger, newest first. Renewals by workers are part of it."""
        return [_act(line) for line in await self._records.history(name, limit=limit)]

    # --- for publishing ---

    @property
    def records(self) -> Records[TriggerBody]:
        """The triggers as they are stored."""
        return self._records

    async def note_failure(self, known: Document[TriggerBody], failure: TriggerFailure) -> None:
        """Record on a trigger that an event could not start a run."""
        if not _is_recent(known.body.failure, failure):
            await self._records.change(known.record.record_id, lambda it: _failed(it, failure))

    # Last, because below it `list` is this method.
    async def list(
        self, *, topic: str | None = None, state: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[TriggerView]:
        """Triggers, newest first: all, or those of one topic, or in one state. The next page is behind `after`, the
        name of the last trigger of this one.
        """
        labels = () if topic is None else (topic_label(topic),)
        states = () if state is None else (_read_state(state),)
        found = await self._records.list(states=states, labels=labels, limit=limit, after=after)
        return [_view(one) for one in found]


# --- decisions: what a trigger becomes ---


def _declared(trigger: Trigger, it: Document[TriggerBody] | None, now: Instant) -> Draft[TriggerBody] | None:
    """The declaration of a worker. It keeps the pause of a person."""
    said = _body(trigger, now)
    line = NewLine("declared", data=_facts(said))
    if it is None or not it.record.is_open:
        return _draft(said, TriggerState.ACTIVE, line)
    is_paused, before = it.record.state == TriggerState.PAUSED, it.content
    if before is not None and _is_same(before, said):
        return None if is_paused else _renewed(said, it) or _resumed_by_code(it, said)
    if not is_paused:
        return _draft(said, TriggerState.ACTIVE, line)
    by, reason = ("", "") if before is None else (before.by, before.reason)
    return _draft(msgspec.structs.replace(said, by=by, reason=reason), TriggerState.PAUSED, line)


def _resumed_by_code(it: Document[TriggerBody], said: TriggerBody) -> Draft[TriggerBody] | None:
    if it.record.state != TriggerState.UNDECLARED:
        return None
    return _draft(msgspec.structs.replace(it.body, declared_at=said.declared_at), TriggerState.ACTIVE, _DECLARED)


def _renewed(said: TriggerBody, it: Document[TriggerBody] | None) -> Draft[TriggerBody] | None:
    """The renewal by a worker that lives. What was declared last is in force, so other code does not renew it."""
    if it is None or it.record.state != TriggerState.ACTIVE or not _is_same(it.body, said):
        return None
    if it.body.declared_at > said.declared_at - RENEW_EVERY // 2:
        return None  # another worker has just renewed it
    return _draft(msgspec.structs.replace(it.body, declared_at=said.declared_at), TriggerState.ACTIVE, _RENEWED)


def _expired(it: Document[TriggerBody] | None, now: Instant) -> Draft[TriggerBody] | None:
    if it is None or it.record.state != TriggerState.ACTIVE or it.record.due_at is None or it.record.due_at > now:
        return None
    return _draft(it.body, TriggerState.UNDECLARED, NewLine("undeclared"))


def _paused(it: Document[TriggerBody] | None, by: str, reason: str) -> Draft[TriggerBody] | None:
    if it is None or not it.record.is_open or it.record.state == TriggerState.PAUSED:
        return None
    line = NewLine("paused", by, {"reason": reason} if reason else None)
    return _draft(msgspec.structs.replace(it.body, by=by, reason=reason), TriggerState.PAUSED, line)


def _resumed(it: Document[TriggerBody] | None, by: str, now: Instant) -> Draft[TriggerBody] | None:
    if it is None or not it.record.is_open or it.record.state == TriggerState.ACTIVE:
        return None
    body = msgspec.structs.replace(it.body, by="", reason="", failure=None, declared_at=now)
    return _draft(body, TriggerState.ACTIVE, NewLine("resumed", by))


def _deleted(it: Document[TriggerBody] | None, by: str) -> Draft[TriggerBody] | None:
    if it is None or not it.record.is_open:
        return None
    return _draft(it.body, TriggerState.DELETED, NewLine("deleted", by))


def _failed(it: Document[TriggerBody] | None, failure: TriggerFailure) -> Draft[TriggerBody] | None:
    if it is None or not it.record.is_open or _is_recent(it.body.failure, failure):
        return None
    line = NewLine("failed", data={"event_id": failure.event_id, "code": failure.code, "message": failure.message})
    return _draft(msgspec.structs.replace(it.body, failure=failure), TriggerState(it.record.state), line)


def _draft(body: TriggerBody, state: TriggerState, line: NewLine) -> Draft[TriggerBody]:
    due = Instant(body.declared_at + KEPT) if state is TriggerState.ACTIVE else None
    return Draft(state=state, body=body, lines=(line,), labels=(topic_label(body.topic),), due_at=due)


_DECLARED: Final = NewLine("declared")
_RENEWED: Final = NewLine("renewed")


# --- parts ---


def topic_label(topic: str) -> str:
    """The label of the triggers of a topic; of a long name it has a digest."""
    label = f"topic {topic}"
    return label if len(label) <= LABEL_MAX else f"topic# {_digest(topic)}"


def _name_of(topic: str, workflow: str) -> str:
    """The name of a trigger that was given none. Other topics and workflows have another."""
    name = f"{topic}:{workflow}"
    if ":" in topic + workflow or len(name) > ID_MAX:
        return f"{name[:150]}~" + _digest(f"{topic}\x1f{workflow}")
    return name


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def by_name(triggers: Iterable[Trigger]) -> dict[str, Trigger]:
    """Triggers by their names. Raises `DuplicateNameError` if two have the same."""
    found: dict[str, Trigger] = {}
    for each in triggers:
        if not isinstance(each, Trigger):
            raise InvalidOptionError(f"{each!r:.80} is not a trigger", fix="triggers=[Trigger(topic, start=workflow)]")
        if each.name in found:
            raise DuplicateNameError(f"two triggers are called {each.name!r}", fix="give one of them another name=")
        found[each.name] = each
    return found


def _check_key(key: Any) -> str | None:
    if key is not None and not isinstance(key, str) and not callable(key):
        raise InvalidOptionError(f"key is {key!r:.60}", fix='a path such as "order.id", a text such as "order-{order.id}"')
    checked = check_template(key, what="key")
    assert checked is None or isinstance(checked, str)
    return checked


def _check_fields(template: Template, topic: str, hint: Any) -> None:
    """Raise if a template reads a field that no event of a typed topic has."""
    if hint is ANY:
        return
    known = [each.encode_name for each in msgspec.structs.fields(hint)]
    for name in first_names(template):
        if name not in known:
            near = nearest(name, known)
            raise InvalidOptionError(
                f"events of {topic} have no field {name!r}",
                where=f"topic {topic}",
                fix=f"did you mean {near[0]!r}?" if near else f"use one of its fields: {', '.join(known) or 'none'}",
            )


def _body(trigger: Trigger, now: Instant) -> TriggerBody:
    workflow = trigger.start
    return TriggerBody(
        trigger.topic,
        workflow.name,
        workflow.version,
        workflow.takes_input,
        workflow.discards,
        trigger.key,
        trigger.input,
        trigger.dedup,
        now,
    )


def _facts(body: TriggerBody) -> dict[str, Any]:
    return {"workflow": body.definition, "key": body.key, "input": body.input, "dedup_seconds": body.dedup / SECOND}


def _is_same(before: TriggerBody, said: TriggerBody) -> bool:
    """Whether both were declared by the same code."""
    kept = msgspec.structs.replace(
        said, declared_at=before.declared_at, by=before.by, reason=before.reason, failure=before.failure
    )
    return kept == before


def _is_recent(before: TriggerFailure | None, failure: TriggerFailure) -> bool:
    """Whether a failure was recorded just before this one: one a minute is enough."""
    return before is not None and failure.at - before.at < _AGAIN


def _read_state(state: str) -> TriggerState:
    try:
        return TriggerState(state)
    except ValueError:
        raise InvalidOptionError(f"a trigger is never {state!r:.40}", fix=f"one of {', '.join(TriggerState)}") from None


def _view(document: Document[TriggerBody]) -> TriggerView:
    record, body = document.record, document.content
    failure = None if body is None else body.failure
    return TriggerView(
        name=record.record_id,
        state=record.state,
        topic="" if body is None else body.topic,
        workflow="" if body is None else body.workflow,
        version=0 if body is None else body.version,
        key=None if body is None else body.key,
        input=None if body is None else body.input,
        dedup_seconds=0.0 if body is None else body.dedup / SECOND,
        declared_at=None if body is None else to_datetime(Instant(body.declared_at)),
        by="" if body is None else body.by,
        reason="" if body is None else body.reason,
        failure=None
        if failure is None
        else TriggerFailureView(to_datetime(Instant(failure.at)), failure.event_id, failure.code, failure.message),
        created_at=to_datetime(record.created_at),
        updated_at=to_datetime(record.updated_at),
        unreadable="" if document.problem is None else document.problem.title,
    )


def _act(line: Line) -> TriggerActView:
    return TriggerActView(to_datetime(line.at), line.verb, line.by, line.data)
