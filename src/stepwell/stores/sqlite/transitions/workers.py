"""Workers and their leases."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.ids import Incarnation
from stepwell.model.workers import NewWorker, Renewed, Worker
from stepwell.stores.base.workers import lease_lost
from stepwell.stores.sqlite.rows import encode_texts
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.claims import find_live


def register(tx: Transaction, new: NewWorker) -> Worker:
    """Register a worker with a lease that begins now."""
    known = tx.find("workers.find", incarnation=new.incarnation)
    if known is not None and find_live(tx, new.incarnation) is None:
        raise lease_lost(new.incarnation)
    until = Instant(tx.now + new.lease)
    row = tx.find(
        "workers.register",
        incarnation=new.incarnation,
        name=new.name,
        now=tx.now,
        lease_until=until,
        definitions=encode_texts(new.definitions),
    )
    assert row is not None
    return Worker(new.incarnation, new.name, row[0], until, new.definitions)


def renew(tx: Transaction, incarnation: Incarnation, lease: int) -> Renewed:
    """Extend a live lease."""
    worker = find_live(tx, incarnation)
    if worker is None:
        raise lease_lost(incarnation)
    until = Instant(tx.now + lease)
    tx.run("workers.renew", id=worker, lease_until=until)
    cancelling = tuple(run_id for (run_id,) in tx.rows("runs.list_cancelling", owner=worker))
    held = tuple(run_id for (run_id,) in tx.rows("runs.list_held", owner=worker))
    counted = tx.find("runs.count_owned", owner=worker)
    return Renewed(until, cancelling, held, 0 if counted is None else counted[0])
