-- All migrations in order, for reading. Written by `make docs`; the migrations are what is run.

-- 0001_foundation

-- {t} is the schema of the tables; the loader inserts its quoted name.

-- Single numbers, such as the clock's floor and how often the store was closed or opened.
create table {t}.meta (
    name text not null primary key,
    value bigint not null
);

insert into {t}.meta (name, value) values ('floor', 0), ('seals', 0), ('encrypted', 0);

-- One row while the store is closed because its contents are being moved, otherwise none: see stores/base/transfers.py.
create table {t}.seals (
    id boolean not null primary key default true check (id),
    transfer_id text not null,
    kind text not null check (kind in ('leaving', 'left', 'arriving')),
    peer text not null,
    at bigint not null
);

-- Names of definitions are long and few, so runs and their indexes contain a small number instead. Each priority has a
-- number of its own, so that the due runs of one priority are one range of the index by definition and time.
create table {t}.definitions (
    id int generated always as identity primary key,
    workflow text not null,
    version bigint not null,
    priority bigint not null,
    unique (workflow, version, priority)
);

-- `writes_plain`: the worker existed before the first encrypted value; it may not commit any more. `functions`: the schema
-- with the functions of its release, which nobody may drop while the worker is alive.
create table {t}.workers (
    id bigint generated always as identity primary key,
    incarnation text not null unique,
    name text not null,
    started_at bigint not null,
    lease_until bigint not null,
    definitions text[] not null,
    functions text not null,
    writes_plain boolean not null default false
)
with (fillfactor = 50);

-- The state of a run. It changes when the run is claimed, waits or ends, not with every step. Half of each page is left
-- free, so that the new version of a row fits next to the old one. `hold`: a person paused the run; a list of who, why
-- and when. If the run has an owner, the owner must release it. `owner` is the id of a worker. `shard` spreads runs
-- evenly and never changes, so that all rows of a run can be placed with its shard. This table and other often-written
-- tables have no CHECK constraints: the server parses each from its text in the catalogue for every statement, which
-- costs up to a fifth of the statement. Only the functions write here, and their tests check the invariants.
create table {t}.runs (
    id bigint generated always as identity primary key,
    run_id text collate "C" not null unique,
    shard smallint not null generated always as ((hashtext(run_id) & 1023)::smallint) stored,
    definition int not null,
    status text not null,
    epoch bigint not null,
    owner bigint,
    wake_at bigint,
    created_at bigint not null,
    started_at bigint,
    ended_at bigint,
    key text collate "C",
    generation bigint not null,
    parent text collate "C",
    parent_location bytea,
    detached boolean not null,
    tied boolean not null,
    previous text,
    previous_started_at bigint,
    previous_finished_at bigint,
    successor text,
    cause text,
    reason text not null,
    undo_floor bigint not null,
    retried_at bigint,
    deadline_at bigint,
    max_suspend bigint,
    replaced_by text,
    debounced_until bigint,
    discards boolean not null,
    hold json,
    amendment text,
    forked_from text,
    loose json not null default '[]',
    dedup bigint not null default 0
)
with (fillfactor = 50);

-- A run that was replaced, or that is planned by a debounced start, does not hold its key.
create unique index runs_active_key on {t}.runs (key)
where key is not null and ended_at is null and replaced_by is null and debounced_until is null;
create unique index runs_debounced on {t}.runs (key) where debounced_until is not null and ended_at is null;
create index runs_key on {t}.runs (key) where key is not null;
create index runs_wake on {t}.runs (definition, wake_at, id) where wake_at is not null;
create index runs_owner on {t}.runs (owner) where owner is not null;
create index runs_held on {t}.runs (owner) where owner is not null and hold is not null;
-- For searches by people. Most runs are completed; they are found without this index.
create index runs_status on {t}.runs (status, run_id) where status <> 'completed';
create index runs_parent on {t}.runs (parent, parent_location) where parent is not null;
-- For listings by workflow and by time. A run enters these indexes once, when it ends; other runs are few, and are
-- sorted.
create index runs_definition on {t}.runs (definition, run_id) where ended_at is not null;
create index runs_created on {t}.runs (created_at, run_id) where ended_at is not null;
create index runs_started on {t}.runs (coalesce(started_at, -1), run_id) where ended_at is not null;
create index runs_ended on {t}.runs (coalesce(ended_at, -1), run_id) where ended_at is not null;
create index runs_took on {t}.runs (coalesce(ended_at - coalesce(started_at, created_at), -1), run_id)
where ended_at is not null;

-- The hot row: every commit rewrites it, so it is separate from all indexed columns, whose indexes would have to be
-- checked each time. `number` is that of the last commit applied in the run's epoch. `fence` is that epoch. It is set
-- only while it alone admits a plain commit: the run has an owner, is running or compensating, and is not paused. A
-- transition that changes one of these sets it to null, after it has locked the run.
create table {t}.heads (
    run bigint not null primary key,
    number bigint not null,
    revision bigint not null,
    last_seq bigint not null,
    stalls bigint not null,
    fence bigint
)
with (fillfactor = 50);

create table {t}.payloads (
    run bigint not null primary key,
    input bytea not null,
    output bytea,
    failure bytea,
    tags json not null,
    title text,
    started_by text collate "C",
    headers bytea,
    retry text
);

-- Most runs have no tags, and are not in this index.
create index payloads_tagged on {t}.payloads (run) where tags::text <> '[]';
-- Only runs that somebody has started are in this index.
create index payloads_started_by on {t}.payloads (started_by, run) where started_by is not null;

-- The attributes of runs. `value` is the letter of its type, then the value in a spelling that is ordered like the
-- values: see model/attributes.py. `shown`: a number as it was given, if that differs. The index has the ids of the runs,
-- so that a page of a listing is a part of it, in order: the newest runs with a value, or runs in the order of their
-- values.
create table {t}.attributes (
    run bigint not null,
    name text collate "C" not null,
    value text collate "C" not null,
    shown text not null,
    run_id text collate "C" not null,
    primary key (run, name)
);

create index attributes_value on {t}.attributes (name, value, run_id) include (run);

-- Values that clients may read while a run is active. `position` is the length of the run's history at that time.
create table {t}.published (
    run bigint not null,
    name text collate "C" not null,
    position bigint not null,
    value bytea not null,
    primary key (run, name)
);

-- The lines of streams. `part` is the attempt at the step `source` that wrote the line.
create table {t}.chunks (
    run bigint not null,
    stream text collate "C" not null,
    number bigint not null,
    kind text not null check (kind in ('d', 'r', 'c')),
    source text not null,
    part bigint not null,
    value bytea not null,
    primary key (run, stream, number)
);

create table {t}.entries (
    run bigint not null,
    location bytea not null,
    seq bigint not null,
    kind text not null,
    status text not null,
    value bytea not null,
    at bigint not null,
    took bigint not null,
    attempts bigint not null,
    undo bytea,
    fingerprint bytea,
    primary key (run, location)
);

create table {t}.names (
    run bigint not null,
    number bigint not null,
    name text not null,
    primary key (run, number)
);

create table {t}.attempts (
    run bigint not null,
    location bytea not null,
    number bigint not null,
    at bigint not null,
    failure bytea,
    next_at bigint,
    primary key (run, location, number)
);

-- The progress of long steps. It is empty except for steps that report progress while they run.
create table {t}.progress (
    run bigint not null,
    location bytea not null,
    at bigint not null,
    state bytea,
    done bigint,
    total bigint,
    unit text not null,
    note text not null,
    turns bigint not null,
    primary key (run, location)
);

create table {t}.cursors (
    run bigint not null,
    location bytea not null,
    iteration bigint not null,
    trimmed bigint not null,
    state bytea not null,
    primary key (run, location)
);

-- Large payloads, by the SHA-256 of their content; rows refer to them.
create table {t}.blobs (
    hash bytea not null primary key,
    content bytea not null,
    stored_at bigint not null
);

-- `names` are the names of signals; an empty list means any. An event wait has the name of its topic there, and also in
-- `topic` while it is open: `armed` orders open waits, `facets` are its conditions, `facet` is the first condition.
create table {t}.waits (
    run bigint not null,
    position bigint not null,
    location bytea not null,
    kind text not null,
    token bigint not null,
    due_at bigint,
    names text[] not null,
    since text,
    facets text[],
    topic text collate "C",
    facet text collate "C",
    armed bigint,
    limit_at bigint,
    primary key (run, position)
);

create index waits_topic on {t}.waits (topic, facet, armed) where topic is not null;
-- Who waits for the end of a run that is not its child; the only name is the id of that run.
create index waits_run on {t}.waits ((names[1])) where kind = 'run';
create sequence {t}.armed;

-- An event without a payload is only remembered, so that publishing it again does nothing. `is_taken`: it is for one
-- run, and a run has it.
create table {t}.events (
    number bigint generated always as identity primary key,
    event_id text collate "C" not null unique,
    topic text collate "C" not null,
    payload bytea,
    facets text[] not null,
    deliver text not null check (deliver in ('all', 'one')),
    published_at bigint not null,
    kept_until bigint,
    is_taken boolean not null,
    reached bigint not null,
    forget_at bigint not null
);

-- Includes the time, so that the events that a topic keeps are counted from the index alone.
create index events_kept on {t}.events (topic, number, kept_until) where kept_until is not null and not is_taken;
create index events_forget on {t}.events (topic, forget_at);

-- Events that runs received: in a run's inbox until they are read, then remembered while the topic keeps the event.
create table {t}.receipts (
    number bigint generated always as identity primary key,
    run bigint not null,
    event bigint not null,
    locations bytea[] not null,
    is_read boolean not null,
    unique (run, event)
);

create index receipts_event on {t}.receipts (event);

-- In a mailbox (`run`) or held (`key`). A consumed signal keeps its row without its payload, so that a duplicate is
-- recognised. `asks`: its sender waits for a reply. `refused`: why the run refused it; it is kept for people and not
-- read again.
create table {t}.signals (
    number bigint generated by default as identity primary key,
    signal_id text collate "C" not null unique,
    run bigint,
    key text collate "C",
    name text not null,
    dedup_key text,
    payload bytea,
    sent_at bigint not null,
    asks boolean not null,
    refused text,
    refused_by text not null default '',
    check ((run is null) <> (key is null))
);

create index signals_mailbox on {t}.signals (run) where run is not null and payload is not null;
-- For the deletion of a run. Those with a dedup key are in another index.
create index signals_consumed on {t}.signals (run) where run is not null and payload is null and dedup_key is null;
create index signals_held on {t}.signals (key) where key is not null;
create unique index signals_dedup on {t}.signals (run, name, dedup_key) where dedup_key is not null;

-- The replies of runs to signals that asked, by the number of the signal.
create table {t}.replies (
    number bigint not null primary key,
    status text not null check (status in ('d', 'f')),
    value bytea not null,
    at bigint not null
);

-- Paused workflows: no worker claims their runs. The empty name means all workflows.
create table {t}.holds (
    workflow text collate "C" not null primary key,
    by text not null,
    reason text not null,
    at bigint not null
);

-- Acts of operators on a run, or on the runs of a workflow (an empty name means all workflows).
create table {t}.audit (
    id bigint generated always as identity primary key,
    run bigint,
    workflow text,
    at bigint not null,
    verb text not null,
    by text not null,
    before text not null,
    after text not null,
    reason text not null,
    act text,  -- the id of the request, so that repeating it does nothing
    check ((run is null) <> (workflow is null))
);

create unique index audit_act on {t}.audit (act) where act is not null;
create index audit_run on {t}.audit (run) where run is not null;
create index audit_workflow on {t}.audit (id) where workflow is not null;

-- Results of requests with an idempotency key, while the key is kept.
create table {t}.requests (
    scope text collate "C" not null,
    key text collate "C" not null,
    fingerprint text not null,
    answer text not null,
    kept_until bigint not null,
    primary key (scope, key)
);

create index requests_kept on {t}.requests (kept_until);

-- Who did what through a server. `chain` is a hash over the line and the `chain` of the previous line: no line can be
-- changed or removed without changing all following lines. The only row of `chain` is the last line. A transaction that
-- appends locks it, so lines have one order, for any number of servers.
create table {t}.acts (
    number bigint not null primary key,
    at bigint not null,
    request_id text collate "C" not null,
    who text not null,
    act text not null,
    target text not null,
    outcome text collate "C" not null,
    before text not null,
    after text not null,
    chain text not null,
    unique (request_id, outcome)
);

create table {t}.chain (
    id boolean not null primary key default true check (id),
    number bigint not null,
    chain text not null
);

insert into {t}.chain (number, chain) values (0, '');

-- One row for each event and sink that has not received it. Of a run's rows for one sink, only the first is due
-- (`next_at`) or taken by a worker (`owner`), so events keep their order. A dead letter (`died_at`) does not block
-- others. Numbers are never reused, because a late `settle` must not affect another event.
create table {t}.outbox (
    number bigint generated always as identity primary key,
    run bigint not null,
    sink text not null,
    event_id text not null,
    name text not null,
    path text not null,
    payload bytea not null,
    at bigint not null,
    attempts bigint not null default 0,
    next_at bigint,
    owner bigint,
    died_at bigint,
    failure text not null default '',
    died_by text not null default '',
    check (num_nonnulls(next_at, owner, died_at) <= 1)
);

create index outbox_queue on {t}.outbox (run, sink) where died_at is null;
create index outbox_due on {t}.outbox (sink, next_at, number) where next_at is not null;
create index outbox_owner on {t}.outbox (owner) where owner is not null;
create index outbox_dead on {t}.outbox (event_id) where died_at is not null;
create index outbox_dead_run on {t}.outbox (run) where died_at is not null;

-- Documents that people keep. `run` opened the record at `location`. Numbers are never reused: they order all records
-- by their creation.
create table {t}.records (
    number bigint generated always as identity primary key,
    kind text collate "C" not null,
    record_id text collate "C" not null,
    version bigint not null,
    state text collate "C" not null,
    labels text[] not null,
    due_at bigint,
    is_open boolean not null,
    end_state text,
    run bigint,
    location bytea,
    body bytea not null,
    created_at bigint not null,
    updated_at bigint not null
);

create index records_run on {t}.records (run, number) where run is not null;
create index records_kind on {t}.records (kind, is_open, number);
create index records_state on {t}.records (kind, state, number);
create index records_due on {t}.records (kind, due_at, number) where due_at is not null;
create index records_closed on {t}.records (kind, updated_at, number) where not is_open;

-- The last two are those of single look-ups: while the table is empty, all indexes look the same to the server, and it
-- takes the newest. A session keeps the plan that it made then, and with another index it would read all records of a run
-- or of a kind.
-- The records that are closed with their run. The end of any run looks here, and closed records leave this index.
create index records_closing on {t}.records (run) where run is not null and is_open and end_state is not null;
alter table {t}.records add unique (kind, record_id);

-- One row for each label of a record, with what a listing by label mostly selects and sorts by.
create table {t}.record_labels (
    kind text collate "C" not null,
    label text collate "C" not null,
    is_open boolean not null,
    number bigint not null,
    state text collate "C" not null,
    due_at bigint,
    primary key (kind, label, is_open, number)
);

create index record_labels_due on {t}.record_labels (kind, label, due_at, number) where due_at is not null;

-- The histories of records. The first event of a change has its id, so that repeating the change does nothing; it is
-- found by the record and the version.
create table {t}.record_events (
    record bigint not null,
    number bigint not null,
    at bigint not null,
    by text not null,
    verb text not null,
    version bigint not null,
    data bytea not null,
    change_id text collate "C",
    primary key (record, number)
);
