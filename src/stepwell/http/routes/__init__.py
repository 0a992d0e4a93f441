"""The API: one module for each noun, and the table of all operations."""

from __future__ import annotations

from typing import Final

from stepwell.http.operations import Operation
from stepwell.http.routes import (
    bulks,
    changes,
    events,
    holds,
    hooks,
    ledger,
    repairs,
    reschedules,
    runs,
    saved_views,
    server,
    signals,
    starts,
    triggers,
    undoings,
    workers,
    workflows,
)

OPERATIONS: Final[tuple[Operation, ...]] = (
    *server.OPERATIONS,
    *workers.OPERATIONS,
    *ledger.OPERATIONS,
    *starts.OPERATIONS,
    *workflows.OPERATIONS,
    *runs.OPERATIONS,
    *saved_views.OPERATIONS,
    *changes.OPERATIONS,
    *signals.OPERATIONS,
    *events.OPERATIONS,
    *triggers.OPERATIONS,
    *holds.OPERATIONS,
    *reschedules.OPERATIONS,
    *repairs.OPERATIONS,
    *undoings.OPERATIONS,
    *bulks.OPERATIONS,
    *hooks.OPERATIONS,
)
