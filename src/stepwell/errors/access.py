"""Access: a caller that is unknown, not allowed, too busy, or on another host than it claims."""

from __future__ import annotations

from stepwell.errors.requests import RequestError


class NotAuthenticatedError(RequestError):
    """The caller has not proved who it is."""

    code = "SW800"


class NotAllowedError(RequestError):
    """The caller is known, but not allowed to do this."""

    code = "SW801"


class UntrustedOriginError(RequestError):
    """A request is for another host name, or comes from a web page of another site."""

    code = "SW802"


class TooManyRequestsError(RequestError):
    """The caller exceeds its request rate."""

    code = "SW803"


class KeyReusedError(RequestError):
    """An idempotency key was used before, for another request."""

    code = "SW408"
