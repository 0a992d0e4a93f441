"""Rows that cannot be read: what is still known of such a run or record, so that listings show it and all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stepwell.clock import Instant
from stepwell.errors import CorruptRecordError
from stepwell.ids import RunId
from stepwell.model.records import DamagedRecord, Record
from stepwell.model.runs import Claimed, DamagedRun, Inbox, Run
from stepwell.model.states import RunStatus

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, KeyError, IndexError, TypeError, ValueError, OverflowError)
"""What reading a row may raise if it holds unexpected values."""

FIX: Final = (
    "stepwell doctor examines the database; restore it from a backup, or fix the row; other runs are not affected"
)
_STATUSES: Final = {status.value: status for status in RunStatus}
_CAUSE_MAX: Final = 300


def corrupt(run_id: Any, error: Exception | str) -> CorruptRecordError:
    """The error for a run whose row cannot be read."""
    name, why = _text(run_id), error if isinstance(error, str) else cause_of(error)
    return CorruptRecordError(f"run {name} cannot be read", where=f"run {name}", why=why, fix=FIX)


def corrupt_record(kind: str, record_id: str, why: str) -> CorruptRecordError:
    """The error for a record whose row cannot be read."""
    name = f"{kind} {record_id!r}"
    return CorruptRecordError(f"{name} cannot be read", where=name, why=why, fix=FIX)


def cause_of(error: Exception) -> str:
    """Why something cannot be read, in one line."""
    why = getattr(error, "why", "") or f"{type(error).__name__}: {error}"
    return str(why)[:_CAUSE_MAX]


def salvage(values: Sequence[Any], error: Exception) -> Run:
    """The readable fields of a run whose row cannot be read, from values in the order of the fields of `Run`; `damage`
    holds the reason.
    """
    field = dict(zip(Run._fields, values, strict=False))
    ended_at = field.get("ended_at")
    run = DamagedRun(
        RunId(_text(field.get("run_id"))),
        _text(field.get("workflow")),
        _number(field.get("version")),
        _STATUSES.get(_text(field.get("status")), RunStatus.PAUSED),
        _text(field["key"]) if isinstance(field.get("key"), str) else None,
        epoch=0,
        owner=None,
        revision=0,
        last_seq=0,
        created_at=Instant(_number(field.get("created_at"))),
        started_at=None,
        ended_at=Instant(_number(ended_at)) if isinstance(ended_at, int) else None,
        wake_at=None,
        input=b"",
    )
    run.trouble = cause_of(error)
    return run


def salvage_claimed(values: Sequence[Any], epoch: int, owner: Any, error: Exception) -> Claimed:
    """The claim of a run whose row cannot be read: the worker can pause it, and nothing else."""
    run = salvage(values, error)
    trouble = run.damage
    damaged = DamagedRun(*run._replace(epoch=epoch, owner=owner))
    damaged.trouble = trouble
    return Claimed(damaged, Inbox())


def salvage_record(values: Sequence[Any], error: Exception) -> Record:
    """The readable fields of a record whose row cannot be read: number, kind, id, version, state, due time, whether it
    is open, and its times, in this order; `damage` holds the reason.
    """
    number, kind, record_id, version, state, due_at, is_open, created_at, updated_at = values
    due = Instant(due_at) if isinstance(due_at, int) else None
    at = Instant(_number(created_at)), Instant(_number(updated_at))
    what = (_number(number), _text(kind), _text(record_id), _number(version), _text(state))
    record = DamagedRecord(*what, (), due, bool(is_open), None, None, None, b"", *at)
    record.trouble = cause_of(error)
    return record


def _text(value: Any) -> str:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else "?"


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else 0
