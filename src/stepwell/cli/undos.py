"""The undo stack of a run: each step that can be undone, last in first out, and what became of its undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, assert_never

from stepwell.cli.reasons import failures_of, origin_of
from stepwell.model.states import RunStatus

if TYPE_CHECKING:
    from stepwell.engine.views import EntryView, RunView
    from stepwell.errors.records import FailureRecord
    from stepwell.stores.base.views import Detail

UndoState = Literal["undone", "failed", "not undone", "next", "kept"]


class Undo(NamedTuple):
    """One step of the stack."""

    path: str
    state: UndoState
    failure: FailureRecord | None = None  # of the undo


def undo_stack(detail: Detail, run: RunView, entries: Sequence[EntryView]) -> list[Undo]:
    """The stack in the order of a rollback; empty for a run that has completed or continued."""
    from stepwell.model.locations import format_path, undo
    from stepwell.model.undos import undo_stack as undo_stack_of

    if run.status in (RunStatus.COMPLETED, RunStatus.CONTINUED) and not any(entry.is_undone for entry in entries):
        return []
    names = detail.history.names
    stack = undo_stack_of({entry.location: entry for entry in detail.history.entries})
    undos = {entry.seq: format_path(undo(entry.location), names) for entry in stack}
    stopped = _stopped(run)
    found: list[Undo] = []
    for entry in sorted(entries, key=lambda one: one.seq, reverse=True):
        if entry.seq not in undos:
            continue
        if stopped is not None and stopped.path in (undos[entry.seq], entry.path):
            found.append(Undo(entry.path, "failed", stopped))
        elif entry.is_undone:
            found.append(Undo(entry.path, "undone"))
        else:
            is_kept = entry.seq <= detail.run.undo_floor
            found.append(Undo(entry.path, "kept" if is_kept else "not undone" if _has_failed(run) else "next"))
    return found


def undo_words(undo: Undo) -> str:
    """What became of one undo."""
    match undo.state:
        case "undone":
            return "undone"
        case "failed":
            assert undo.failure is not None
            return f"undo failed: {origin_of(undo.failure).words}"
        case "not undone":
            return "not undone"
        case "next":
            return "would be undone"
        case "kept":
            return "kept: a checkpoint came after it"
        case _:
            assert_never(undo.state)


def _stopped(run: RunView) -> FailureRecord | None:
    """The failure that stopped a rollback."""
    return failures_of(run)[1] if run.status == RunStatus.COMPENSATION_FAILED else None


def _has_failed(run: RunView) -> bool:
    """Whether a rollback is over, or has stopped: what is not undone by now is not undone without help."""
    return run.is_ended or run.status == RunStatus.COMPENSATION_FAILED
