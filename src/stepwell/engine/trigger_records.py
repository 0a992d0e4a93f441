"""Triggers as they are stored, and what becomes of one: pure functions of what it is."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from stepwell.clock import SECOND, Instant, Span, span
from stepwell.engine.records import Document, Draft, NewLine
from stepwell.model.records import LABEL_MAX
from stepwell.model.states import TriggerState

RENEW_EVERY: Final = span("6h")
KEPT: Final = Span(span("24h") + RENEW_EVERY)
"""How long a trigger stays active after its last declaration: a day, and the time until its next renewal."""

_AGAIN: Final = Span(60 * SECOND)  # an error of a trigger is recorded at most once in this time
_DECLARED: Final = NewLine("declared")
_RENEWED: Final = NewLine("renewed")


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


def declared(said: TriggerBody, it: Document[TriggerBody] | None) -> Draft[TriggerBody] | None:
    """The declaration of a worker. It keeps the pause of a person."""
    line = NewLine("declared", data=_facts(said))
    if it is None or not it.record.is_open:
        return _draft(said, TriggerState.ACTIVE, line)
    is_paused, before = it.record.state == TriggerState.PAUSED, it.content
    if before is not None and _is_same(before, said):
        return None if is_paused else renewed(said, it) or _redeclared(it, said)
    if not is_paused:
        return _draft(said, TriggerState.ACTIVE, line)
    by, reason = ("", "") if before is None else (before.by, before.reason)
    return _draft(msgspec.structs.replace(said, by=by, reason=reason), TriggerState.PAUSED, line)


def _redeclared(it: Document[TriggerBody], said: TriggerBody) -> Draft[TriggerBody] | None:
    if it.record.state != TriggerState.UNDECLARED:
        return None
    return _draft(msgspec.structs.replace(it.body, declared_at=said.declared_at), TriggerState.ACTIVE, _DECLARED)


def renewed(said: TriggerBody, it: Document[TriggerBody] | None) -> Draft[TriggerBody] | None:
    """The renewal by a worker that lives. What was declared last is in force, so other code does not renew it."""
    if it is None or it.record.state != TriggerState.ACTIVE or not _is_same(it.content or said, said):
        return None
    if it.content is None:  # it was damaged
        return _draft(said, TriggerState.ACTIVE, _DECLARED)
    if it.body.declared_at > said.declared_at - RENEW_EVERY // 2:
        return None  # another worker has just renewed it
    return _draft(msgspec.structs.replace(it.body, declared_at=said.declared_at), TriggerState.ACTIVE, _RENEWED)


def expired(version: int, it: Document[TriggerBody] | None) -> Draft[TriggerBody] | None:
    if it is None or it.record.version != version:
        return None
    return Draft(state=TriggerState.UNDECLARED, lines=(NewLine("undeclared"),))


def paused(it: Document[TriggerBody] | None, by: str, reason: str) -> Draft[TriggerBody] | None:
    if it is None or not it.record.is_open or it.record.state == TriggerState.PAUSED:
        return None
    line = NewLine("paused", by, {"reason": reason} if reason else None)
    return _draft(msgspec.structs.replace(it.body, by=by, reason=reason), TriggerState.PAUSED, line)


def resumed(it: Document[TriggerBody] | None, by: str, now: Instant) -> Draft[TriggerBody] | None:
    if it is None or not it.record.is_open or it.record.state == TriggerState.ACTIVE:
        return None
    body = msgspec.structs.replace(it.body, by="", reason="", failure=None, declared_at=now)
    return _draft(body, TriggerState.ACTIVE, NewLine("resumed", by))


def deleted(it: Document[TriggerBody] | None, by: str) -> Draft[TriggerBody] | None:
    if it is None or not it.record.is_open:
        return None
    return Draft(state=TriggerState.DELETED, lines=(NewLine("deleted", by),))


def failed(failure: TriggerFailure, it: Document[TriggerBody] | None) -> Draft[TriggerBody] | None:
    if it is None or not it.record.is_open or is_recent(it.body.failure, failure):
        return None
    line = NewLine("failed", data={"event_id": failure.event_id, "code": failure.code, "message": failure.message})
    return _draft(msgspec.structs.replace(it.body, failure=failure), TriggerState(it.record.state), line)


def _draft(body: TriggerBody, state: TriggerState, line: NewLine) -> Draft[TriggerBody]:
    due = Instant(body.declared_at + KEPT) if state is TriggerState.ACTIVE else None
    return Draft(state=state, body=body, lines=(line,), labels=(topic_label(body.topic),), due_at=due)


def topic_label(topic: str) -> str:
    """The label of the triggers of a topic; of a long name it has a digest."""
    label = f"topic {topic}"
    return label if len(label) <= LABEL_MAX else f"topic# {digest(topic)}"


def digest(text: str) -> str:
    """What stands for a text that is too long for a label or a name."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _facts(body: TriggerBody) -> dict[str, Any]:
    return {"workflow": body.definition, "key": body.key, "input": body.input, "dedup_seconds": body.dedup / SECOND}


def _is_same(before: TriggerBody, said: TriggerBody) -> bool:
    """Whether both were declared by the same code."""
    kept = msgspec.structs.replace(
        said, declared_at=before.declared_at, by=before.by, reason=before.reason, failure=before.failure
    )
    return kept == before


def is_recent(before: TriggerFailure | None, failure: TriggerFailure) -> bool:
    """Whether a failure was recorded just before this one: one a minute is enough."""
    return before is not None and failure.at - before.at < _AGAIN
