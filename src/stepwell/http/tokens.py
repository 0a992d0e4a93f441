"""Tokens: random, shown once, stored as a hash, found by a public prefix and compared in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from stepwell.clock import Clock, Duration, Instant, SystemClock, span, to_datetime, to_instant
from stepwell.errors import InvalidOptionError, NotFoundError
from stepwell.http.roles import Caller, Role
from stepwell.ids import random_bytes

SCHEME: Final = "swt"
TOKEN_MAX: Final = 200
_PREFIX_BYTES, _SECRET_BYTES = 6, 32
_NO_DIGEST: Final = "0" * 64
_RELOAD_SECONDS: Final = 1.0


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a token: never the token itself."""

    prefix: str
    digest: str  # SHA-256 of the whole token
    name: str
    role: Role
    payloads: bool | None = None
    expires_at: datetime | None = None
    is_revoked: bool = False


_LINE = msgspec.json.Decoder(Token)


def make_token(
    name: str,
    role: Role,
    *,
    payloads: bool | None = None,
    lasts: Duration | None = None,
    now: Instant | None = None,
) -> tuple[str, Token]:
    """A new token, as its holder needs it and as it is kept. The first of them can never be had again."""
    if not name.strip() or len(name) > 60 or not name.isprintable():
        raise InvalidOptionError(f"token name {name[:60]!r} is not usable", fix="1 to 60 printable characters")
    began = SystemClock().now() if now is None else now
    expires_at = None if lasts is None else to_datetime(Instant(began + span(lasts, what="lasts")))
    prefix, secret = random_bytes(_PREFIX_BYTES).hex(), base64.urlsafe_b64encode(random_bytes(_SECRET_BYTES))
    text = f"{SCHEME}_{prefix}_{secret.decode().rstrip('=')}"
    token = Token(prefix=prefix, digest=_digest(text), name=name, role=role, payloads=payloads, expires_at=expires_at)
    return text, token


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens:
    """Tokens that are known from the beginning."""

    def __init__(self, tokens: Iterable[Token], *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._known = {token.prefix: token for token in tokens}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, text: str) -> Caller | None:
        """Whose token this is; None if it is nobody's, is over, or was taken back."""
        parts = text.split("_", 2)
        is_shaped = len(text) <= TOKEN_MAX and len(parts) == 3 and parts[0] == SCHEME
        found = self._known.get(parts[1]) if is_shaped else None
        # An unknown prefix costs the same comparison as a known one.
        fits = hmac.compare_digest(_digest(text[:TOKEN_MAX]), _NO_DIGEST if found is None else found.digest)
        if found is None or not fits or found.is_revoked:
            return None
        if found.expires_at is not None and to_instant(found.expires_at) <= self._clock.now():
            return None
        return Caller(found.name, found.role, found.payloads)


class TokenFile(Tokens):
    """Tokens in a file, a line of JSON each. A change of the file counts within a second or two."""

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        super().__init__((), clock=clock)
        self._path = path
        self._looked_at = float("-inf")
        self._stamp: tuple[int, int, int] | None = None
        self._refresh()

    def find(self, text: str) -> Caller | None:
        """Whose token this is, as the file says now."""
        self._refresh()
        return super().find(text)

    def _refresh(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at < _RELOAD_SECONDS:
            return
        self._looked_at = now
        try:
            found = self._path.stat()
        except OSError:
            # A file that is gone takes all its tokens with it.
            self._known, self._stamp = {}, None
            return
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._stamp:
            self._known = {token.prefix: token for token in read_tokens(self._path)}
            self._stamp = stamp


def read_tokens(path: Path) -> list[Token]:
    """The tokens of a file. Raises `InvalidOptionError` for a file that others may write or that is not one of ours."""
    try:
        if os.name == "posix" and path.stat().st_mode & 0o022:
            raise InvalidOptionError(
                f"others may write to the token file {path.name}",
                why="whoever writes it decides who is let in",
                fix=f"chmod 600 {path}",
            )
        return [_LINE.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise InvalidOptionError(
            f"the token file cannot be read: {error.strerror}", where=str(path), fix="stepwell token new NAME"
        ) from None
    except msgspec.MsgspecError as error:
        raise InvalidOptionError(
            f"the token file has a line that is no token: {error}", where=str(path), fix="remove that line"
        ) from None


def write_tokens(path: Path, tokens: Iterable[Token]) -> None:
    """Replace a token file, whole or not at all; only its owner may read it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(msgspec.json.encode(token) + b"\n" for token in tokens)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def revoke(path: Path, name: str) -> int:
    """Take back every token of a name; how many there were."""
    tokens = read_tokens(path)
    hit = [token for token in tokens if token.name == name and not token.is_revoked]
    if not hit:
        raise NotFoundError("token", name, near=sorted({token.name for token in tokens if not token.is_revoked})[:3])
    write_tokens(path, [msgspec.structs.replace(t, is_revoked=True) if t in hit else t for t in tokens])
    return len(hit)
