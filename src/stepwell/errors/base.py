"""What all errors have in common."""

from __future__ import annotations

from typing import ClassVar

from stepwell.advice import Fix, advice_of, in_commands, in_python, in_requests


class StepwellError(Exception):
    """The root of all errors: a stable code, what happened, where, why and what to do.

    `fix` is in words for Python. `advice` is the same as data, if the fix is something that stepwell can do.
    """

    code: ClassVar[str] = "SW000"

    def __init__(self, title: str, *, where: str = "", why: str = "", fix: Fix = "") -> None:
        super().__init__(title)
        self.title = title
        self.where = where
        self.why = why
        self.advice = advice_of(fix)
        self.fix = fix if isinstance(fix, str) else in_python(self.advice)

    @property
    def remedy(self) -> Fix:
        """The fix as it was given, for another error that wraps this one."""
        return self.advice or self.fix

    @property
    def fix_in_commands(self) -> str:
        """The fix in words for the command line."""
        return in_commands(self.advice) or self.fix

    @property
    def fix_in_requests(self) -> str:
        """The fix in words for clients of the HTTP API."""
        return in_requests(self.advice) or self.fix

    def __str__(self) -> str:
        lines = [f"{self.code}  {self.title}"]
        for label, text in (("where", self.where), ("why", self.why), ("fix", self.fix)):
            if text:
                lines.append(f"  {label:<7} {text}")
        return "\n".join(lines)
