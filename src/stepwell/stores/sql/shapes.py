"""What most commits look like: those that a store may write a shorter way."""

from __future__ import annotations

from stepwell.model.commits import Commit, End, Park
from stepwell.model.states import RunStatus, WaitKind

BEHIND_ENTRIES = Commit._fields.index("attempts")
_CONSUMED = Commit._fields.index("consumed")
_BEHIND_MOVE = Commit._fields.index("refused")
_SIMPLE_WAITS = frozenset({WaitKind.TIMER, WaitKind.SIGNAL, WaitKind.RETRY})


def is_plain(commit: Commit) -> bool:
    """Whether a commit is nothing but entries in their order, of a run that stays as it is. Nearly every one is."""
    if commit.move is not None or commit.waits is not None or not commit.entries or any(commit[BEHIND_ENTRIES:]):
        return False
    return _is_in_order(commit)


def is_finish(commit: Commit) -> bool:
    """Whether a commit completes its run, and has nothing but entries and a signal that it has read besides."""
    move = commit.move
    if not isinstance(move, End) or move.status is not RunStatus.COMPLETED or move.failure is not None:
        return False
    return not commit.waits and move.successor is None and _is_lean(commit)


def is_park(commit: Commit) -> bool:
    """Whether a commit lets its run wait for signals and timers, and has nothing but entries and a signal that it has
    read besides.
    """
    if not isinstance(commit.move, Park) or commit.waits is None or not _is_lean(commit):
        return False
    return all([wait.kind in _SIMPLE_WAITS for wait in commit.waits])


def _is_lean(commit: Commit) -> bool:
    if any(commit[BEHIND_ENTRIES:_CONSUMED]) or any(commit[_BEHIND_MOVE:]) or commit.children:
        return False
    return len(commit.consumed) <= 1 and _is_in_order(commit)


def _is_in_order(commit: Commit) -> bool:
    if not commit.entries:
        return True
    first = commit.entries[0].seq
    return all(entry.seq == seq for seq, entry in enumerate(commit.entries, first))
