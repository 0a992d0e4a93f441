"""Changes of records, with their consequences."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.model.records import Changed, ChangeOutcome, RecordChange, check_change
from stepwell.model.workers import Claimant
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.claims import Quota
from stepwell.stores.sqlite.transitions.records import add, append_events, replace
from stepwell.stores.sqlite.transitions.signals import deliver_all
from stepwell.stores.sqlite.transitions.starts import create_some

_FIND_CHANGE, _FIND_KNOWN = SQL["records.find_change"], SQL["records.find_known"]


def change(tx: Transaction, changes: Sequence[RecordChange], claimant: Claimant | None) -> list[Changed]:
    """Apply changes in order, each if the record still has the version that it was made from."""
    for one in changes:
        check_change(one)
    quota = Quota(tx, claimant)
    return [_change_one(tx, one, quota, claimant) for one in changes]


def _change_one(tx: Transaction, change: RecordChange, quota: Quota, claimant: Claimant | None) -> Changed:
    made = tx.execute(_FIND_CHANGE, (change.change_id,)).fetchone()
    if made is not None:
        return Changed(ChangeOutcome.CHANGED, made[0])
    new = change.record
    known = tx.execute(_FIND_KNOWN, (new.kind, new.record_id)).fetchone()
    version = 0 if known is None else known[1]
    if version != change.expected:
        return Changed(ChangeOutcome.STALE, version)
    number = add(tx, new) if known is None else replace(tx, known, new)
    assert number is not None
    append_events(tx, number, change.events, change.change_id)
    created = create_some(tx, change.starts, quota, claimant) if change.starts else []
    delivered, claimed = deliver_all(tx, change.signals, quota) if change.signals else ([], [])
    return Changed(
        ChangeOutcome.CHANGED,
        version + 1,
        tuple(delivered),
        tuple(one.run_id for one in created),
        (*(one.claimed for one in created if one.claimed is not None), *claimed),
    )
