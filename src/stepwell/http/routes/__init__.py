"""The API: one module for each noun, and the table of all operations."""

from __future__ import annotations

from typing import Final

from stepwell.http.operations import Operation
from stepwell.http.routes import (
    bulks,
    changes,
    diagnosis,
    events,
    histories,
    holds,
    hooks,
    ledger,
    outbox,
    overviews,
    repairs,
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
    *diagnosis.OPERATIONS,
    *ledger.OPERATIONS,
    *starts.OPERATIONS,
    *workflows.OPERATIONS,
    *overviews.OPERATIONS,
    *runs.OPERATIONS,
    *saved_views.OPERATIONS,
    *histories.OPERATIONS,
    *changes.OPERATIONS,
    *signals.OPERATIONS,
    *events.OPERATIONS,
    *triggers.OPERATIONS,
    *outbox.OPERATIONS,
    *holds.OPERATIONS,
    *repairs.OPERATIONS,
    *bulks.OPERATIONS,
    *hooks.OPERATIONS,
)
