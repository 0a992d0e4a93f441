"""How much a request may bring and ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepwell.errors import InvalidOptionError

PAGE_MAX: Final = 500
WAIT_MAX_SECONDS: Final = 60.0
STREAM_MAX_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`body_max` bytes of a request, `query_max` characters after the question mark, `rate` requests a second and
    `burst` at once for each caller, `streams_max` followers at once, `window_seconds` for which a key is remembered.
    """

    body_max: int = 4 * 1024 * 1024
    query_max: int = 8_192
    rate: float = 1_000.0
    burst: int = 2_000
    streams_max: int = 1_000
    window_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        if min(self.body_max, self.query_max, self.rate, self.burst, self.streams_max, self.window_seconds) <= 0:
            raise InvalidOptionError("a limit of the HTTP API is not above 0", fix="leave it out for the default")
