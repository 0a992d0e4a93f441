"""How two executions of one workflow differ: the first difference, and both histories as one diff."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, NamedTuple

LINES_MAX: Final = 40
_CONTEXT_LINES: Final = 3


class HistoryLine(NamedTuple):
    """One line of a history, without ids and times."""

    path: str
    text: str


def describe_difference(expected: Sequence[HistoryLine], actual: Sequence[HistoryLine]) -> list[str]:
    """Where two histories first differ, and a diff of both; empty if they are the same."""
    pairs = zip_longest(expected, actual)
    first = next(((one, other) for one, other in pairs if one != other), None)
    if first is None:
        return []
    one, other = first
    return [
        f"first difference, at {(one or other or HistoryLine('', '')).path}:",
        f"  expected  {_text(one)}",
        f"  got       {_text(other)}",
        "histories (- expected, + this execution):",
        *(f"  {line}" for line in _diff(expected, actual)),
    ]


def _text(line: HistoryLine | None) -> str:
    return "nothing: the history ends before it" if line is None else line.text


def _diff(expected: Sequence[HistoryLine], actual: Sequence[HistoryLine]) -> list[str]:
    lines: list[str] = []
    for group in SequenceMatcher(None, expected, actual, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES):
        if group[0][1] > 0:
            lines.append("…")  # equal lines are left out
        for tag, left, left_end, right, right_end in group:
            if tag == "equal":
                lines += [f"  {line.text}" for line in expected[left:left_end]]
                continue
            lines += [f"- {line.text}" for line in expected[left:left_end]]
            lines += [f"+ {line.text}" for line in actual[right:right_end]]
    return lines if len(lines) <= LINES_MAX else [*lines[:LINES_MAX], f"… and {len(lines) - LINES_MAX} more lines"]
