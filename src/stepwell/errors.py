"""Every exception of stepwell.

    StepwellError                       has: code, title, where, why, fix
    ├── DefinitionError                 the author changes code and redeploys
    │   ├── DuplicateNameError          SW101
    │   ├── InvalidNameError            SW102
    │   ├── InvalidOptionError          SW103
    │   ├── OutsideStepError            SW131
    │   ├── TransactionError            SW132
    │   ├── TransactionsUnsupportedError SW133
    │   ├── StreamClosedError           SW171
    │   ├── UnserialisableError         SW301
    │   └── UnsupportedTypeError        SW303
    ├── ReplayError                     history and code disagree; the run is paused, nothing was run
    │   ├── DuplicateLocationError      SW104
    │   ├── NonDeterministicError       SW121
    │   ├── UnawaitedOperationError     SW122
    │   ├── StuckError                  SW123
    │   ├── ReplyOwedError              SW124
    │   ├── ReplyTwiceError             SW125
    │   ├── HistoryDivergedError        SW201
    │   └── PoisonError                 SW202
    ├── RunError                        how a run or a part of it ended; an author may catch it
    │   ├── StepFailed                  SW451
    │   ├── JoinError                   SW452
    │   ├── RaceError                   SW453
    │   ├── ChildFailed                 SW454
    │   ├── WaitTimeout                 SW455
    │   ├── RunFailed                   SW456
    │   ├── RunCancelled                SW457
    │   ├── RunPaused                   SW458
    │   ├── RecordedError               SW460
    │   ├── OutcomeUnknown              SW461
    │   ├── AskRefused                  SW462
    │   ├── Unanswered                  SW463
    │   ├── DeadlineExceeded            SW471
    │   ├── WaitedTooLong               SW472
    │   ├── RollbackIncomplete          SW701
    │   ├── CheckpointMissingError      SW702
    │   └── ResultTimeout               SW459
    ├── RequestError                    the caller asked wrongly; nothing was stored
    │   ├── InvalidInputError           SW310
    │   ├── PayloadTooLargeError        SW302
    │   ├── NotFoundError               SW401
    │   │   └── UnknownWorkflowError    SW402
    │   ├── InvalidMoveError            SW404
    │   ├── AlreadyExistsError          SW405
    │   ├── InvalidKeyError             SW406
    │   ├── TopicFullError              SW421
    │   ├── UnknownTopicError           SW422
    │   └── SignatureError              SW431
    ├── SinkError                       SW850  an event could not be handed over; it is tried again
    └── StoreError                      the environment
        ├── StoreUnavailableError       SW601
        │   └── StoreFullError          SW602
        ├── LeaseLostError              SW603
        ├── SchemaMismatchError         SW611
        ├── ForeignFileError            SW612
        ├── StoreNotWritableError       SW613
        └── CorruptRecordError          SW620

Raised *by* authors, never stored as such: `Fatal`, `Failure`, `Rollback`, `RetryAfter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from datetime import timedelta

    from stepwell.model.failures import FailureRecord


class StepwellError(Exception):
    """The root of all errors: a stable code, what happened, where, why and what to do."""

    code: ClassVar[str] = "SW000"

    def __init__(self, title: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.where = where
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        lines = [f"{self.code}  {self.title}"]
        for label, text in (("where", self.where), ("why", self.why), ("fix", self.fix)):
            if text:
                lines.append(f"  {label:<7} {text}")
        return "\n".join(lines)


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
    """An option has a value that can have no meaning, such as a negative duration."""

    code = "SW103"


class OutsideStepError(DefinitionError):
    """A step's context was used where no attempt of that step is running."""

    code = "SW131"


class TransactionError(DefinitionError):
    """A transactional step did what would break its transaction, such as committing it; what it wrote is undone."""

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


class ReplayError(StepwellError):
    """History and code disagree: the run is paused and nothing was run."""

    code = "SW200"


class DuplicateLocationError(ReplayError):
    """Two operations in one scope share a name."""

    code = "SW104"


class NonDeterministicError(ReplayError):
    """Workflow code touched the outside world other than through an operation."""

    code = "SW121"


class UnawaitedOperationError(ReplayError):
    """An operation was created and never awaited, so it would silently not happen."""

    code = "SW122"


class StuckError(ReplayError):
    """Workflow code awaits something that no operation will ever complete."""

    code = "SW123"


class ReplyOwedError(ReplayError):
    """A message that must be answered was not, and the next one was asked for."""

    code = "SW124"


class ReplyTwiceError(ReplayError):
    """A message was answered a second time."""

    code = "SW125"


class HistoryDivergedError(ReplayError):
    """This code took another path than the run recorded."""

    code = "SW201"


class PoisonError(ReplayError):
    """The run killed or stalled its worker too often without any progress."""

    code = "SW202"


# --- how a run or a part of it ended -------------------------------------------------------


class RunError(StepwellError):
    """How a run or a part of it ended; an author may catch it in the workflow."""

    code = "SW450"


class StepFailed(RunError):  # noqa: N818  reads as the author's word in `except`
    """A step failed for good. Carries the original error as text, never as an object."""

    code = "SW451"

    def __init__(self, path: str, failure: FailureRecord, attempts: int) -> None:
        super().__init__(
            f"step {path} failed after {attempts} attempt{'s' if attempts != 1 else ''}: {failure.summary}",
            where=path,
            why=failure.why,
            fix=failure.fix,
        )
        self.path = path
        self.failure = failure
        self.attempts = attempts


class JoinError(RunError):
    """One or more branches of a join failed; `errors` has the failing ones by name."""

    code = "SW452"

    def __init__(self, path: str, errors: Mapping[str, Exception]) -> None:
        super().__init__(f"{len(errors)} of the branches of join {path} failed: {', '.join(errors)}", where=path)
        self.path = path
        self.errors = dict(errors)


class RaceError(RunError):
    """Every branch of a race failed; `errors` has them all by name."""

    code = "SW453"

    def __init__(self, path: str, errors: Mapping[str, Exception]) -> None:
        super().__init__(f"all {len(errors)} branches of race {path} failed: {', '.join(errors)}", where=path)
        self.path = path
        self.errors = dict(errors)


class ChildFailed(RunError):  # noqa: N818
    """A child run did not complete; `status` and `failure` say how it ended."""

    code = "SW454"

    def __init__(self, path: str, run_id: str, status: str, failure: FailureRecord | None) -> None:
        cause = f": {failure.summary}" if failure else ""
        super().__init__(f"child {path} ({run_id}) ended as {status}{cause}", where=path)
        self.path = path
        self.run_id = run_id
        self.status = status
        self.failure = failure


class WaitTimeout(RunError):  # noqa: N818
    """Nothing arrived before the wait's deadline."""

    code = "SW455"

    def __init__(self, path: str) -> None:
        super().__init__(f"nothing arrived at {path} before its deadline", where=path)
        self.path = path


class RunFailed(RunError):  # noqa: N818
    """The awaited run ended as failed or compensated."""

    code = "SW456"

    def __init__(self, run_id: str, status: str, failure: FailureRecord | None) -> None:
        cause = failure.summary if failure else "no cause was recorded"
        super().__init__(
            f"run {run_id} {status}: {cause}",
            where=failure.path if failure else "",
            why=failure.why if failure else "",
            fix=failure.fix if failure else "",
        )
        self.run_id = run_id
        self.status = status
        self.failure = failure


class RunCancelled(RunError):  # noqa: N818
    """The awaited run was cancelled."""

    code = "SW457"

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"run {run_id} was cancelled" + (f": {reason}" if reason else ""))
        self.run_id = run_id
        self.reason = reason


class RunPaused(RunError):  # noqa: N818
    """The awaited run is paused because its code and its history disagree; it will not move by itself."""

    code = "SW458"

    def __init__(self, run_id: str, failure: FailureRecord | None) -> None:
        super().__init__(
            f"run {run_id} is paused: {failure.summary if failure else 'by an operator'}",
            where=failure.path if failure else "",
            why=failure.why if failure else "",
            fix=(failure.fix if failure and failure.fix else f"mend the code, then engine.resume({run_id!r})"),
        )
        self.run_id = run_id
        self.failure = failure


class RecordedError(RunError):
    """An error of workflow code that was recorded and is raised again from its record."""

    code = "SW460"

    def __init__(self, failure: FailureRecord) -> None:
        super().__init__(failure.summary, where=failure.path, why=failure.why, fix=failure.fix)
        self.failure = failure


class OutcomeUnknown(RunError):  # noqa: N818
    """An at-most-once step was started and its worker died: whether it took effect is not known."""

    code = "SW461"


class AskRefused(RunError):  # noqa: N818
    """The run refused what it was asked; the title is its reason."""

    code = "SW462"


class Unanswered(RunError):  # noqa: N818
    """The run that was asked will not reply: it has ended, or stands still until a person acts."""

    code = "SW463"


class DeadlineExceeded(RunError):  # noqa: N818
    """A run had not ended when its deadline came. It is the failure of that run, never raised inside it."""

    code = "SW471"


class WaitedTooLong(RunError):  # noqa: N818
    """A run waited at one place for longer than its `max_suspend`. It is the failure of that run."""

    code = "SW472"


class RollbackIncomplete(RunError):  # noqa: N818
    """A compensation failed for good; the run is parked with the rest of its stack intact."""

    code = "SW701"

    def __init__(self, run_id: str, failure: FailureRecord | None, remaining: int) -> None:
        super().__init__(
            f"rollback of run {run_id} is incomplete: {remaining} effects are not undone"
            + (f"; {failure.summary}" if failure else ""),
            where=failure.path if failure else "",
            fix=f"remove the cause, then engine.resume_rollback({run_id!r})",
        )
        self.run_id = run_id
        self.failure = failure
        self.remaining = remaining


class CheckpointMissingError(RunError):
    """A `Rollback` named a checkpoint that this run has not passed."""

    code = "SW702"


class ResultTimeout(RunError):  # noqa: N818
    """The run had not ended, or not answered, when the caller stopped waiting; the run itself goes on."""

    code = "SW459"


# --- the caller asked wrongly --------------------------------------------------------------


class RequestError(StepwellError):
    """The caller asked wrongly; nothing was stored."""

    code = "SW400"


class InvalidInputError(RequestError):
    """A value does not fit its annotated type; `violations` lists every one."""

    code = "SW310"

    def __init__(self, title: str, violations: Iterable[str] = (), *, where: str = "", fix: str = "") -> None:
        self.violations = tuple(violations)
        super().__init__(title, where=where, why="; ".join(self.violations), fix=fix)


class PayloadTooLargeError(RequestError):
    """A payload is above the configured limit."""

    code = "SW302"


class NotFoundError(RequestError):
    """There is no such thing in this store."""

    code = "SW401"

    def __init__(self, kind: str, name: str, *, near: Iterable[str] = (), fix: str = "") -> None:
        self.kind, self.name, self.near = kind, name, tuple(near)
        hint = f" Did you mean {' or '.join(repr(n) for n in self.near)}?" if self.near else ""
        super().__init__(f"there is no {kind} {name!r}.{hint}", fix=fix)


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


class TopicFullError(RequestError):
    """A topic keeps as many events as it may, and this one would have to be kept too."""

    code = "SW421"


class UnknownTopicError(RequestError):
    """Something that is neither a topic's name nor a typed event."""

    code = "SW422"


class SignatureError(RequestError):
    """A message is not signed, or not by who it should be from, or not recently."""

    code = "SW431"


# --- the outside world ---------------------------------------------------------------------


class SinkError(StepwellError):
    """An event could not be handed over: its receiver refused it, or is where no webhook may go."""

    code = "SW850"


# --- the environment -----------------------------------------------------------------------


class StoreError(StepwellError):
    """The environment: the store or its file."""

    code = "SW600"


class StoreUnavailableError(StoreError):
    """The store did not answer. The write may or may not have happened; repeating it is safe."""

    code = "SW601"


class StoreFullError(StoreUnavailableError):
    """The disk is full. Nothing was written; work goes on when there is space again."""

    code = "SW602"


class LeaseLostError(StoreError):
    """This worker's lease has run out; others may own its runs now."""

    code = "SW603"


class SchemaMismatchError(StoreError):
    """The database was made by a newer stepwell."""

    code = "SW611"


class ForeignFileError(StoreError):
    """The file is not a stepwell database, or is damaged."""

    code = "SW612"


class StoreNotWritableError(StoreError):
    """The database's file or folder cannot be written."""

    code = "SW613"


class CorruptRecordError(StoreError):
    """A stored value cannot be read back."""

    code = "SW620"


# --- raised by authors ---------------------------------------------------------------------


class Fatal(Exception):  # noqa: N818
    """Raise in a step body: this failure is final, do not retry."""


class RetryAfter(Exception):  # noqa: N818
    """Raise in a step body: try again after `delay` (a duration such as "30s")."""

    def __init__(self, delay: str | float | timedelta, message: str = "") -> None:
        super().__init__(message or f"retry after {delay}")
        self.delay = delay


class Rollback(Exception):  # noqa: N818
    """Raise in a workflow or step: undo what was done, down to checkpoint `to` if given."""

    def __init__(self, reason: str = "rollback", *, to: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.to = to


class Failure(Exception):  # noqa: N818
    """Raise in a workflow or step: a planned business failure, kept verbatim and never retried."""

    def __init__(self, reason: str, data: Any = None) -> None:
        if not reason.strip():
            raise InvalidOptionError("a failure needs a reason", fix='raise Failure("out of stock", {...})')
        super().__init__(reason)
        self.reason = reason
        self.data = data
