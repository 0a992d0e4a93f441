"""Words for the ways in which code and history can disagree."""

from __future__ import annotations

from stepwell.errors import DuplicateLocationError, HistoryDivergedError, UnawaitedOperationError
from stepwell.model.states import EntryKind


def kind_changed(path: str, recorded: EntryKind, now: EntryKind) -> HistoryDivergedError:
    """Another kind of operation stands at a recorded name."""
    name = path.rpartition("/")[2]
    return HistoryDivergedError(
        f"this code took another path than the run recorded at {path}",
        where=path,
        why=f"recorded: {recorded.word} {path} · now: {now.word} {path}",
        fix=f'keep the old operation, rename the new one, or declare ctx.removed("{name}", "{recorded.word}")',
    )


def wait_changed(path: str, recorded: str, now: EntryKind) -> HistoryDivergedError:
    """The run waits at this name for something that the code no longer waits for."""
    return HistoryDivergedError(
        f"this code took another path than the run recorded at {path}",
        where=path,
        why=f"recorded: waiting for a {recorded} at {path} · now: {now.word} {path}",
        fix="keep the old wait until no run stands at it, or rename the new operation",
    )


def not_visited(missing: list[tuple[str, EntryKind]]) -> HistoryDivergedError:
    """The code ended without passing recorded operations."""
    shown = ", ".join(f"{kind.word} {path}" for path, kind in missing[:5])
    name, kind = missing[0][0].rpartition("/")[2], missing[0][1].word
    return HistoryDivergedError(
        f"this code ended without visiting {len(missing)} recorded operation{'s' if len(missing) > 1 else ''}",
        where=missing[0][0],
        why=f"recorded: {shown} · now: (not visited)",
        fix=f'if it was removed on purpose, declare it: ctx.removed("{name}", "{kind}")',
    )


def duplicate(path: str, first: str, second: str) -> DuplicateLocationError:
    """Two operations in one place share a name."""
    name = path.rpartition("/")[2]
    return DuplicateLocationError(
        f'two operations in one place share the name "{name}"',
        where=f"path {path}",
        why=f"recorded: {first} {path} · now: {second} {path}; two results cannot live under one path",
        fix=f'rename one, loop with ctx.loop("{name}", ...), or number the uses with repeat=True',
    )


def unawaited(paths: list[str]) -> UnawaitedOperationError:
    """Operations were created and never awaited."""
    return UnawaitedOperationError(
        f"operations were created and never awaited: {', '.join(paths[:5])}",
        where=paths[0],
        why="an operation does nothing until it is awaited, and its result is lost when the workflow ends before it",
        fix="await it, or asyncio.gather(...) it with others",
    )
