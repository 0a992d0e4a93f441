-- All migrations in order, for reading. Written by `make docs`; the migrations are what is run.

-- 0001_foundation

-- Single numbers.
create table stepwell_meta (
    name text not null primary key,
    value integer not null
) without rowid, strict;

insert into stepwell_meta (name, value) values ('armed', 0), ('receipts', 0), ('encrypted', 0);

-- The store's time: an instant that was reached, and what the boot clock showed then, in microseconds. `divisor` is 2
-- while time runs at half speed, because it is far ahead of the wall clock.
create table stepwell_clock (
    id integer primary key check (id = 1),
    floor integer not null,
    uptime integer not null,
    boot text not null,
    divisor integer not null check (divisor = 1 or divisor = 2)
) strict;

insert into stepwell_clock (id, floor, uptime, boot, divisor) values (1, 0, 0, '', 1);

-- A row here closes the database: its contents are being or were moved (`kind`), to or from another database (`peer`).
create table stepwell_seals (
    id integer primary key check (id = 1),
    transfer_id text not null,
    kind text not null check (kind in ('leaving', 'left', 'arriving')),
    peer text not null,
    at integer not null
) strict;

-- Names of definitions are long and few, so runs and their indexes contain a small number instead. Each priority has a
-- number of its own, so that the due runs of one priority are one range of the index by definition and time.
create table stepwell_definitions (
    id integer primary key,
    workflow text not null,
    version integer not null,
    priority integer not null,
    unique (workflow, version, priority)
) strict;

-- Empty while no run has a priority, which every claim checks first.
create index stepwell_definitions_lanes on stepwell_definitions (priority) where priority <> 0;

create table stepwell_workers (
    id integer primary key,
    incarnation text not null unique,
    name text not null,
    started_at integer not null,
    lease_until integer not null,
    definitions text not null
) strict;

-- The hot row: every commit rewrites it, so it is narrow, payloads are separate, and no index has a column that each
-- step changes. `number` is that of the last commit applied in this epoch, `owner` the id of a worker. `hold`: a person
-- paused the run; a JSON list of who, why and when. If the run has an owner, the owner must release it. The check of
-- the status is a `case`, because SQLite builds a list of values (`in`) anew for every row that it checks.
create table stepwell_runs (
    id integer primary key,
    run_id text not null unique,
    definition integer not null,
    status text not null,
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
    tied integer not null,
    deadline_at integer,
    max_suspend integer,
    replaced_by text,
    debounced_until integer,
    hold text,
    amendment text,
    forked_from text,
    loose text not null default '',
    dedup integer not null default 0,
    check (
        case status
            when 'running' then ended_at is null
            when 'cancelling' then ended_at is null
            when 'compensating' then ended_at is null
            when 'waiting' then ended_at is null and owner is null
            when 'pending' then ended_at is null and owner is null
            when 'paused' then ended_at is null and owner is null
            when 'compensation_failed' then ended_at is null and owner is null
            when 'completed' then ended_at is not null and owner is null
            when 'failed' then ended_at is not null and owner is null
            when 'compensated' then ended_at is not null and owner is null
            when 'cancelled' then ended_at is not null and owner is null
            when 'continued' then ended_at is not null and owner is null
            else false
        end
    )
) strict;

-- A run that was replaced, or that is planned by a debounced start, does not hold its key.
create unique index stepwell_runs_active_key on stepwell_runs (key)
where key is not null and ended_at is null and replaced_by is null and debounced_until is null;
create unique index stepwell_runs_debounced on stepwell_runs (key) where debounced_until is not null and ended_at is null;
create index stepwell_runs_key on stepwell_runs (key) where key is not null;
create index stepwell_runs_wake on stepwell_runs (definition, wake_at) where wake_at is not null;
create index stepwell_runs_held on stepwell_runs (owner) where owner is not null and hold is not null;
-- For searches by people, and for workers: three statuses may have an owner; for the others the owner is null. Most
-- runs are completed; they are found without this index.
create index stepwell_runs_status on stepwell_runs (status, owner, run_id) where status <> 'completed';
create index stepwell_runs_parent on stepwell_runs (parent, parent_location) where parent is not null;
create index stepwell_runs_definition on stepwell_runs (definition, run_id);
-- For listings by time. A run enters these indexes once, when it ends; other runs are few, and are sorted.
create index stepwell_runs_created on stepwell_runs (created_at, run_id) where ended_at is not null;
create index stepwell_runs_started on stepwell_runs (coalesce(started_at, -1), run_id) where ended_at is not null;
create index stepwell_runs_ended on stepwell_runs (coalesce(ended_at, -1), run_id) where ended_at is not null;
create index stepwell_runs_took on stepwell_runs (coalesce(ended_at - coalesce(started_at, created_at), -1), run_id)
where ended_at is not null;

create table stepwell_payloads (
    run integer primary key,
    input blob not null,
    output blob,
    failure blob,
    tags text not null,
    title text,
    started_by text,
    headers blob,
    retry text
) strict;

-- Only runs that somebody has started are in this index.
create index stepwell_payloads_started_by on stepwell_payloads (started_by, run) where started_by is not null;

-- The attributes of runs. `value` is the letter of its type, then the value in a spelling that is ordered like the
-- values: see model/attributes.py. `shown`: a number as it was given, if that differs. The index has the ids of the runs,
-- so that a page of a listing is a part of it, in order: the newest runs with a value, or runs in the order of their
-- values.
create table stepwell_attributes (
    run integer not null,
    name text not null,
    value text not null,
    shown text not null,
    run_id text not null,
    primary key (run, name)
) without rowid, strict;

create index stepwell_attributes_value on stepwell_attributes (name, value, run_id);

-- Values that clients may read while a run is active. `position` is the length of the run's history at that time.
create table stepwell_published (
    run integer not null,
    name text not null,
    position integer not null,
    value blob not null,
    primary key (run, name)
) without rowid, strict;

-- The lines of streams. `part` is the attempt at the step `source` that wrote the line.
create table stepwell_chunks (
    run integer not null,
    stream text not null,
    number integer not null,
    kind text not null check (kind glob '[drc]'),
    source text not null,
    part integer not null,
    value blob not null,
    primary key (run, stream, number)
) without rowid, strict;

-- Clustered by location: a step costs one insert into one tree, and a loop's old iterations are one range to delete.
-- The letters are checked by a pattern, because SQLite builds a list of values anew for every insert.
create table stepwell_entries (
    run integer not null,
    location blob not null,
    seq integer not null,
    kind text not null check (kind glob '[sozrmtjxlcpvkuaiybwendqRSCPfg]'),
    status text not null check (status glob '[df]'),
    value blob not null,
    at integer not null,
    took integer not null,
    attempts integer not null,
    undo blob,
    fingerprint blob,
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

-- The progress of long steps. It is empty except for steps that report progress while they run.
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

-- Large payloads, by the SHA-256 of their content; rows refer to them. With a rowid: large values are slow in an index.
create table stepwell_blobs (
    id integer primary key,
    hash blob not null unique,
    content blob not null,
    stored_at integer not null
) strict;

-- `names` is a JSON list of signal names; the empty list means any. An event wait has the name of its topic there, and
-- also in `topic` while it is open: `armed` orders open waits, `facets` are its conditions, `facet` is the first
-- condition.
create table stepwell_waits (
    run integer not null,
    position integer not null,
    location blob not null,
    kind text not null check (
        kind = 'signal' or kind = 'timer' or kind = 'child' or kind = 'retry' or kind = 'topic' or kind = 'run'
    ),
    token integer not null,
    due_at integer,
    names text not null,
    since text,
    facets text,
    topic text,
    facet text,
    armed integer,
    limit_at integer,
    primary key (run, position)
) without rowid, strict;

create index stepwell_waits_topic on stepwell_waits (topic, facet, armed) where topic is not null;
-- Who waits for the end of a run that is not its child; the only name is the id of that run.
create index stepwell_waits_run on stepwell_waits (names) where kind = 'run';

-- An event without a payload is only remembered, so that publishing it again does nothing. `is_taken`: it is for one
-- run, and a run has it.
create table stepwell_events (
    number integer primary key,
    event_id text not null unique,
    topic text not null,
    payload blob,
    facets text not null,
    deliver text not null check (deliver in ('all', 'one')),
    published_at integer not null,
    kept_until integer,
    is_taken integer not null,
    reached integer not null,
    forget_at integer not null
) strict;

-- Includes the time, so that the events that a topic keeps are counted from the index alone.
create index stepwell_events_kept on stepwell_events (topic, number, kept_until) where kept_until is not null and is_taken = 0;
create index stepwell_events_forget on stepwell_events (topic, forget_at);

-- Events that runs received: in a run's inbox until they are read, then remembered while the topic keeps the event.
-- `locations` is a JSON list of the locations, in hexadecimal, that wait for it. A number is never assigned twice.
create table stepwell_receipts (
    number integer primary key,
    run integer not null,
    event integer not null,
    locations text not null,
    is_read integer not null,
    unique (run, event)
) strict;

create index stepwell_receipts_event on stepwell_receipts (event);

-- In a mailbox (`run`) or held (`key`). A consumed signal keeps its row without its payload, so that a duplicate is
-- recognised. `asks`: its sender waits for a reply. `refused`: why the run refused it; it is kept for people and not
-- read again. Numbers are never reused, because they name dead letters.
create table stepwell_signals (
    number integer primary key autoincrement,
    signal_id text not null unique,
    run integer,
    key text,
    name text not null,
    dedup_key text,
    payload blob,
    sent_at integer not null,
    asks integer not null,
    refused text,
    refused_by text not null default '',
    check ((run is null) <> (key is null))
) strict;

create index stepwell_signals_mailbox on stepwell_signals (run) where run is not null and payload is not null;
-- For the deletion of a run. Those with a dedup key are in another index.
create index stepwell_signals_consumed on stepwell_signals (run)
where run is not null and payload is null and dedup_key is null;
create index stepwell_signals_held on stepwell_signals (key) where key is not null;
create unique index stepwell_signals_dedup on stepwell_signals (run, name, dedup_key) where dedup_key is not null;

-- Runs whose unread signals are dropped at their end. Most workflows keep them, so this is not a column of every run.
create table stepwell_discards (
    run integer primary key
) strict;

-- The replies of runs to signals that asked, by the number of the signal.
create table stepwell_replies (
    number integer primary key,
    status text not null check (status glob '[df]'),
    value blob not null,
    at integer not null
) strict;

-- Paused workflows: no worker claims their runs. The empty name means all workflows.
create table stepwell_holds (
    workflow text not null primary key,
    by text not null,
    reason text not null,
    at integer not null
) without rowid, strict;

-- Acts of operators on a run, or on the runs of a workflow (an empty name means all workflows).
create table stepwell_audit (
    id integer primary key,
    run integer,
    workflow text,
    at integer not null,
    verb text not null,
    by text not null,
    before text not null,
    after text not null,
    reason text not null,
    act text,  -- the id of the request, so that repeating it does nothing
    check ((run is null) <> (workflow is null))
) strict;

create unique index stepwell_audit_act on stepwell_audit (act) where act is not null;
create index stepwell_audit_run on stepwell_audit (run) where run is not null;
create index stepwell_audit_workflow on stepwell_audit (id) where workflow is not null;

-- Results of requests with an idempotency key, while the key is kept.
create table stepwell_requests (
    scope text not null,
    key text not null,
    fingerprint text not null,
    answer text not null,
    kept_until integer not null,
    primary key (scope, key)
) without rowid, strict;

create index stepwell_requests_kept on stepwell_requests (kept_until);

-- Who did what through a server. `chain` is a hash over the line and the `chain` of the previous line: no line can be
-- changed or removed without changing all following lines. `stepwell_chain` stores the last line separately, so that
-- missing lines at the end are noticed.
create table stepwell_acts (
    number integer primary key,
    at integer not null,
    request_id text not null,
    who text not null,
    act text not null,
    target text not null,
    outcome text not null,
    before text not null,
    after text not null,
    chain text not null,
    unique (request_id, outcome)
) strict;

create table stepwell_chain (
    id integer primary key check (id = 1),
    number integer not null,
    chain text not null
) strict;

insert into stepwell_chain (id, number, chain) values (1, 0, '');

-- One row for each event and sink that has not received it. Of a run's rows for one sink, only the first is due
-- (`next_at`) or taken by a worker (`owner`), so events keep their order. A dead letter (`died_at`) does not block
-- others. Numbers are never reused, because a late `settle` must not affect another event.
create table stepwell_outbox (
    number integer primary key autoincrement,
    run integer not null,
    sink text not null,
    event_id text not null,
    name text not null,
    path text not null,
    payload blob not null,
    at integer not null,
    attempts integer not null default 0,
    next_at integer,
    owner integer,
    died_at integer,
    failure text not null default '',
    died_by text not null default '',
    check ((next_at is not null) + (owner is not null) + (died_at is not null) <= 1)
) strict;

create index stepwell_outbox_queue on stepwell_outbox (run, sink) where died_at is null;
create index stepwell_outbox_due on stepwell_outbox (sink, next_at) where next_at is not null;
create index stepwell_outbox_owner on stepwell_outbox (owner) where owner is not null;
create index stepwell_outbox_dead on stepwell_outbox (event_id) where died_at is not null;
create index stepwell_outbox_dead_run on stepwell_outbox (run) where died_at is not null;

-- Small documents that people keep. Numbers are never reused, because they order pages. A closed record is never due.
-- `labels` is a sorted JSON list. `run` opened the record at `location`; the end of that run closes it in `end_state`,
-- unless that is null.
create table stepwell_records (
    number integer primary key autoincrement,
    kind text not null,
    record_id text not null,
    version integer not null,
    state text not null,
    labels text not null,
    is_open integer not null,
    due_at integer,
    end_state text,
    run integer,
    location blob,
    created_at integer not null,
    updated_at integer not null,
    body blob not null,
    unique (kind, record_id),
    check (is_open or due_at is null),
    check ((run is null) = (location is null))
) strict;

-- The number of a record is the last column of each of these indexes, so their ranges are in the order of pages. There
-- are as few as possible: a change writes to most of them, and each costs a page.
create index stepwell_records_state on stepwell_records (kind, is_open, state);
create index stepwell_records_due on stepwell_records (kind, due_at) where due_at is not null;
create index stepwell_records_closed on stepwell_records (kind, updated_at) where is_open = 0;
create index stepwell_records_run on stepwell_records (run) where run is not null;
-- What the end of a run closes. Few records are in it, and none if no run opens records.
create index stepwell_records_closing on stepwell_records (run, location)
where run is not null and is_open = 1 and end_state is not null;

-- The labels of records once more, in the order of pages.
create table stepwell_record_labels (
    kind text not null,
    label text not null,
    is_open integer not null,
    record integer not null,
    due_at integer,
    primary key (kind, label, is_open, record)
) without rowid, strict;

create index stepwell_record_labels_due on stepwell_record_labels (kind, label, due_at, record) where due_at is not null;

-- The history of records. The first event of a change has its id, so that repeating the change does nothing.
create table stepwell_record_events (
    record integer not null,
    number integer not null,
    at integer not null,
    by text not null,
    verb text not null,
    version integer not null,
    data blob not null,
    change_id text,
    primary key (record, number)
) without rowid, strict;

-- A run with its columns in other tables. SQLite expands `r.*` whenever the schema has changed, so new columns are
-- included. Cross joins keep the order: the run first, whatever the condition is.
create view stepwell_run_rows as
select
    r.*,
    d.workflow,
    d.version,
    d.priority,
    p.input,
    p.output,
    p.failure,
    p.tags,
    p.title,
    p.started_by,
    p.headers,
    p.retry,
    -- Ordered inside, because an aggregate with an order makes the whole file unreadable for SQLite before 3.44.
    (
        select json_group_array(json_array(a.name, a.value, a.shown))
        from (select name, value, shown from stepwell_attributes where run = r.id order by name) as a
    ) as attributes,
    w.incarnation
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
cross join stepwell_payloads as p on p.run = r.id
left join stepwell_workers as w on w.id = r.owner;

-- A record with the id of its run.
create view stepwell_record_rows as
select r.*, w.run_id
from stepwell_records as r
left join stepwell_runs as w on w.id = r.run;
