"""Delivering signals to runs, and waking those that wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.model.runs import Claimed
from stepwell.model.signals import Delivered, Delivery, NewSignal
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.claims import Quota, is_parked, wake
from stepwell.stores.sqlite.transitions.moves import is_any_awaited


def deliver(
    tx: Transaction, signals: Sequence[NewSignal], claimant: Claimant | None
) -> tuple[list[Delivered], list[Claimed]]:
    """Store signals in order, and wake who waits; claims come last, so that an inbox has all of them."""
    woken: dict[int, None] = {}
    delivered = [_deliver_one(tx, new, woken) for new in signals]
    quota = Quota(tx, claimant)
    return delivered, [claimed for run in woken if (claimed := quota.take(run)) is not None]


def _deliver_one(tx: Transaction, new: NewSignal, woken: dict[int, None]) -> Delivered:
    known = tx.find("signals.find", signal_id=new.signal_id)
    if known is not None:
        return Delivered(Delivery.DUPLICATE, known[0])
    target, is_known_id = _find_target(tx, new.target)
    if target is None:
        return Delivered(Delivery.MISSING) if is_known_id or not new.hold else _hold(tx, new)
    run, run_id, status, owner, *_ = target
    if new.dedup_key is not None:
        twin = tx.find("signals.find_twin", run=run, name=new.name, dedup_key=new.dedup_key)
        if twin is not None:
            return Delivered(Delivery.DUPLICATE, run_id)
    _insert(tx, new, run=run)
    if owner is not None:
        tx.hint(HintKind.MAIL, run_id)
    if not is_parked(status, owner) or not is_any_awaited(tx, run, [new.name]):
        return Delivered(Delivery.DELIVERED, run_id)
    wake(tx, run, run_id)
    woken[run] = None
    return Delivered(Delivery.DELIVERED, run_id, woke=True)


def _find_target(tx: Transaction, target: str) -> tuple[Row | None, bool]:
    """The active run that a target means, and whether the target is the id of a run at all."""
    row = tx.find("runs.find_for_signal", run_id=target)
    if row is None:
        return tx.find("runs.find_active_for_signal", key=target), False
    while row is not None and row[2] == RunStatus.CONTINUED.value:
        row = tx.find("runs.find_for_signal", run_id=row[5])
    return (row if row is not None and row[6] is None else None), True


def _hold(tx: Transaction, new: NewSignal) -> Delivered:
    if new.dedup_key is not None:
        twin = tx.find("signals.find_held_twin", key=new.target, name=new.name, dedup_key=new.dedup_key)
        if twin is not None:
            return Delivered(Delivery.DUPLICATE)
    _insert(tx, new, key=new.target)
    return Delivered(Delivery.HELD)


def _insert(tx: Transaction, new: NewSignal, *, run: int | None = None, key: str | None = None) -> None:
    tx.run(
        "signals.insert",
        signal_id=new.signal_id,
        run=run,
        key=key,
        name=new.name,
        dedup_key=new.dedup_key,
        payload=new.payload,
        sent_at=tx.now,
    )
