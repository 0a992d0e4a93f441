"""Encoding JSON: stored values are shown, however odd they are, and never executed."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from stepwell.codec.plans import write_masked


def _write(value: Any) -> Any:
    try:
        return write_masked(value)
    except (TypeError, NotImplementedError):
        return str(value)


_ENCODER = msgspec.json.Encoder(enc_hook=_write, decimal_format="string")


def encode(value: Any) -> bytes:
    """The JSON of an answer. Secrets are masked; numbers and texts that JSON libraries dispute are escaped."""
    try:
        return _ENCODER.encode(value)
    except (OverflowError, UnicodeEncodeError, RecursionError):
        plain = msgspec.to_builtins(value, enc_hook=_write)
        return json.dumps(plain, ensure_ascii=True, separators=(",", ":"), default=str).encode()
