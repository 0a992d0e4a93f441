"""Switches that break repairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.engine import repair_drafts
from stepwell.stores.memory import amendments, store

Patches = list[tuple[Any, str, Any]]


def repair_of_another_state() -> Patches:
    """A repair is applied whatever the run has become since it was planned."""
    original = amendments.amend

    def amend(tx: Any, amendment: Any) -> Any:
        row = tx.db.runs[amendment.run_id]
        return original(tx, amendment._replace(status=row.status, epoch=row.epoch, revision=row.revision))

    return [(store, "amend", amend)]


def repair_without_epoch() -> Patches:
    """A repaired run keeps its epoch."""
    original = amendments._let_go_on

    def let_go_on(tx: Any, row: Any, amendment: Any) -> None:
        epoch = row.epoch
        original(tx, row, amendment)
        tx.change(row, epoch=epoch)

    return [(amendments, "_let_go_on", let_go_on)]


def rewind_keeps_the_cursor() -> Patches:
    """A loop that is rewound goes on where it was."""
    original = repair_drafts._drop_whole

    def drop_whole(draft: Any, scope: Any) -> None:
        original(draft, scope)
        draft.ended_cursors.clear()

    return [(repair_drafts, "_drop_whole", drop_whole)]


def rewind_keeps_what_came_later() -> Patches:
    """Only the place itself is dropped."""

    def drop_since(draft: Any, cut: int, cut_at: Any) -> None:
        for scope in tuple(draft.whole):
            repair_drafts._drop_whole(draft, scope)

    return [(repair_drafts, "_drop_since", drop_since)]


def dropped_child_stays() -> Patches:
    """A child whose call was dropped stands where it stood."""
    return [(amendments, "_drop", lambda tx, dropped, announce: None)]


def kept_entries_lost() -> Patches:
    """A repair drops one entry too many."""
    original = amendments._rewrite

    def rewrite(tx: Any, row: Any, amendment: Any) -> None:
        original(tx, row, amendment)
        entries = tx.db.entries[row.run_id]
        tx.drop_all(entries, list(entries)[:1])

    return [(amendments, "_rewrite", rewrite)]


REPAIR_SWITCHES: dict[str, Callable[[], Patches]] = {
    "repair-of-another-state": repair_of_another_state,
    "repair-without-epoch": repair_without_epoch,
    "rewind-keeps-the-cursor": rewind_keeps_the_cursor,
    "rewind-keeps-what-came-later": rewind_keeps_what_came_later,
    "dropped-child-stays": dropped_child_stays,
    "kept-entries-lost": kept_entries_lost,
}
