"""How a run or a part of it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepwell.advice import Advice, Verb
from stepwell.errors.base import StepwellError

if TYPE_CHECKING:
    from stepwell.errors.records import FailureRecord

_NAMES_MAX = 5  # names that the title of a fan-out's error lists
_SUMMARY_MAX = 500  # characters of the first failure in that title


# --- how a run or a part of it ended -------------------------------------------------------


class RunError(StepwellError):
    """How a run or a part of it ended; an author may catch it in the workflow."""

    code = "SW450"


class StepFailed(RunError):  # noqa: N818  reads as the author's word in `except`
    """A step failed permanently. Carries the original error as text, never as an object."""

    code = "SW451"

    def __init__(self, path: str, failure: FailureRecord, attempts: int) -> None:
        super().__init__(
            f"step {path} failed after {attempts} attempt{'s' if attempts != 1 else ''}: {failure.summary}",
            where=path,
            why=failure.why,
            fix=failure.remedy,
        )
        self.path = path
        self.failure = failure
        self.attempts = attempts

    @property
    def data(self) -> Any:
        """What the original error carried, as plain JSON values: its attributes by name, or the data of a `Failure`."""
        return self.failure.data


class JoinError(RunError):
    """One or more branches of a join, or items of a map, failed; `errors` has each failure by name or number."""

    code = "SW452"

    def __init__(self, path: str, errors: Mapping[str, Exception], *, part: str = "branch", title: str = "") -> None:
        why, fix = _advice(errors)
        super().__init__(title or _fan_out_title(path, errors, part), where=path, why=why, fix=fix)
        self.path = path
        self.errors = dict(errors)


class RaceError(RunError):
    """Every branch of a race failed; `errors` has each failure by name."""

    code = "SW453"

    def __init__(self, path: str, errors: Mapping[str, Exception], *, title: str = "") -> None:
        why, fix = _advice(errors)
        super().__init__(title or _fan_out_title(path, errors, "branch", count="all "), where=path, why=why, fix=fix)
        self.path = path
        self.errors = dict(errors)


def _fan_out_title(path: str, errors: Mapping[str, Exception], part: str, count: str = "") -> str:
    """Which parts failed, and why the first of them did."""
    names, parts = list(errors), {"branch": "branches", "item": "items"}
    if len(names) <= 1:
        return f"{part} {''.join(names)} of {path} failed: {_summary(errors)}"
    listed = ", ".join(names[:_NAMES_MAX]) + (f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else "")
    return f"{count or f'{len(names)} '}{parts[part]} of {path} failed ({listed}); {names[0]}: {_summary(errors)}"


def _summary(errors: Mapping[str, Exception]) -> str:
    """What happened to the first part."""
    first = next(iter(errors.values()), None)
    if first is None:
        return "no failure was recorded"
    title = first.title if isinstance(first, StepwellError) else f"{type(first).__name__}: {first}"
    return title if len(title) <= _SUMMARY_MAX else f"{title[:_SUMMARY_MAX]} …"


def _advice(errors: Mapping[str, Exception]) -> tuple[str, str]:
    """The reason and the remedy of the first failure, if it has them."""
    first = next(iter(errors.values()), None)
    return (first.why, first.fix) if isinstance(first, StepwellError) else ("", "")


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
            fix=failure.remedy if failure else "",
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
    """The awaited run is paused, by a person or because code and history disagree; it does not continue by itself."""

    code = "SW458"

    def __init__(self, run_id: str, failure: FailureRecord | None) -> None:
        resume = Advice(Verb.RESUME, run_id, note="fix the code, then" if failure else "")
        super().__init__(
            f"run {run_id} is paused: {failure.summary if failure else 'by an operator'}",
            where=failure.path if failure else "",
            why=failure.why if failure else "",
            fix=(failure.remedy if failure else "") or resume,
        )
        self.run_id = run_id
        self.failure = failure


class RecordedError(RunError):
    """An error of workflow code that was recorded and is raised again from its record."""

    code = "SW460"

    def __init__(self, failure: FailureRecord) -> None:
        super().__init__(failure.summary, where=failure.path, why=failure.why, fix=failure.remedy)
        self.failure = failure


class OutcomeUnknown(RunError):  # noqa: N818
    """An at-most-once step was started and its worker died: whether it took effect is not known."""

    code = "SW461"


class AskRefused(RunError):  # noqa: N818
    """The run rejected the question; the title is its reason."""

    code = "SW462"


class Unanswered(RunError):  # noqa: N818
    """The run will not reply: it has ended, or it is paused, or its rollback is incomplete."""

    code = "SW463"


class DeadlineExceeded(RunError):  # noqa: N818
    """A run had not ended at its deadline. It is the failure of that run, and is never raised inside it."""

    code = "SW471"


class WaitedTooLong(RunError):  # noqa: N818
    """A run waited at one place for longer than its `max_suspend`. It is the failure of that run."""

    code = "SW472"


class RollbackIncomplete(RunError):  # noqa: N818
    """A compensation failed permanently. The rollback is incomplete, and the remaining compensations are kept."""

    code = "SW701"

    def __init__(self, run_id: str, failure: FailureRecord | None, remaining: int) -> None:
        super().__init__(
            f"rollback of run {run_id} is incomplete: {remaining} effects are not undone"
            + (f"; {failure.summary}" if failure else ""),
            where=failure.path if failure else "",
            fix=Advice(Verb.RESUME_ROLLBACK, run_id, note="fix the cause, then"),
        )
        self.run_id = run_id
        self.failure = failure
        self.remaining = remaining


class CheckpointMissingError(RunError):
    """A `Rollback` named a checkpoint that this run has not passed."""

    code = "SW702"


class ResultTimeout(RunError):  # noqa: N818
    """The run had not ended, or not answered, when the caller stopped waiting. The run itself continues."""

    code = "SW459"
