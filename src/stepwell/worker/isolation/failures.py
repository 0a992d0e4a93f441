"""Failures of the child: described there, and turned into exceptions in the parent."""

from __future__ import annotations

import signal
from functools import lru_cache
from typing import Any, Final

import msgspec

from stepwell.clock import Span, span, to_timedelta
from stepwell.codec.error_fields import NO_FIELDS, ErrorFields, fields_of
from stepwell.errors import Failure, Fatal, RecordedError, RetryAfter, Rollback, StepwellError
from stepwell.model.failures import record_failure
from stepwell.replay.revival import known_type
from stepwell.worker.isolation.frames import CODEC, BodyRequest, Failed

# A record keeps 8,000 characters of trace: enough for the child's trace and the end of each stream.
_TRACE_MAX: Final = 3_500
_STREAM_MAX: Final = 2_000
_LAST_LINE_MAX: Final = 200

_OURS: Final[dict[str, type[Exception]]] = {
    f"{kind.__module__}.{kind.__qualname__}": kind for kind in (Failure, Fatal, RetryAfter, Rollback)
}


# --- in the child ----------------------------------------------------------------------------


def describe(error: BaseException, request: BodyRequest, loaded_as: str) -> Failed:
    """An exception as an answer. `loaded_as` is the name of the function's module in this process."""
    if isinstance(error, StepwellError):
        return Failed(record_failure(error))
    try:
        carried, delay = _carried_by(error, request), _delay_of(error)
    except StepwellError as broken:
        return Failed(record_failure(broken))

    def named(kind: type) -> str:
        module = request.own_module if kind.__module__ == loaded_as else kind.__module__
        return f"{module}.{kind.__qualname__}"

    failure = record_failure(error, data=carried.data, fields=carried.names)
    if failure.qualified:
        failure = msgspec.structs.replace(failure, qualified=named(type(error)))
    if isinstance(error, MemoryError) and request.memory_max is not None:
        words = f"the body needed more than its memory_max of {request.memory_max:,} bytes"
        failure = msgspec.structs.replace(failure, message=": ".join(filter(None, (words, failure.message))))
    lineage = [named(kind) for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    return Failed(failure, lineage, delay, error.to if isinstance(error, Rollback) else None)


def _carried_by(error: BaseException, request: BodyRequest) -> ErrorFields:
    place = request.place("the data of a failure")
    if isinstance(error, Failure):
        return NO_FIELDS if error.data is None else ErrorFields(CODEC.encode_readable(error.data, place=place))
    return fields_of(error, CODEC, place)


def _delay_of(error: BaseException) -> Span | None:
    return span(error.delay, what="RetryAfter") if isinstance(error, RetryAfter) else None


# --- in the parent ---------------------------------------------------------------------------


def rebuild(failed: Failed, output: str) -> BaseException:
    """The exception of a body that raised: an instance of its nearest known type, with the child's message."""
    failure = failed.failure
    if failure.code:  # an error of stepwell: final, and recorded as it is
        return RecordedError(msgspec.structs.replace(failure, trace=join_notes(failure.trace, output)))
    parts: dict[str, Any] = {"reason": failure.message, "to": failed.to}
    if failed.delay is not None:
        parts["delay"] = to_timedelta(failed.delay)
    if failure.type == Failure.__name__:
        parts["data"] = failure.data
    error = _instance(failure.type, failure.qualified, failed.lineage, failure.message)
    if isinstance(error, (Failure, RetryAfter, Rollback)):
        vars(error).update(parts)
    elif isinstance(failure.data, dict):
        vars(error).update({name: failure.data[name] for name in failure.fields})
    error.add_note(join_notes(f"In its own process:\n{failure.trace[-_TRACE_MAX:]}" if failure.trace else "", output))
    return error


def crashed(code: int, output: str, last_line: str, memory_max: int | None) -> ChildProcessError:
    """The exception of a body whose process ended without an answer."""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:  # a real-time signal
            name = f"signal {-code}"
        title = f"its process was killed by {name}"
    else:
        title = f"its process ended with exit code {code} and without a result"
    if memory_max is not None:
        title += f" (memory_max is {memory_max:,} bytes)"
    if last_line:
        title += f"; it last wrote: {last_line[-_LAST_LINE_MAX:]}"
    error = ChildProcessError(title)
    if output:
        error.add_note(output)
    return error


def join_notes(*notes: str) -> str:
    """The notes that are not empty, one after another."""
    return "\n".join(filter(None, notes))


def describe_output(stdout: str, stderr: str) -> str:
    """The end of a process' output, as it is kept with a failure."""
    streams = (("stdout", stdout.rstrip()), ("stderr", stderr.rstrip()))
    return join_notes(*(f"Its {name} ended with:\n{text[-_STREAM_MAX:]}" for name, text in streams if text))


def _instance(name: str, qualified: str, lineage: list[str], message: str) -> BaseException:
    """An exception of a class with the child's name, derived from the nearest type that is known here."""
    known = [_OURS.get(each) or known_type(each) for each in lineage]
    for base in (*filter(None, known), BaseException):
        try:
            kind = _named_below(base, name, qualified or f"{base.__module__}.{name}")
            # `__init__` is not called: its arguments are unknown here.
            error = kind.__new__(kind)
            error.args = (message,)
        except Exception:  # noqa: BLE001  the class needs arguments: try its base
            continue
        return error
    raise AssertionError("a BaseException needs no arguments")


@lru_cache(maxsize=256)
def _named_below(base: type[BaseException], name: str, qualified: str) -> type[BaseException]:
    module = qualified.removesuffix(f".{name}")
    return type(name, (base,), {"__module__": module, "__qualname__": name, "__str__": _message_of})


def _message_of(error: BaseException) -> str:
    return str(error.args[0])
