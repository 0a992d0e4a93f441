-- The clock's floor, and whatever else is one number.
create table stepwell_meta (
    name text not null primary key,
    value integer not null
) without rowid, strict;

insert into stepwell_meta (name, value) values ('floor', 0);

-- Names of definitions are long and few: runs and their indexes carry a small number instead.
create table stepwell_definitions (
    id integer primary key,
    workflow text not null,
    version integer not null,
    unique (workflow, version)
) strict;

create table stepwell_workers (
    id integer primary key,
    incarnation text not null unique,
    name text not null,
    started_at integer not null,
    lease_until integer not null,
    definitions text not null
) strict;

-- The hot row: every commit rewrites it, so it is narrow, payloads are apart, and no index has a column that each step changes.
-- `number` is that of the last commit applied in this epoch, `owner` the id of a worker.
create table stepwell_runs (
    id integer primary key,
    run_id text not null unique,
    definition integer not null,
    status text not null check (
        status in (
            'pending', 'running', 'waiting', 'paused', 'cancelling', 'compensating', 'compensation_failed',
            'completed', 'failed', 'compensated', 'cancelled', 'continued'
        )
    ),
    epoch integer not null,
    number integer not null,
    revision integer not null,
    last_seq integer not null,
    stalls integer not null,
    owner integer,
    wake_at integer,
    created_at integer not null,
    started_at integer,
    ended_at integer,
    key text,
    generation integer not null,
    parent text,
    parent_location blob,
    detached integer not null,
    previous text,
    previous_started_at integer,
    previous_finished_at integer,
    successor text,
    cause text,
    reason text not null,
    undo_floor integer not null,
    retried_at integer,
    check ((ended_at is null) = (status not in ('completed', 'failed', 'compensated', 'cancelled', 'continued'))),
    check (owner is null or status in ('running', 'cancelling', 'compensating'))
) strict;

create unique index stepwell_runs_active_key on stepwell_runs (key) where key is not null and ended_at is null;
create index stepwell_runs_key on stepwell_runs (key) where key is not null;
create index stepwell_runs_wake on stepwell_runs (definition, wake_at) where wake_at is not null;
create index stepwell_runs_owner on stepwell_runs (owner) where owner is not null;
-- What people look for. Most runs are completed, and those are found without it.
create index stepwell_runs_status on stepwell_runs (status, run_id) where status <> 'completed';
create index stepwell_runs_parent on stepwell_runs (parent, parent_location) where parent is not null;

create table stepwell_payloads (
    run integer primary key,
    input blob not null,
    output blob,
    failure blob
) strict;

-- Clustered by place: a step costs one insert into one tree, and a loop's old iterations are one range to delete.
-- The letters are checked by a pattern, because SQLite builds a list of values anew for every insert.
create table stepwell_entries (
    run integer not null,
    location blob not null,
    seq integer not null,
    kind text not null check (kind glob '[sozrmjxlcpvkuaiy]'),
    status text not null check (status glob '[df]'),
    value blob not null,
    at integer not null,
    took integer not null,
    attempts integer not null,
    undo blob,
    primary key (run, location)
) without rowid, strict;

create table stepwell_names (
    run integer not null,
    number integer not null,
    name text not null,
    primary key (run, number)
) without rowid, strict;

create table stepwell_attempts (
    run integer not null,
    location blob not null,
    number integer not null,
    at integer not null,
    failure blob,
    next_at integer,
    primary key (run, location, number)
) without rowid, strict;

-- How far the bodies of long steps have come. Empty but for the steps that say so while they run.
create table stepwell_progress (
    run integer not null,
    location blob not null,
    at integer not null,
    state blob,
    done integer,
    total integer,
    unit text not null,
    note text not null,
    turns integer not null,
    primary key (run, location)
) without rowid, strict;

create table stepwell_cursors (
    run integer not null,
    location blob not null,
    iteration integer not null,
    trimmed integer not null,
    state blob not null,
    primary key (run, location)
) without rowid, strict;

-- `names` is a JSON list of signal names; the empty list means any.
create table stepwell_waits (
    run integer not null,
    position integer not null,
    location blob not null,
    kind text not null check (kind in ('timer', 'signal', 'child', 'retry')),
    token integer not null,
    due_at integer,
    names text not null,
    primary key (run, position)
) without rowid, strict;

-- In a mailbox (`run`) or held (`key`). A consumed signal keeps its row without its payload, so that a duplicate is still known.
create table stepwell_signals (
    number integer primary key,
    signal_id text not null unique,
    run integer,
    key text,
    name text not null,
    dedup_key text,
    payload blob,
    sent_at integer not null,
    check ((run is null) <> (key is null))
) strict;

create index stepwell_signals_mailbox on stepwell_signals (run) where run is not null and payload is not null;
create index stepwell_signals_held on stepwell_signals (key) where key is not null;
create unique index stepwell_signals_dedup on stepwell_signals (run, name, dedup_key) where dedup_key is not null;

create table stepwell_audit (
    id integer primary key,
    run integer not null,
    at integer not null,
    verb text not null,
    by text not null,
    before text not null,
    after text not null,
    reason text not null
) strict;

create index stepwell_audit_run on stepwell_audit (run);

-- A run as the model knows it. Cross joins keep the order: the run first, whatever it is looked up by.
create view stepwell_run_rows as
select
    r.id,
    r.run_id,
    d.workflow,
    d.version,
    r.status,
    r.key,
    r.epoch,
    w.incarnation as owner,
    r.revision,
    r.last_seq,
    r.created_at,
    r.started_at,
    r.ended_at,
    r.wake_at,
    p.input,
    r.generation,
    r.parent,
    r.parent_location,
    r.detached,
    r.previous,
    r.previous_started_at,
    r.previous_finished_at,
    r.successor,
    r.cause,
    r.reason,
    r.undo_floor,
    r.stalls,
    r.retried_at,
    p.failure,
    p.output
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
cross join stepwell_payloads as p on p.run = r.id
left join stepwell_workers as w on w.id = r.owner;
