"""Two runs side by side: their first difference, and how structure, values and timing differ."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepwell.engine.views import EntryView, RunView, WaitView


class ComparedEntry(NamedTuple):
    """One path, in both runs."""

    path: str
    left: EntryView | None
    right: EntryView | None

    @property
    def is_only_one(self) -> bool:
        """Whether only one of the runs has it."""
        return self.left is None or self.right is None

    @property
    def changes(self) -> tuple[str, ...]:
        """What differs, if both have it: kind, status, value, failure or number of attempts."""
        a, b = self.left, self.right
        if a is None or b is None:
            return ()
        found = []
        if a.kind != b.kind:
            found.append("kind")
        if a.status != b.status:
            found.append("status")
        if a.value != b.value:
            found.append("value")
        if _words(a) != _words(b):
            found.append("failure")
        if a.attempts != b.attempts:
            found.append("attempts")
        return tuple(found)

    @property
    def slower_by(self) -> float:
        """How many seconds more it took in the second run."""
        return 0.0 if self.left is None or self.right is None else self.right.took - self.left.took


class Difference(NamedTuple):
    """How two runs differ."""

    left: RunView
    right: RunView
    lines: tuple[ComparedEntry, ...]  # every path of either, in the order of the first run, then of the second
    facts: tuple[tuple[str, Any, Any], ...]  # about the runs themselves
    waits: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def first(self) -> ComparedEntry | None:
        """The first path at which they differ, in the order of the first run."""
        return next((line for line in self.lines if line.is_only_one or line.changes), None)

    @property
    def is_same(self) -> bool:
        """Whether only times differ."""
        return self.first is None and not self.facts and self.waits[0] == self.waits[1]


def compare(
    left: tuple[RunView, list[EntryView], list[WaitView]], right: tuple[RunView, list[EntryView], list[WaitView]]
) -> Difference:
    """Compare two runs by the paths of what they recorded."""
    (a, entries_a, waits_a), (b, entries_b, waits_b) = left, right
    by_path_a, by_path_b = {one.path: one for one in entries_a}, {one.path: one for one in entries_b}
    lines = tuple(
        ComparedEntry(path, by_path_a.get(path), by_path_b.get(path)) for path in _merged(entries_a, entries_b)
    )
    facts = tuple(
        (name, one, other)
        for name, one, other in (
            ("workflow", f"{a.workflow} v{a.version}", f"{b.workflow} v{b.version}"),
            ("status", a.status, b.status),
            ("input", a.input, b.input),
            ("output", a.output, b.output),
            ("failure", a.failure and a.failure.summary, b.failure and b.failure.summary),
        )
        if one != other
    )
    waits = tuple(wait.path for wait in waits_a), tuple(wait.path for wait in waits_b)
    return Difference(a, b, lines, facts, waits)


def _merged(left: list[EntryView], right: list[EntryView]) -> list[str]:
    """The paths of both in one order: that of the first run, with the paths of the second where it had them."""
    merged = [one.path for one in left]
    known = set(merged)
    at = 0
    for one in right:
        if one.path in known:
            at = merged.index(one.path) + 1
        else:
            merged.insert(at, one.path)
            known.add(one.path)
            at += 1
    return merged


def _words(entry: EntryView) -> str:
    return "" if entry.failure is None else entry.failure.summary
