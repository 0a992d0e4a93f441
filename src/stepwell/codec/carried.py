"""Headers of a run as they are stored: sealed for the run, like its input."""

from __future__ import annotations

from typing import Final

from stepwell.codec.base import Codec, Payload, Place, Row
from stepwell.model.headers import Headers

_HINT: Final = dict[str, str]
NO_HEADERS: Final[Headers] = {}


def headers_place(workflow: str, run_id: str) -> Place:
    """Where the headers of a run are stored."""
    return Place(workflow, "", "the headers", row=Row(run_id, "", "headers"))


def encode_headers(codec: Codec, headers: Headers, *, workflow: str, run_id: str) -> Payload | None:
    """Headers for a run; None if there are none."""
    return codec.encode(headers, _HINT, place=headers_place(workflow, run_id)) if headers else None


def decode_headers(codec: Codec, stored: Payload | None, *, workflow: str, run_id: str) -> Headers:
    """The headers of a run."""
    if stored is None:
        return NO_HEADERS
    headers: Headers = codec.decode(stored, _HINT, place=headers_place(workflow, run_id))
    return headers
