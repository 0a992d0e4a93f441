"""The API: one module for each noun, and the table of all operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stepwell.http.operations import Operation
from stepwell.http.roles import PUBLIC_PATHS
from stepwell.http.routes import (
    alerts,
    bulks,
    changes,
    dead_letters,
    diagnosis,
    events,
    histories,
    holds,
    hooks,
    ledger,
    outbox,
    overviews,
    repairs,
    reschedules,
    retention,
    runs,
    saved_views,
    schedules,
    server,
    sessions,
    signals,
    starts,
    triggers,
    undoings,
    workers,
    workflows,
)

API: Final = "/api"


def _placed(operation: Operation) -> Operation:
    """The operation below the path of the API. Probes look for the health checks at the root."""
    if operation.path in PUBLIC_PATHS:
        return operation
    return replace(operation, path=f"{API}{operation.path}")


_TABLES: Final[tuple[Operation, ...]] = (
    *server.OPERATIONS,
    *sessions.OPERATIONS,
    *workers.OPERATIONS,
    *diagnosis.OPERATIONS,
    *ledger.OPERATIONS,
    *starts.OPERATIONS,
    *workflows.OPERATIONS,
    *overviews.OPERATIONS,
    *runs.OPERATIONS,
    *alerts.OPERATIONS,
    *dead_letters.OPERATIONS,
    *retention.OPERATIONS,
    *saved_views.OPERATIONS,
    *histories.OPERATIONS,
    *changes.OPERATIONS,
    *signals.OPERATIONS,
    *events.OPERATIONS,
    *triggers.OPERATIONS,
    *outbox.OPERATIONS,
    *schedules.OPERATIONS,
    *holds.OPERATIONS,
    *reschedules.OPERATIONS,
    *repairs.OPERATIONS,
    *undoings.OPERATIONS,
    *bulks.OPERATIONS,
    *hooks.OPERATIONS,
)

OPERATIONS: Final = tuple(_placed(operation) for operation in _TABLES)
