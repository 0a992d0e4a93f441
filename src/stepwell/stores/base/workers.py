"""Workers and their leases."""

from __future__ import annotations

from typing import Protocol

from stepwell.errors import LeaseLostError
from stepwell.ids import Incarnation
from stepwell.model.workers import NewWorker, Renewed, Worker


class WorkerStore(Protocol):
    """Transitions of workers."""

    async def register(self, worker: NewWorker) -> Worker:
        """A new incarnation with a lease from now. Repeating it is harmless."""
        ...

    async def renew(self, incarnation: Incarnation, lease: int) -> Renewed:
        """A lease that is still live lasts `lease` microseconds from now. Raises `LeaseLostError` if it ran out or
        was removed: it is never revived.

        Also tells which of its runs are `cancelling`, which have a `hold` or are of a workflow that is paused, and how
        many it owns.
        """
        ...

    async def retire(self, incarnation: Incarnation) -> None:
        """Remove the worker and free the runs that it still owns, without counting a stall. What it had taken from the
        outbox is due."""
        ...


def lease_lost(incarnation: str) -> LeaseLostError:
    """A worker without a live lease."""
    return LeaseLostError(
        f"the lease of worker {incarnation} is over",
        why="it was not renewed in time, so others may own its runs",
        fix="start a new worker; a lost lease is never revived",
    )
