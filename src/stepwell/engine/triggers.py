"""Triggers: workflows that events start, whoever publishes them. Workers declare them, and the store keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from stepwell.clock import SECOND, Duration, Instant, Span, span, to_datetime
from stepwell.codec.base import ANY
from stepwell.engine.backend import Backend
from stepwell.engine.records import Document, Line, RecordKind, Records
from stepwell.engine.trigger_records import TriggerBody, deleted, digest, paused, resumed, topic_label
from stepwell.errors import DuplicateNameError, InvalidOptionError
from stepwell.model.locations import check_name
from stepwell.model.records import ID_MAX
from stepwell.model.starts import FOREVER
from stepwell.model.states import TriggerState
from stepwell.model.templates import Template, check_template, first_names
from stepwell.model.topics import Event, topic_of
from stepwell.nearest import nearest
from stepwell.redaction import redact
from stepwell.replay.workflows import Workflow

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


@dataclass(frozen=True, slots=True)
class TriggerFailureView:
    """The last event that could not start a run."""

    at: datetime
    event_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class TriggerView:
    """A trigger. `unreadable` is why its content cannot be read, if so: then only name, state and times are known."""

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
    """`engine.triggers`: workflows that events start. Code declares them; people pause, resume and delete them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.TRIGGER, TriggerBody)

    async def pause(self, name: str, *, by: str = "", reason: str = "") -> bool:
        """Pause a trigger: events start no runs until it is resumed. False if it was paused. Raises `NotFoundError`."""
        await self._records.get(name, fix=_FIX)
        said = redact(reason)
        return await self._records.change(name, lambda it: paused(it, by, said))

    async def resume(self, name: str, *, by: str = "") -> bool:
        """Resume a trigger. Events that were published meanwhile start nothing. False if it is active.

        An undeclared one is active for another day; if no worker declares it by then, it is undeclared again.
        """
        await self._records.get(name, fix=_FIX)
        return await self._records.change(name, lambda it: resumed(it, by, self._backend.store.now()))

    async def delete(self, name: str, *, by: str = "") -> bool:
        """Delete a trigger. A worker whose code still has it declares it again when it starts the next time."""
        await self._records.get(name, fix=_FIX)
        return await self._records.change(name, lambda it: deleted(it, by))

    async def get(self, name: str) -> TriggerView:
        """One trigger. Raises `NotFoundError`."""
        return _view(await self._records.get(name, fix=_FIX))

    async def history(self, name: str, *, limit: int = 20) -> list[TriggerActView]:
        """What happened to a trigger, newest first. Renewals by workers are part of it."""
        return [_act(line) for line in await self._records.history(name, limit=limit)]

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


def _name_of(topic: str, workflow: str) -> str:
    """The name of a trigger that was given none. Other topics and workflows have another."""
    name = f"{topic}:{workflow}"
    if ":" in topic + workflow or len(name) > ID_MAX:
        return f"{name[:150]}~" + digest(f"{topic}\x1f{workflow}")
    return name


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
        raise InvalidOptionError(
            f"key is {key!r:.60}", fix='a path such as "order.id", a text such as "order-{order.id}"'
        )
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
