"""The `Codec` protocol, the versioned payload envelope and the limits of a payload.

A payload is bytes. Its first byte names the format of the rest, so that a later format can live beside old rows:

    j   JSON, version 1
    e   encrypted: key id, nonce, and another payload that only the key makes readable
    r   a reference to another payload, which is kept as a blob
    t   a signal's payload with the target it was sealed for
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from stepwell.errors import CorruptRecordError

Payload: TypeAlias = bytes

ANY: Final[Any] = Any
"""The hint of a value about which nothing is known: it decodes to plain JSON types."""

JSON_V1: Final = b"j"
ENCRYPTED: Final = b"e"
REFERENCE: Final = b"r"
ADDRESSED: Final = b"t"
FORMATS: Final = {JSON_V1: "JSON version 1"}
# What a layer writes; a codec without that layer can only say so.
LAYERS: Final = {
    ENCRYPTED: ("encrypted", "Encrypted"),
    REFERENCE: ("kept as a blob", "Offloaded"),
    ADDRESSED: ("sealed for one run", "Encrypted"),
}

DEPTH_MAX: Final = 64
PAYLOAD_BYTES_MAX: Final = 2 * 1024 * 1024
EXTERNAL_NODES_MAX: Final = 100_000


class Row(NamedTuple):
    """The one row and field that a stored payload is for. Encryption binds it to this, so it can be read nowhere else.

    Not made of an error's words, which may change: every part of a row has to be the same for ever.
    """

    run: str  # the run's id; of a signal: the target as its sender knew it
    path: str  # within the run, "" for the run itself; of a signal: its name
    field: str  # such as "input", "output", "value", "undo", "state"


def event_row(run_id: str, path: str, event_id: str) -> Row:
    """The row of an event that a run emits."""
    return Row(run_id, path, f"event {event_id}")


class Place(NamedTuple):
    """Where a value belongs, in the words of an error: workflow, path, and what it is there; and its row, if it is
    stored.

    Cheap on purpose: nothing is formatted before an error has to be worded.
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
        """What the sentence is about, such as ``the result of `payment/charge` ``."""
        return f"{self.what} of `{self.path or self.workflow}`"

    @property
    def where(self) -> str:
        """Workflow and path, for the line `where` of an error; of what is sent from outside: the signal or topic."""
        if not self.workflow:
            return f"{'topic' if self.what == 'the event' else 'signal'} {self.path}"
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
        """The payload of `value`, to be read back as the hint says; what has no stored form is refused here.

        Raises:
            UnserialisableError: something in it has no faithful stored form.
            PayloadTooLargeError: it is above the limit.
            StoreUnavailableError: it has to be kept beside the store, and cannot be written there now.
        """
        ...

    def decode(self, payload: Payload, hint: Any, *, place: PlaceLike) -> Any:
        """The value of `payload` as `hint` says.

        Raises:
            CorruptRecordError: the bytes are not a payload, or not the one of this row.
            InvalidInputError: it is one, but its content does not fit the hint; all violations are listed.
            UnsupportedTypeError: the hint itself names a type that cannot be read back.
            StoreUnavailableError: it is kept beside the store, and cannot be read there now.
        """
        ...

    def settle(self, value: Any, hint: Any, *, place: PlaceLike) -> tuple[Payload, Any]:
        """The payload of `value`, and what reading it will give; raises as `encode` and `decode` do."""
        ...

    def validate(self, value: Any, hint: Any, *, place: PlaceLike) -> Any:
        """A Python value as `hint` says; raises `InvalidInputError`."""
        ...

    def decode_external(self, text: bytes | str, hint: Any, *, place: PlaceLike) -> Any:
        """The value of JSON text from outside, as `hint` says; raises `InvalidInputError`."""
        ...

    def prepare(self, hint: Any, *, place: PlaceLike) -> None:
        """Raise `UnsupportedTypeError` now where the first use of the hint would."""
        ...

    def encode_readable(self, value: Any, *, place: PlaceLike) -> bytes:
        """JSON without an envelope that anyone may read, as in a failure; secrets in it are asterisks."""
        ...

    def register_upcaster(self, hint: Any, upcaster: Upcaster) -> None:
        """Let stored values that no longer fit `hint` be brought to its shape; see `stepwell.codec.upcasters`."""
        ...

    # --- parts of a payload, for those who put payloads together ---

    def encode_body(self, value: Any, hint: Any, place: PlaceLike) -> bytes:
        """The JSON of `value`, without any envelope."""
        ...

    def decode_body(self, body: bytes, hint: Any, place: PlaceLike) -> Any:
        """The value of what `encode_body` wrote."""
        ...

    def seal(self, payload: Payload, *, place: PlaceLike) -> Payload:
        """A payload of plain JSON as it is stored."""
        ...

    def unseal(self, payload: Payload, *, place: PlaceLike) -> Payload:
        """The plain JSON of a stored payload, in its envelope."""
        ...

    def rebind(self, payload: Payload, *, place: PlaceLike, to: PlaceLike) -> Payload:
        """A stored payload as it has to be for another row, such as a child's output in its parent's history."""
        ...

    # --- for layers ---

    def allowing_secrets(self) -> Codec:
        """The same codec, which writes secrets as they are: something around it encrypts them."""
        ...

    def limited_to(self, payload_bytes_max: int) -> Codec:
        """The same codec with another limit."""
        ...


def refuse_format(payload: object, place: PlaceLike) -> NoReturn:
    """Word why these bytes have no known envelope."""
    at = place_of(place)
    known = ", ".join(f"{tag!r} ({name})" for tag, name in FORMATS.items())
    if isinstance(payload, bytes) and payload[:1] in LAYERS:
        state, layer = LAYERS[payload[:1]]
        raise CorruptRecordError(
            f"{at.subject} cannot be read back: it is {state}",
            where=at.where,
            why="the codec of this engine has no layer that reads such payloads",
            fix=f"open the engine with the codec that wrote it, one with `{layer}(...)`",
        )
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
