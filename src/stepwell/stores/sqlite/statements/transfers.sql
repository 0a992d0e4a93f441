-- name: find_seal
select transfer_id, kind, peer, at from stepwell_seals where id = 1;

-- name: seal
insert into stepwell_seals (id, transfer_id, kind, peer, at) values (1, :transfer_id, :kind, :peer, :at);

-- name: release
update stepwell_seals set kind = 'left' where id = 1;

-- name: unseal
delete from stepwell_seals;

-- name: list_live_workers
select id, incarnation, name, started_at, lease_until, definitions
from stepwell_workers
where lease_until > :now
order by started_at, id;

-- name: count
select
    (select count(*) from stepwell_runs) as runs,
    (select count(*) from stepwell_runs where ended_at is null) as active,
    (select count(*) from stepwell_chunks) as chunks,
    (select count(*) from stepwell_events) as events,
    (select count(*) from stepwell_signals) as signals,
    (select count(*) from stepwell_outbox) as owed,
    (select count(*) from stepwell_blobs) as blobs,
    (select count(*) from stepwell_requests) as requests,
    (select count(*) from stepwell_acts) as acts,
    (select count(*) from stepwell_records) as records,
    (select count(*) from stepwell_record_events) as record_events;

-- name: find_highest
-- SQLite itself keeps the highest numbers of the outbox and of records, from the first row on.
select
    (select value from stepwell_meta where name = 'receipts') as receipts,
    coalesce((select seq from sqlite_sequence where name = 'stepwell_outbox'), 0) as owed,
    coalesce((select seq from sqlite_sequence where name = 'stepwell_records'), 0) as records;

-- name: raise_sequence
insert into sqlite_sequence (name, seq)
select :name, 0
where not exists (select 1 from sqlite_sequence where name = :name);
update sqlite_sequence set seq = max(seq, :number) where name = :name;

-- name: clear
-- Everything except the clock, the assigned numbers, and the seal.
delete from stepwell_definitions;
delete from stepwell_workers;
delete from stepwell_runs;
delete from stepwell_payloads;
delete from stepwell_attributes;
delete from stepwell_published;
delete from stepwell_chunks;
delete from stepwell_entries;
delete from stepwell_names;
delete from stepwell_attempts;
delete from stepwell_progress;
delete from stepwell_cursors;
delete from stepwell_blobs;
delete from stepwell_waits;
delete from stepwell_events;
delete from stepwell_receipts;
delete from stepwell_signals;
delete from stepwell_discards;
delete from stepwell_replies;
delete from stepwell_audit;
delete from stepwell_holds;
delete from stepwell_requests;
delete from stepwell_acts;
update stepwell_chain set number = 0, chain = '';
delete from stepwell_outbox;
delete from stepwell_records;
delete from stepwell_record_labels;
delete from stepwell_record_events;
update stepwell_meta set value = 0 where name = 'encrypted';

-- name: list_blobs
select hash, content from stepwell_blobs where hash > :after order by hash;

-- name: list_events
select number, event_id, topic, payload, facets, deliver, published_at, kept_until, is_taken, reached, forget_at
from stepwell_events
where number > :after
order by number;

-- name: find_event
select number, event_id, topic, payload, facets, deliver, published_at, kept_until, is_taken, reached, forget_at
from stepwell_events
where event_id = :event_id;

-- name: add_event
insert into stepwell_events (
    number, event_id, topic, payload, facets, deliver, published_at, kept_until, is_taken, reached, forget_at
) values (
    :number, :event_id, :topic, :payload, :facets, :deliver, :published_at, :kept_until, :is_taken, :reached, :forget_at
);

-- name: list_runs
select id from stepwell_runs where id > :after order by id;

-- name: find_run
select id from stepwell_runs where run_id = :run_id;

-- name: read_run
-- Columns that the view of a run leaves out.
select number, exists (select 1 from stepwell_discards as d where d.run = r.id)
from stepwell_runs as r
where r.id = :run;

-- name: add_run
insert into stepwell_runs ({Run.*}, definition, number) values ({:Run.*}, :definition, :number) returning id;

-- name: add_payloads
insert into stepwell_payloads (run, input, output, failure, tags, title, started_by, headers, retry)
values (:run, :input, :output, :failure, :tags, :title, :started_by, :headers, :retry);

-- name: list_open_waits
select position, armed from stepwell_waits where run = :run and topic is not null order by position;

-- name: list_signals
-- A reason is useless without the signal; a signal that was dropped later may still have one.
select
    s.number, s.signal_id, r.run_id, s.key, s.name, s.dedup_key, s.payload, s.sent_at, s.asks,
    case when s.payload is not null then s.refused end, case when s.payload is not null then s.refused_by else '' end,
    p.status, p.value, p.at
from stepwell_signals as s
left join stepwell_runs as r on r.id = s.run
left join stepwell_replies as p on p.number = s.number
where s.number > :after
order by s.number;

-- name: find_signal
select
    s.number, s.signal_id, r.run_id, s.key, s.name, s.dedup_key, s.payload, s.sent_at, s.asks,
    case when s.payload is not null then s.refused end, case when s.payload is not null then s.refused_by else '' end,
    p.status, p.value, p.at
from stepwell_signals as s
left join stepwell_runs as r on r.id = s.run
left join stepwell_replies as p on p.number = s.number
where s.signal_id = :signal_id;

-- name: add_signal
insert into stepwell_signals (number, signal_id, run, key, name, dedup_key, payload, sent_at, asks, refused, refused_by)
values (
    :number, :signal_id, (select id from stepwell_runs where run_id = :run_id), :key, :name, :dedup_key, :payload, :sent_at,
    :asks, :refused, :refused_by
);

-- name: add_reply
insert into stepwell_replies (number, status, value, at) values (:number, :status, :value, :at);

-- name: list_receipts
select r.number, e.event_id, r.locations, r.is_read
from stepwell_receipts as r
cross join stepwell_events as e on e.number = r.event
where r.run = :run
order by r.number;

-- name: add_receipt
insert into stepwell_receipts (number, run, event, locations, is_read)
select :number, :run, e.number, :locations, :is_read from stepwell_events as e where e.event_id = :event_id;

-- name: list_owed
select o.number, o.sink, o.event_id, o.name, o.path, o.payload, o.at, r.run_id, d.workflow, r.key, o.attempts, o.next_at,
    o.died_at, o.failure, o.died_by, p.headers
from stepwell_outbox as o
cross join stepwell_runs as r on r.id = o.run
cross join stepwell_payloads as p on p.run = r.id
cross join stepwell_definitions as d on d.id = r.definition
where o.number > :after
order by o.number;

-- name: find_owed
select o.number, o.sink, o.event_id, o.name, o.path, o.payload, o.at, r.run_id, d.workflow, r.key, o.attempts, o.next_at,
    o.died_at, o.failure, o.died_by, p.headers
from stepwell_outbox as o
cross join stepwell_runs as r on r.id = o.run
cross join stepwell_payloads as p on p.run = r.id
cross join stepwell_definitions as d on d.id = r.definition
where o.number = :number;

-- name: add_owed
insert into stepwell_outbox (number, run, sink, event_id, name, path, payload, at, attempts, next_at, died_at, failure, died_by)
select :number, r.id, :sink, :event_id, :name, :path, :payload, :at, :attempts, :next_at, :died_at, :failure, :died_by
from stepwell_runs as r
where r.run_id = :run_id;

-- name: add_audit
insert into stepwell_audit (run, at, verb, by, before, after, reason)
values (:run, :at, :verb, :by, :before, :after, :reason);

-- name: list_chunks
select r.run_id, c.stream, c.number, c.kind, c.source, c.part, c.value, c.run
from stepwell_chunks as c
cross join stepwell_runs as r on r.id = c.run
where (c.run, c.stream, c.number) > (:run, :stream, :offset)
order by c.run, c.stream, c.number;

-- name: find_chunk
select r.run_id, c.stream, c.number, c.kind, c.source, c.part, c.value
from stepwell_runs as r
cross join stepwell_chunks as c on c.run = r.id
where r.run_id = :run_id and c.stream = :stream and c.number = :offset;

-- name: add_chunk
insert into stepwell_chunks (run, stream, number, kind, source, part, value)
select r.id, :stream, :offset, :kind, :source, :part, :value from stepwell_runs as r where r.run_id = :run_id;

-- name: find_holder
select id from stepwell_runs
where key = :key and ended_at is null and replaced_by is null and debounced_until is null;

-- name: list_requests
select scope, key, fingerprint, answer, kept_until
from stepwell_requests
where (scope, key) > (:scope, :key)
order by scope, key;

-- name: find_request
select scope, key, fingerprint, answer, kept_until from stepwell_requests where scope = :scope and key = :key;

-- name: list_acts
select number, at, request_id, who, act, target, outcome, before, after, chain
from stepwell_acts
where number > :after
order by number;

-- name: find_act
select number, at, request_id, who, act, target, outcome, before, after, chain from stepwell_acts where number = :number;

-- name: list_records
select number from stepwell_records where number > :after order by number;

-- name: add_record
insert into stepwell_records (
    number, kind, record_id, version, state, labels, is_open, due_at, end_state, run, location, created_at, updated_at,
    body
) values (
    :number, :kind, :record_id, :version, :state, :labels, :is_open, :due_at, :end_state,
    (select id from stepwell_runs where run_id = :run_id), :location, :created_at, :updated_at, :body
);

-- name: list_record_events
select record, number, at, by, verb, version, data, change_id
from stepwell_record_events
where (record, number) > (:record, :number)
order by record, number;

-- name: find_record_event
select record, number, at, by, verb, version, data, change_id
from stepwell_record_events
where record = :record and number = :number;

-- name: add_record_event
insert into stepwell_record_events (record, number, at, by, verb, version, data, change_id)
select r.number, :number, :at, :by, :verb, :version, :data, :change_id
from stepwell_records as r
where r.number = :record;
