"""Who asks: a caller that is not known, not allowed, too busy, or not where it says it is."""

from __future__ import annotations

from stepwell.errors.requests import RequestError


class NotAuthenticatedError(RequestError):
    """The caller has not proved who it is."""

    code = "SW800"


class NotAllowedError(RequestError):
    """The caller is known, and may not do this."""

    code = "SW801"


class UntrustedOriginError(RequestError):
    """A request is for another host name, or a web page of another site made it."""

    code = "SW802"


class TooManyRequestsError(RequestError):
    """The caller asks more often than it may."""

    code = "SW803"


class KeyReusedError(RequestError):
    """An idempotency key was used before, for another request."""

    code = "SW408"
