"""A small JSON header before a payload, in one value: `["approve",12]` newline payload."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Any]).decode


def pack(header: list[Any], payload: bytes) -> bytes:
    """Header and payload in one value."""
    return _encode(header) + b"\n" + payload


def unpack(value: bytes) -> tuple[list[Any], bytes]:
    """The header and the payload that `pack` joined."""
    head, _, payload = value.partition(b"\n")
    return _decode(head), payload
