"""Recognises the common shapes of commits, which a store may write in a shorter way."""

from __future__ import annotations

from stepwell.model.commits import Commit, End, Park
from stepwell.model.states import RunStatus, WaitKind

BEHIND_ENTRIES = Commit._fields.index("attempts")
_CONSUMED = Commit._fields.index("consumed")
_BEHIND_MOVE = Commit._fields.index("refused")
_SIMPLE_WAITS = frozenset({WaitKind.TIMER, WaitKind.SIGNAL, WaitKind.RETRY})


def is_plain(commit: Commit) -> bool:
    """Whether a commit has only entries in order and leaves the run's state unchanged. Nearly every commit does."""
    if commit.move is not None or commit.waits is not None or not commit.entries or any(commit[BEHIND_ENTRIES:]):
        return False
    return _is_in_order(commit)


def is_finish(commit: Commit) -> bool:
    """Whether a commit completes its run and has otherwise only entries and at most one consumed signal."""
    move = commit.move
    if not isinstance(move, End) or move.status is not RunStatus.COMPLETED or move.failure is not None:
        return False
    return not commit.waits and move.successor is None and move.unread_above is None and _is_lean(commit)


def is_park(commit: Commit) -> bool:
    """Whether a commit makes its run wait for signals and timers and has otherwise only entries and at most one
    consumed signal.
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
