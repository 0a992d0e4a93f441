"""Findings: what is wrong or doubtful in code, and where."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"  # a run would stop there, or go wrong
    WARNING = "warning"  # it may be meant so


class Finding(NamedTuple):
    """One place in the code."""

    file: str
    line: int
    column: int  # from 1
    code: str
    severity: Severity
    workflow: str
    message: str
    fix: str
    also: tuple[int, ...] = ()  # other lines of the same file that belong to it
