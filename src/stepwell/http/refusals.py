"""Refused requests: each is logged at a bounded rate, and an address that fails often must wait."""

from __future__ import annotations

import ipaddress
import logging
import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from stepwell.clock import Clock
from stepwell.errors import NotAuthenticatedError, SignatureError, TooManyRequestsError
from stepwell.http.limits import Limits
from stepwell.http.problems import Problem, Refused

LOG = logging.getLogger("stepwell.http.refused")

REFUSALS: Final = frozenset({401, 403, 421, 429})
NAMES_MAX: Final = 10_000
_LINES_AT_ONCE: Final = 60
_LINES_A_SECOND: Final = 1.0
_V6_PREFIX: Final = 64  # the smallest network of one customer


class Buckets:
    """A token bucket for each name. The names used last are kept."""

    def __init__(self, clock: Clock, rate: float, burst: int, *, names_max: int = NAMES_MAX) -> None:
        self._clock, self._rate, self._burst, self._names_max = clock, rate, burst, names_max
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: str) -> float:
        """Take one token. Returns 0, or the seconds until there is one."""
        now = self._clock.monotonic()
        left, at = self._left.pop(name, (float(self._burst), now))
        left = min(float(self._burst), left + max(0.0, now - at) * self._rate)
        is_there = left >= 1
        self._left[name] = (left - 1 if is_there else left, now)
        while len(self._left) > self._names_max:
            self._left.popitem(last=False)
        return 0.0 if is_there else (1 - left) / self._rate


def too_many(title: str, seconds: float, *, where: str = "", why: str = "") -> Refused:
    """The answer to a caller that must wait so long."""
    wait = max(1, math.ceil(seconds))
    error = TooManyRequestsError(title, where=where, why=why, fix=f"wait {wait} s, and send fewer requests")
    return Refused(429, error, {"retry-after": str(wait)})


class Refusals:
    """Logs refused requests, and limits addresses that fail to authenticate."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._failures = Buckets(clock, limits.failure_rate, limits.failure_burst)
        self._lines = Buckets(clock, _LINES_A_SECOND, _LINES_AT_ONCE)
        self._unsaid = 0

    def judge(self, scope: Mapping[str, Any], error: Exception) -> Exception:
        """The error to answer with. An address that fails to authenticate too often gets 429.

        An authenticated caller is never limited by other callers at its address, for example behind one proxy.
        """
        if not isinstance(error, NotAuthenticatedError | SignatureError):
            return error
        seconds = self._failures.take(address_of(scope))
        return too_many("too many failed attempts", seconds, why="from this address") if seconds else error

    def note(self, scope: Mapping[str, Any], problem: Problem, operation: str, who: str) -> None:
        """Log a refused request, without its path, headers and body, which may hold secrets."""
        if self._lines.take(""):
            self._unsaid += 1
            return
        unsaid, self._unsaid = self._unsaid, 0
        LOG.warning(
            "refused %d %s: %s by %s from %s, request %s%s",
            problem.status,
            problem.code,
            operation or "no operation",
            who or "an unknown caller",
            address_of(scope),
            problem.request_id,
            f"; {unsaid} earlier ones were not logged" if unsaid else "",
        )


def address_of(scope: Mapping[str, Any]) -> str:
    """The address of a request; for IPv6, its network."""
    client = scope.get("client")
    text = str(client[0]) if client else "unknown"
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text[:60] if text.isprintable() else "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _V6_PREFIX), strict=False))
    return str(address)
