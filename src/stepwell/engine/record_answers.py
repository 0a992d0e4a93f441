"""Answers: what the change that closes a record sends to the run that waits for it."""

from __future__ import annotations

from typing import Any

from stepwell.codec.addressed import encode_signal
from stepwell.codec.base import ANY
from stepwell.engine.backend import Backend
from stepwell.ids import SignalId
from stepwell.model.records import Record, answer_name
from stepwell.model.signals import NewSignal


def new_answer(backend: Backend, record: Record, value: Any, hint: Any = ANY) -> NewSignal:
    """The answer to the run that opened a record: a consequence of the change that closes it, and of no other.

    So the run gets exactly one. Raises `ValueError` for a record that no run opened, and as `Codec.encode` does.
    """
    if record.run_id is None:
        raise ValueError(f"no run waits for {record.kind} {record.record_id}")
    target, name = record.run_id, answer_name(record.record_id)
    payload = encode_signal(backend.codec, value, target=target, name=name, hint=hint)
    return NewSignal(SignalId(backend.environment.ids.uuid()), target, name, payload)
