"""Payloads as they can be shown without their codec. Encrypted and offloaded payloads are shown as marks."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stepwell.codec import addressed, encryption, offload
from stepwell.codec.base import Payload
from stepwell.codec.compression import decompress

SHOWN_BYTES_MAX: Final = 80


def read_plainly(payload: Payload) -> Any:
    """A payload as plain JSON values; as a mark if it is encrypted or offloaded; otherwise as text.

    The marks are `{"encrypted": key id}` and `{"offloaded": hash, "size": bytes}`. Never fails.
    """
    mark = find_mark(payload)
    if mark is not None:
        return mark
    payload = decompress(payload) or payload
    try:
        return msgspec.json.decode(payload[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload.decode("utf-8", "replace")


def find_mark(payload: Payload) -> dict[str, Any] | None:
    """The mark for a payload that cannot be shown; None if it can be."""
    to = addressed.split(payload)
    if to is not None:
        payload = to[1]
    sealed = encryption.split(payload)
    if sealed is not None:
        return {"encrypted": sealed[0]}
    reference = offload.read_reference(payload)
    if reference is not None:
        return {"offloaded": reference.name, "size": reference.size}
    return None


def show_payload(payload: Payload) -> str:
    """The beginning of a payload, or its mark, for the text of an error."""
    mark = find_mark(payload)
    return repr(payload[:SHOWN_BYTES_MAX]) if mark is None else str(mark)
