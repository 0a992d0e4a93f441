"""What a run shows while it runs: published state, and streams of chunks."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stepwell.errors import InvalidNameError
from stepwell.model.locations import check_name


def check_shown_name(name: str, *, what: str) -> str:
    """Reject a name that cannot be part of a path, or that a store cannot hold."""
    check_name(name, what=what)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidNameError(
            f"{what} {name!r} cannot be stored", why="it has half of a surrogate pair", fix="give another name"
        ) from error
    return name


class Published(NamedTuple):
    """A named value that clients can read.

    `position` is the length of the run's history when the value was published. A value never replaces a value of a
    later position, so a replay that publishes an older value again changes nothing.
    """

    name: str  # "" for the run's one unnamed value
    position: int
    value: bytes


class ChunkKind(StrEnum):
    """What a line of a stream is. The letter is what is stored."""

    DATA = "d"
    RESET = "r"  # its source began again: what it wrote before, from an offset on, is withdrawn
    CLOSE = "c"


class Append(NamedTuple):
    """A line to append to a stream. The store assigns its offset."""

    stream: str
    kind: ChunkKind
    value: bytes
    source: str = ""  # the path of the step that wrote it; "" for the workflow itself
    part: int = 0  # which attempt at the step
    begins: bool = False  # the first line of this part: what other parts of the source wrote is withdrawn


class Chunk(NamedTuple):
    """A line of a stream. Offsets begin at 1, only grow, and are never used again."""

    offset: int
    kind: ChunkKind
    source: str
    value: bytes  # of a reset: the first withdrawn offset, in digits


class Page(NamedTuple):
    """A part of a stream. If the run had ended when it was read, nothing follows the last chunk."""

    chunks: tuple[Chunk, ...]
    is_over: bool
