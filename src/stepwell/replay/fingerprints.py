"""Fingerprints of arguments as an entry stores them, and as people read them.

An entry of a numbered use has the length of its own fingerprint, that fingerprint, and for the second use the
fingerprint of the first. One that is empty is unknown: the arguments could not be encoded.
"""

from __future__ import annotations

from typing import Any, Final

from stepwell.codec.base import FINGERPRINT_BYTES, Codec, Place
from stepwell.errors import StepwellError

_SHOWN_MAX: Final = 200
_SIZES: Final = tuple(bytes((size,)) for size in range(FINGERPRINT_BYTES + 1))
_PLACE: Final = Place("", "", "the arguments")


def join_fingerprints(own: bytes, first: bytes) -> bytes | None:
    """What the entry of a use stores; None if nothing is known."""
    return _SIZES[len(own)] + own + first if own or first else None


def split_fingerprints(stored: bytes) -> tuple[bytes, bytes]:
    """The fingerprint of the use itself, and that of the first use."""
    end = 1 + stored[0]
    return stored[1:end], stored[end:]


def describe_arguments(codec: Codec, recorded: bytes, arguments: tuple[Any, ...]) -> tuple[str, str]:
    """The recorded arguments and those of now, in words. Of long ones only the fingerprint was recorded."""
    is_short = len(recorded) < FINGERPRINT_BYTES
    before = f"({recorded.decode(errors='replace')})" if is_short else f"arguments with fingerprint {recorded.hex()}"
    own = codec.fingerprint(arguments) or b""
    now = "" if is_short and len(own) < FINGERPRINT_BYTES else f", with fingerprint {own.hex()}"
    if codec.conceals:  # an error is stored in the clear
        return before, f"arguments{now}"
    try:
        shown = codec.encode_readable(list(arguments), place=_PLACE).decode()[1:-1]
    except StepwellError:
        shown = "…"
    return before, f"({shown if len(shown) <= _SHOWN_MAX else shown[:_SHOWN_MAX] + '…'}){now}"
