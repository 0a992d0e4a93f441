"""Switches that break functions of the PostgreSQL store: a piece of one function's text becomes another."""

from __future__ import annotations

from functools import partial

import sim.databases
from sim.databases import Broken
from sim.sabotage.patches import Patches, Switches

_PLACES: dict[str, Broken] = {
    # Anybody may commit to a run.
    "postgres-no-fence": Broken(
        "judge",
        "p_owner is distinct from c->{Commit.fence}->>{Fence.incarnation} or v_number <> p_number + 1",
        "false",
    ),
    # A claim does not make the earlier ones void.
    "postgres-no-epoch": Broken("claim_runs", "epoch = epoch + 1", "epoch = greatest(epoch, 1)"),
    # A signal that was read can be read again.
    "postgres-signal-not-consumed": Broken(
        "settle_signals",
        "update {t}.signals set payload = null\n        where number = v_number and run = p_run",
        "update {t}.signals set sent_at = sent_at\n        where number = v_number and run = p_run",
    ),
    # Nobody looks at what came before a run parks.
    "postgres-park-without-looking": Broken("is_satisfied", "select exists (", "select false and exists ("),
    # A parent does not hear of its children.
    "postgres-parent-not-told": Broken("notify_parent", "if not found then", "if true then"),
    # Runs are claimed before they are due.
    "postgres-early-claims": Broken("claim", "r.wake_at <= v_now", "r.wake_at <= v_now + 3000000"),
    # Runs that are delayed begin ahead of their time.
    "postgres-begun-ahead": Broken("claim", "and r.status = 'waiting'", "and r.status in ('waiting', 'pending')"),
    # A worker that lives is taken for dead.
    "postgres-live-workers-rescued": Broken("dead_owners", "and w.lease_until > p_now", "and false"),
    # What a run leaves unread is not passed on.
    "postgres-heir-without-signals": Broken(
        "end_run",
        "update {t}.signals set run = v_heir_run where run = p_run and payload is not null and refused is null;",
        "",
    ),
    # A cancel does not reach the children.
    "postgres-cancel-without-family": Broken("cancel_family", "(not c.detached or c.tied)", "false"),
    # An event stays with whoever waits for it, and is given again.
    "postgres-wait-stays-open": Broken(
        "give_event", "set topic = null, facet = null, armed = null", "set armed = w.armed"
    ),
    # What was handed over to a sink is owed still.
    "postgres-sent-and-still-owed": Broken(
        "settle_one", "and run = o.run and sink = o.sink", "and run = o.run and sink = o.sink and false"
    ),
    # A signal that one of many runs read can be read again.
    "postgres-not-consumed-together": Broken(
        "move_batch", "set payload = null from planned", "set sent_at = g.sent_at from planned"
    ),
    # A lease that is over can be renewed.
    "postgres-lease-revived": Broken("renew", "and lease_until > v_now", ""),
    # A record is changed, whatever it has become since it was read.
    "postgres-change-of-any-version": Broken(
        "write_change", "if coalesce(r.version, 0) <> v_expected then", "if false then"
    ),
    # A change whose answer was lost is too late when it is repeated.
    "postgres-change-not-recognised": Broken("has_changed", "and e.change_id = p_change_id", "and false"),
    # A run that ends leaves its records open.
    "postgres-records-left-open": Broken("close_some", "and one.end_state is not null", "and false"),
    # A record is due ahead of its time.
    "postgres-records-due-ahead": Broken(
        "due_records", "{f}.peek_clock(p_now, p_seen);", "{f}.peek_clock(p_now, p_seen) + 2000000;"
    ),
}


def _patches(broken: Broken) -> Patches:
    return [(sim.databases, "BROKEN", broken)]


POSTGRES_SWITCHES: Switches = {name: partial(_patches, broken) for name, broken in _PLACES.items()}
