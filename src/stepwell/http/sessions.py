"""Sessions: who has signed in with a token is recognised by a cookie, which no script and no other site can read.

A cookie has the public prefix of its token, a number of its own, its end, and a code over them with the digest of the
token as the key. The store has a row for each session. So nobody can make a session from a leaked token file alone, or
from a leaked store alone; all servers of a store know the same sessions; and a session ends with its token.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from stepwell.clock import SECOND, Clock, Instant, to_instant
from stepwell.engine.ledger import Ledger
from stepwell.http.access import BearerAccess, has_bearer, values_of
from stepwell.http.roles import Caller
from stepwell.http.tokens import Token, Tokens, caller_of
from stepwell.ids import random_bytes
from stepwell.model.ledger import Reservation

COOKIE: Final = "stepwell_session"
LASTS_SECONDS: Final = 12 * 3_600
_SCOPE: Final = "session"
_OPEN, _ENDED = "open", "ended"
_COOKIE_MAX: Final = 300
_KNOWN_MAX: Final = 10_000
_FRESH_SECONDS: Final = 3.0  # a session that another server has ended is refused after this time


class Session(NamedTuple):
    """A session whose cookie is genuine and not over."""

    caller: Caller
    number: str
    ends_at: Instant


class Sessions:
    """The sessions of one store, begun with tokens."""

    def __init__(self, tokens: Tokens, ledger: Callable[[], Ledger], now: Callable[[], Instant], clock: Clock) -> None:
        self._tokens = tokens
        self._ledger = ledger
        self._now = now  # the store's time
        self._clock = clock
        self._known: OrderedDict[str, tuple[bool, float]] = OrderedDict()  # number → whether it is open, and since when

    async def begin(self, text: str) -> tuple[Session, str] | None:
        """A new session for this token, and the value of its cookie; None if the token is not valid."""
        token = self._tokens.find_token(text)
        if token is None:
            return None
        ends_at = Instant(self._clock.now() + LASTS_SECONDS * SECOND)
        if token.expires_at is not None:
            ends_at = min(ends_at, to_instant(token.expires_at))
        number = random_bytes(16).hex()
        await self._reserve(number, ends_at, _OPEN)
        self._learn(number, is_open=True)
        value = f"{token.prefix}.{number}.{ends_at}"
        return Session(caller_of(token), number, ends_at), f"{value}.{_code(token, value)}"

    async def refresh(self, scope: Mapping[str, Any]) -> None:
        """Ask the store about the session of a request, unless it was asked a moment ago."""
        found = self._read(scope)
        if found is None:
            return
        _, asked_at = self._known.get(found.number, (False, None))
        if asked_at is None or self._clock.monotonic() - asked_at > _FRESH_SECONDS:
            # The row is there, unless the code was made with a leaked digest: then it becomes a session that has ended.
            answer = await self._reserve(found.number, found.ends_at, _ENDED)
            self._learn(found.number, is_open=answer == _OPEN)

    def find(self, scope: Mapping[str, Any]) -> Session | None:
        """The session of a request, as far as `refresh` knows; None if it has none, or if it has ended."""
        found = self._read(scope)
        return found if found is not None and self._known.get(found.number, (False, 0.0))[0] else None

    async def end(self, session: Session) -> None:
        """End a session. Repeating it is harmless."""
        self._learn(session.number, is_open=False)
        await self._ledger().settle(_SCOPE, session.number, _ENDED)

    def _reserve(self, number: str, ends_at: Instant, answer: str) -> Awaitable[str]:
        left = ends_at - self._clock.now()
        kept_until = Instant(self._now() + max(left, 0) + SECOND)
        return self._ledger().reserve(Reservation(_SCOPE, number, "", answer, kept_until))

    def _learn(self, number: str, *, is_open: bool) -> None:
        self._known.pop(number, None)
        self._known[number] = (is_open, self._clock.monotonic())
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def _read(self, scope: Mapping[str, Any]) -> Session | None:
        for value in cookies_of(scope):
            text, _, code = value.rpartition(".")
            parts = text.split(".")
            if len(value) > _COOKIE_MAX or len(parts) != 3 or not parts[2].isdigit():
                continue
            prefix, number, end = parts
            token = self._tokens.find_prefix(prefix)
            if token is None or not hmac.compare_digest(_code(token, text), code):
                continue
            if Instant(int(end)) > self._clock.now():
                return Session(caller_of(token), number, Instant(int(end)))
        return None


class TokenAccess:
    """Authenticates callers by the token in the `Authorization` header, or else by the cookie of their session."""

    def __init__(self, tokens: Tokens, sessions: Sessions) -> None:
        self._bearer = BearerAccess(tokens)
        self._sessions = sessions

    def identify(self, scope: Mapping[str, Any]) -> Caller | None:
        """The caller whose token or session it is. A request with a token has no session."""
        if values_of(scope["headers"], b"authorization"):
            return self._bearer.identify(scope)
        session = self._sessions.find(scope)
        return None if session is None else session.caller


def cookies_of(scope: Mapping[str, Any]) -> list[str]:
    """The cookies of sessions that a request has. One with a token in its header has none."""
    if has_bearer(scope):
        return []
    found = []
    for header in values_of(scope["headers"], b"cookie"):
        for part in header.decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE and value.isascii():
                found.append(value)
    return found


def write_cookie(value: str, *, seconds: int, is_secure: bool) -> str:
    """The header that sets the cookie, or removes it if `seconds` is 0.

    It has no path: the browser then takes the folder of the address that it asked, below which all requests of the API
    are. A proxy may put the server below a path that the server does not know.
    """
    end = "; Secure" if is_secure else ""
    return f"{COOKIE}={value}; Max-Age={seconds}; HttpOnly; SameSite=Strict{end}"


def _code(token: Token, text: str) -> str:
    return hmac.new(token.digest.encode(), f"session {text}".encode(), hashlib.sha256).hexdigest()
