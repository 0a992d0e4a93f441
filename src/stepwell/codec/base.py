"""The `Codec` protocol, the versioned payload envelope and the limits of a payload.

A payload is bytes. Its first byte names the format of the rest, so that a later format can live beside old rows:

    j   JSON, version 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from stepwell.errors import CorruptRecordError

Payload: TypeAlias = bytes

ANY: Final[Any] = Any
"""The hint of a value about which nothing is known: it decodes to plain JSON types."""

JSON_V1: Final = b"j"
FORMATS: Final = {JSON_V1: "JSON version 1"}

DEPTH_MAX: Final = 64
PAYLOAD_BYTES_MAX: Final = 2 * 1024 * 1024
EXTERNAL_NODES_MAX: Final = 100_000


class Place(NamedTuple):
    """Where a value belongs, in the words of an error: workflow, path, and what it is there.

    Cheap on purpose: nothing is formatted before an error has to be worded.
    """

    workflow: str
    path: str
    what: str = "the result"
    root: str = ""

    @property
    def field(self) -> str:
        """The name that field paths start with: `root`, or the last word of `what`."""
        last = self.what.rsplit(" ", 1)[-1]
        return self.root or (last if last.isidentifier() else "value")

    @property
    def subject(self) -> str:
        """What the sentence is about, such as ``the result of `payment/charge` ``."""
        return f"{self.what} of `{self.path or self.workflow}`"

    @property
    def where(self) -> str:
        """Workflow and path, for the line `where` of an error."""
        return f"workflow {self.workflow}" + (f", path {self.path}" if self.path else "")


PlaceLike: TypeAlias = Place | Callable[[], Place]
"""A place, or a callable that makes one; it is called only when an error has to be worded."""


def place_of(place: PlaceLike) -> Place:
    """The place itself."""
    return place if isinstance(place, Place) else place()


class Unresolved(NamedTuple):
    """The hint of an annotation that names something which does not exist; refused when it is used, not before."""

    function: str
    parameter: str
    annotation: str
    reason: str


class Codec(Protocol):
    """Turns values into payloads and back. Every failure is a `StepwellError` that names workflow, path and field."""

    def encode(self, value: Any, hint: Any = ANY, *, place: PlaceLike) -> Payload:
        """The payload of `value`; what cannot be read back as an equal value is refused here.

        Raises:
            UnserialisableError: something in it has no faithful stored form.
            PayloadTooLargeError: it is above the limit.
        """
        ...

    def decode(self, payload: Payload, hint: Any, *, place: PlaceLike) -> Any:
        """The value of `payload` as `hint` says.

        Raises:
            CorruptRecordError: the bytes are not a payload.
            InvalidInputError: it is one, but its content does not fit the hint; all violations are listed.
            UnsupportedTypeError: the hint itself names a type that cannot be read back.
        """
        ...


def refuse_format(payload: object, place: PlaceLike) -> NoReturn:
    """Word why these bytes have no known envelope."""
    at = place_of(place)
    known = ", ".join(f"{tag!r} ({name})" for tag, name in FORMATS.items())
    if not isinstance(payload, bytes):
        found = f"a value of type {type(payload).__name__}"
    else:
        found = f"first byte {payload[:1]!r}" if payload else "no bytes"
    raise CorruptRecordError(
        f"{at.subject} cannot be read back: it is not in a known format",
        where=at.where,
        why=f"found {found}; known: {known}",
        fix="if a newer stepwell wrote it, upgrade this one; else restore the record from a backup",
    )
