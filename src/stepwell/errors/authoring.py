"""Errors that authors fix in their code, errors of code that does not fit its history, and what authors raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.advice import Fix
from stepwell.errors.base import StepwellError

if TYPE_CHECKING:
    from datetime import timedelta


# --- the author changes code ---------------------------------------------------------------


class DefinitionError(StepwellError):
    """The author changes code and redeploys."""

    code = "SW100"


class DuplicateNameError(DefinitionError):
    """Two different workflows have one name and version, or two sinks one name."""

    code = "SW101"


class InvalidNameError(DefinitionError):
    """A workflow, step or branch name cannot be part of a path."""

    code = "SW102"


class InvalidOptionError(DefinitionError):
    """An option has an invalid value, such as a negative duration."""

    code = "SW103"


class OutsideStepError(DefinitionError):
    """A step's context was used where no attempt of that step is running."""

    code = "SW131"


class TransactionError(DefinitionError):
    """A transactional step broke its transaction, for example by committing it; its writes are rolled back."""

    code = "SW132"


class TransactionsUnsupportedError(DefinitionError):
    """The store cannot commit an author's own rows with the record."""

    code = "SW133"


class StreamClosedError(DefinitionError):
    """Something was appended to a stream after its workflow had closed it."""

    code = "SW171"


class UnserialisableError(DefinitionError):
    """A value cannot be stored; the message names the field and its type."""

    code = "SW301"


class UnsupportedTypeError(DefinitionError):
    """An annotation names a type that no codec can read back."""

    code = "SW303"


# --- history and code disagree -------------------------------------------------------------


class BlockedLoopError(DefinitionError):
    """A step or a workflow has blocked the event loop. It is logged with its stack, and never raised."""

    code = "SW140"


class ReplayError(StepwellError):
    """The code breaks a rule or does not fit the history. The run is paused, and its record is kept."""

    code = "SW200"


class DuplicateLocationError(ReplayError):
    """Two operations in one scope share a name that is declared unique."""

    code = "SW104"


class NonDeterministicError(ReplayError):
    """Workflow code used the outside world without an operation."""

    code = "SW121"


class UnawaitedOperationError(ReplayError):
    """An operation was created and never awaited, so it would never run."""

    code = "SW122"


class StuckError(ReplayError):
    """Workflow code awaits something that no operation will ever complete."""

    code = "SW123"


class ReplyOwedError(ReplayError):
    """The code asked for the next message before it answered the last one."""

    code = "SW124"


class ReplyTwiceError(ReplayError):
    """A message was answered a second time."""

    code = "SW125"


class HistoryFullError(ReplayError):
    """The history of a run has more entries than its worker reads."""

    code = "SW126"


class LostChangeError(ReplayError):
    """Code that a replay skips changed a variable or container outside of itself."""

    code = "SW127"


class HistoryDivergedError(ReplayError):
    """This code took another path than the run recorded."""

    code = "SW201"

    def __init__(
        self,
        title: str,
        *,
        where: str = "",
        why: str = "",
        fix: Fix = "",
        recorded: str = "",
        now: str = "",
        kind: str = "",
        asked: str = "",
        raises: bool = False,
    ) -> None:
        """`recorded` and `now` are the two sides in words; they are the `why` if none is given.

        For programs: `kind` is the kind of entry recorded at `where`, `asked` the path of the operation that the code
        asks for or waits at instead, and `raises` tells that the code raises an error before it gets there.
        """
        super().__init__(title, where=where, why=why or f"recorded: {recorded} · now: {now}", fix=fix)
        self.recorded = recorded
        self.now = now
        self.kind = kind
        self.asked = asked
        self.raises = raises


class PoisonError(ReplayError):
    """The run killed or stalled its worker too often without any progress."""

    code = "SW202"


# --- raised by authors ---------------------------------------------------------------------


class Fatal(Exception):  # noqa: N818
    """Raise in a step body: this failure is final, do not retry."""


class RetryAfter(Exception):  # noqa: N818
    """Raise in a step body: try again after `delay` (a duration such as "30s")."""

    def __init__(self, delay: str | float | timedelta, message: str = "") -> None:
        super().__init__(message or f"retry after {delay}")
        self.delay = delay


class Rollback(Exception):  # noqa: N818
    """Raise in a workflow or step: roll back, down to checkpoint `to` if given."""

    def __init__(self, reason: str = "rollback", *, to: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.to = to


class Failure(Exception):  # noqa: N818
    """Raise in a workflow or step: a planned business failure, never retried by a policy. Its reason is kept
    verbatim, except for known secrets.
    """

    def __init__(self, reason: str, data: Any = None) -> None:
        if not reason.strip():
            raise InvalidOptionError("a failure needs a reason", fix='raise Failure("out of stock", {...})')
        super().__init__(reason)
        self.reason = reason
        self.data = data
