"""The payloads inside stored values, with or without headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.check.histories import Recording
from stepwell.model.locations import format_path
from stepwell.model.runs import History
from stepwell.replay.headers import pack, unpack

Rewrite = Callable[[bytes], bytes]


def rewrite_value(value: bytes, rewrite: Rewrite) -> bytes:
    """A stored value with each payload and each failure in it replaced by what `rewrite` returns.

    An operation stores a payload, a failure, or a header before one or more of them. If there are several, each item of
    the header ends with the size of its part.
    """
    if not value.startswith(b"["):
        return rewrite(value) if value else value
    header, rest = unpack(value)
    if not rest:
        return value
    if not _has_sizes(header, len(rest)):
        return pack(header, rewrite_value(rest, rewrite))
    parts, at = [], 0
    for item in header:
        part = rewrite_value(rest[at : at + item[-1]], rewrite)
        at += item[-1]
        item[-1] = len(part)
        parts.append(part)
    return pack(header, b"".join(parts))


def _has_sizes(header: list[Any], total: int) -> bool:
    sizes = [item[-1] if isinstance(item, list) and item else None for item in header]
    return bool(sizes) and all(isinstance(size, int) for size in sizes) and sum(s or 0 for s in sizes) == total


def rewrite_all(recording: Recording, rewrite: Callable[[str, bytes], bytes]) -> Recording:
    """A recording with every payload and failure replaced by what `rewrite` returns. `rewrite` is called with the place
    of each: "input", "output", "failure", "headers", or the path of an operation.
    """
    run, history = recording.run, recording.history
    text = _paths(history)

    def value(path: str, stored: bytes) -> bytes:
        return rewrite_value(stored, lambda payload: rewrite(path, payload))

    def optional(path: str, stored: bytes | None) -> bytes | None:
        return None if stored is None else value(path, stored)

    return recording._replace(
        run=run._replace(
            input=value("input", run.input),
            output=optional("output", run.output),
            failure=optional("failure", run.failure),
            headers=optional("headers", run.headers),
        ),
        history=history._replace(
            entries=tuple(
                one._replace(value=value(text(one.location), one.value), undo=optional(text(one.location), one.undo))
                for one in history.entries
            ),
            attempts=tuple(one._replace(failure=optional(text(one.location), one.failure)) for one in history.attempts),
            cursors=tuple(one._replace(state=value(text(one.location), one.state)) for one in history.cursors),
            progress=tuple(one._replace(state=optional(text(one.location), one.state)) for one in history.progress),
        ),
    )


def _paths(history: History) -> Callable[[Any], str]:
    return lambda location: format_path(location, history.names)
