"""Encryption of payloads: AES-256-GCM, by key id, each ciphertext bound to its row.

A payload is `e`, the length and text of the key id, a nonce of 24 bytes, and the ciphertext with its tag. The first
half of the nonce derives a key for this one payload, the second half is GCM's own nonce: random nonces under one key
would otherwise be safe only for some billions of payloads.

A payload is bound to the namespace, the run's id, the path within the run and the field (input, output, value, undo,
state). An attacker with write access to the database cannot present one row's content as another's. When a value moves,
it is sealed again for its new row: a child's output for the parent's history, a signal for the entry that receives it.
Until it is received, a signal is bound to its name and to the target that its sender named (run id or key).

Not hidden: names of workflows, steps, branches, signals, topics, events, streams and published states; ids, keys, tags,
titles, attributes, times, statuses, counts and the length of a payload; the figures, `unit` and `note` of progress; the
names of functions that undo a step; who started, paused, cancelled or repaired a run, and why; and failures: their
texts, tracebacks and `data`.
The fields of events that `where` compares are stored as digests, which a reader can test guesses against.
Not prevented: restoring an older content of the *same* field, such as a loop's former state, and deleting rows.

Needs the extra `stepwell[encryption]`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from stepwell.codec.base import ENCRYPTED, JSON_V1, Codec, Payload, PlaceLike, place_of, refuse_format
from stepwell.codec.layers import Layer
from stepwell.errors import CorruptRecordError, InvalidInputError, InvalidOptionError
from stepwell.ids import random_bytes

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
TAG_BYTES: Final = 16

_KEY_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")


class Keys:
    """Keys by id. New payloads are written with the current key; the others are for reading.

    To rotate: give every process the new key, then make it the current one. Keep the old key as long as payloads exist
    that were written with it.
    """

    def __init__(self, current: str, keys: Mapping[str, bytes]) -> None:
        given: Mapping[str, Any] = keys  # they come from files and variables, so the annotation may be wrong
        for key_id, key in given.items():
            if not _KEY_ID.fullmatch(key_id):
                raise InvalidOptionError(f"key id {key_id[:60]!r} is not valid", fix="use letters, digits and _.:-")
            if not isinstance(key, bytes) or len(key) != KEY_BYTES:
                raise InvalidOptionError(f"key {key_id!r} is not {KEY_BYTES} bytes", fix="make one: os.urandom(32)")
        if current not in keys:
            raise InvalidOptionError(f"the current key {current!r} is not among the keys", why=f"known: {sorted(keys)}")
        self.current = current
        self._keys = dict(keys)

    def find(self, key_id: str) -> bytes | None:
        """The key of that id."""
        return self._keys.get(key_id)

    def for_fingerprints(self) -> list[bytes]:
        """A key for fingerprints of each key, the current one first."""
        others = [key for key_id, key in self._keys.items() if key_id != self.current]
        return [hashlib.blake2b(key, person=b"stepwell-prints").digest() for key in (self._keys[self.current], *others)]

    def __repr__(self) -> str:
        return f"Keys(current={self.current!r}, known={sorted(self._keys)})"


class Encrypted(Layer):
    """A codec that encrypts payloads: only holders of the keys can read them, and each only in its own row.

        Engine(url, codec=Encrypted(JsonCodec(), keys=Keys("k2", {"k1": old, "k2": new})))

    `namespace` separates databases that share keys. `reads_plain` accepts payloads that were stored before encryption
    was turned on. It also lets an attacker with write access plant values, so turn it off when no old run is left.
    """

    def __init__(
        self,
        codec: Codec,
        *,
        keys: Keys,
        namespace: str = "",
        reads_plain: bool = False,
        random: Callable[[int], bytes] = random_bytes,
    ) -> None:
        if _offloads(codec):
            raise InvalidOptionError(
                "Encrypted is around Offloaded, so blobs would be stored in the clear",
                fix="write Offloaded(Encrypted(codec, keys=...), blobs)",
            )
        super().__init__(codec.allowing_secrets())
        self._keys = keys
        self._namespace = namespace
        self._reads_plain = reads_plain
        self._random = random
        self._print_keys = keys.for_fingerprints()
        self._cipher, self._failures = _import_cipher()

    @property
    def conceals(self) -> bool:
        """Always."""
        return True

    def close(self, payload: Payload, place: PlaceLike) -> Payload:
        """The payload encrypted with the current key, for its row."""
        key_id = self._keys.current
        key = self._keys.find(key_id)
        assert key is not None
        nonce = self._random(NONCE_BYTES)
        head = ENCRYPTED + bytes([len(key_id)]) + key_id.encode() + nonce
        sealed: bytes = self._cipher(_derive(key, nonce)).encrypt(nonce[12:], payload, self._bond(key_id, place))
        return head + sealed

    def open(self, payload: Payload, place: PlaceLike) -> Payload:
        """The decrypted payload; raises `CorruptRecordError` if it was not encrypted for this row."""
        if type(payload) is not bytes or payload[:1] != ENCRYPTED:
            return self._open_plain(payload, place)
        key_id, nonce, body = split(payload) or ("", b"", b"")
        if not key_id:
            _refuse(place, "it is damaged", "it is too short for an encrypted payload, or its key id is not valid")
        key = self._keys.find(key_id)
        if key is None:
            _refuse(
                place,
                f"it is encrypted with key {key_id!r}, which this engine does not have",
                f"known: {self._keys!r}",
                "add that key to `Keys`; without it the value is lost",
            )
        try:
            opened: bytes = self._cipher(_derive(key, nonce)).decrypt(nonce[12:], body, self._bond(key_id, place))
        except self._failures:
            _refuse(
                place,
                "it was not encrypted for this place",
                f"its authentication failed (key {key_id!r}): it was changed, or belongs to another row or namespace",
            )
        return opened

    def fingerprint(self, value: Any, key: bytes = b"") -> bytes | None:
        """See `Codec.fingerprint`: a digest that only holders of the keys can compare with a guess."""
        return super().fingerprint(value, key or self._print_keys[0])

    def has_fingerprint(self, value: Any, fingerprint: bytes) -> bool:
        """See `Codec.has_fingerprint`."""
        if any(self.fingerprint(value, key) == fingerprint for key in self._print_keys):
            return True
        return self._reads_plain and super().has_fingerprint(value, fingerprint)

    def decode(self, payload: Payload, hint: Any, *, place: PlaceLike) -> Any:
        """See `Codec.decode`. Errors do not quote values that do not fit: errors are stored in the clear."""
        try:
            return super().decode(payload, hint, place=place)
        except InvalidInputError as error:
            raise error.conceal() from None

    def decode_body(self, body: bytes, hint: Any, place: PlaceLike) -> Any:
        """See `Codec.decode_body`. Errors do not quote values that do not fit."""
        try:
            return super().decode_body(body, hint, place)
        except InvalidInputError as error:
            raise error.conceal() from None

    def _open_plain(self, payload: Payload, place: PlaceLike) -> Payload:
        if type(payload) is not bytes or payload[:1] != JSON_V1:
            refuse_format(payload, place)
        if not self._reads_plain:
            _refuse(
                place,
                "it is not encrypted, and this engine reads only encrypted payloads",
                "another program wrote it, or it was stored before encryption was turned on",
                "in the second case, let old runs end with Encrypted(..., reads_plain=True)",
            )
        return payload

    def _bond(self, key_id: str, place: PlaceLike) -> bytes:
        row = place_of(place).row
        if row is None:
            raise AssertionError(f"{place_of(place)} names no row to bind a payload to")
        parts = [part.encode("utf-8", "surrogatepass") for part in ("stepwell 1", self._namespace, key_id, *row)]
        return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def split(payload: Payload) -> tuple[str, bytes, bytes] | None:
    """Key id, nonce and ciphertext of an encrypted payload; None if it is not one."""
    end = 2 + (payload[1] if len(payload) > 1 else 0)
    key_id = payload[2:end].decode("ascii", "replace")
    if payload[:1] != ENCRYPTED or not _KEY_ID.fullmatch(key_id) or len(payload) < end + NONCE_BYTES + TAG_BYTES:
        return None
    return key_id, payload[end : end + NONCE_BYTES], payload[end + NONCE_BYTES :]


def _derive(key: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, b"stepwell payload key" + nonce[:12], "sha256")


def _offloads(codec: object) -> bool:
    return getattr(codec, "is_outermost", False) or (isinstance(codec, Layer) and _offloads(codec.inner))


def _refuse(place: PlaceLike, what: str, why: str, fix: str = "restore the record from a backup") -> NoReturn:
    at = place_of(place)
    raise CorruptRecordError(f"{at.subject} cannot be read back: {what}", where=at.where, why=why, fix=fix)


def _import_cipher() -> tuple[Any, tuple[type[Exception], ...]]:
    """The cipher, and the exceptions that it raises for bytes that it did not write. Imported only if it is used."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise InvalidOptionError(
            "encryption needs the package `cryptography`", why=str(error), fix="pip install 'stepwell[encryption]'"
        ) from error
    return AESGCM, (InvalidTag, ValueError, OverflowError)
