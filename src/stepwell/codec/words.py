"""The errors of the codec: what happened, where, why, and what to do."""

from __future__ import annotations

from stepwell.codec.base import Place
from stepwell.codec.refusals import Refusal
from stepwell.errors import CorruptRecordError, InvalidInputError, PayloadTooLargeError, UnserialisableError


def unserialisable(at: Place, refusal: Refusal) -> UnserialisableError:
    """A value has no faithful stored form."""
    return UnserialisableError(
        f"{at.subject} cannot be stored",
        where=at.where,
        why=f"`{refusal.field}`: {refusal.why}",
        fix=f"return or pass plain data instead of `{refusal.field}`, or leave it out",
    )


def too_large(at: Place, size: int, size_max: int) -> PayloadTooLargeError:
    """A payload is above the limit."""
    return PayloadTooLargeError(
        f"{at.subject} is too large to be stored",
        where=at.where,
        why=f"it has {size} bytes, the limit is {size_max} bytes ({_mib(size)} > {_mib(size_max)})",
        fix='store the data elsewhere and pass a reference to it, or raise the limit: Engine(..., offload="database") '
        "for up to 64 MiB, or codec=JsonCodec(payload_bytes_max=...)",
    )


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.3g} MiB"


def corrupt(at: Place, error: Exception) -> CorruptRecordError:
    """Stored bytes are not JSON."""
    return CorruptRecordError(
        f"{at.subject} cannot be read back: it is damaged",
        where=at.where,
        why=f"{type(error).__name__}: {error}",
        fix="restore the record from a backup; stepwell never writes such a value",
    )


def does_not_fit(at: Place, violations: list[str]) -> InvalidInputError:
    """Content does not fit its hint."""
    return InvalidInputError(
        f"{at.subject} does not fit its type",
        violations,
        where=at.where,
        fix="correct the fields named above, or the annotation",
    )
