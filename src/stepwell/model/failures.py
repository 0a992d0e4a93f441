"""The stored form of an error: text, never an object that is rebuilt from data."""

from __future__ import annotations

import traceback
from typing import Any, cast

import msgspec

from stepwell.advice import Advice, Verb
from stepwell.errors import (
    AlreadyExistsError,
    ChildFailed,
    Failure,
    Fatal,
    HistoryDivergedError,
    JoinError,
    OutcomeUnknown,
    PoisonError,
    RaceError,
    RecordedError,
    Rollback,
    StepFailed,
    StepwellError,
)
from stepwell.errors.records import FailureKind, FailureRecord
from stepwell.redaction import redact, redact_json

TRACE_MAX = 8_000
_ROLLBACK = f"{Rollback.__module__}.{Rollback.__qualname__}"
_FATAL = f"{Fatal.__module__}.{Fatal.__qualname__}"

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(FailureRecord)


def encode_failure(failure: FailureRecord) -> bytes:
    """The failure as bytes."""
    return _ENCODER.encode(failure)


def decode_failure(stored: bytes) -> FailureRecord:
    """The failure from its bytes."""
    return _DECODER.decode(stored)


def record_failure(
    error: BaseException, *, path: str = "", data: bytes = b"null", fields: tuple[str, ...] = ()
) -> FailureRecord:
    """Describe an exception. A planned `Failure` keeps its reason verbatim and has no trace. Never raises."""
    try:
        record = _record(sound(error), path, data)
        return msgspec.structs.replace(record, fields=fields) if fields else record
    except Exception:  # noqa: BLE001  an exception whose own code raises is still a failure to record
        kind = type(error)
        return FailureRecord(_name_of(kind), words_of(error), f"{kind.__module__}.{kind.__qualname__}", path=path)


def sound(error: BaseException) -> BaseException:
    """The exception itself. If its `__class__` lies or raises: a plain exception of the same name and text."""
    try:
        if error.__class__ is type(error):
            return error
    except BaseException:  # noqa: BLE001  `__class__` may be a property that raises anything
        pass
    kind = type(error)
    base = Exception if issubclass(kind, Exception) else BaseException
    parts = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    named = cast("type[BaseException]", type(_name_of(kind), (base,), parts))
    return named(words_of(error)).with_traceback(error.__traceback__)


def is_closing(error: BaseException) -> bool:
    """Whether a coroutine that has just caught this is being closed.

    A `GeneratorExit` that came from an awaited call has passed through more frames than the coroutine's own.
    """
    trace = error.__traceback__
    return type(error) is GeneratorExit and (trace is None or trace.tb_next is None)


def _name_of(kind: type) -> str:
    return type.__dict__["__name__"].__get__(kind)  # type: ignore[no-any-return]  # a metaclass cannot change it


def _record(error: BaseException, path: str, data: bytes) -> FailureRecord:
    if isinstance(error, RecordedError):
        return error.failure
    if isinstance(error, Failure):
        return FailureRecord("Failure", _clean(error.reason), path=path, data=_data(data))
    kind = type(error)
    trace = _clean("".join(traceback.format_exception(error, limit=-20)))[-TRACE_MAX:]
    if not isinstance(error, StepwellError):
        return FailureRecord(
            kind.__name__,
            words_of(error) + _first_cause(error),
            f"{kind.__module__}.{kind.__qualname__}",
            path=path,
            trace=trace,
            data=_data(data),
        )
    return msgspec.structs.replace(
        _describe(error),
        message=_clean(error.title),
        qualified=f"{kind.__module__}.{kind.__qualname__}",
        code=error.code,
        path=error.where or path,
        why=_clean(error.why),
        fix=_clean(error.fix),
        advice=tuple(map(_clean_advice, error.advice)),
    )


def _first_cause(error: BaseException) -> str:
    """What the first exception of a group says: the group itself, from `asyncio.TaskGroup`, only has their number."""
    first = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if first is error:
        return ""
    text = first.title if isinstance(first, StepwellError) else f"{type(first).__name__}: {words_of(first)}"
    return f"; the first: {_clean(text)}"


def is_rollback(failure: FailureRecord) -> bool:
    """Whether a step raised `Rollback`."""
    return failure.qualified == _ROLLBACK


def kind_of(failure: FailureRecord) -> FailureKind:
    """Why a step was not attempted again; for a record without a kind, derived from its other fields."""
    if failure.kind:
        return failure.kind
    if failure.code == OutcomeUnknown.code:
        return "unknown"
    if failure.code or failure.qualified == _FATAL:
        return "critical"
    if failure.type == Failure.__name__ and not failure.qualified:
        return "failure"
    return "exhausted"


def with_run_failure(failure: FailureRecord, stored: bytes | None) -> FailureRecord:
    """A failure that stops a rollback, with the failure that caused the rollback kept as its cause `run`."""
    if stored is None:
        return failure
    own = decode_failure(stored)
    return msgspec.structs.replace(failure, causes={**failure.causes, "run": own.causes.get("run", own)})


def poisoned(run_id: str, stalls: int, path: str, own: bytes | None) -> bytes:
    """The failure of a run that is paused because its workers die; `own` is the failure that began its rollback."""
    error = PoisonError(
        f"run {run_id} lost its worker {stalls} times without any progress",
        why="its next step may kill or block the process",
        fix=(
            Advice(Verb.SHOW, run_id, note="see the last recorded step"),
            Advice(Verb.RESUME, run_id, note="fix that step or the one after it, restart the workers, then"),
        ),
    )
    return encode_failure(with_run_failure(record_failure(error, path=path), own))


def key_taken(key: str | None, *, holder: str = "", path: str = "") -> FailureRecord:
    """The failure of a child whose key belongs to another active run.

    A store that learns the holder where it cannot call this function passes none, and appends it to the message.
    """
    return record_failure(AlreadyExistsError(f"key {key!r} belongs to the active run {holder}"), path=path)


def _data(stored: bytes) -> Any:
    return None if stored == b"null" else msgspec.json.decode(redact_json(stored))


def _describe(error: StepwellError) -> FailureRecord:
    """The facts that our own errors carry besides their text."""
    match error:
        case StepFailed():
            return FailureRecord(
                "StepFailed", "", attempts=error.attempts, causes={"step": error.failure}, data=error.failure.data
            )
        case JoinError() | RaceError():
            causes = {name: record_failure(cause) for name, cause in error.errors.items()}
            return FailureRecord(type(error).__name__, "", causes=causes)
        case ChildFailed():
            causes = {"child": error.failure} if error.failure else {}
            return FailureRecord("ChildFailed", "", causes=causes, run_id=error.run_id, status=error.status)
        case HistoryDivergedError():
            recorded, now = _clean(error.recorded), _clean(error.now)
            return FailureRecord("HistoryDivergedError", "", recorded=recorded, now=now)
        case _:
            return FailureRecord(type(error).__name__, "")


def words_of(error: BaseException) -> str:
    """The text of an exception, in a form that can be stored."""
    try:
        return _clean(str(error))
    except BaseException:  # noqa: BLE001  an exception that cannot be printed is still a failure to record
        return "(its text cannot be printed)"


def _clean_advice(advice: Advice) -> Advice:
    options = {name: _clean(value) for name, value in advice.options.items()}
    return Advice(advice.verb, _clean(advice.target), options, _clean(advice.note))


def _clean(text: str) -> str:
    """Text that every store can hold, without U+0000 and lone surrogates, and with known secrets masked."""
    return redact(text).replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
