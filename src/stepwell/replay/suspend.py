"""Control flow that is not failure. `BaseException`, so that an author's `except Exception` cannot swallow it."""

from __future__ import annotations

from typing import Any


class Suspend(BaseException):
    """Unwinds workflow code at a wait. A later replay continues from here."""


class StepYield(BaseException):
    """Ends the body of a step that gives its slot back and continues later."""


class ContinueAsNew(BaseException):
    """Ends this run and starts its successor with a new input."""

    def __init__(self, input: Any, workflow: Any = None, *, keeps_undos: bool = True) -> None:
        super().__init__()
        self.input = input
        self.workflow = workflow
        self.keeps_undos = keeps_undos
