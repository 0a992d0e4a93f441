"""Workers and their leases."""

from __future__ import annotations

from typing import Protocol

from stepwell.errors import LeaseLostError
from stepwell.ids import Incarnation
from stepwell.model.workers import NewWorker, Renewed, Worker


class WorkerStore(Protocol):
    """Transitions of workers."""

    async def register(self, worker: NewWorker) -> Worker:
        """Register a new incarnation with a lease that begins now. Repeating it is harmless."""
        ...

    async def renew(self, incarnation: Incarnation, lease: int) -> Renewed:
        """Extend a live lease to `lease` microseconds from now. Raises `LeaseLostError` if it expired or was removed: a
        lost lease is never revived.

        Also returns which of the worker's runs are `cancelling`, which have a `hold` or belong to a paused workflow,
        and how many runs the worker owns.
        """
        ...

    async def retire(self, incarnation: Incarnation) -> None:
        """Remove the worker and free the runs that it still owns, without counting a stall. What it had taken from the
        outbox is due.
        """
        ...


def lease_lost(incarnation: str) -> LeaseLostError:
    """The error of a worker without a live lease."""
    return LeaseLostError(
        f"the lease of worker {incarnation} has expired",
        why="it was not renewed in time, so other workers may own its runs",
        fix="start a new worker; a lost lease is never revived",
    )
