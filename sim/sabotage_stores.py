"""Switches that break a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.clock import Instant
from stepwell.model.commits import Park
from stepwell.model.workers import Fence, Renewed
from stepwell.stores.memory import commits, deliveries, ends, rescues, runs, signals, starts, store, transaction
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transitions import claims

Patches = list[tuple[Any, str, Any]]


def no_fence() -> Patches:
    """Any commit is applied, whoever sends it."""
    original = commits._apply_one

    def apply_one(tx: Any, commit: Any, quota: Any) -> Any:
        row = tx.db.runs.get(commit.run_id)
        if row is not None and row.owner is not None:
            is_ours = (row.owner, row.epoch) == commit.fence
            number = commit.number if is_ours else row.applied + 1
            commit = commit._replace(fence=Fence(row.owner, row.epoch), number=number)
        return original(tx, commit, quota)

    return [(commits, "_apply_one", apply_one)]


def no_commit_numbers() -> Patches:
    """A commit that is repeated is applied again."""
    original = commits._apply_one

    def apply_one(tx: Any, commit: Any, quota: Any) -> Any:
        row = tx.db.runs.get(commit.run_id)
        if row is not None and commit.number == row.applied:
            commit = commit._replace(number=row.applied + 1)
        return original(tx, commit, quota)

    return [(commits, "_apply_one", apply_one)]


def no_unique_key() -> Patches:
    """A key may have several active runs."""
    return [(starts, "_find_by_key", lambda tx, new: None)]


def signal_consumed_at_read() -> Patches:
    """Whoever reads a mailbox empties it."""
    original = runs.read_inbox

    def read_inbox(db: Any, row: Any) -> Any:
        inbox = original(db, row)
        db.mailboxes[("run", row.run_id)].clear()
        return inbox

    return [(runs, "read_inbox", read_inbox), (signals, "consume", _nothing), (commits, "consume", _nothing)]


def live_workers_rescued() -> Patches:
    """Runs are taken from workers whose lease is live."""
    return [(rescues, "is_live", lambda db, incarnation, now: False), (rescues, "has_stranded", lambda db, now: True)]


def lease_revived() -> Patches:
    """A lease that is over can be renewed."""

    def renew(tx: Any, incarnation: Any, lease: int) -> Renewed:
        worker = tx.db.workers.get(incarnation)
        if worker is None:
            worker = next(iter(tx.db.workers.values()))._replace(incarnation=incarnation)
        until = Instant(tx.now + lease)
        tx.put(tx.db.workers, incarnation, worker._replace(lease_until=until))
        return Renewed(until)

    return [(store, "renew", renew)]


def cancel_overwritten() -> Patches:
    """A run that is being cancelled may still complete."""
    return [(commits, "may_follow_cancel", lambda move: True), (transaction, "check_move", _nothing)]


def continue_drops_signals() -> Patches:
    """Unread signals stay behind when a run continues."""
    return [(commits, "pass_on", _nothing)]


def park_without_looking() -> Patches:
    """A run is parked although what it waits for is there."""
    return [(commits, "has_awaited_signal", lambda db, row: False)]


def dedup_ignored() -> Patches:
    """Signals are stored however often they are sent."""
    original = signals.store_signal
    return [(deliveries, "store_signal", lambda tx, new: original(tx, new._replace(dedup_key=None)))]


def trim_deletes_undo() -> Patches:
    """Trimming forgets what must still be undone."""
    original = commits._trim

    def trim(tx: Any, row: Any, low: Any, high: Any, announce: Any) -> None:
        original(tx, row, low, high, announce)
        entries = tx.db.entries[row.run_id]
        tx.drop_all(entries, [at for at in entries if low <= at < high])

    return [(commits, "_trim", trim)]


def parent_not_told() -> Patches:
    """The end of a child does not wake its parent."""
    return [(ends, "_tell_parent", _nothing)]


def cancel_without_cascade() -> Patches:
    """A cancel does not reach children."""

    def cancel_family(tx: Any, root: Any, *, compensate: bool, reason: str, announce: Any) -> list[Any]:
        return [root] if ends._cancel_one(tx, root, compensate, reason, announce) else []

    from stepwell.stores.memory import operators

    return [(operators, "cancel_family", cancel_family)]


def claim_without_epoch() -> Patches:
    """A claim does not fence the owner before."""
    original = runs.own

    def own(tx: Any, row: Any, claimant: Any) -> Any:
        epoch = row.epoch
        claimed = original(tx, row, claimant)
        row.epoch = epoch
        return claimed._replace(run=claimed.run._replace(epoch=epoch))

    return [(runs, "own", own)]


def deadline_not_stored() -> Patches:
    """A parked run has no time to wake."""
    original = commits._move

    def move(tx: Any, row: Any, what: Any, announce: Any) -> None:
        original(tx, row, what._replace(wake_at=None) if isinstance(what, Park) else what, announce)

    return [(commits, "_move", move)]


def claimed_before_due() -> Patches:
    """Runs are claimed a second before they are due."""
    original = runs._longest_due
    return [
        (runs, "_longest_due", lambda db, definitions, now: original(db, definitions, Instant(now + 1_000_000))),
    ]


def effects_outside_the_commit() -> Patches:
    """A fenced commit still starts its children and consumes its signals."""
    original = commits._apply_one

    def apply_one(tx: Any, commit: Any, quota: Any) -> Any:
        row = tx.db.runs.get(commit.run_id)
        if row is not None and (row.owner, row.epoch) != commit.fence:
            for entry in commit.entries:
                tx.put(tx.db.entries[row.run_id], entry.location, entry)
        return original(tx, commit, quota)

    return [(commits, "_apply_one", apply_one)]


def _nothing(*_: Any, **__: Any) -> None:
    return None


STORE_SWITCHES: dict[str, Callable[[], Patches]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        no_fence,
        no_commit_numbers,
        no_unique_key,
        signal_consumed_at_read,
        live_workers_rescued,
        lease_revived,
        cancel_overwritten,
        continue_drops_signals,
        park_without_looking,
        dedup_ignored,
        trim_deletes_undo,
        parent_not_told,
        cancel_without_cascade,
        claim_without_epoch,
        deadline_not_stored,
        claimed_before_due,
        effects_outside_the_commit,
    )
}


# --- the statements of the SQLite store ----------------------------------------------------


def _statement(name: str, old: str, new: str) -> Patches:
    assert old in SQL[name], f"{name} has changed: {SQL[name]}"
    return [(SQL, name, SQL[name].replace(old, new))]


def sqlite_not_due() -> Patches:
    """Runs are claimed before they are due."""
    return _statement("runs.list_due", "wake_at <= :now", "wake_at <= :now + 1000000")


def sqlite_begun_ahead() -> Patches:
    """Runs that are delayed begin ahead of their time."""
    return _statement("runs.list_soon", "status = 'waiting'", "status in ('waiting', 'pending')")


def sqlite_claim_without_epoch() -> Patches:
    """A claim does not fence the owner before."""
    return [(claims, "_CLAIM", claims._CLAIM.replace("epoch = epoch + 1", "epoch = max(epoch, 1)"))]


def sqlite_signals_stay_behind() -> Patches:
    """Unread signals stay behind when a run continues."""
    return _statement("signals.pass_on", "payload is not null", "payload is not null and :successor < 0")


def sqlite_live_workers_rescued() -> Patches:
    """Runs are taken from workers whose lease is live."""
    return _statement(
        "workers.list_dead_owners", "w.lease_until > :now", "w.lease_until > :now + 1500000"
    ) + _statement("workers.find_dead", "lease_until <= :now", "lease_until <= :now + 1500000")


def sqlite_dedup_ignored() -> Patches:
    """Signals are stored however often they are sent."""
    return _statement("signals.find_twin", "dedup_key = :dedup_key", "dedup_key = :dedup_key and 0") + _statement(
        "signals.insert", ":dedup_key", "iif(:dedup_key is null, null, :signal_id)"
    )


SQLITE_SWITCHES: dict[str, Callable[[], Patches]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        sqlite_not_due,
        sqlite_begun_ahead,
        sqlite_claim_without_epoch,
        sqlite_signals_stay_behind,
        sqlite_live_workers_rescued,
        sqlite_dedup_ignored,
    )
}
