"""Errors of requests, and of receivers outside."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.advice import Fix
from stepwell.errors.base import StepwellError

# --- requests ------------------------------------------------------------------------------


class RequestError(StepwellError):
    """The request is invalid; nothing was stored."""

    code = "SW400"


class Violation(str):
    """One way in which a value does not fit, in words that may quote the value; `concealed` never does."""

    __slots__ = ("concealed",)
    concealed: str

    def __new__(cls, words: str, concealed: str) -> Violation:
        violation = super().__new__(cls, words)
        violation.concealed = concealed
        return violation


class InvalidInputError(RequestError):
    """A value does not fit its annotated type; `violations` lists every one."""

    code = "SW310"

    def __init__(self, title: str, violations: Iterable[str] = (), *, where: str = "", fix: Fix = "") -> None:
        self.violations = tuple(violations)
        super().__init__(title, where=where, why="; ".join(self.violations), fix=fix)

    def conceal(self) -> InvalidInputError:
        """The same error, without the values."""
        concealed = [one.concealed if isinstance(one, Violation) else one for one in self.violations]
        return InvalidInputError(self.title, filter(None, concealed), where=self.where, fix=self.fix)


class PayloadTooLargeError(RequestError):
    """A payload is above the configured limit."""

    code = "SW302"


class NotFoundError(RequestError):
    """There is no such thing in this store."""

    code = "SW401"

    def __init__(self, kind: str, name: str, *, near: Iterable[str] = (), fix: Fix = "") -> None:
        self.kind, self.name, self.near = kind, name, tuple(near)
        hint = f" Did you mean {' or '.join(repr(n) for n in self.near)}?" if self.near else ""
        super().__init__(f"there is no {kind} {name!r}.{hint}", fix=fix)


class RunEndedError(NotFoundError):
    """The run has ended and takes no further input."""

    code = "SW403"

    def __init__(self, name: str, status: str, *, fix: Fix) -> None:
        super().__init__("active run", name, fix=fix)
        self.title = f"run {name!r} has ended: it is {status}"
        self.status = status


class UnknownWorkflowError(NotFoundError):
    """No workflow of that name is registered here."""

    code = "SW402"


class InvalidMoveError(RequestError):
    """The run is in a status that does not allow this."""

    code = "SW404"


class AlreadyExistsError(RequestError):
    """The run id, or an active run with this key, exists already."""

    code = "SW405"


class InvalidKeyError(RequestError):
    """A key is blank or over 200 characters."""

    code = "SW406"


class FilterError(RequestError):
    """A filter cannot be parsed; `position` is the place of the mistake, counted from 0."""

    code = "SW407"

    def __init__(self, title: str, *, where: str = "", position: int = 0, why: str = "", fix: Fix = "") -> None:
        self.position = position
        super().__init__(title, where=where, why=why, fix=fix)


class RunHeldError(InvalidMoveError):
    """A worker is executing the run, so its record may change at any moment."""

    code = "SW409"


class WrongLoopError(RequestError):
    """An engine was called from another event loop or process than the one in which it was opened."""

    code = "SW411"


class RepairConflictError(RequestError):
    """The run changed again and again between the plan of a repair and the repair."""

    code = "SW410"


class TopicFullError(RequestError):
    """A topic already keeps as many events as it may, and this event would have to be kept too."""

    code = "SW421"


class MailboxFullError(RequestError):
    """As many signals wait to be read as may: by a run, or for the next run of a key. Nothing was stored."""

    code = "SW423"


class UnknownTopicError(RequestError):
    """The value is neither the name of a topic nor a typed event."""

    code = "SW422"


class SignatureError(RequestError):
    """A message is not signed, is signed with another secret, or is too old."""

    code = "SW431"


class HistoryFileError(RequestError):
    """A file is not a history file, or has a format that this release does not know."""

    code = "SW441"


# --- the outside world ---------------------------------------------------------------------


class SinkError(StepwellError):
    """An event could not be delivered: its receiver rejected it, or has an address that webhooks may not reach."""

    code = "SW850"
