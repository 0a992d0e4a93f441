"""Limits of requests."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from stepwell.errors import InvalidOptionError

PAGE_MAX: Final = 500
WAIT_MAX_SECONDS: Final = 60.0
STREAM_MAX_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`body_max` bytes of a request, `query_max` characters after the question mark, `rate` requests a second and
    `burst` at once for each caller, `streams_max` followers at once, `window_seconds` for which a key is remembered.

    A body arrives within `body_seconds`. A message to a hook has at most `hook_body_max` bytes, and all messages whose
    signatures are not checked yet `hook_buffer_max` together. An address may fail to authenticate `failure_burst`
    times at once, then `failure_rate` times a second.
    """

    body_max: int = 4 * 1024 * 1024
    query_max: int = 8_192
    rate: float = 1_000.0
    burst: int = 2_000
    streams_max: int = 1_000
    window_seconds: float = 86_400.0
    body_seconds: float = 30.0
    hook_body_max: int = 1024 * 1024
    hook_buffer_max: int = 16 * 1024 * 1024
    failure_rate: float = 1.0
    failure_burst: int = 100

    def __post_init__(self) -> None:
        if min(getattr(self, each.name) for each in fields(self)) <= 0:
            raise InvalidOptionError("a limit of the HTTP API is not above 0", fix="leave it out for the default")
