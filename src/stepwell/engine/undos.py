"""The undo stack of a run: each step that can be undone, last in first out, and what became of its undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, assert_never

from stepwell.engine.reasons import Failing, failures_of, origin_of
from stepwell.model.locations import format_path, undo
from stepwell.model.states import TERMINAL, EntryKind, RunStatus
from stepwell.model.undos import undo_stack as entries_to_undo

if TYPE_CHECKING:
    from stepwell.errors.records import FailureRecord
    from stepwell.model.entries import Entry

UndoState = Literal["undone", "failed", "not undone", "next", "kept"]


class Undo(NamedTuple):
    """One step of the stack."""

    path: str
    state: UndoState
    failure: FailureRecord | None = None  # of the undo
    undo: Entry | None = None  # the line of an undo that was done


def undo_stack(run: Failing, undo_floor: int, names: tuple[str, ...], entries: Sequence[Entry]) -> list[Undo]:
    """The stack in the order of a rollback; empty for a run that has completed or continued."""
    undone = {entry.location: entry for entry in entries if entry.kind is EntryKind.UNDO}
    if run.status in (RunStatus.COMPLETED, RunStatus.CONTINUED) and not undone:
        return []
    stopped = _stopped(run)
    found: list[Undo] = []
    for entry in entries_to_undo({entry.location: entry for entry in entries}):
        at, path = undo(entry.location), format_path(entry.location, names)
        if stopped is not None and stopped.path in (path, format_path(at, names)):
            found.append(Undo(path, "failed", stopped))
        elif at in undone:
            found.append(Undo(path, "undone", undo=undone[at]))
        else:
            is_kept = entry.seq <= undo_floor
            found.append(Undo(path, "kept" if is_kept else "not undone" if _has_failed(run) else "next"))
    return found


def undo_words(one: Undo) -> str:
    """What became of one undo."""
    match one.state:
        case "undone":
            return "undone"
        case "failed":
            assert one.failure is not None
            return f"undo failed: {origin_of(one.failure).words}"
        case "not undone":
            return "not undone"
        case "next":
            return "would be undone"
        case "kept":
            return "kept: a checkpoint came after it"
        case _:
            assert_never(one.state)


def _stopped(run: Failing) -> FailureRecord | None:
    """The failure that stopped a rollback."""
    return failures_of(run)[1] if run.status == RunStatus.COMPENSATION_FAILED else None


def _has_failed(run: Failing) -> bool:
    """Whether a rollback is over, or has stopped: what is not undone by now is not undone without help."""
    return run.status in TERMINAL or run.status == RunStatus.COMPENSATION_FAILED
