"""Headers: short texts that a run carries for programs, and passes on to the runs that it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepwell.errors import InvalidOptionError

HEADERS_MAX: Final = 32
HEADER_NAME_MAX: Final = 60
HEADERS_BYTES_MAX: Final = 8_000

TRACE_CONTEXT: Final = ("traceparent", "tracestate")  # of the W3C

Headers = dict[str, str]


def read_headers(headers: Any, where: str) -> Headers:
    """Headers that a caller gave. Raises `InvalidOptionError`."""
    if not isinstance(headers, Mapping):
        raise _refused(where, f"they are a {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise _refused(where, f"{name!r}: {value!r:.80} is not text")
        if (
            not 0 < len(name) <= HEADER_NAME_MAX
            or not name.isprintable()
            or any(c.isspace() or c in "=:" for c in name)
        ):
            raise _refused(where, f"the name {name[:80]!r} is blank, too long or has forbidden characters")
        if not value.isprintable():
            raise _refused(where, f"the value of {name!r} has control characters")
    if len(headers) > HEADERS_MAX:
        raise _refused(where, f"there are {len(headers)} of them")
    if (size := sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())) > HEADERS_BYTES_MAX:
        raise _refused(where, f"they have {size:,} bytes")
    return dict(headers)


def _refused(where: str, why: str) -> InvalidOptionError:
    return InvalidOptionError(
        "these headers cannot be stored",
        where=where,
        why=why,
        fix=f'a dict of texts such as {{"user": "ann"}}: up to {HEADERS_MAX}, names of up to {HEADER_NAME_MAX} '
        f"characters without blanks, = and :, {HEADERS_BYTES_MAX:,} bytes in all",
    )
