"""Creating runs."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.clock import Instant, Span
from stepwell.ids import RunId
from stepwell.model.runs import Created, Debounced, NewRun
from stepwell.model.starts import check_replaceable, refused_ids, replaced_by
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.memory.database import RunRow
from stepwell.stores.memory.ends import cancel_family
from stepwell.stores.memory.runs import Quota, insert
from stepwell.stores.memory.transaction import Transaction


def create(tx: Transaction, runs: Sequence[NewRun], claimant: Claimant | None) -> list[Created]:
    """Start runs, each by its id or key if it exists already."""
    if len({new.priority for new in runs}) > 1:
        claimant = None  # those that come later may be more urgent: the next claim sorts them
    if len(runs) > 1:
        stored = {new.run_id: tx.db.runs[new.run_id].input for new in runs if new.run_id in tx.db.runs}
        refused = refused_ids(runs, stored)
        if refused is not None:
            return refused
    quota, together = Quota(tx, claimant), {new.run_id for new in runs}
    return [_create_one(tx, new, quota, together) for new in runs]


def _create_one(tx: Transaction, new: NewRun, quota: Quota, together: set[RunId]) -> Created:
    known = tx.db.runs.get(new.run_id)
    if known is not None:
        return Created(known.run_id, new.own_id, known.input == new.input, is_duplicate_id=not new.own_id)
    met = _find_by_key(tx, new)
    if met is not None and (new.on_conflict == "get" or met.run_id in together):
        return Created(met.run_id, False, met.input == new.input)
    if met is not None:
        check_replaceable(new, met.run_id, met.status)
        cancel_family(tx, met, compensate=True, reason=replaced_by(new.run_id), announce=new.announce)
        tx.change(met, replaced_by=new.run_id)
    row = insert(tx, new)
    claimed = quota.take_new(tx, row, new)
    return Created(row.run_id, True, claimed=claimed, replaced=None if met is None else met.run_id)


def _find_by_key(tx: Transaction, new: NewRun) -> RunRow | None:
    """The run that answers for the key: an active one, or the one that ended last within the window."""
    if new.key is None:
        return None
    if new.key in tx.db.active_keys:
        return tx.db.active_keys[new.key]
    since = tx.now if new.on_conflict == "replace" else tx.now - new.dedup
    ended = [
        (row.ended_at, index, row)
        for index, row in enumerate(tx.db.runs_of_key[new.key].values())
        if row.ended_at is not None and row.ended_at > since and row.status is not RunStatus.CONTINUED
        if row.replaced_by is None and row.debounced_until is None
    ]
    return max(ended)[2] if ended else None


def debounce(tx: Transaction, new: NewRun, quiet: Span, max_wait: Span) -> Debounced:
    """Plan a run that has not begun, or change what it begins with."""
    assert new.key is not None
    row = tx.db.debounced.get(new.key)
    if row is None:
        known = tx.db.runs.get(new.run_id)
        if known is not None:
            return Debounced(new.run_id, False, is_stale=known.input != new.input)
        delayed = new._replace(delay=Span(min(quiet, max_wait)))
        insert(tx, delayed, debounced_until=Instant(tx.now + max_wait))
        return Debounced(new.run_id, True)
    if row.run_id != new.run_id:
        return Debounced(row.run_id, False, is_stale=True)
    assert row.debounced_until is not None
    names = {"workflow": new.workflow, "version": new.version, "definition": new.definition, "priority": new.priority}
    wake_at = None if row.status is RunStatus.PAUSED else min(Instant(tx.now + quiet), row.debounced_until)
    tx.change(row, input=new.input, wake_at=wake_at, **names)
    return Debounced(row.run_id, False)
