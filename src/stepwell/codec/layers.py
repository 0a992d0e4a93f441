"""The base of layers around a codec: a layer changes payloads, and leaves values to the inner codec."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

from stepwell.codec.base import ANY, Codec, Payload, PlaceLike, Upcaster


class Layer(ABC):
    """A codec around another codec. A subclass defines how a payload is closed for the store, and opened again."""

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    @abstractmethod
    def close(self, payload: Payload, place: PlaceLike) -> Payload:
        """The payload as it leaves this layer for the store."""

    @abstractmethod
    def open(self, payload: Payload, place: PlaceLike) -> Payload:
        """The payload that was passed to `close`; raises `CorruptRecordError` for anything else."""

    @property
    def payload_bytes_max(self) -> int:
        """See `Codec.payload_bytes_max`."""
        return self.inner.payload_bytes_max

    @property
    def conceals(self) -> bool:
        """See `Codec.conceals`."""
        return self.inner.conceals

    # --- through this layer ---

    def encode(self, value: Any, hint: Any = ANY, *, place: PlaceLike) -> Payload:
        """See `Codec.encode`."""
        return self.close(self.inner.encode(value, hint, place=place), place)

    def decode(self, payload: Payload, hint: Any, *, place: PlaceLike) -> Any:
        """See `Codec.decode`."""
        return self.inner.decode(self.open(payload, place), hint, place=place)

    def settle(self, value: Any, hint: Any, *, place: PlaceLike) -> tuple[Payload, Any]:
        """See `Codec.settle`."""
        payload, settled = self.inner.settle(value, hint, place=place)
        return self.close(payload, place), settled

    def seal(self, payload: Payload, *, place: PlaceLike) -> Payload:
        """See `Codec.seal`."""
        return self.close(self.inner.seal(payload, place=place), place)

    def unseal(self, payload: Payload, *, place: PlaceLike) -> Payload:
        """See `Codec.unseal`."""
        return self.inner.unseal(self.open(payload, place), place=place)

    def rebind(self, payload: Payload, *, place: PlaceLike, to: PlaceLike) -> Payload:
        """See `Codec.rebind`."""
        if not self.conceals:
            return payload
        return self.close(self.inner.rebind(self.open(payload, place), place=place, to=to), to)

    # --- past this layer ---

    def validate(self, value: Any, hint: Any, *, place: PlaceLike) -> Any:
        """See `Codec.validate`."""
        return self.inner.validate(value, hint, place=place)

    def decode_external(self, text: bytes | str, hint: Any, *, place: PlaceLike) -> Any:
        """See `Codec.decode_external`."""
        return self.inner.decode_external(text, hint, place=place)

    def prepare(self, hint: Any, *, place: PlaceLike) -> None:
        """See `Codec.prepare`."""
        self.inner.prepare(hint, place=place)

    def encode_readable(self, value: Any, *, place: PlaceLike) -> bytes:
        """See `Codec.encode_readable`."""
        return self.inner.encode_readable(value, place=place)

    def fingerprint(self, value: Any, key: bytes = b"") -> bytes | None:
        """See `Codec.fingerprint`."""
        return self.inner.fingerprint(value, key)

    def has_fingerprint(self, value: Any, fingerprint: bytes) -> bool:
        """See `Codec.has_fingerprint`."""
        return self.inner.has_fingerprint(value, fingerprint)

    def register_upcaster(self, hint: Any, upcaster: Upcaster) -> None:
        """See `Codec.register_upcaster`."""
        self.inner.register_upcaster(hint, upcaster)

    def encode_body(self, value: Any, hint: Any, place: PlaceLike) -> bytes:
        """See `Codec.encode_body`."""
        return self.inner.encode_body(value, hint, place)

    def decode_body(self, body: bytes, hint: Any, place: PlaceLike) -> Any:
        """See `Codec.decode_body`."""
        return self.inner.decode_body(body, hint, place)

    def allowing_secrets(self) -> Self:
        """See `Codec.allowing_secrets`."""
        return self._around(self.inner.allowing_secrets())

    def refusing_untyped(self) -> Self:
        """See `Codec.refusing_untyped`."""
        return self._around(self.inner.refusing_untyped())

    def limited_to(self, payload_bytes_max: int) -> Self:
        """See `Codec.limited_to`."""
        return self._around(self.inner.limited_to(payload_bytes_max))

    def _around(self, inner: Codec) -> Self:
        other = copy.copy(self)
        other.inner = inner
        return other
