"""Delivering signals to runs, and waking the runs that wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.model.records import AFTER_END
from stepwell.model.runs import Claimed, Created, NewRun
from stepwell.model.signals import Delivered, Delivery, NewSignal, Redelivery
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.audit import Actor, note
from stepwell.stores.sqlite.transitions.claims import Quota, claim_run, is_parked, wake
from stepwell.stores.sqlite.transitions.moves import is_awaited
from stepwell.stores.sqlite.transitions.starts import create

_INSERT = SQL["signals.insert"]


def deliver(
    tx: Transaction, signals: Sequence[NewSignal], claimant: Claimant | None
) -> tuple[list[Delivered], list[Claimed]]:
    """Store signals in order, and wake the waiting runs. Claims come last, so that an inbox has all signals."""
    woken: dict[int, Row] = {}
    delivered = [_deliver_one(tx, new, woken) for new in signals]
    return delivered, _wake_all(tx, woken, Quota(tx, claimant))


def deliver_all(tx: Transaction, signals: Sequence[NewSignal], quota: Quota) -> tuple[list[Delivered], list[Claimed]]:
    """Deliver signals of which none is lost: without an active run, an ended run keeps it as refused, or it is held."""
    woken: dict[int, Row] = {}
    delivered = [_deliver_or_keep(tx, new, woken) for new in signals]
    return delivered, _wake_all(tx, woken, quota)


def _deliver_or_keep(tx: Transaction, new: NewSignal, woken: dict[int, Row]) -> Delivered:
    delivered = _deliver_one(tx, new, woken)
    if delivered.delivery is not Delivery.MISSING:
        return delivered
    ended = _find_ended(tx, new.target)
    if ended is None:
        return _hold(tx, new)
    run, run_id = ended
    values = {"signal_id": new.signal_id, "run": run, "name": new.name, "dedup_key": new.dedup_key}
    tx.run("signals.insert_refused", **values, payload=new.payload, now=tx.now, reason=AFTER_END)
    return Delivered(Delivery.MISSING, run_id)


def _find_ended(tx: Transaction, target: str) -> Row | None:
    """The number and id of the ended run for a target: the last one of its chain, or the last one with its key."""
    row = tx.find("runs.find_for_signal", run_id=target)
    if row is None:
        return tx.find("runs.find_last_ended_of_key", key=target)
    while row[5] is not None and (following := tx.find("runs.find_for_signal", run_id=row[5])) is not None:
        row = following
    return row[:2]


def _wake_all(tx: Transaction, woken: dict[int, Row], quota: Quota) -> list[Claimed]:
    """Make runs due, and claim as many as the claimant may take."""
    if len(woken) == 1:  # among several, one may be more urgent; the claims below find it
        [(run, (_, run_id, *_, definition, priority))] = woken.items()
        owner = quota.reserve(definition, priority)
        if owner is not None:
            return [claim_run(tx, run, owner)]  # directly: making it due first would write a page of an index
        wake(tx, run, run_id)
        return []
    for run, (_, run_id, *_) in woken.items():
        wake(tx, run, run_id)
    return [claimed for run in woken if (claimed := quota.take(run)) is not None]


def _deliver_one(tx: Transaction, new: NewSignal, woken: dict[int, Row]) -> Delivered:
    target, is_known_id = _find_target(tx, new.target)
    pending, is_full = (0, False) if target is None else _count(tx, new, "signals.count_pending", target[0])
    if target is not None and new.dedup_key is None and not is_full and _insert(tx, new, run=target[0]):
        return _note_woken(tx, target, new.name, woken, pending)
    known = tx.find("signals.find", signal_id=new.signal_id)
    if known is not None:
        return Delivered(Delivery.DUPLICATE, known[0])
    if target is None:
        return _miss(tx, new) if is_known_id or not new.hold else _hold(tx, new)
    run, run_id, *_ = target
    if tx.find("signals.find_duplicate", run=run, name=new.name, dedup_key=new.dedup_key) is not None:
        return Delivered(Delivery.DUPLICATE, run_id)
    if is_full:
        return Delivered(Delivery.FULL, run_id, pending=pending)
    _insert(tx, new, run=run)
    return _note_woken(tx, target, new.name, woken, pending)


def _count(tx: Transaction, new: NewSignal, statement: str, where: int | str) -> tuple[int, bool]:
    """How many signals there will be, and whether there are as many as there may be. Without a limit nothing is
    counted.
    """
    if new.pending_max is None:
        return 0, False
    found = tx.find(statement, at=where, max=new.pending_max)
    count = 0 if found is None else int(found[0])
    return (count, True) if count >= new.pending_max else (count + 1, False)


def _note_woken(tx: Transaction, target: Row, name: str, woken: dict[int, Row], pending: int = 0) -> Delivered:
    """Note that a run that just got a signal must be woken, if it waits for this signal."""
    run, run_id, status, owner, _, _, _, awaited, *_ = target
    if owner is not None:
        tx.hint(HintKind.MAIL, run_id)
    if awaited is None or not is_parked(status, owner):
        return Delivered(Delivery.DELIVERED, run_id, False, pending)
    if not any([is_awaited(stored, (name,)) for stored in awaited.split("\n")]):
        return Delivered(Delivery.DELIVERED, run_id, False, pending)
    woken[run] = target
    return Delivered(Delivery.DELIVERED, run_id, True, pending)


def _find_target(tx: Transaction, target: str) -> tuple[Row | None, bool]:
    """The active run for a target, and whether the target is the id of a run at all."""
    row = tx.find("runs.find_for_signal", run_id=target)
    if row is None:
        return tx.find("runs.find_active_for_signal", key=target), False
    while row is not None and row[2] == RunStatus.CONTINUED.value:
        row = tx.find("runs.find_for_signal", run_id=row[5])
    return (row if row is not None and row[6] is None else None), True


def _miss(tx: Transaction, new: NewSignal) -> Delivered:
    """No active run gets the signal. An ended run may have got it before."""
    ended = None
    if new.dedup_key is not None:
        ended = tx.find("signals.find_ended_duplicate", target=new.target, name=new.name, dedup_key=new.dedup_key)
    return Delivered(Delivery.MISSING) if ended is None else Delivered(Delivery.DUPLICATE, ended[0])


def _hold(tx: Transaction, new: NewSignal) -> Delivered:
    if new.dedup_key is not None:
        duplicate = tx.find("signals.find_held_duplicate", key=new.target, name=new.name, dedup_key=new.dedup_key)
        if duplicate is not None:
            return Delivered(Delivery.DUPLICATE)
    pending, is_full = _count(tx, new, "signals.count_held", new.target)
    if is_full:
        return Delivered(Delivery.FULL, pending=pending)
    _insert(tx, new, key=new.target)
    return Delivered(Delivery.HELD, pending=pending)


def _insert(tx: Transaction, new: NewSignal, *, run: int | None = None, key: str | None = None) -> bool:
    """Store a signal. False, and nothing is stored, if its id is known."""
    values = (new.signal_id, run, key, new.name, new.dedup_key, new.payload, tx.now, int(new.asks))
    tx.write(_INSERT, values)
    return tx.connection.changes() == 1


def deliver_or_create(
    tx: Transaction, signal: NewSignal, run: NewRun, claimant: Claimant | None
) -> tuple[Created, Delivered, list[Claimed]]:
    """Deliver to the active run of a key, or create it. The signal is held first: a new run takes over held signals."""
    known = tx.find("signals.find", signal_id=signal.signal_id)
    if known is not None:
        return Created(known[0], known[0] == run.run_id), Delivered(Delivery.DUPLICATE, known[0]), []
    active = tx.find("runs.find_active_of_key", key=run.key)
    if active is not None:
        delivered, claimed = deliver(tx, [signal._replace(target=run.key or "")], claimant)
        met = tx.find("runs.find_input", run_id=active[0])
        return (
            Created(active[0], active[0] == run.run_id, met is not None and met[0] == run.input),
            delivered[0],
            claimed,
        )
    missed = _miss(tx, signal._replace(target=run.key or ""))
    if missed.run_id is not None:
        met = tx.find("runs.find_input", run_id=missed.run_id)
        return Created(missed.run_id, False, met is not None and met[0] == run.input), missed, []
    held = _hold(tx, signal._replace(target=run.key or ""))
    if held.delivery is Delivery.FULL:
        return Created(run.run_id, False), held, []
    [created] = create(tx, [run], claimant)
    delivery = Delivery.DELIVERED if held.delivery is Delivery.HELD else held.delivery
    return (
        created,
        Delivered(delivery, created.run_id, False, held.pending),
        [] if created.claimed is None else [created.claimed],
    )


def redeliver(
    tx: Transaction, letters: Sequence[Redelivery], claimant: Claimant | None
) -> tuple[list[Delivered], list[Claimed]]:
    """Move undelivered signals to runs that may read them."""
    woken: dict[int, Row] = {}
    delivered = [_redeliver_one(tx, letter, woken) for letter in letters]
    return delivered, _wake_all(tx, woken, Quota(tx, claimant))


def _redeliver_one(tx: Transaction, letter: Redelivery, woken: dict[int, Row]) -> Delivered:
    undelivered = tx.find("signals.find_undelivered", number=letter.number)
    target, _ = _find_target(tx, letter.target)
    if undelivered is None or target is None:
        return Delivered(Delivery.MISSING)
    name, dedup_key = undelivered
    run, run_id, *_ = target
    known = {"run": run, "name": name, "dedup_key": dedup_key, "number": letter.number}
    if dedup_key is not None and tx.find("signals.find_known", **known) is not None:
        tx.run("signals.drop_undelivered", run=run, number=letter.number)
        return Delivered(Delivery.DUPLICATE, run_id)
    tx.run("signals.redeliver", run=run, payload=letter.payload, number=letter.number)
    return _note_woken(tx, target, name, woken)


def drop(tx: Transaction, number: int, actor: Actor, reason: str) -> bool:
    """Drop a signal that a run refused or left unread. Its ids stay known."""
    found = tx.find("signals.find_left", number=number)
    if found is None:
        return False
    run, name, status = found
    tx.run("signals.forget_payload", number=number)
    note(tx, run, "drop_signal", actor, status, name + (f": {reason}" if reason else ""))
    return True
