"""Findings: errors and warnings about code, with their places."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"  # a run would stop there, or give a wrong result
    WARNING = "warning"  # it may be intended


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
    also: tuple[int, ...] = ()  # related lines of the same file
