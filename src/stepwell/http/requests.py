"""Reading requests: long input is rejected before it is parsed, and so is input that cannot be stored faithfully."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from stepwell.codec.base import Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import InvalidInputError, PayloadTooLargeError, RequestError
from stepwell.http.limits import Limits
from stepwell.http.operations import Operation
from stepwell.http.problems import Refused

_JSON: Final = "application/json"
_PLACE: Final = Place("", "", "the body")
_PARTS_MAX: Final = 50
_CLOSE: Final = {"connection": "close"}  # the rest of the body is not awaited


async def read_raw(
    request: Request, limits: Limits, *, bytes_max: int, taken: Callable[[int], None] = lambda _: None
) -> bytes:
    """The raw body, within the limit. A body that declares a greater length is not received.

    `taken` is called with the size of each part before it is kept, and may raise. Raises `Refused` for a body that
    does not arrive in time.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise _unsupported("a compressed body is not accepted", "send it uncompressed")
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and int(said[:20]) > bytes_max:
        raise _too_large(bytes_max)
    parts, length = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                length += len(chunk)
                if length > bytes_max:
                    raise _too_large(bytes_max)
                taken(len(chunk))
                parts.append(chunk)
    except TimeoutError:
        error = RequestError(
            "the body did not arrive in time", why=f"it has {limits.body_seconds:g} s", fix="send it faster"
        )
        raise Refused(408, error, _CLOSE) from None
    return b"".join(parts)


def _too_large(bytes_max: int) -> Refused:
    error = PayloadTooLargeError(
        "the request is too large", why=f"at most {bytes_max:,} bytes are accepted", fix="send less at once"
    )
    return Refused(413, error, _CLOSE)


def _unsupported(title: str, fix: str) -> Refused:
    return Refused(415, RequestError(title, where="the header content-type or content-encoding", fix=fix))


def read_body(operation: Operation, raw: bytes, content_type: str, limits: Limits) -> Any:
    """The body as the type that the operation takes. The error names every mismatch."""
    if operation.body is None:
        if raw:
            raise RequestError("this takes no body", where=f"{operation.method} {operation.path}", fix="send none")
        return None
    if not raw and not msgspec.structs.fields(operation.body)[0].required:
        return operation.body()
    media, _, parameters = content_type.partition(";")
    if media.strip().lower() != _JSON or parameters.strip().lower() not in ("", "charset=utf-8"):
        raise _unsupported("only JSON is accepted", f"send it as {_JSON}")
    codec = JsonCodec(payload_bytes_max=limits.body_max)
    plain = _wrong(lambda: codec.decode_external(raw, Any, place=_PLACE))
    return _wrong(lambda: _fit(plain, operation.body, "the body", strict=True))


def _wrong(read: Any) -> Any:
    """An invalid request (400), unlike an input that does not fit its workflow (422)."""
    try:
        return read()
    except InvalidInputError as error:
        raise Refused(400, error) from None


def read_query(operation: Operation, query: str, limits: Limits) -> Any:
    """The query as the type that the operation takes."""
    if len(query) > limits.query_max:
        raise RequestError("the query is too long", why=f"at most {limits.query_max:,} characters are accepted")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=_PARTS_MAX)
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_PARTS_MAX)
    except ValueError:
        raise RequestError(
            "the query cannot be read", why="it is not name=value&name=value in UTF-8", fix="percent-encode it"
        ) from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RequestError("a query parameter is repeated", fix="give each once")
    if any("\x00" in text for pair in pairs for text in pair):
        raise RequestError("the query has a character that cannot be stored", why="it contains U+0000")
    return _wrong(lambda: _fit(found, operation.query, "the query", strict=False))


def _fit(plain: Any, kind: Any, where: str, *, strict: bool) -> Any:
    try:
        return msgspec.convert(plain, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{where} does not fit", [str(error).replace("`$", "`")], where=where) from None
