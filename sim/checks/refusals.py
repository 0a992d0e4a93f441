"""Commits that the store should have judged, and failed on instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.checker import Checker


def check_failed(checker: Checker, method: str, args: tuple[Any, ...]) -> None:
    """A call has failed inside the store: say which promise would have been broken, if a commit is the reason."""
    for commit in args[0] if method == "apply" else args[:1] if method == "perform" else ():
        row = checker.rows_now.get(commit.run_id)
        if row is None:
            continue
        shadow = checker.shadow(commit.run_id)
        number = shadow.applied.get(commit.fence.epoch, 0)
        if (row.epoch, row.owner) != (commit.fence.epoch, commit.fence.incarnation):
            text = f"a commit of epoch {commit.fence.epoch} was not fenced in epoch {row.epoch}"
            checker.violate("I4", commit.run_id, text)
        elif commit.number <= number:
            checker.violate("I5", commit.run_id, f"commit {commit.number} was to be applied twice")
        elif commit.entries and commit.entries[0].seq != shadow.last_seq + 1:
            text = f"entry {commit.entries[0].seq} was to follow entry {shadow.last_seq}, which is durable"
            checker.violate("I8", commit.run_id, text)
