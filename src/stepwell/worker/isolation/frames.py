"""The frames between parent and child: one request, one answer, each a length and typed JSON."""

from __future__ import annotations

import os
from typing import Any, Final, TypeAlias

import msgspec

from stepwell.clock import Span
from stepwell.codec.base import Payload, Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors.records import FailureRecord

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
_LENGTH_BYTES: Final = 4

# Bytes are sent in base64, so a payload within this limit fits into a frame. Secrets are allowed here: they stay
# on a private pipe between two processes. The stored payload has its own limit, and rejects or encrypts secrets.
CODEC: Final = JsonCodec(payload_bytes_max=FRAME_BYTES_MAX // 2).allowing_secrets()


class BodyRequest(msgspec.Struct, frozen=True):
    """One attempt: its function, arguments and environment."""

    module: str  # to import; `__main__` for a script, which is loaded from its file
    own_module: str  # as the function and its classes name it in the parent
    file: str
    name: str
    code_name: str  # of its code object: a decorator's wrapper has another
    call: Payload
    workflow: str
    path: str
    context: dict[str, Any] | None  # the fields of its StepContext, if it takes one
    memory_max: int | None
    search: list[str]  # the parent's sys.path
    python_path: str | None  # the parent's PYTHONPATH

    def place(self, what: str) -> Place:
        """The place of a value of this call, for error messages."""
        return Place(self.workflow, self.path, what)


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """The body returned."""

    value: Payload


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The body raised. Types are sent as names and looked up in a closed registry."""

    failure: FailureRecord
    lineage: list[str] = []  # its type and base types, nearest first
    delay: Span | None = None  # of a RetryAfter
    to: str | None = None  # of a Rollback


Answer: TypeAlias = Returned | Failed

_encode = msgspec.json.Encoder().encode
_decode_request = msgspec.json.Decoder(BodyRequest).decode
_decode_answer: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def frame_of(message: BodyRequest | Answer) -> bytes:
    """The message as it is sent."""
    body = _encode(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def read_request(descriptor: int) -> BodyRequest | None:
    """The request, by blocking reads; None if the parent ended before it was complete."""
    head = _read_exactly(descriptor, _LENGTH_BYTES)
    body = _read_exactly(descriptor, int.from_bytes(head, "big"))
    return _decode_request(body) if head and body else None


def parse_answer(received: bytes | bytearray) -> Answer | None:
    """The answer; None if it is not complete, because the child ended before or while it wrote it."""
    size = int.from_bytes(received[:_LENGTH_BYTES], "big")
    if len(received) < _LENGTH_BYTES or len(received) != _LENGTH_BYTES + size:
        return None
    return _decode_answer.decode(received[_LENGTH_BYTES:])


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, by blocking writes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_exactly(descriptor: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(descriptor, min(size - len(parts), 1 << 20))
        if not part:
            return b""
        parts += part
    return bytes(parts)
