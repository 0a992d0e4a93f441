"""The default codec: typed JSON by msgspec.

It is on the hot path of every step. So the bytes are made first and checked in bulk, at the speed of C, for anything
that *might* not round-trip. Only then is the value itself visited, field by field.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import hashlib
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import msgspec

from stepwell.codec import pydantic_bridge, words
from stepwell.codec.base import (
    ANY,
    FINGERPRINT_BYTES,
    JSON_V1,
    PAYLOAD_BYTES_MAX,
    Payload,
    PlaceLike,
    Upcaster,
    place_of,
    refuse_format,
)
from stepwell.codec.external import ExternalTextError, find_refusal_in_text, parse_strict
from stepwell.codec.plans import plan_for, read_custom, write_custom, write_masked, write_revealed
from stepwell.codec.refusals import INT_MAX, INT_MIN, Refusal, find_refusal
from stepwell.codec.suspicions import is_suspicious
from stepwell.codec.untyped import find_change, report
from stepwell.codec.upcasters import Upcasters
from stepwell.codec.violations import list_violations
from stepwell.errors import StepwellError
from stepwell.errors.requests import Violation

_write = msgspec.json.Encoder(enc_hook=write_custom, decimal_format="string").encode
_write_revealed = msgspec.json.Encoder(enc_hook=write_revealed, decimal_format="string").encode
_write_masked = msgspec.json.Encoder(enc_hook=write_masked, decimal_format="string").encode
_print = msgspec.json.Encoder(enc_hook=write_custom, decimal_format="string", order="deterministic").encode
_print_revealed = msgspec.json.Encoder(enc_hook=write_revealed, decimal_format="string", order="deterministic").encode
_read_plain = msgspec.json.Decoder().decode

_NULL: Final = JSON_V1 + b"null"
_UNCHANGED: Final = frozenset({type(None), bool, int, float, str})
# Not converted when records are taken apart for `validate`, so that bytes are not accepted as a str.
_KEPT: Final = (
    *(bytes, bytearray, uuid.UUID, decimal.Decimal),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
)


class JsonCodec:
    """Typed JSON. A value is decoded as its hint says. Values that JSON cannot hold are rejected, and so are secrets.

    Not kept: types without a hint (under `Any` a tuple becomes a list, a date text, the key 1 "1"); a tuple or set
    where the hint is `list`; an int above 2**53 where it is `float`; the order of sets; the fields that a subclass adds
    to the class in the hint.
    """

    def __init__(self, *, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        self.payload_bytes_max = payload_bytes_max
        self.conceals = False
        self._write = _write
        self._refuses_untyped = False
        self._upcasters = Upcasters()

    def allowing_secrets(self) -> JsonCodec:
        """See `Codec.allowing_secrets`; up-casters are shared with this codec."""
        return self._changed(self.payload_bytes_max, _write_revealed)

    def limited_to(self, payload_bytes_max: int) -> JsonCodec:
        """See `Codec.limited_to`; up-casters are shared with this codec."""
        return self._changed(payload_bytes_max, self._write)

    def refusing_untyped(self) -> JsonCodec:
        """See `Codec.refusing_untyped`; up-casters are shared with this codec."""
        other = copy.copy(self)
        other._refuses_untyped = True
        return other

    def _changed(self, payload_bytes_max: int, write: Callable[[Any], bytes]) -> JsonCodec:
        other = copy.copy(self)
        other.payload_bytes_max, other._write = payload_bytes_max, write
        return other

    def register_upcaster(self, hint: Any, upcaster: Upcaster) -> None:
        """Convert stored values that no longer fit `hint` to its shape; see `stepwell.codec.upcasters`."""
        self._upcasters.register(hint, upcaster)

    def encode(self, value: Any, hint: Any = ANY, *, place: PlaceLike) -> Payload:
        """The payload of `value`; see `Codec.encode`."""
        return _NULL if value is None else JSON_V1 + self.encode_body(value, hint, place)

    def encode_body(self, value: Any, hint: Any, place: PlaceLike) -> bytes:
        """The JSON of `value`, the part of a payload after the envelope; raises as `encode` does."""
        kind = type(value)
        if (kind is int and INT_MIN <= value <= INT_MAX) or kind is bool or (kind is float and math.isfinite(value)):
            return _write(value)
        try:
            adapter = None if hint is ANY or kind is str else plan_for(hint, place).adapter
            body = self._write(value if adapter is None else adapter.dump(value))
            if len(body) > self.payload_bytes_max:
                raise words.too_large(place_of(place), len(body), self.payload_bytes_max)
            if "\0" not in value if kind is str else not is_suspicious(value, body):
                return body
        except (StepwellError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  also a user's serializer; the cause is chained
            self._refuse(value, place, error)
        self._inspect(value, body, place)
        return body

    def encode_readable(self, value: Any, *, place: PlaceLike) -> bytes:
        """JSON without an envelope, with secrets as asterisks; raises as `encode` does."""
        return self._changed(self.payload_bytes_max, _write_masked).encode_body(value, ANY, place)

    def decode(self, payload: Payload, hint: Any, *, place: PlaceLike) -> Any:
        """The value of `payload`, converted to `hint`; see `Codec.decode`."""
        if type(payload) is not bytes or payload[:1] != JSON_V1:
            refuse_format(payload, place)
        return self.decode_body(payload[1:], hint, place)

    def decode_body(self, body: bytes, hint: Any, place: PlaceLike) -> Any:
        """The value of the JSON of a payload; raises as `decode` does."""
        plan = plan_for(hint, place)
        try:
            return plan.read(body)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  also a user's `__post_init__`; the cause is chained
            return self._lift(body, hint, place, error)

    def settle(self, value: Any, hint: Any, *, place: PlaceLike) -> tuple[Payload, Any]:
        """The payload of `value`, and the value that decoding it returns: a first run and a replay see the same value.

        Equal to `encode` and then `decode`, and raises as they do, but does not parse values that cannot change.
        """
        kind = type(value)
        if kind is int and (hint is int or hint is ANY) and INT_MIN <= value <= INT_MAX:
            return JSON_V1 + b"%d" % value, value
        payload = self.encode(value, hint, place=place)
        if kind in _UNCHANGED and (hint is ANY or hint is kind):
            return payload, value
        settled = self.decode(payload, hint, place=place)
        is_same = type(settled) is kind and (settled == value if hint is ANY else not pydantic_bridge.is_model(value))
        if not is_same:
            self._check_typed(value, settled, hint, place)
        return payload, settled

    def seal(self, payload: Payload, *, place: PlaceLike) -> Payload:
        """The payload itself; see `Codec.seal`."""
        return payload

    def unseal(self, payload: Payload, *, place: PlaceLike) -> Payload:
        """The payload itself; see `Codec.unseal`."""
        return payload

    def rebind(self, payload: Payload, *, place: PlaceLike, to: PlaceLike) -> Payload:
        """The payload itself, which fits every row; see `Codec.rebind`."""
        return payload

    def decode_external(self, text: bytes | str, hint: Any, *, place: PlaceLike) -> Any:
        """The value of JSON text from a command line or an HTTP body, converted to `hint`.

        Raises:
            PayloadTooLargeError: it is above the limit; it was not parsed.
            InvalidInputError: it is not strict JSON, or does not fit the hint; all violations are listed.
            UnsupportedTypeError: the hint itself names a type that cannot be read.
        """
        plan = plan_for(hint, place)
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        if len(raw) > self.payload_bytes_max:
            raise words.too_large(place_of(place), len(raw), self.payload_bytes_max)
        try:
            plain = parse_strict(raw, place_of(place))
        except ExternalTextError as error:
            raise words.does_not_fit(place_of(place), [str(error)]) from error
        try:
            return plan.read(raw)
        except Exception as error:
            raise self._misfit(plain, hint, place, error, str_keys=True) from error

    def validate(self, value: Any, hint: Any, *, place: PlaceLike) -> Any:
        """A Python value converted to `hint`: from an instance of it, or from plain dicts and lists. Always a copy.

        Fields of instances are checked too. Nothing is guessed: "1" is not an int.

        Raises:
            InvalidInputError: it does not fit; all violations are listed.
            UnserialisableError: a part of it can never be stored.
            UnsupportedTypeError: the hint itself names a type that cannot be read back.
        """
        plan = plan_for(hint, place)
        if hint is ANY:
            return value
        try:
            plain = msgspec.to_builtins(value, builtin_types=_KEPT, enc_hook=write_revealed)
        except Exception as error:  # noqa: BLE001
            self._refuse(value, place, error)
        try:
            if plan.adapter is not None:
                return plan.adapter.accept(value)
            return msgspec.convert(plain, hint, strict=True, dec_hook=read_custom)
        except Exception as error:
            raise self._misfit(plain, hint, place, error, str_keys=False) from error

    def fingerprint(self, value: Any, key: bytes = b"") -> bytes | None:
        """See `Codec.fingerprint`."""
        try:
            body = (_print if self._write is _write else _print_revealed)(value)
        except Exception:  # noqa: BLE001  a client, a lock, a secret, or a user's serializer that fails
            return None
        if type(value) is tuple or type(value) is list:
            body = body[1:-1]
        if len(body) < FINGERPRINT_BYTES and not key:
            return body
        return hashlib.blake2b(body, digest_size=FINGERPRINT_BYTES, key=key).digest()

    def has_fingerprint(self, value: Any, fingerprint: bytes) -> bool:
        """See `Codec.has_fingerprint`."""
        return self.fingerprint(value) == fingerprint

    def prepare(self, hint: Any, *, place: PlaceLike) -> None:
        """Make the plan of a hint now; raises `UnsupportedTypeError` if its first use would raise it."""
        plan_for(hint, place)

    def _check_typed(self, value: Any, settled: Any, hint: Any, place: PlaceLike) -> None:
        """Report a value that has come back as another type, or reject it."""
        problem = find_change(value, settled, hint, place_of(place))
        if problem is None:
            return
        if self._refuses_untyped:
            raise problem
        report(problem, place_of(place))

    # --- the slow half: something is or may be wrong ------------------------------------------

    def _inspect(self, value: Any, body: bytes, place: PlaceLike) -> None:
        root = place_of(place).field
        refusal = find_refusal(value, root, secrets=True) or find_refusal_in_text(body, root)
        if refusal is not None:
            raise words.unserialisable(place_of(place), refusal)

    def _refuse(self, value: Any, place: PlaceLike, error: Exception) -> NoReturn:
        at = place_of(place)
        refusal = find_refusal(value, at.field, secrets=self._write is not _write) or Refusal(at.field, str(error))
        raise words.unserialisable(at, refusal) from error

    def _lift(self, body: bytes, hint: Any, place: PlaceLike, error: Exception) -> Any:
        """The value, converted by its up-casters. If they cannot, raise the error with all violations."""
        try:
            plain = _read_plain(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as broken:
            raise words.corrupt(place_of(place), broken) from broken
        notes: list[str] = []
        if self._upcasters:
            lifted = self._upcasters.lift(plain, hint, notes)
            try:
                return plan_for(hint, place).read(msgspec.json.encode(lifted))
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001  the violations of the stored value are more useful
                pass
        raise self._misfit(plain, hint, place, error, str_keys=True, notes=notes) from error

    def _misfit(
        self, plain: Any, hint: Any, place: PlaceLike, error: Exception, *, str_keys: bool, notes: Sequence[str] = ()
    ) -> StepwellError:
        at = place_of(place)
        found = pydantic_bridge.violations_of(error, at.field, at.root)
        if not found and plan_for(hint, place).adapter is None:
            found = list_violations(plain, hint, root=at.field, prefix=at.root, str_keys=str_keys)
        said = [Violation(one, "") for one in ((*notes,) if found else (str(error), *notes))]
        return words.does_not_fit(at, [*found, *said])
