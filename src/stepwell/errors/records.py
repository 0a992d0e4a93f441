"""Failure records: what is stored of an exception. Errors carry them, so both are in one package."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stepwell.advice import Advice, Fix
from stepwell.errors.runs import ChildFailed

FailureKind = Literal["critical", "timeout", "exhausted", "failure", "unknown"]


class FailureRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored of an exception: the name of its type, its message, and where it was raised."""

    type: str
    message: str
    qualified: str = ""  # module and name, looked up in a closed registry, never imported
    code: str = ""
    path: str = ""
    why: str = ""
    fix: str = ""  # in words for Python
    trace: str = ""
    attempts: int = 0
    data: Any = None  # of a planned failure: the data passed with it; else the attributes; as plain JSON values
    causes: dict[str, FailureRecord] = {}
    run_id: str = ""  # of a child's failure: the child
    status: str = ""
    kind: FailureKind | Literal[""] = ""  # of a step's last failure: why there was no further attempt
    recorded: str = ""  # of code that does not fit its history: what is recorded ...
    now: str = ""  # ... and what the code does instead
    advice: tuple[Advice, ...] = ()  # the fix as data, if it is something that stepwell can do
    retry_in: int | None = None  # of a run that is tried again: microseconds from its end to its next attempt
    fields: tuple[str, ...] = ()  # names in `data` that are attributes of the exception, with exactly these values

    @property
    def summary(self) -> str:
        """Type and message in one line."""
        return f"{self.type}: {self.message}" if self.message else self.type

    @property
    def remedy(self) -> Fix:
        """The fix, for an error that is raised because of this record."""
        return self.advice or self.fix

    def concerns(self, path: str) -> bool:
        """Whether this failure, or a cause of it, happened at a path or below it."""
        # The paths in a child's failure are those of the child.
        causes = () if self.code == ChildFailed.code else self.causes.values()
        return f"{self.path}/".startswith(f"{path}/") or any(cause.concerns(path) for cause in causes)
