"""Delivering signals, and moving them between mailboxes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stepwell.ids import RunId, SignalId
from stepwell.model.signals import Delivered, Delivery, NewSignal, Question, Redelivery, Refusal, Reply
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.memory.database import Mailbox, MemoryDatabase, RunRow, SignalRow
from stepwell.stores.memory.transaction import Transaction


def store_signal(tx: Transaction, new: NewSignal) -> Delivered:
    """Put one signal where it belongs. Whether it wakes anybody is the caller's business."""
    known = tx.db.signals.get(new.signal_id)
    if known is not None:
        return _duplicate(known)
    row, is_known_id = _find_target(tx.db, new.target)
    if row is None and (is_known_id or not new.hold):
        knows = _find_ended(tx.db, new)
        return Delivered(Delivery.MISSING) if knows is None else Delivered(Delivery.DUPLICATE, knows)
    mailbox: Mailbox = ("key", new.target) if row is None else ("run", row.run_id)
    if new.dedup_key is not None and (mailbox, new.name, new.dedup_key) in tx.db.dedup:
        return _duplicate(tx.db.dedup[mailbox, new.name, new.dedup_key])
    _insert(tx, new, mailbox)
    if row is None:
        return Delivered(Delivery.HELD)
    if row.owner is not None:
        tx.hint(HintKind.MAIL, row)
    return Delivered(Delivery.DELIVERED, row.run_id)


def _duplicate(known: SignalRow) -> Delivered:
    kind, name = known.mailbox
    return Delivered(Delivery.DUPLICATE, RunId(name) if kind == "run" else None)


def _find_target(db: MemoryDatabase, target: str) -> tuple[RunRow | None, bool]:
    """The active run that a target means, and whether the target is the id of a run at all."""
    row = db.runs.get(RunId(target))
    if row is None:
        return db.active_keys.get(target), False
    while row.status is RunStatus.CONTINUED and row.successor is not None:
        row = db.runs[row.successor]
    return (None if row.status in TERMINAL else row), True


def _find_ended(db: MemoryDatabase, new: NewSignal) -> RunId | None:
    """The newest run that the target meant, and that knows the dedup key."""
    if new.dedup_key is None:
        return None
    meant = {run_id for run_id, row in db.runs_of_key.get(new.target, {}).items()}
    run_id: RunId | None = RunId(new.target)
    while run_id is not None and run_id in db.runs:
        meant.add(run_id)
        run_id = db.runs[run_id].successor
    known = [run_id for run_id in db.runs if run_id in meant and (("run", run_id), new.name, new.dedup_key) in db.dedup]
    return known[-1] if known else None


def _insert(tx: Transaction, new: NewSignal, mailbox: Mailbox) -> None:
    # A number that a failed transition used up is simply left out.
    tx.db.signals_sent += 1
    row = SignalRow(tx.db.signals_sent, new.signal_id, new.name, new.payload, tx.now, new.dedup_key, mailbox, new.asks)
    tx.put(tx.db.signals, row.signal_id, row)
    tx.put(tx.db.mailboxes[mailbox], row.number, row)
    if row.dedup_key is not None:
        tx.put(tx.db.dedup, (mailbox, row.name, row.dedup_key), row)


def is_waited_for(waits: Iterable[Wait], name: str) -> bool:
    """Whether one of the waits is for a signal of this name, or of any."""
    return any(wait.kind is WaitKind.SIGNAL and (not wait.names or name in wait.names) for wait in waits)


def has_awaited_signal(db: MemoryDatabase, row: RunRow) -> bool:
    """Whether the mailbox holds a signal that the run waits for."""
    return any(is_waited_for(row.waits, signal.name) for signal in db.pending(("run", row.run_id)))


def consume(tx: Transaction, row: RunRow, numbers: Iterable[int]) -> None:
    """Take signals out of the mailbox; they stay known as duplicates."""
    box = tx.db.mailboxes[("run", row.run_id)]
    for number in numbers:
        if number not in box:
            raise ValueError(f"run {row.run_id} has no pending signal {number}")
        tx.drop(box, number)


def refuse(tx: Transaction, row: RunRow, refusals: Iterable[Refusal]) -> None:
    """Set signals aside that the run would not take."""
    box = tx.db.mailboxes[("run", row.run_id)]
    for number, reason in refusals:
        if number not in box:
            raise ValueError(f"run {row.run_id} has no pending signal {number}")
        tx.put(tx.db.refused, number, (box[number], reason))
        tx.drop(box, number)


def reply(tx: Transaction, row: RunRow, replies: Iterable[Reply]) -> None:
    """Keep what the run answers; the first answer counts."""
    for one in replies:
        if one.number not in tx.db.replies:
            tx.put(tx.db.replies, one.number, one)
            tx.put(tx.db.replied_at, one.number, tx.now)
        tx.hint(HintKind.REPLIED, row)


def discard(tx: Transaction, row: RunRow) -> None:
    """Drop what nobody read."""
    box = tx.db.mailboxes[("run", row.run_id)]
    tx.drop_all(box, box)


def take_over_held(tx: Transaction, key: str, run_id: RunId) -> None:
    """Move what was held for a key to its run; what that run knows already is dropped."""
    mailbox: Mailbox = ("run", run_id)
    for signal in tx.db.pending(("key", key)):
        if signal.dedup_key is not None and (mailbox, signal.name, signal.dedup_key) in tx.db.dedup:
            drop_twin(tx, signal, mailbox)
        else:
            tx.move_signal(signal, mailbox)


def drop_twin(tx: Transaction, signal: SignalRow, mailbox: Mailbox) -> None:
    """Take away a signal whose dedup key a run knows; from then on it counts as one that this run has read."""
    assert signal.dedup_key is not None
    tx.drop(tx.db.mailboxes[signal.mailbox], signal.number)
    tx.drop(tx.db.dedup, (signal.mailbox, signal.name, signal.dedup_key))
    tx.assign(signal, mailbox=mailbox, dedup_key=None)


def pass_on(tx: Transaction, run_id: RunId, successor: RunId) -> None:
    """Move unconsumed signals along a chain."""
    for signal in tx.db.pending(("run", run_id)):
        tx.move_signal(signal, ("run", successor))


def move_stray(tx: Transaction, letter: Redelivery) -> tuple[Delivered, str]:
    """Move a signal that no run will read to one that may; what became of it, and its name."""
    stray, missing = _find_stray(tx.db, letter.number), Delivered(Delivery.MISSING)
    target, _ = _find_target(tx.db, letter.target)
    if stray is None or target is None:
        return missing, ""
    mailbox: Mailbox = ("run", target.run_id)
    tx.drop(tx.db.refused, stray.number)
    if stray.dedup_key is not None:
        if tx.db.dedup.get((mailbox, stray.name, stray.dedup_key), stray) is not stray:
            drop_twin(tx, stray, mailbox)
            return Delivered(Delivery.DUPLICATE, target.run_id), stray.name
        tx.drop(tx.db.dedup, (stray.mailbox, stray.name, stray.dedup_key))
    tx.drop(tx.db.mailboxes[stray.mailbox], stray.number)
    tx.db.signals_sent += 1
    moved = replace(stray, number=tx.db.signals_sent, payload=letter.payload, mailbox=mailbox)
    tx.put(tx.db.signals, moved.signal_id, moved)
    tx.put(tx.db.mailboxes[mailbox], moved.number, moved)
    if moved.dedup_key is not None:
        tx.put(tx.db.dedup, (mailbox, moved.name, moved.dedup_key), moved)
    if target.owner is not None:
        tx.hint(HintKind.MAIL, target)
    return Delivered(Delivery.DELIVERED, target.run_id), stray.name


def _find_stray(db: MemoryDatabase, number: int) -> SignalRow | None:
    if number in db.refused:
        return db.refused[number][0]
    for (kind, name), box in db.mailboxes.items():
        if number in box and (kind == "key" or db.runs[RunId(name)].status in TERMINAL):
            return box[number]
    return None


def find_question(db: MemoryDatabase, signal_id: SignalId) -> Question | None:
    """What became of a signal that asked."""
    row = db.signals.get(signal_id)
    if row is None:
        return None
    run = db.runs.get(RunId(row.mailbox[1])) if row.mailbox[0] == "run" else None
    is_read = row.number not in db.mailboxes[row.mailbox]
    reply = db.replies.get(row.number)
    return Question(None, None, is_read, reply) if run is None else Question(run.run_id, run.status, is_read, reply)
