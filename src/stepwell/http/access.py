"""Access control: host names, web pages of other sites, tokens, and request rates."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from stepwell.clock import Clock
from stepwell.errors import (
    InvalidOptionError,
    NotAllowedError,
    NotAuthenticatedError,
    UntrustedOriginError,
)
from stepwell.http.refusals import Buckets, too_many
from stepwell.http.roles import Caller, Permission, Role
from stepwell.http.tokens import Tokens

LOG = logging.getLogger("stepwell.http")

Headers = list[tuple[bytes, bytes]]

PAGE_HEADER = b"x-stepwell-page"
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_OWN_SITE = (b"same-origin", b"none")


class Authenticator(Protocol):
    """Identifies the caller. Write your own for client certificates, signed JSON tokens, or another scheme."""

    def identify(self, scope: Mapping[str, Any]) -> Caller | None:
        """The caller of an ASGI request; None if it is not authenticated. Never raises for what a caller sends."""
        ...


class BearerAccess:
    """Authenticates callers by a token in the `Authorization` header."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def identify(self, scope: Mapping[str, Any]) -> Caller | None:
        """The caller whose token it is."""
        given = values_of(scope["headers"], b"authorization")
        if len(given) != 1:
            return None
        scheme, _, text = given[0].decode("latin-1").partition(" ")
        return self._tokens.find(text.strip()) if scheme.lower() == "bearer" else None


class LoopbackAccess:
    """Admits every program on this machine: for development, on a loopback address.

    A request that carries a header of a proxy (`Forwarded`, `X-Forwarded-For`, `X-Forwarded-Host`, `X-Real-IP`, `Via`)
    is refused. A proxy on this machine that adds none of them looks like a local program: behind a proxy, use
    tokens.
    """

    def __init__(self, role: Role = Role.ADMIN) -> None:
        self._caller = Caller("local", role)

    def identify(self, scope: Mapping[str, Any]) -> Caller | None:
        """The local caller, if both ends of the connection are on this machine."""
        if any(values_of(scope["headers"], name) for name in _FORWARDED):
            return None
        ends = (scope.get("client"), scope.get("server"))
        return self._caller if all(end is not None and is_loopback(str(end[0])) for end in ends) else None


def is_loopback(host: str) -> bool:
    """Whether an address or name belongs to this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def values_of(headers: Headers, name: bytes) -> list[bytes]:
    """Every value of a header."""
    return [value for key, value in headers if key == name]


def has_bearer(scope: Mapping[str, Any]) -> bool:
    """Whether a request has a token in its header, which no browser adds by itself."""
    return any(value[:7].lower() == b"bearer " for value in values_of(scope["headers"], b"authorization"))


def _is_own_page(scope: Mapping[str, Any]) -> bool:
    """Whether no header says that a page of another site made the request."""
    headers = scope["headers"]
    sites, origins = values_of(headers, b"sec-fetch-site"), values_of(headers, b"origin")
    host = values_of(headers, b"host")[0]
    return all(site in _OWN_SITE for site in sites) and all(o.partition(b"://")[2] == host for o in origins)


class AccessControl:
    """Admits a request or raises. It knows nothing of routes but their permissions."""

    def __init__(
        self,
        authenticator: Authenticator,
        hosts: Iterable[str],
        clock: Clock,
        *,
        rate: float,
        burst: int,
        takes_tokens: bool,
    ) -> None:
        self._authenticator = authenticator
        self._takes_tokens = takes_tokens
        self._hosts = frozenset(_plain_host(host) for host in hosts)
        if not self._hosts or "*" in self._hosts:
            raise InvalidOptionError(
                "the host names are not listed one by one",
                why="a web page could point its own name at this server and read the answers in a browser",
                fix='hosts=["api.example.com"], with every name of the server',
            )
        self._rate, self._burst = rate, burst
        self._buckets = Buckets(clock, rate, burst)

    def check_host(self, scope: Mapping[str, Any]) -> None:
        """Raise `UntrustedOriginError` unless the request is for one of the allowed host names."""
        given = values_of(scope["headers"], b"host")
        if len(given) != 1 or _plain_host(given[0].decode("latin-1")) not in self._hosts:
            raise UntrustedOriginError(
                "this server does not answer to that host name",
                why="the Host header is missing, repeated, or not an allowed name",
                fix="use a host name that the server was started with, or start it with --allow-host NAME",
            )

    def check_page(self, scope: Mapping[str, Any], *, has_session: bool) -> None:
        """Raise if a web page of another site made the request, unless a browser would need a secret for it."""
        is_secret_needed = self._takes_tokens and not has_session
        if not is_secret_needed and not _is_own_page(scope):
            raise UntrustedOriginError(
                "a web page of another site made this request",
                why="a browser may add what identifies its user, so any page could steer your runs",
                fix="call the API from a program, or from a page of this server",
            )

    def check_form(self, scope: Mapping[str, Any]) -> None:
        """Raise unless a page of this server made the request. Pages of other sites cannot send its header."""
        headers = scope["headers"]
        says_where = values_of(headers, b"sec-fetch-site") or values_of(headers, b"origin")
        if not (_is_own_page(scope) and says_where and values_of(headers, PAGE_HEADER) == [b"1"]):
            raise UntrustedOriginError(
                "this request did not come from a page of this server",
                why="a session is only for the pages of the dashboard",
                fix="call the API with `Authorization: Bearer TOKEN`",
            )

    def confirm(self, scope: Mapping[str, Any], caller: Caller) -> None:
        """Raise `NotAuthenticatedError` unless the token still belongs to the same caller with the same rights."""
        if self.identify(scope) != caller:
            raise NotAuthenticatedError("the rights of this token were changed", fix="ask again")

    def count(self, caller: Caller) -> None:
        """Count a request. Raises `Refused` if this caller has made too many."""
        seconds = self._buckets.take(caller.name)
        if seconds:
            why = f"at most {self._rate:g} a second are answered, {self._burst} at once"
            raise too_many("too many requests", seconds, where=f"token {caller.name}", why=why)

    def identify(self, scope: Mapping[str, Any]) -> Caller:
        """The caller. Raises `NotAuthenticatedError`, whatever is wrong."""
        try:
            caller = self._authenticator.identify(scope)
        except Exception as error:
            LOG.error("the authenticator failed, so a caller was refused: %s", type(error).__name__, exc_info=error)
            caller = None
        if caller is None:
            raise NotAuthenticatedError(
                "this needs a token",
                why="the request has no token, or its token is unknown, expired or revoked",
                fix="send `Authorization: Bearer TOKEN`; an admin creates tokens with `stepwell token new NAME`",
            )
        return caller

    def admit(self, caller: Caller, permission: Permission) -> None:
        """Raise `NotAllowedError` unless the caller's role has the permission."""
        if not caller.may(permission):
            raise NotAllowedError(
                f"a {caller.role.value} may not do this",
                where=f"token {caller.name}",
                why=f"it takes the permission {permission.value!r}",
                fix="ask with a token of a higher role",
            )


def _plain_host(host: str) -> str:
    """A Host header without its port, in lower case."""
    name = host.strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0] if name.count(":") == 1 else name
