"""A run as a failed test shows it, and as a snapshot keeps it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stepwell.cli.texts import dump_json
from stepwell.cli.tree import render_tree
from stepwell.engine.views import EntryView, chain_views, entry_views, run_view, wait_views
from stepwell.stores.base.views import Detail
from stepwell.testing.differences import HistoryLine

_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_SNAPSHOT_KINDS_WITHOUT_VALUE = frozenset({"sleep", "stream"})


def tree(details: Sequence[Detail]) -> str:
    """A run and the runs that continue it, as `stepwell show` prints them."""
    lines: list[str] = []
    for detail in details:
        lines += render_tree(run_view(detail.run), entry_views(detail), wait_views(detail))
        lines += [f"signal {signal.name!r} is not read yet" for signal in detail.signals]
    return "\n".join(lines)


def snapshot(details: Sequence[Detail]) -> str:
    """A run as text that is the same in every execution: what it did, in order, without ids and times."""
    ids = _numbered(details)
    lines: list[str] = []
    for detail in details:
        run = run_view(detail.run)
        lines.append(f"{run.workflow} v{run.version} {run.status}")
        if run.input is not None:
            lines.append(f"  input {_value(run.input, ids)}")
        lines += [f"  {_entry(entry, ids)}" for entry in entry_views(detail)]
        for wait in wait_views(detail):
            names = " ".join(repr(name) for name in wait.names)
            lines.append(f"  … {wait.path}: waits for {wait.kind}{f' {names}' if names else ''}")
        if run.output is not None:
            lines.append(f"  output {_value(run.output, ids)}")
        if run.failure is not None:
            at = f" at {run.failure.path}" if run.failure.path else ""
            lines.append(f"  failure {_normal(run.failure.summary, ids)}{at}")
    return "\n".join(lines) + "\n"


def history_lines(details: Sequence[Detail]) -> list[HistoryLine]:
    """The history of a run and of the runs that continue it, as in its snapshot."""
    ids = _numbered(details)
    return [HistoryLine(entry.path, _entry(entry, ids)) for entry in chain_views(details)]


def _numbered(details: Sequence[Detail]) -> dict[str, str]:
    return {detail.run.run_id: f"<run {number}>" for number, detail in enumerate(details, 1)}


def _entry(entry: EntryView, ids: dict[str, str]) -> str:
    mark = "✓" if entry.status == "done" else "✕"
    kind = "" if entry.kind in ("step", "undo") else f" [{entry.kind}]"
    tries = f" ({entry.attempts} attempts)" if entry.attempts > 1 else ""
    undone = " ↶" if entry.is_undone else ""
    if entry.failure is not None:
        outcome = f": {_normal(entry.failure.summary, ids)}"
    elif entry.value is None or entry.kind in _SNAPSHOT_KINDS_WITHOUT_VALUE:
        outcome = ""
    else:
        outcome = f" → {_value(entry.value, ids)}"
    return f"{mark} {entry.path}{kind}{tries}{outcome}{undone}"


def _value(value: Any, ids: dict[str, str]) -> str:
    return _normal(dump_json(value, is_compact=True), ids)


def _normal(text: str, ids: dict[str, str]) -> str:
    """The text with its ids numbered in the order in which they appear, and without times."""

    def numbered(found: re.Match[str]) -> str:
        return ids.setdefault(found[0], f"<id {len(ids) + 1}>")

    return _TIME.sub("<time>", _ID.sub(numbered, text))
