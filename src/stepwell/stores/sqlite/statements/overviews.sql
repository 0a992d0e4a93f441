-- name: find_bound
-- The newest ended run of a range that is not counted any more; only the index is read.
select created_at
from stepwell_runs indexed by stepwell_runs_created
where ended_at is not null and created_at >= :since and created_at < :until
order by created_at desc
limit 1 offset :scan_max;

-- name: count_ended
-- The marker is replaced by a text from the allow-list in stores/sql/filters.py. The index is named: another one would
-- find all runs of a workflow or status, from any time.
select
    (r.created_at - :since) / :width as part,
    count(*),
    sum(r.status in ('failed', 'compensated', 'compensation_failed'))
from stepwell_runs as r indexed by stepwell_runs_created{joins}
where r.ended_at is not null and r.created_at >= :low and r.created_at < :until and {conditions}
group by part;

-- name: count_unended
-- As above. These runs are few, and are not in the index by time.
select
    (r.created_at - :since) / :width as part,
    count(*),
    sum(r.status in ('failed', 'compensated', 'compensation_failed'))
from (select id from stepwell_runs where {unended} limit :scan_max) as few
cross join stepwell_runs as r on r.id = few.id{joins}
where r.created_at >= :since and r.created_at < :until and {conditions}
group by part;

-- name: has_more_unended
select count(*) > :scan_max from (select 1 from stepwell_runs where {unended} limit :scan_max + 1);

-- name: find_many
select r.id, r.run_id, d.workflow, d.version, r.status, r.key, r.created_at, r.started_at, r.ended_at, p.failure
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
cross join stepwell_payloads as p on p.run = r.id
where r.id in (select value from json_each(:ids));

-- name: list_states
select r.run_id, d.workflow, d.version, r.status, r.key, r.revision, r.created_at, r.ended_at
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
where r.run_id in (select value from json_each(:ids));

-- name: list_created
-- The numbers of rows are in the order of creation.
select r.run_id, d.workflow, d.version, r.status, r.key, r.revision, r.created_at, r.ended_at
from (select * from stepwell_runs order by id desc limit :limit) as r
cross join stepwell_definitions as d on d.id = r.definition
where r.created_at >= :since;

-- name: list_ended
select r.run_id, d.workflow, d.version, r.status, r.key, r.revision, r.created_at, r.ended_at
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
where r.ended_at is not null and coalesce(r.ended_at, -1) >= :since
order by coalesce(r.ended_at, -1) desc, r.run_id desc
limit :limit;

-- name: list_status
-- One range of the index by status.
select r.run_id, d.workflow, d.version, r.status, r.key, r.revision, r.created_at, r.ended_at
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
where r.status = :status and r.status <> 'completed'
order by r.owner desc, r.run_id desc
limit :limit;

-- name: list_children
select r.run_id, d.workflow, d.version, r.status, r.key, r.revision, r.created_at, r.ended_at
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
where r.parent = :run_id and r.ended_at is null
order by r.id
limit :limit;

-- name: list_signals
select number, name, payload, sent_at, case when asks then signal_id end
from stepwell_signals
where run = :run and payload is not null and refused is null
order by number
limit :limit;

-- name: list_attempts
select location, number, at, failure, next_at
from stepwell_attempts
where run = :run and location >= :low and location <= :high
order by location, number;

-- name: tally_open
select topic, count(*) from (select topic from stepwell_waits where topic is not null limit :limit) group by topic;

-- name: tally_kept
select topic, count(*)
from (
    select topic from stepwell_events
    where kept_until is not null and is_taken = 0 and kept_until > :now
    limit :limit
)
group by topic;

-- name: tally_published
select topic, count(*), max(published_at)
from (select topic, published_at from stepwell_events order by number desc limit :limit)
group by topic;

-- name: list_past_events
-- The inner limit holds also for a topic with few events.
select event_id, topic, deliver, published_at, reached, kept_until
from (
    select
        number, event_id, topic, deliver, published_at, reached,
        case when is_taken = 0 and kept_until > :now then kept_until end as kept_until
    from stepwell_events
    order by number desc
    limit :scan_max
)
where :topic is null or topic = :topic
order by number desc
limit :limit;

-- name: tally_owed
-- SQLite takes the failure from the row that has the maximum.
select sink, pending, failing, dead, oldest_at, failure
from (
    select
        sink,
        sum(died_at is null) as pending,
        sum(died_at is null and failure <> '') as failing,
        sum(died_at is not null) as dead,
        min(case when died_at is null then at end) as oldest_at,
        failure,
        max(case when failure <> '' then number end)
    from (select number, sink, died_at, failure, at from stepwell_outbox order by number limit :limit)
    group by sink
)
order by sink;

-- name: tally_waits
-- A wait for an event that has come has no topic any more.
select w.kind, w.names, d.workflow, d.version, count(distinct w.run), min(w.due_at), min(r.run_id)
from (select run, kind, names, topic, due_at from stepwell_waits limit :limit) as w
cross join stepwell_runs as r on r.id = w.run
cross join stepwell_definitions as d on d.id = r.definition
where w.kind = 'signal' or w.topic is not null
group by w.kind, w.names, d.workflow, d.version;

-- name: find_undelivered
select
    s.key,
    r.run_id,
    r.status,
    coalesce(s.refused, ''),
    s.number,
    s.name,
    s.payload,
    s.sent_at,
    case when s.asks then s.signal_id end
from stepwell_signals as s
left join stepwell_runs as r on r.id = s.run
where
    s.number = :number and s.payload is not null
    and (s.key is not null or s.refused is not null or r.ended_at is not null);

-- name: outline
select seq, location, kind, status, x'', at, took, attempts, case when undo is not null then x'' end, null
from stepwell_entries
where run = :run
order by seq;

-- name: list_entries
-- The entries are in the order of their places: all of a run are looked at, but only the columns of a page are read.
select seq, location, kind, status, value, at, took, attempts, undo, fingerprint
from stepwell_entries
where run = :run and seq > :after
order by seq
limit :limit;

-- name: find_entries
select seq, location, kind, status, value, at, took, attempts, undo, fingerprint
from stepwell_entries
where run = :run and seq in (select value from json_each(:seqs))
order by seq;

-- name: is_undone
select 1 from stepwell_entries where run = :run and location = :location and kind = 'u';
