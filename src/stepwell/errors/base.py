"""What all errors have in common."""

from __future__ import annotations

from typing import ClassVar


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
