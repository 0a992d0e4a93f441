"""Errors as `application/problem+json`: a status, our code, where, why and fix; never a stack or a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from stepwell import errors
from stepwell.http.advice import AdviceBody, advice_bodies
from stepwell.redaction import redact

MEDIA: Final = "application/problem+json"
BUG: Final = "SW999"


class Problem(msgspec.Struct, kw_only=True):
    """What went wrong, and what to do about it."""

    type: str
    title: str
    status: int
    code: str
    where: str = ""
    why: str = ""
    fix: str = ""
    advice: list[AdviceBody] = []
    violations: list[str] = []
    request_id: str = ""


class Refused(Exception):  # noqa: N818  it carries an error with its HTTP status
    """An error with an HTTP status of its own."""

    def __init__(self, status: int, error: errors.StepwellError, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(str(error))
        self.status, self.error, self.headers = status, error, dict(headers or {})


# The first matching group decides.
_STATUSES: tuple[tuple[type[errors.StepwellError], int], ...] = (
    (errors.NotAuthenticatedError, 401),
    (errors.SignatureError, 401),
    (errors.NotAllowedError, 403),
    (errors.UntrustedOriginError, 421),
    (errors.TooManyRequestsError, 429),
    (errors.RunEndedError, 409),
    (errors.NotFoundError, 404),
    (errors.InvalidMoveError, 409),
    (errors.AlreadyExistsError, 409),
    (errors.TopicFullError, 409),
    (errors.MailboxFullError, 409),
    (errors.KeyReusedError, 409),
    (errors.RepairConflictError, 409),
    (errors.PayloadTooLargeError, 413),
    (errors.InvalidInputError, 422),
    (errors.RequestError, 400),
    (errors.UnserialisableError, 422),
    (errors.DefinitionError, 400),
    (errors.CorruptRecordError, 500),
    (errors.StoreError, 503),
    (errors.RunError, 409),
    (errors.ReplayError, 409),
)
_HEADERS: Final = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "1"}, 503: {"retry-after": "1"}}


def readable(error: Exception) -> Exception:
    """The error, or a `CorruptRecordError` if stored bytes could not be decoded."""
    return errors.CorruptRecordError("a stored value cannot be read") if isinstance(error, _UNREADABLE) else error


# Errors of decoding: the stored bytes are not JSON, not text, or do not fit the model.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError)


def describe(error: Exception, request_id: str) -> tuple[Problem, dict[str, str]]:
    """The answer to an error, and its headers."""
    status, headers, known = _known(error)
    if known is None:
        return _bug(request_id), {}
    is_ours = status < 500
    problem = Problem(
        type=f"urn:stepwell:error:{known.code}",
        title=_safe(known.title if is_ours else _PLAIN.get(status, "the store cannot answer")),
        status=status,
        code=known.code,
        where=_safe(known.where) if is_ours else "",
        why=_safe(known.why) if is_ours else "",
        fix=_safe(known.fix_in_requests)
        if is_ours
        else "try again; the server's log has the cause under this request id",
        advice=advice_bodies(known.advice) if is_ours else [],
        violations=[_safe(each) for each in getattr(known, "violations", ())],
        request_id=request_id,
    )
    return problem, {**_HEADERS.get(status, {}), **headers}


_LOGGED: Final = "try again; the server's log has the cause under this request id"
# The message of a store names files, hosts and statements: it goes to the log, not to callers.
_PLAIN: Final = {500: "a stored value cannot be read", 503: "the store does not answer"}


def _known(error: Exception) -> tuple[int, dict[str, str], errors.StepwellError | None]:
    if isinstance(error, Refused):
        return error.status, error.headers, error.error
    if isinstance(error, errors.StepwellError):
        return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500), {}, error
    return 500, {}, None


def _bug(request_id: str) -> Problem:
    return Problem(
        type=f"urn:stepwell:error:{BUG}",
        title="Something is wrong in stepwell itself",
        status=500,
        code=BUG,
        why="this is a bug of stepwell; whether the request took effect is not known",
        fix="please report the lines with this request id in the server's log",
        request_id=request_id,
    )


def _safe(text: str) -> str:
    """The text without known secrets, and encodable as UTF-8."""
    return redact(text).encode("utf-8", "backslashreplace").decode("utf-8")
