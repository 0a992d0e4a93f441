"""Switches that break repairs."""

from __future__ import annotations

from typing import Any

from sim.sabotage.patches import Patches, nothing, statement, switches
from stepwell.engine import repair_drafts
from stepwell.stores.sqlite.rows import to_status
from stepwell.stores.sqlite.transitions import amendments, operators


def repair_of_another_state() -> Patches:
    """A repair is applied whatever the run has become since it was planned."""
    original = amendments.amend

    def amend(tx: Any, amendment: Any) -> Any:
        _, status, epoch, revision, *_ = amendments._get(tx, amendment.run_id)
        return original(tx, amendment._replace(status=to_status(status), epoch=epoch, revision=revision))

    return [(amendments, "amend", amend)]


def repair_without_epoch() -> Patches:
    """A repaired run keeps its epoch."""
    return statement("amendments.apply", "epoch = epoch + 1", "epoch = epoch")


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
    return [(amendments, "_drop", nothing)]


def kept_entries_lost() -> Patches:
    """A repair drops one entry too many."""
    original = amendments._rewrite

    def rewrite(tx: Any, run: int, last_seq: int, amendment: Any) -> None:
        original(tx, run, last_seq, amendment)
        first = "(select min(seq) from stepwell_entries where run = :run)"
        tx.execute(f"delete from stepwell_entries where run = :run and seq = {first}", {"run": run})

    return [(amendments, "_rewrite", rewrite)]


def mark_is_not_recorded() -> Patches:
    """An effect that a person has undone is undone again."""
    return [(operators, "_append_undo", nothing)]


REPAIR_SWITCHES = switches(
    mark_is_not_recorded,
    repair_of_another_state,
    repair_without_epoch,
    rewind_keeps_the_cursor,
    rewind_keeps_what_came_later,
    dropped_child_stays,
    kept_entries_lost,
)
