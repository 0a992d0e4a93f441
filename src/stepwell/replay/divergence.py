"""The errors for each way in which code and history can disagree."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.errors import DuplicateLocationError, HistoryDivergedError, UnawaitedOperationError
from stepwell.model.states import ENTRIES_OF_WAITS, EntryKind, WaitKind


def last_name(path: str) -> str:
    """The name at the end of a path, as code spells it: `charge` for `outer/~3/charge#2`."""
    parts = [part for part in path.split("/") if not part.startswith("~")]
    return parts[-1].partition("#")[0].removesuffix("~undo") if parts else path


def kind_changed(path: str, recorded: EntryKind, now: EntryKind) -> HistoryDivergedError:
    """The code has another kind of operation under a recorded name."""
    name = last_name(path)
    return HistoryDivergedError(
        f"this code took another path than the run recorded at {path}",
        where=path,
        recorded=f"{recorded.word} {path}",
        now=f"{now.word} {path}",
        kind=recorded.word,
        fix=f'keep the old operation, rename the new one, or declare ctx.removed("{name}", "{recorded.word}")',
    )


def wait_changed(path: str, recorded: str, now: EntryKind) -> HistoryDivergedError:
    """The run waits at this name for something that the code no longer waits for."""
    return HistoryDivergedError(
        f"this code took another path than the run recorded at {path}",
        where=path,
        recorded=f"waiting for a {recorded} at {path}",
        now=f"{now.word} {path}",
        fix="keep the old wait until no run waits at it, or rename the new operation",
    )


def not_visited(missing: list[tuple[str, EntryKind]]) -> HistoryDivergedError:
    """The code ended without reaching recorded operations."""
    shown = ", ".join(f"{kind.word} {path}" for path, kind in missing[:5])
    name, kind = last_name(missing[0][0]), missing[0][1].word
    return HistoryDivergedError(
        f"this code ended without visiting {len(missing)} recorded operation{'s' if len(missing) > 1 else ''}",
        where=missing[0][0],
        recorded=shown,
        now="(not visited)",
        kind=kind,
        fix=f'if it was removed on purpose, declare it: ctx.removed("{name}", "{kind}")',
    )


class CodeState(NamedTuple):
    """How far the code has come: in words, and as data."""

    words: str
    asked: str = ""  # the path of the first operation that it asks for or waits at
    raises: bool = False


def stopped_early(
    recorded: list[tuple[str, str]], waits: list[tuple[str, str]], state: CodeState
) -> HistoryDivergedError:
    """The code cannot continue, and has not reached recorded operations (paths with kinds) or the place of a wait."""
    shown = ", ".join(f"{kind} {path}" for path, kind in recorded[:5])
    if recorded:
        more = "s" if len(recorded) > 1 else ""
        path, kind = recorded[0]
        name = last_name(path)
        return HistoryDivergedError(
            f"the code stops before {len(recorded)} recorded operation{more}",
            where=path,
            recorded=shown,
            now=state.words,
            kind=kind,
            asked=state.asked,
            raises=state.raises,
            fix='guard new code: if ctx.version("NAME", 2) >= 2: ...; declare removed code: '
            f'ctx.removed("{name}", "{kind}"); or keep the old code as another version of the workflow',
        )
    path, kind = waits[0]
    entry = ENTRIES_OF_WAITS[WaitKind(kind)][0].word
    removed = f'ctx.removed("{last_name(path)}", "{entry}")'
    return HistoryDivergedError(
        f"the run waits at {path}, and the code does not reach it",
        where=path,
        recorded=f"a wait for a {kind} at {path}",
        now=state.words,
        kind=entry,
        asked=state.asked,
        raises=state.raises,
        fix='guard new code: if ctx.version("NAME", 2) >= 2: ...; declare a removed wait: '
        f"{removed}; or keep the old code until no run waits there",
    )


def arguments_changed(path: str, kind: EntryKind, recorded: str, now: str) -> HistoryDivergedError:
    """The code passes other arguments than the run recorded at a numbered use of a name."""
    name = last_name(path)
    either = f"{name}.options(fingerprint=False)" if kind is EntryKind.STEP else "fingerprint=False"
    return HistoryDivergedError(
        f"this code passes other arguments than the run recorded at {path}",
        where=path,
        recorded=f"{kind.word} {path} {recorded}",
        now=f"{kind.word} {path} {now}",
        kind=kind.word,
        fix="make the calls in the recorded order; or give each use its own name; "
        f"or, if the arguments may differ, pass {either}",
    )


def duplicate(
    path: str, first: str, second: str, *, is_workflow: bool = False, second_path: str
) -> DuplicateLocationError:
    """Two operations in one scope share a name that is declared unique."""
    name = last_name(path)
    declared = '@workflow(names="unique")' if is_workflow else "unique=True"
    return DuplicateLocationError(
        f'two operations in one scope share the name "{name}"',
        where=path,
        why=f"recorded: {first} {path} · now: {second} {second_path}; {declared} allows one",
        fix=f'rename one, loop with ctx.loop("{name}", ...), or leave out {declared}: the uses are numbered then',
    )


def unawaited(paths: list[str]) -> UnawaitedOperationError:
    """Operations were created and never awaited."""
    return UnawaitedOperationError(
        f"the code did not await {', '.join(paths[:5])}",
        where=paths[0],
        why="an operation runs only when it is awaited, and its result is lost if the workflow ends before it does",
        fix="write `await` before it, or pass it to asyncio.gather(...) with others",
    )
