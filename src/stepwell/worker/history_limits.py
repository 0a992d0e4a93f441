"""The limit of a run's history: near it a warning is logged, and beyond it the run is paused."""

from __future__ import annotations

import logging
from typing import Final

from stepwell.errors import HistoryFullError
from stepwell.replay.turn import Turn
from stepwell.worker.run_logs import fields_of

_WARNED_AT: Final = 0.8  # of the limit
_NEVER: Final = 1 << 62
_LOG: Final = logging.getLogger("stepwell.worker")


def first_look(entries_max: int) -> int:
    """How many entries a history may have before it is worth a look."""
    return int(entries_max * _WARNED_AT)


def check_history(turn: Turn, entries_max: int) -> int:
    """Warn of a history that is nearly full, and stop the turn if it is full. Returns how many entries it may have
    before the next look.

    Loops and maps drop old entries, so only what a replay would read is counted.
    """
    count, run = len(turn.journal.entries), turn.run
    if turn.problem is not None or turn.is_undoing or turn.is_ended:
        return _NEVER
    if count <= entries_max:
        _LOG.warning(
            "the history of run %s has %d entries; with more than %d the run is paused: use ctx.loop or "
            "ctx.continue_as_new",
            run.run_id,
            count,
            entries_max,
            extra=fields_of(run),
        )
        return entries_max
    turn.diverge(
        HistoryFullError(
            f"the history of run {run.run_id} has {count:,} entries",
            where=run.run_id,
            why=f"a replay reads all of them; the limit of this worker is {entries_max:,}",
            fix="use ctx.loop, which drops old rounds, or await ctx.continue_as_new(...); to let this run continue, "
            f"start a worker with WorkerSettings(entries_max={2 * entries_max})",
        )
    )
    return _NEVER
