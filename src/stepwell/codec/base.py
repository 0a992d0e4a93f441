"""The `Codec` protocol, the versioned payload envelope and the limits of a payload.

A payload is bytes. Its first byte names the format of the rest, so that a later format can coexist with old rows:

    j   JSON, version 1
    e   encrypted: key id, nonce, and another payload that only the key makes readable
    r   a reference to another payload, which is kept as a blob
    t   a signal's payload with the target for which it was sealed
    z   another payload, compressed
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from stepwell.errors import CorruptRecordError

Payload: TypeAlias = bytes

ANY: Final[Any] = Any
"""The hint of a value of unknown type: it decodes to plain JSON types."""

JSON_V1: Final = b"j"
ENCRYPTED: Final = b"e"
REFERENCE: Final = b"r"
ADDRESSED: Final = b"t"
COMPRESSED: Final = b"z"
FORMATS: Final = {JSON_V1: "JSON version 1"}
# Formats that layers write. A codec without the layer reports which one is missing.
LAYERS: Final = {
    ENCRYPTED: ("encrypted", "Encrypted"),
    REFERENCE: ("kept as a blob", "Offloaded"),
    ADDRESSED: ("sealed for one run", "Encrypted"),
    COMPRESSED: ("compressed", "Compressed"),
}

DEPTH_MAX: Final = 64
PAYLOAD_BYTES_MAX: Final = 2 * 1024 * 1024
EXTERNAL_NODES_MAX: Final = 100_000
FINGERPRINT_BYTES: Final = 8


class Row(NamedTuple):
    """The row and field to which a stored payload belongs. Encryption binds the payload to them, so it can be read
    nowhere else.

    It has no texts of error messages, which may change: every part of a row must stay the same permanently.
    """

    run: str  # the run's id; of a signal: the target that its sender named
    path: str  # within the run, "" for the run itself; of a signal: its name
    field: str  # such as "input", "output", "value", "undo", "state"


def event_row(run_id: str, path: str, event_id: str) -> Row:
    """The row of an event that a run emits."""
    return Row(run_id, path, f"event {event_id}")


_OUTSIDE: Final = {"the event": "topic", "the body": "record", "the change": "record"}  # of no workflow


class Place(NamedTuple):
    """Where a value belongs, for error messages: workflow, path, and what it is there; and its row, if it is stored.

    Cheap on purpose: nothing is formatted before there is an error.
    """

    workflow: str
    path: str
    what: str = "the result"
    root: str = ""
    row: Row | None = None

    @property
    def field(self) -> str:
        """The name that field paths start with: `root`, or the last word of `what`."""
        last = self.what.rsplit(" ", 1)[-1]
        return self.root or (last if last.isidentifier() else "value")

    @property
    def subject(self) -> str:
        """The subject of an error's sentence, such as ``the result of `payment/charge` ``."""
        return f"{self.what} of `{self.path or self.workflow}`"

    @property
    def where(self) -> str:
        """Workflow and path, for the line `where` of an error; without a workflow: the signal, topic or record."""
        if not self.workflow:
            return f"{_OUTSIDE.get(self.what, 'signal')} {self.path}"
        return f"workflow {self.workflow}" + (f", path {self.path}" if self.path else "")


PlaceLike: TypeAlias = Place | Callable[[], Place]
"""A place, or a callable that makes one; it is called only if there is an error."""


def place_of(place: PlaceLike) -> Place:
    """The place itself."""
    return place if isinstance(place, Place) else place()


class Unresolved(NamedTuple):
    """The hint of an annotation that cannot be resolved. It is rejected when it is used, not before."""

    function: str
    parameter: str
    annotation: str
    reason: str


Upcaster: TypeAlias = Callable[[Any], Any]
"""Plain JSON of an old shape → plain JSON of the next one."""


class Codec(Protocol):
    """Turns values into payloads and back. Every failure is a `StepwellError` that names workflow, path and field."""

    @property
    def payload_bytes_max(self) -> int:
        """The limit of one value's JSON."""
        ...

    @property
    def conceals(self) -> bool:
        """Whether payloads are encrypted: then each is bound to its row, and may hold secrets."""
        ...

    def encode(self, value: Any, hint: Any = ANY, *, place: PlaceLike) -> Payload:
        """The payload of `value`, to be read back as the hint says.

        Raises:
            UnserialisableError: a part of the value has no faithful stored form.
            PayloadTooLargeError: it is above the limit.
            StoreUnavailableError: it must be kept as a blob, which cannot be written now.
        """
        ...

    def decode(self, payload: Payload, hint: Any, *, place: PlaceLike) -> Any:
        """The value of `payload` as `hint` says.

        Raises:
            CorruptRecordError: the bytes are not a payload, or not the one of this row.
            InvalidInputError: the content does not fit the hint; all violations are listed.
            UnsupportedTypeError: the hint itself names a type that cannot be read back.
            StoreUnavailableError: it is kept as a blob, which cannot be read now.
        """
        ...

    def settle(self, value: Any, hint: Any, *, place: PlaceLike) -> tuple[Payload, Any]:
        """The payload of `value`, and the value that decoding it returns; raises as `encode` and `decode` do."""
        ...

    def validate(self, value: Any, hint: Any, *, place: PlaceLike) -> Any:
        """A Python value, converted to `hint`; raises `InvalidInputError`."""
        ...

    def decode_external(self, text: bytes | str, hint: Any, *, place: PlaceLike) -> Any:
        """The value of JSON text from outside, converted to `hint`; raises `InvalidInputError`."""
        ...

    def prepare(self, hint: Any, *, place: PlaceLike) -> None:
        """Raise `UnsupportedTypeError` now if the first use of the hint would raise it."""
        ...

    def encode_readable(self, value: Any, *, place: PlaceLike) -> bytes:
        """JSON without an envelope, for places that are not encrypted, such as a failure; secrets become asterisks."""
        ...

    def fingerprint(self, value: Any, key: bytes = b"") -> bytes | None:
        """A short fingerprint of a value; None if the value cannot be encoded.

        Equal values of the same types have the same one, whatever the order of a set or a dict. It is the JSON itself
        if that is shorter than `FINGERPRINT_BYTES`, without the brackets of a list. With a key, it is always a digest.
        """
        ...

    def has_fingerprint(self, value: Any, fingerprint: bytes) -> bool:
        """Whether a value has this fingerprint, also if it was made with a former key."""
        ...

    def register_upcaster(self, hint: Any, upcaster: Upcaster) -> None:
        """Convert stored values that no longer fit `hint` to its shape; see `stepwell.codec.upcasters`."""
        ...

    # --- parts of a payload ---

    def encode_body(self, value: Any, hint: Any, place: PlaceLike) -> bytes:
        """The JSON of `value`, without any envelope."""
        ...

    def decode_body(self, body: bytes, hint: Any, place: PlaceLike) -> Any:
        """The value that `encode_body` wrote."""
        ...

    def seal(self, payload: Payload, *, place: PlaceLike) -> Payload:
        """A payload of plain JSON as it is stored."""
        ...

    def unseal(self, payload: Payload, *, place: PlaceLike) -> Payload:
        """The plain JSON of a stored payload, in its envelope."""
        ...

    def rebind(self, payload: Payload, *, place: PlaceLike, to: PlaceLike) -> Payload:
        """A stored payload, sealed again for another row, such as a child's output in its parent's history."""
        ...

    # --- for layers ---

    def allowing_secrets(self) -> Codec:
        """The same codec, but it writes secrets in the clear, because an outer layer encrypts them."""
        ...

    def refusing_untyped(self) -> Codec:
        """The same codec, but it rejects values that would come back as another type; see `stepwell.codec.untyped`."""
        ...

    def limited_to(self, payload_bytes_max: int) -> Codec:
        """The same codec with another limit."""
        ...


def refuse_format(payload: object, place: PlaceLike) -> NoReturn:
    """Raise the error for bytes without a known envelope."""
    at = place_of(place)
    known = ", ".join(f"{tag!r} ({name})" for tag, name in FORMATS.items())
    if isinstance(payload, bytes) and payload[:1] in LAYERS:
        state, layer = LAYERS[payload[:1]]
        raise CorruptRecordError(
            f"{at.subject} cannot be read back: it is {state}",
            where=at.where,
            why="the codec of this engine has no layer that reads such payloads",
            fix=f"open the engine with the codec that wrote it, which has a layer `{layer}(...)`",
        )
    if not isinstance(payload, bytes):
        found = f"a value of type {type(payload).__name__}"
    else:
        found = f"first byte {payload[:1]!r}" if payload else "no bytes"
    raise CorruptRecordError(
        f"{at.subject} cannot be read back: it is not in a known format",
        where=at.where,
        why=f"found {found}; known: {known}",
        fix="if a newer stepwell wrote it, upgrade this one; otherwise restore the record from a backup",
    )
