"""Who asks, and may this request be looked at at all: hosts, web pages of other sites, tokens, and how often."""

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

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_OWN_SITE = (b"same-origin", b"none")


class Authenticator(Protocol):
    """Says who asks. Own ones are for client certificates, signed JSON tokens, or whatever a company has."""

    def identify(self, scope: Mapping[str, Any]) -> Caller | None:
        """The caller of an ASGI request; None if it has not proved who it is. Never raises for what a caller sends."""
        ...


class BearerAccess:
    """Callers prove who they are by a token in the `Authorization` header."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def identify(self, scope: Mapping[str, Any]) -> Caller | None:
        """Whose token it is."""
        given = values_of(scope["headers"], b"authorization")
        if len(given) != 1:
            return None
        scheme, _, text = given[0].decode("latin-1").partition(" ")
        return self._tokens.find(text.strip()) if scheme.lower() == "bearer" else None


class LoopbackAccess:
    """Lets in every program on this machine: for development, on a loopback address.

    A request that carries a header of a proxy (`Forwarded`, `X-Forwarded-For`, `X-Forwarded-Host`, `X-Real-IP`, `Via`)
    is refused. A proxy on this machine that adds none of them cannot be told from a local program: put no proxy in
    front of this, use tokens.
    """

    def __init__(self, role: Role = Role.ADMIN) -> None:
        self._caller = Caller("local", role)

    def identify(self, scope: Mapping[str, Any]) -> Caller | None:
        """The one local caller, if both ends of the connection are here."""
        if any(values_of(scope["headers"], name) for name in _FORWARDED):
            return None
        ends = (scope.get("client"), scope.get("server"))
        return self._caller if all(end is not None and is_loopback(str(end[0])) for end in ends) else None


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own and nobody else's."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def values_of(headers: Headers, name: bytes) -> list[bytes]:
    """Every value of a header."""
    return [value for key, value in headers if key == name]


class AccessControl:
    """Lets a request in or raises. Knows nothing of routes but the permission that one asks for."""

    def __init__(
        self, authenticator: Authenticator, hosts: Iterable[str], clock: Clock, *, rate: float, burst: int
    ) -> None:
        self._authenticator = authenticator
        self._hosts = frozenset(_plain_host(host) for host in hosts)
        if not self._hosts or "*" in self._hosts:
            raise InvalidOptionError(
                "the host names are not said one by one",
                why="a web page could point its own name at this server and read the answers in a browser",
                fix='hosts=["api.example.com"], every name under which the server is reached',
            )
        self._is_bearer = not isinstance(authenticator, LoopbackAccess)
        self._rate, self._burst = rate, burst
        self._buckets = Buckets(clock, rate, burst)

    def check_host(self, scope: Mapping[str, Any]) -> None:
        """Raise `UntrustedOriginError` unless the request is for one of the names that are ours."""
        given = values_of(scope["headers"], b"host")
        if len(given) != 1 or _plain_host(given[0].decode("latin-1")) not in self._hosts:
            raise UntrustedOriginError(
                "this server is not reached under that name",
                why="the Host header is missing, double, or not one of the allowed names",
                fix="use one of the names that the server was started with, or start it with --allow-host NAME",
            )

    def check_page(self, scope: Mapping[str, Any]) -> None:
        """Raise if a web page of another site made the request, and a browser could do so without any secret."""
        if self._is_bearer:
            return
        sites, origins = values_of(scope["headers"], b"sec-fetch-site"), values_of(scope["headers"], b"origin")
        host = values_of(scope["headers"], b"host")[0]
        if any(site not in _OWN_SITE for site in sites) or any(o.partition(b"://")[2] != host for o in origins):
            raise UntrustedOriginError(
                "a web page of another site made this request",
                why="without tokens, any page in a browser on this machine could steer your runs",
                fix="call the API from a program, or start the server with tokens",
            )

    def confirm(self, scope: Mapping[str, Any], caller: Caller) -> None:
        """Raise `NotAuthenticatedError` unless the request still proves the same caller with the same rights."""
        if self.identify(scope) != caller:
            raise NotAuthenticatedError("the rights of this token were changed", fix="ask again")

    def count(self, caller: Caller) -> None:
        """Count a request. Raises `Refused` if there have been too many of this caller."""
        seconds = self._buckets.take(caller.name)
        if seconds:
            why = f"at most {self._rate:g} a second are answered, {self._burst} at once"
            raise too_many("too many requests", seconds, where=f"token {caller.name}", why=why)

    def identify(self, scope: Mapping[str, Any]) -> Caller:
        """Who asks. Raises `NotAuthenticatedError`, whatever is wrong."""
        try:
            caller = self._authenticator.identify(scope)
        except Exception as error:
            LOG.error("the authenticator failed, so a caller was refused: %s", type(error).__name__, exc_info=error)
            caller = None
        if caller is None:
            raise NotAuthenticatedError(
                "this needs a token",
                why="the request has none, or one that is unknown, over or taken back",
                fix="send `Authorization: Bearer TOKEN`; an admin makes tokens with `stepwell token new NAME`",
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
