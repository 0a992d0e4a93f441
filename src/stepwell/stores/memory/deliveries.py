"""Delivering signals to runs, and waking those that wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.model.runs import Claimed
from stepwell.model.signals import Delivered, Delivery, NewSignal
from stepwell.model.workers import Claimant
from stepwell.stores.memory.database import RunRow
from stepwell.stores.memory.runs import Quota, is_parked, wake
from stepwell.stores.memory.signals import is_waited_for, store_signal
from stepwell.stores.memory.transaction import Transaction


def deliver(
    tx: Transaction, signals: Sequence[NewSignal], claimant: Claimant | None
) -> tuple[list[Delivered], list[Claimed]]:
    """Store signals in order, and wake who waits; claims come last, so that an inbox has all of them."""
    woken: dict[str, RunRow] = {}
    delivered = [_deliver_one(tx, new, woken) for new in signals]
    quota = Quota(tx, claimant)
    return delivered, [claimed for row in woken.values() if (claimed := quota.take(tx, row)) is not None]


def _deliver_one(tx: Transaction, new: NewSignal, woken: dict[str, RunRow]) -> Delivered:
    delivered = store_signal(tx, new)
    if delivered.delivery is not Delivery.DELIVERED or delivered.run_id is None:
        return delivered
    row = tx.db.runs[delivered.run_id]
    if not is_parked(row) or not is_waited_for(row.waits, new.name):
        return delivered
    wake(tx, row)
    woken[row.run_id] = row
    return delivered._replace(woke=True)
