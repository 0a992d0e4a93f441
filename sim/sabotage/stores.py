"""Switches that break how the store keeps runs: commits, claims, leases, signals, families."""

from __future__ import annotations

from typing import Any

import apsw

from sim.sabotage.patches import Patches, nothing, statement, switches
from stepwell.model import commits as judgement
from stepwell.model.commits import Park
from stepwell.model.workers import Fence
from stepwell.stores.sqlite import connections, histories
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transitions import claims, commits, ends, moves, operators, starts, workers


def no_fence() -> Patches:
    """Any commit is applied, whoever sends it."""
    original = commits._apply_one

    def apply_one(tx: Any, commit: Any, quota: Any, claimant: Any) -> Any:
        _, owner, epoch, number = stands(tx, commit)
        if owner is not None and (owner, epoch) != commit.fence:
            commit = commit._replace(fence=Fence(owner, epoch), number=number + 1)
        return original(tx, commit, quota, claimant)

    return [(commits, "_apply_one", apply_one)]


def stands(tx: Any, commit: Any) -> tuple[int, Any, int, int]:
    """The number of a commit's run, its owner, its epoch, and the number of its last commit."""
    found = tx.find("runs.find_for_commit", run_id=commit.run_id)
    if found is None:
        return 0, None, 0, 0
    run, *_, owner, epoch, number, _, _ = found
    return run, owner, epoch, number


def no_commit_numbers() -> Patches:
    """A commit that is repeated is applied again."""
    original = commits._apply_one

    def apply_one(tx: Any, commit: Any, quota: Any, claimant: Any) -> Any:
        _, owner, _, number = stands(tx, commit)
        if owner is not None and commit.number == number:
            commit = commit._replace(number=number + 1)
        return original(tx, commit, quota, claimant)

    return [(commits, "_apply_one", apply_one)]


def step_alone_not_fenced() -> Patches:
    """The statement that advances a run as it was left does not look who has it now."""
    owner = "owner = (select id from stepwell_workers where incarnation = :incarnation)"
    fence = f"and epoch = :epoch and status <> 'cancelling' and hold is null and {owner}"
    open_to_all = "and :epoch > 0 and :incarnation <> '' and status <> 'cancelling' and hold is null"
    return statement("runs.advance_known", fence, open_to_all)


def no_unique_key() -> Patches:
    """A key may have several active runs."""
    return [(starts, "_find_by_key", lambda tx, new: None), *keys_not_unique()]


def keys_not_unique() -> Patches:
    """The database itself does not refuse a second active run of a key."""
    original = connections._copy_empty

    def copy_empty(connection: apsw.Connection) -> None:
        original(connection)
        connection.execute("drop index stepwell_runs_active_key")
        connection.execute(
            "create index stepwell_runs_active_key on stepwell_runs (key)"
            " where key is not null and ended_at is null and replaced_by is null and debounced_until is null"
        )

    return [(connections, "_copy_empty", copy_empty)]


def signal_consumed_at_read() -> Patches:
    """Whoever reads a mailbox empties it."""
    original = histories.read_signals

    def read_signals(connection: apsw.Connection, run: int) -> Any:
        signals = original(connection, run)
        connection.execute("update stepwell_signals set payload = null where run = ? and refused is null", (run,))
        return signals

    return [(claims, "read_signals", read_signals), (commits, "consume", nothing)]


def live_workers_rescued() -> Patches:
    """Runs are taken from workers whose lease is live."""
    return statement("workers.list_dead_owners", "w.lease_until > :now", "w.lease_until > :now + 1500000") + statement(
        "workers.find_dead", "lease_until <= :now", "lease_until <= :now + 1500000"
    )


def lease_revived() -> Patches:
    """A lease that is over can be renewed."""

    def find_live(tx: Any, incarnation: Any) -> int:
        found = tx.find("workers.find", incarnation=incarnation)
        if found is None:
            again = {"name": "revived", "now": tx.now, "lease_until": tx.now, "definitions": '["program@1"]'}
            tx.find("workers.register", incarnation=incarnation, **again)
            found = tx.find("workers.find", incarnation=incarnation)
        return int(found[0])

    return [(workers, "find_live", find_live)]


def cancel_overwritten() -> Patches:
    """A run that is being cancelled may still complete."""
    return [(judgement, "may_follow_cancel", lambda move: True), (judgement, "check_move", nothing)]


def continue_drops_signals() -> Patches:
    """Unread signals stay behind when a run continues."""
    return statement("signals.pass_on", "payload is not null", "payload is not null and :successor < 0")


def park_without_looking() -> Patches:
    """A run is parked although what it waits for is there."""
    return [(moves, "is_any_awaited", lambda tx, run, names: False)]


def dedup_ignored() -> Patches:
    """Signals are stored however often they are sent."""
    return statement("signals.find_duplicate", "dedup_key = :dedup_key", "dedup_key = :dedup_key and 0") + statement(
        "signals.insert", ":dedup_key", "iif(:dedup_key is null, null, :signal_id)"
    )


def trim_deletes_undo() -> Patches:
    """Trimming forgets what must still be undone."""
    return statement("entries.trim", "( undo is null or kind", "( true or kind")


def parent_not_told() -> Patches:
    """The end of a child does not wake its parent."""
    return [(ends, "notify_parent", nothing), (moves, "notify_parent", nothing)]


def cancel_without_cascade() -> Patches:
    """A cancel does not reach children."""

    def cancel_family(tx: Any, root: Any, *, compensate: bool, reason: str, announce: Any) -> list[Any]:
        return [root[1]] if ends._cancel_one(tx, root, compensate, reason, announce) else []

    return [(operators, "cancel_family", cancel_family)]


def claim_without_epoch() -> Patches:
    """A claim does not fence the owner before."""
    return statement("runs.claim", "epoch = epoch + 1", "epoch = max(epoch, 1)")


def deadline_not_stored() -> Patches:
    """A parked run has no time to wake."""
    original = moves._park
    return [(moves, "_park", lambda tx, step, _: original(tx, step, Park(None)))]


def claimed_before_due() -> Patches:
    """Runs are claimed a second before they are due."""
    return statement("runs.list_due", "wake_at <= :now", "wake_at <= :now + 1000000")


def begun_ahead() -> Patches:
    """Runs that are delayed begin ahead of their time."""
    return statement("runs.list_soon", "status = 'waiting'", "status in ('waiting', 'pending')")


def effects_outside_the_commit() -> Patches:
    """A fenced commit still writes its entries."""
    original = commits._apply_one

    def apply_one(tx: Any, commit: Any, quota: Any, claimant: Any) -> Any:
        run, owner, epoch, _ = stands(tx, commit)
        if run and (owner, epoch) != commit.fence:
            for entry in commit.entries:
                text = SQL["entries.append"].replace("insert into", "insert or replace into")
                tx.execute(text, {"run": run, **entry._asdict()})
        return original(tx, commit, quota, claimant)

    return [(commits, "_apply_one", apply_one)]


STORE_SWITCHES = switches(
    no_fence,
    no_commit_numbers,
    step_alone_not_fenced,
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
    begun_ahead,
    effects_outside_the_commit,
)
