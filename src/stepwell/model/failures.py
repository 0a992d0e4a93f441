"""The stored form of an error: text, never an object that is built again from data."""

from __future__ import annotations

import traceback

import msgspec

from stepwell.errors import Failure, StepwellError


class FailureRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of an exception: its type's name, its words, and where it came from."""

    type: str
    message: str
    code: str = ""
    path: str = ""
    why: str = ""
    fix: str = ""
    trace: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def summary(self) -> str:
        """Type and message in one line."""
        return f"{self.type}: {self.message}" if self.message else self.type


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(FailureRecord)


def encode_failure(failure: FailureRecord) -> bytes:
    """The failure as bytes."""
    return _ENCODER.encode(failure)


def decode_failure(stored: bytes) -> FailureRecord:
    """The failure from its bytes."""
    return _DECODER.decode(stored)


def record_failure(error: BaseException, *, path: str = "", data: bytes = b"null", with_trace: bool = True) -> FailureRecord:
    """Describe an exception. A planned `Failure` keeps its reason verbatim and has no trace."""
    if isinstance(error, Failure):
        return FailureRecord("Failure", _clean(error.reason), path=path, data=msgspec.Raw(data))
    trace = "".join(traceback.format_exception(error, limit=-20)) if with_trace else ""
    if isinstance(error, StepwellError):
        where = path or error.where
        return FailureRecord(
            type(error).__name__, _clean(error.title), error.code, where, _clean(error.why), _clean(error.fix), _clean(trace)
        )
    return FailureRecord(type(error).__name__, _clean(str(error)), path=path, trace=_clean(trace), data=msgspec.Raw(data))


def _clean(text: str) -> str:
    """Text that every store can hold: no U+0000, no lone surrogates."""
    return text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
