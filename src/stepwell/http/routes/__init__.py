"""The API: one module for each noun, and the table of all operations."""

from __future__ import annotations

from typing import Final

from stepwell.http.operations import Operation
from stepwell.http.routes import (
    alerts,
    bulks,
    changes,
    dead_letters,
    events,
    holds,
    hooks,
    ledger,
    repairs,
    retention,
    runs,
    saved_views,
    server,
    signals,
    starts,
    triggers,
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
    *alerts.OPERATIONS,
    *dead_letters.OPERATIONS,
    *retention.OPERATIONS,
    *saved_views.OPERATIONS,
    *changes.OPERATIONS,
    *signals.OPERATIONS,
    *events.OPERATIONS,
    *triggers.OPERATIONS,
    *holds.OPERATIONS,
    *repairs.OPERATIONS,
    *bulks.OPERATIONS,
    *hooks.OPERATIONS,
)
