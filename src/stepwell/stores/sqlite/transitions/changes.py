"""Changes of records, with their consequences."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.model.records import Changed, ChangeOutcome, RecordChange, check_change
from stepwell.model.workers import Claimant
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.claims import Quota
from stepwell.stores.sqlite.transitions.records import add, append_events, find_known, replace
from stepwell.stores.sqlite.transitions.signals import deliver_all
from stepwell.stores.sqlite.transitions.starts import create_some

_FIND_MADE = SQL["records.find_made"]


def change(tx: Transaction, changes: Sequence[RecordChange], claimant: Claimant | None) -> list[Changed]:
    """Apply changes in order, each if the record still has the version that it was made from."""
    for one in changes:
        check_change(one)
    quota = Quota(tx, claimant)
    return [_change_one(tx, one, quota, claimant) for one in changes]


def _change_one(tx: Transaction, change: RecordChange, quota: Quota, claimant: Claimant | None) -> Changed:
    new, made = change.record, change.expected + 1
    known = find_known(tx, new)
    version = 0 if known is None else known[1]
    if version != change.expected:
        # Only now it may have been applied before.
        if known is not None and tx.execute(_FIND_MADE, (known[0], made)).fetchone() == (made, change.change_id):
            return Changed(ChangeOutcome.CHANGED, made)
        return Changed(ChangeOutcome.STALE, version)
    number = add(tx, new) if known is None else replace(tx, known, new)
    assert number is not None
    append_events(tx, number, made, change.events, change.change_id)
    if not change.starts:
        delivered, claimed = deliver_all(tx, change.signals, quota) if change.signals else ([], [])
        return Changed(ChangeOutcome.CHANGED, made, tuple(delivered), (), tuple(claimed))
    created = create_some(tx, change.starts, quota, claimant)
    delivered, claimed = deliver_all(tx, change.signals, quota)
    return Changed(
        ChangeOutcome.CHANGED,
        made,
        tuple(delivered),
        tuple(one.run_id for one in created),
        (*(one.claimed for one in created if one.claimed is not None), *claimed),
    )
