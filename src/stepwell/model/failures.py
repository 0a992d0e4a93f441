"""The stored form of an error: text, never an object that is built again from data."""

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


def record_failure(error: BaseException, *, path: str = "", data: bytes = b"null") -> FailureRecord:
    """Describe an exception. A planned `Failure` keeps its reason verbatim and has no trace. Raises nothing."""
    try:
        return _record(sound(error), path, data)
    except Exception:  # noqa: BLE001  an exception whose own code raises is still a failure to record
        kind = type(error)
        return FailureRecord(_name_of(kind), words_of(error), f"{kind.__module__}.{kind.__qualname__}", path=path)


def sound(error: BaseException) -> BaseException:
    """The exception itself; in place of one that cannot say what it is, a plain one of the same name and words."""
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
    """Whether a coroutine that has just caught this is being closed. A `GeneratorExit` that was raised by what it
    awaited has passed through more frames than its own.
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
            words_of(error),
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


def is_rollback(failure: FailureRecord) -> bool:
    """Whether a step asked for the rollback of its run."""
    return failure.qualified == _ROLLBACK


def kind_of(failure: FailureRecord) -> FailureKind:
    """Why a step was not attempted again; of older records it is told by what they say otherwise."""
    if failure.kind:
        return failure.kind
    if failure.code == OutcomeUnknown.code:
        return "unknown"
    if failure.code or failure.qualified == _FATAL:
        return "critical"
    if failure.type == Failure.__name__ and not failure.qualified:
        return "failure"
    return "timeout" if failure.message.startswith("it ran longer than its limit of") else "exhausted"


def keep_own(failure: FailureRecord, stored: bytes | None) -> FailureRecord:
    """A failure that stops a rollback, with the run's own stored failure kept inside it."""
    if stored is None:
        return failure
    own = decode_failure(stored)
    return msgspec.structs.replace(failure, causes={**failure.causes, "run": own.causes.get("run", own)})


def poisoned(run_id: str, stalls: int, path: str, own: bytes | None) -> bytes:
    """The failure of a run that is set aside because it takes its workers down; `own` is what it was undoing for."""
    error = PoisonError(
        f"run {run_id} lost its worker {stalls} times without any progress",
        why="what it does next may kill or block the process",
        fix=(
            Advice(Verb.SHOW, run_id, note="see the last recorded step"),
            Advice(Verb.RESUME, run_id, note="fix that step or the one after it, restart the workers, then"),
        ),
    )
    return encode_failure(keep_own(record_failure(error, path=path), own))


def key_taken(key: str | None, *, holder: str = "", path: str = "") -> FailureRecord:
    """The failure of a child whose key belongs to another active run. A store that finds the holder where it cannot
    call this leaves it out, and appends it to the message.
    """
    return record_failure(AlreadyExistsError(f"key {key!r} belongs to the active run {holder}"), path=path)


def _data(stored: bytes) -> Any:
    return None if stored == b"null" else msgspec.json.decode(redact_json(stored))


def _describe(error: StepwellError) -> FailureRecord:
    """The parts of our own errors that are more than words."""
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
    """The text of an exception, fit to be stored."""
    try:
        return _clean(str(error))
    except BaseException:  # noqa: BLE001  an exception that cannot be printed is still a failure to record
        return "(its text cannot be printed)"


def _clean_advice(advice: Advice) -> Advice:
    options = {name: _clean(value) for name, value in advice.options.items()}
    return Advice(advice.verb, _clean(advice.target), options, _clean(advice.note))


def _clean(text: str) -> str:
    """Text that every store can hold: no U+0000, no lone surrogates; and without the secrets that are known here."""
    return redact(text).replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
