"""Delivering signals to runs, and waking those that wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.model.runs import Claimed, Created, NewRun
from stepwell.model.signals import Delivered, Delivery, NewSignal, Redelivery
from stepwell.model.workers import Claimant
from stepwell.stores.memory.database import RunRow
from stepwell.stores.memory.runs import Quota, is_parked, wake
from stepwell.stores.memory.signals import is_waited_for, move_stray, store_signal
from stepwell.stores.memory.starts import create
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
    return _tell(tx, store_signal(tx, new), new.name, woken)


def _tell(tx: Transaction, delivered: Delivered, name: str, woken: dict[str, RunRow]) -> Delivered:
    """Wake the run that has just got a signal, if it waits for it."""
    if delivered.delivery is not Delivery.DELIVERED or delivered.run_id is None:
        return delivered
    row = tx.db.runs[delivered.run_id]
    if not is_parked(row) or not is_waited_for(row.waits, name):
        return delivered
    wake(tx, row)
    woken[row.run_id] = row
    return delivered._replace(woke=True)


def deliver_or_create(
    tx: Transaction, signal: NewSignal, run: NewRun, claimant: Claimant | None
) -> tuple[Created, Delivered, list[Claimed]]:
    """Deliver to the active run of a key, or create it: it takes over what is held for its key, so this comes first."""
    signal = signal._replace(target=run.key or "", hold=True)
    known = tx.db.signals.get(signal.signal_id)
    active = tx.db.active_keys.get(run.key or "")
    if known is not None or active is not None:
        delivered, claimed = deliver(tx, [signal], claimant)
        run_id = active.run_id if known is None and active is not None else delivered[0].run_id
        assert run_id is not None
        is_same = known is not None or tx.db.runs[run_id].input == run.input
        return Created(run_id, run_id == run.run_id, is_same), delivered[0], claimed
    held = store_signal(tx, signal)
    [created] = create(tx, [run], claimant)
    delivery = Delivery.DELIVERED if held.delivery is Delivery.HELD else held.delivery
    return created, Delivered(delivery, created.run_id), [] if created.claimed is None else [created.claimed]


def redeliver(
    tx: Transaction, letters: Sequence[Redelivery], claimant: Claimant | None
) -> tuple[list[Delivered], list[Claimed]]:
    """Move strays to runs that may read them."""
    woken: dict[str, RunRow] = {}
    delivered = [_tell(tx, *move_stray(tx, letter), woken) for letter in letters]
    quota = Quota(tx, claimant)
    return delivered, [claimed for row in woken.values() if (claimed := quota.take(tx, row)) is not None]
