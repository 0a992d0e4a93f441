"""The caller asked wrongly, or the outside world did not take what it was given."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.advice import Fix
from stepwell.errors.base import StepwellError

# --- the caller asked wrongly --------------------------------------------------------------


class RequestError(StepwellError):
    """The caller asked wrongly; nothing was stored."""

    code = "SW400"


class InvalidInputError(RequestError):
    """A value does not fit its annotated type; `violations` lists every one."""

    code = "SW310"

    def __init__(self, title: str, violations: Iterable[str] = (), *, where: str = "", fix: Fix = "") -> None:
        self.violations = tuple(violations)
        super().__init__(title, where=where, why="; ".join(self.violations), fix=fix)


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
    """The run is there, and has ended: it takes nothing any more."""

    code = "SW403"

    def __init__(self, name: str, status: str, *, fix: Fix) -> None:
        super().__init__("active run", name, fix=fix)
        self.title = f"run {name!r} has ended: it is {status}"
        self.status = status


class UnknownWorkflowError(NotFoundError):
    """No workflow of that name is registered here."""

    code = "SW402"


class InvalidMoveError(RequestError):
    """The run is in a state from which this is not possible."""

    code = "SW404"


class AlreadyExistsError(RequestError):
    """The run id, or an active run with this key, exists already."""

    code = "SW405"


class InvalidKeyError(RequestError):
    """A key is blank or over 200 characters."""

    code = "SW406"


class FilterError(RequestError):
    """A filter cannot be understood; `position` is where, counted from 0."""

    code = "SW407"

    def __init__(self, title: str, *, where: str = "", position: int = 0, why: str = "", fix: Fix = "") -> None:
        self.position = position
        super().__init__(title, where=where, why=why, fix=fix)


class RunHeldError(InvalidMoveError):
    """A worker holds the run, and what is recorded of it changes under its hands."""

    code = "SW409"


class WrongLoopError(RequestError):
    """An engine was called from another event loop or process than the one that it was opened in."""

    code = "SW411"


class RepairConflictError(RequestError):
    """The run changed each time between the plan of a repair and the repair."""

    code = "SW410"


class TopicFullError(RequestError):
    """A topic keeps as many events as it may, and this one would have to be kept too."""

    code = "SW421"


class UnknownTopicError(RequestError):
    """Something that is neither a topic's name nor a typed event."""

    code = "SW422"


class SignatureError(RequestError):
    """A message is not signed, or not by who it should be from, or not recently."""

    code = "SW431"


class HistoryFileError(RequestError):
    """A file is no history file, or one of a format that this release does not know."""

    code = "SW441"


# --- the outside world ---------------------------------------------------------------------


class SinkError(StepwellError):
    """An event could not be handed over: its receiver refused it, or is where no webhook may go."""

    code = "SW850"
