"""Tokens: random, shown once, stored as a hash, looked up by a public prefix and compared in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
_TRIES_MAX: Final = 8  # names for a temporary file

LOG = logging.getLogger("stepwell.http")


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is stored of a token: never the token itself. An unknown field is an error."""

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
    """A new token: its text, which cannot be recovered later, and what is stored of it."""
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


def caller_of(token: Token) -> Caller:
    """Whoever holds this token."""
    return Caller(token.name, token.role, token.payloads)


class Tokens:
    """A fixed set of tokens."""

    def __init__(self, tokens: Iterable[Token], *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._known = {token.prefix: token for token in tokens}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, text: str) -> Caller | None:
        """The caller with this token; None if the token is unknown, expired or revoked."""
        token = self.find_token(text)
        return None if token is None else caller_of(token)

    def find_token(self, text: str) -> Token | None:
        """What is stored of this token; None if the token is unknown, expired or revoked."""
        parts = text.split("_", 2)
        is_shaped = len(text) <= TOKEN_MAX and len(parts) == 3 and parts[0] == SCHEME
        found = self.find_prefix(parts[1]) if is_shaped else None
        # An unknown prefix costs the same comparison as a known one.
        fits = hmac.compare_digest(_digest(text[:TOKEN_MAX]), _NO_DIGEST if found is None else found.digest)
        return found if fits else None

    def find_prefix(self, prefix: str) -> Token | None:
        """What is stored of the token with this prefix; None if there is none, or if it is expired or revoked."""
        found = self._known.get(prefix)
        if found is None or found.is_revoked:
            return None
        is_over = found.expires_at is not None and to_instant(found.expires_at) <= self._clock.now()
        return None if is_over else found


class TokenFile(Tokens):
    """Tokens in a file, one line of JSON each. Each request is checked against the current file.

    A file that is missing, that others may write to, or that has a bad line admits no token until it is fixed.
    The cause is logged once for each change of the file, and never sent to callers. The constructor raises
    `InvalidOptionError` for a bad file.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        super().__init__((), clock=clock)
        self._path = path
        self._stamp: tuple[int, ...] | None = None
        found = _stamp(path)
        if found is not None:
            self._known = _by_prefix(read_tokens(path))
            self._stamp = found

    def find_prefix(self, prefix: str) -> Token | None:
        """What the current file has of the token with this prefix."""
        self._refresh()
        return super().find_prefix(prefix)

    def _refresh(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        # First admit no token: if reading fails in any way, it stays like that.
        was, self._known, self._stamp = self._stamp, {}, stamp
        if stamp is None:
            LOG.error("the token file %s is missing: all its tokens are refused", self._path)
            return
        try:
            self._known = _by_prefix(read_tokens(self._path))
        except InvalidOptionError as error:
            LOG.error("all tokens are refused until the token file is fixed: %s", error)
            return
        if was is None:
            LOG.warning("the token file %s is there again", self._path)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """A value that changes whenever the file does; None if the file cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev, found.st_mode


def _by_prefix(tokens: Iterable[Token]) -> dict[str, Token]:
    return {token.prefix: token for token in tokens}


def read_tokens(path: Path) -> list[Token]:
    """The tokens of a file. Raises `InvalidOptionError` if others may write to it, or if it is invalid."""
    try:
        with path.open("rb") as file:
            # Of the open file: its name may refer to another file a moment later.
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o022:
                raise InvalidOptionError(
                    f"others may write to the token file {path.name}",
                    where=str(path),
                    why="everyone who can write it decides who gets in",
                    fix=f"chmod 600 {path}",
                )
            lines = file.read().splitlines()
    except OSError as error:
        raise InvalidOptionError(
            f"the token file cannot be read: {error.strerror}", where=str(path), fix="stepwell token new NAME"
        ) from None
    tokens: dict[str, Token] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            token = _read_line(line, f"{path}, line {number}")
            if token.prefix in tokens:
                raise InvalidOptionError(
                    "the token file has a token twice",
                    where=f"{path}, line {number}",
                    why="one of the two lines may revoke it",
                    fix="remove one of the lines",
                )
            tokens[token.prefix] = token
    return list(tokens.values())


def _read_line(line: bytes, where: str) -> Token:
    try:
        return _LINE.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidOptionError(
            f"the token file has a line that is not a token: {error}", where=where, fix="remove that line"
        ) from None


def write_tokens(path: Path, tokens: Iterable[Token]) -> None:
    """Replace a token file atomically; only its owner may read it. Raises `InvalidOptionError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = _open_beside(path)
    except OSError as error:
        raise _not_written(path, error) from None
    name, descriptor = beside
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(msgspec.json.encode(token) + b"\n" for token in tokens)
            file.flush()
            os.fsync(file.fileno())
        name.replace(path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _not_written(path: Path, error: OSError) -> InvalidOptionError:
    return InvalidOptionError(
        f"the token file cannot be written: {error.strerror}", where=str(path), fix="name another: --tokens FILE"
    )


def _open_beside(path: Path) -> tuple[Path, int]:
    """A new file in the same folder. An existing file or link there is never used."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    for attempt in range(_TRIES_MAX):
        name = path.with_name(f".{path.name}.{random_bytes(8).hex()}")
        try:
            descriptor = os.open(name, flags, 0o600)
        except FileExistsError:
            if attempt == _TRIES_MAX - 1:
                raise
        else:
            if os.name == "posix":
                os.fchmod(descriptor, 0o600)  # whatever the umask is
            return name, descriptor
    raise AssertionError("unreachable")


def add_token(path: Path, token: Token) -> None:
    """Add a token to a file, which is created if it is missing. Raises `InvalidOptionError`."""
    with _changing(path):
        write_tokens(path, [*(read_tokens(path) if path.exists() else ()), token])


def revoke(path: Path, name: str) -> int:
    """Revoke every token of a name; returns how many there were. Raises `NotFoundError` if there is none."""
    with _changing(path):
        tokens = read_tokens(path)
        hit = [token for token in tokens if token.name == name and not token.is_revoked]
        if not hit:
            live = {token.name for token in tokens if not token.is_revoked}
            raise NotFoundError("token", name, near=sorted(live)[:3])
        write_tokens(path, [msgspec.structs.replace(t, is_revoked=True) if t in hit else t for t in tokens])
        return len(hit)


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Allow one change of a file at a time. Two concurrent changes would lose one of them, such as the revocation of a
    token.
    """
    try:
        import fcntl
    except ImportError:  # not a POSIX system: there is no such lock
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The lock is on the folder: each change replaces the file.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _not_written(path, error) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
