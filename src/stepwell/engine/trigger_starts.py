"""What triggers do to an event that is published: the runs that it starts.

A publisher keeps the triggers of a topic, and sends their versions with the event. The store compares them in the
transaction that publishes. If a trigger was declared, paused or deleted meanwhile, nothing is published, and the
publisher reads the triggers and tries again. So a publish honours every trigger whose declaration was acknowledged
before it began, and a publisher that knows the triggers needs one request.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.clock import Span
from stepwell.codec.published import event_place
from stepwell.engine.backend import Backend
from stepwell.engine.records import PAGE, Document, RecordKind, Records
from stepwell.engine.starts import encode_input, input_place
from stepwell.engine.trigger_records import TriggerBody, TriggerFailure, failed, is_recent, topic_label
from stepwell.errors import InvalidInputError, StepwellError
from stepwell.ids import RunId, derived_run_id
from stepwell.model.records import RecordsSeen
from stepwell.model.runs import NewRun, normal_key
from stepwell.model.states import TriggerState
from stepwell.model.templates import render, render_text

_LOG = logging.getLogger("stepwell.engine")
_TEXT_MAX: Final = 500


class Unfit(NamedTuple):
    """A trigger whose workflow does not take the event, and why."""

    trigger: Document[TriggerBody]
    failure: TriggerFailure


class EventStarts(NamedTuple):
    """The runs that an event starts, the triggers that start them, and the triggers that the event does not fit."""

    starts: tuple[NewRun, ...]
    seen: RecordsSeen
    unfit: tuple[Unfit, ...]


class TriggerStarts:
    """The triggers that this process knows, by topic, and what they start."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.TRIGGER, TriggerBody)
        self._known: dict[str, list[Document[TriggerBody]]] = {}  # topics without triggers are left out

    async def read(self, topic: str) -> None:
        """Read the triggers of a topic again."""
        records, label = self._records, topic_label(topic)
        found = page = await records.list(labels=(label,), limit=PAGE)
        while len(page) == PAGE:
            page = await records.list(labels=(label,), limit=PAGE, after=page[-1].record.record_id)
            found += page
        for one in found:
            if one.problem is not None:
                _LOG.warning("trigger %s starts nothing here: %s", one.record.record_id, one.problem.title)
        if found:
            self._known[topic] = sorted(found, key=lambda one: one.record.record_id)
        else:
            self._known.pop(topic, None)

    def of(self, topic: str, value: Any, hint: Any, event_id: str) -> EventStarts:
        """What an event starts, as far as this process knows."""
        known = self._known.get(topic, ())
        versions = tuple((one.record.record_id, one.record.version) for one in known)
        starts: list[NewRun] = []
        unfit: list[Unfit] = []
        payload = _Payload(self._backend, topic, value, hint, event_id)
        for one in known:
            if one.record.state != TriggerState.ACTIVE or one.content is None:
                continue  # an unreadable trigger starts nothing; the others go on
            try:
                starts.append(self._start(one, payload))
            except StepwellError as error:
                unfit.append(Unfit(one, self._failure(event_id, error)))
        return EventStarts(tuple(starts), RecordsSeen(self._records.kind, topic_label(topic), versions), tuple(unfit))

    def _start(self, trigger: Document[TriggerBody], payload: _Payload) -> NewRun:
        body = trigger.body
        # The same event and trigger make the same run, in whichever process.
        run_id = derived_run_id(RunId(payload.event_id), f"trigger {trigger.record.record_id}")
        key = None if body.key is None else normal_key(render_text(body.key, payload.plain, what="key"))
        value = payload.value if body.input is None else render(body.input, payload.plain, what="input")
        return NewRun(
            run_id,
            body.workflow,
            body.version,
            self._input(body, value, payload, run_id),
            key,
            dedup=Span(body.dedup),
            discards=body.discards,
        )

    def _input(self, body: TriggerBody, value: Any, payload: _Payload, run_id: RunId) -> bytes:
        codec, workflow = self._backend.codec, self._backend.registry.find(body.definition)
        if workflow is not None:
            return encode_input(codec, workflow, value if workflow.takes_input else None, run_id)
        # The workflow is not known here: a worker checks the input.
        plain = payload.plain if value is payload.value else value
        return codec.encode(plain if body.takes_input else None, place=input_place(body.workflow, run_id))

    def _failure(self, event_id: str, error: StepwellError) -> TriggerFailure:
        said = error.conceal() if isinstance(error, InvalidInputError) else error
        message = ": ".join(part for part in (said.title, said.why) if part)[:_TEXT_MAX]
        return TriggerFailure(self._backend.opened.now(), event_id, said.code, message)

    async def note(self, unfit: tuple[Unfit, ...]) -> None:
        """Record which triggers an event did not fit. The event is published already, so this never raises."""
        for one in unfit:
            if is_recent(one.trigger.body.failure, one.failure):
                continue
            try:
                await self._records.change(one.trigger.record.record_id, partial(failed, one.failure))
            except StepwellError as error:
                name, said = one.trigger.record.record_id, one.failure.message
                _LOG.warning("trigger %s: %s; this could not be stored: %s", name, said, error.title)


class _Payload:
    """An event, and its payload as plain JSON values, which are made when they are needed."""

    def __init__(self, backend: Backend, topic: str, value: Any, hint: Any, event_id: str) -> None:
        self._backend = backend
        self._topic = topic
        self._hint = hint
        self._plain: list[Any] = []
        self.value = value
        self.event_id = event_id

    @property
    def plain(self) -> Any:
        """The payload as other processes get it. Raises `UnserialisableError`."""
        if not self._plain:
            place = event_place(self._topic, self.event_id)
            body = self._backend.codec.encode_body(self.value, self._hint, place)
            self._plain.append(msgspec.json.decode(body))
        return self._plain[0]
