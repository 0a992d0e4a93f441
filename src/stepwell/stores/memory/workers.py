"""Leases."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.errors import LeaseLostError
from stepwell.ids import Incarnation
from stepwell.model.states import RunStatus
from stepwell.model.workers import NewWorker, Renewed, Worker
from stepwell.stores.memory.database import MemoryDatabase
from stepwell.stores.memory.holds import is_held
from stepwell.stores.memory.transaction import Transaction


def is_live(db: MemoryDatabase, incarnation: Incarnation, now: Instant) -> bool:
    """Whether an incarnation holds a lease now; a missing row counts as dead."""
    worker = db.workers.get(incarnation)
    return worker is not None and worker.lease_until > now


def register(tx: Transaction, new: NewWorker) -> Worker:
    """A worker with a lease from now."""
    known = tx.db.workers.get(new.incarnation)
    if known is not None and not is_live(tx.db, new.incarnation, tx.now):
        raise _lost(new.incarnation)
    started_at = tx.now if known is None else known.started_at
    worker = Worker(new.incarnation, new.name, started_at, Instant(tx.now + new.lease), new.definitions)
    tx.put(tx.db.workers, new.incarnation, worker)
    return worker


def renew(tx: Transaction, incarnation: Incarnation, lease: int) -> Renewed:
    """Lengthen a lease that is still live."""
    if not is_live(tx.db, incarnation, tx.now):
        raise _lost(incarnation)
    until = Instant(tx.now + lease)
    tx.put(tx.db.workers, incarnation, tx.db.workers[incarnation]._replace(lease_until=until))
    owned = tx.db.owned[incarnation].values()
    cancelling = tuple(row.run_id for row in owned if row.status is RunStatus.CANCELLING)
    return Renewed(until, cancelling, tuple(row.run_id for row in owned if is_held(tx.db, row)), len(owned))


def _lost(incarnation: Incarnation) -> LeaseLostError:
    return LeaseLostError(
        f"the lease of worker {incarnation} is over",
        why="it was not renewed in time, so others may own its runs",
        fix="start a new worker; a lost lease is never revived",
    )
