"""Everything that reads bytes from outside or from a store, each with examples of what it is meant to read.

A decoder may refuse its input with an error of its own. Anything else that it raises is a defect, and so is a long
time: an attacker chooses what is read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stepwell.addresses import store_kind
from stepwell.check import histories
from stepwell.clock import Instant, span
from stepwell.codec.base import JSON_V1, Place, Row
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.envelopes import read_plainly
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import read_reference
from stepwell.engine.filters import parse_filter
from stepwell.errors import CorruptRecordError, InvalidOptionError, StepwellError
from stepwell.http.limits import Limits
from stepwell.http.operations import Operation
from stepwell.http.problems import Refused
from stepwell.http.requests import read_body, read_query
from stepwell.http.routes import OPERATIONS
from stepwell.http.routes.changes import read_mark
from stepwell.http.routes.runs import read_cursor, write_cursor
from stepwell.http.tokens import read_tokens
from stepwell.sinks import verify_signature
from stepwell.sinks.signatures import keys_of, sign
from stepwell.stores.postgres.urls import parse_address

ROOT = Path(__file__).resolve().parents[2]
_PLACE = Place("fuzz", "step", row=Row("run", "step", "value"))
_NOW = Instant(1_800_000_000_000_000)
_SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0" * 2
_LIMITS = Limits()
_CODEC = JsonCodec()
_SEALED = Encrypted(_CODEC, keys=Keys("k1", {"k1": b"k" * 32}), namespace="fuzz")


@dataclass
class Line:
    """What a hint may ask for."""

    sku: str
    count: int
    price: float | None = None
    tags: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Decoder:
    """One of them."""

    read: Callable[[bytes], object]
    examples: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...] = (StepwellError,)


def text_of(data: bytes) -> str:
    """The text that a shell or a header would hand over."""
    return data.decode("utf-8", "surrogateescape")


def _bodies(data: bytes) -> None:
    """The first byte chooses the operation."""
    operation = _BODIES[data[0] % len(_BODIES)] if data else _BODIES[0]
    read_body(operation, data[1:], "application/json", _LIMITS)


def _queries(data: bytes) -> None:
    operation = OPERATIONS[data[0] % len(OPERATIONS)] if data else OPERATIONS[0]
    read_query(operation, data[1:].decode("latin-1"), _LIMITS)


def _signatures(data: bytes) -> None:
    """The headers in lines, and then the body."""
    head, _, body = data.partition(b"\n\n")
    headers = dict(line.partition(":")[::2] for line in head.decode("latin-1").split("\n"))
    verify_signature(_SECRET, headers, body, now=datetime(2026, 1, 1, tzinfo=UTC))


def _references(data: bytes) -> None:
    if read_reference(data) is None:
        raise CorruptRecordError("no reference")


def _token_files(data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix="stepwell-fuzz-")
    path = Path(name)
    try:
        os.write(descriptor, data)
        read_tokens(path)
    finally:
        os.close(descriptor)
        path.unlink()


_BODIES: tuple[Operation, ...] = tuple(operation for operation in OPERATIONS if operation.body is not None)
_JSON = (
    b'{"sku": "a", "count": 1}',
    b"[1, [2, {}], null, 1.5e3]",
    b'"\\ud83d\\ude00"',
    b"-0.0",
    b"true",
    b'{"k":{"k":[]}}',
)
_HISTORIES = tuple(path.read_bytes() for path in sorted((ROOT / "tests/histories").glob("*.json")))
_FILTERS = (
    b"status:failed workflow:order tag:region=eu",
    b"-status:completed started:>2026-01-01 input.total:>=100",
    b'key:"a b" error:Timeout* before:3d',
    b"",
)
_SIGNED = b"webhook-id:1\nwebhook-timestamp:1767225600\nwebhook-signature:%b\n\n{}" % (
    sign(keys_of(_SECRET), "1", 1_767_225_600, b"{}").encode()
)
_REQUESTS = (
    b'{"workflow": "order", "input": {"total": 1}, "key": "k", "delay": "3s"}',
    b'{"name": "go", "payload": [1], "if_missing": "hold"}',
    b'{"topic": "paid", "payload": null}',
    b'{"path": "charge", "reason": "again", "dry_run": true}',
    b'{"verb": "cancel", "where": "status:failed", "dry_run": true}',
    b'{"reason": "because"}',
)
_TOKEN = b'{"prefix":"abc","digest":"00","name":"ci","role":"operator","expires_at":"2026-01-01T00:00:00Z"}\n'
_HTTP = (StepwellError, Refused)

DECODERS: Mapping[str, Decoder] = {
    "payload": Decoder(lambda data: _CODEC.decode(data, Any, place=_PLACE), tuple(JSON_V1 + text for text in _JSON)),
    "typed-payload": Decoder(
        lambda data: _CODEC.decode(data, list[Line], place=_PLACE), (b'j[{"sku":"a","count":1}]', b"j[]")
    ),
    "shown-payload": Decoder(read_plainly, tuple(JSON_V1 + text for text in _JSON)),
    "external-json": Decoder(lambda data: _CODEC.decode_external(data, Any, place=_PLACE), _JSON),
    "encrypted-payload": Decoder(
        lambda data: _SEALED.decode(data, Any, place=_PLACE), (_SEALED.encode({"a": 1}, place=_PLACE), b"j{}")
    ),
    "blob-reference": Decoder(_references, (b"r" + b"a" * 64 + b":12", b"r")),
    "history-file": Decoder(histories.load, _HISTORIES),
    "filter": Decoder(lambda data: parse_filter(text_of(data), _NOW), _FILTERS),
    "duration": Decoder(lambda data: span(text_of(data)), (b"1h30m", b"100ms", b"3d", b"1.5s")),
    "store-url": Decoder(
        lambda data: store_kind(text_of(data)), (b"sqlite:///a.db", b"postgresql://u@h/d", b"memory://", b"redis://h")
    ),
    "postgres-url": Decoder(
        lambda data: parse_address(text_of(data)),
        (
            b"postgresql://u:p@h:1,g:2/d?schema=s&connections=4&listen=postgresql://x/y",
            b"postgres:///d?isolation=x",
            b"postgresql://h:2,g%d4",
        ),
        (InvalidOptionError,),
    ),
    "cursor": Decoder(lambda data: read_cursor(text_of(data)), (write_cursor("01a1").encode(), b"====")),
    "event-mark": Decoder(lambda data: read_mark({"last-event-id": text_of(data)}), (b"12-ab12cd", b"1-")),
    "request-body": Decoder(
        _bodies, tuple(bytes([n]) + text for n in range(len(_BODIES)) for text in _REQUESTS), _HTTP
    ),
    "request-query": Decoder(
        _queries,
        tuple(bytes([n]) + text for n in range(len(OPERATIONS)) for text in (b"limit=5", b"q=status:failed&limit=5")),
        _HTTP,
    ),
    "webhook-signature": Decoder(_signatures, (_SIGNED,)),
    "token-file": Decoder(_token_files, (_TOKEN, _TOKEN * 2, b"\n")),
}
