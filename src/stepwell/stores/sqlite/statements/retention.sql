-- name: list_ended
-- In the order of the index of ends.
select
    r.run_id, d.workflow, r.status, r.ended_at, r.dedup, r.parent, r.previous, r.successor,
    exists (select 1 from stepwell_runs as c where c.parent = r.run_id),
    exists (select 1 from stepwell_outbox as o where o.run = r.id and o.died_at is null)
        or exists (select 1 from stepwell_outbox as o where o.run = r.id and o.died_at is not null)
        or exists (select 1 from stepwell_signals as s where s.run = r.id and s.payload is not null and s.refused is not null)
        or exists (select 1 from stepwell_records as k where k.run = r.id and k.is_open = 1)
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
where r.ended_at is not null and coalesce(r.ended_at, -1) < :before
    and (coalesce(r.ended_at, -1), r.run_id) > (:after_at, :after_id)
order by coalesce(r.ended_at, -1), r.run_id
limit :limit;

-- name: list_relatives
-- The runs are found first, each by its id or its parent.
select
    r.run_id, d.workflow, r.status, r.ended_at, r.dedup, r.parent, r.previous, r.successor,
    exists (select 1 from stepwell_runs as c where c.parent = r.run_id),
    exists (select 1 from stepwell_outbox as o where o.run = r.id and o.died_at is null)
        or exists (select 1 from stepwell_outbox as o where o.run = r.id and o.died_at is not null)
        or exists (select 1 from stepwell_signals as s where s.run = r.id and s.payload is not null and s.refused is not null)
        or exists (select 1 from stepwell_records as k where k.run = r.id and k.is_open = 1)
from (
    select one.id from json_each(:ids) as given cross join stepwell_runs as one on one.run_id = given.value
    union
    select one.id from json_each(:parents) as given cross join stepwell_runs as one on one.parent = given.value
) as found
cross join stepwell_runs as r on r.id = found.id
cross join stepwell_definitions as d on d.id = r.definition;

-- name: find_doomed
select
    r.run_id, r.id, r.ended_at, d.workflow, r.status,
    exists (select 1 from stepwell_outbox as o where o.run = r.id and o.died_at is null)
        or exists (select 1 from stepwell_outbox as o where o.run = r.id and o.died_at is not null)
        or exists (select 1 from stepwell_signals as s where s.run = r.id and s.payload is not null and s.refused is not null)
        or exists (select 1 from stepwell_records as k where k.run = r.id and k.is_open = 1)
from json_each(:ids) as given
cross join stepwell_runs as r on r.run_id = given.value
cross join stepwell_definitions as d on d.id = r.definition;

-- name: list_records
-- With the kind and whether it is open, which its labels are found by.
select k.number, k.kind, k.is_open
from json_each(:runs) as given
cross join stepwell_records as k on k.run = given.value;

-- name: list_run_signals
-- In three parts, because each of three indexes has some of them.
select s.number from json_each(:runs) as given cross join stepwell_signals as s on s.run = given.value and s.payload is not null
union
select s.number from json_each(:runs) as given cross join stepwell_signals as s on s.run = given.value and s.dedup_key is not null
union
select s.number from json_each(:runs) as given cross join stepwell_signals as s on s.run = given.value
where s.payload is null and s.dedup_key is null;

-- name: prune
-- Everything that belongs to runs, and at last their rows.
delete from stepwell_receipts where run in (select value from json_each(:runs));
delete from stepwell_outbox where died_at is null and run in (select value from json_each(:runs));
delete from stepwell_outbox where died_at is not null and run in (select value from json_each(:runs));
delete from stepwell_audit where run in (select value from json_each(:runs));
delete from stepwell_attributes where run in (select value from json_each(:runs));
delete from stepwell_published where run in (select value from json_each(:runs));
delete from stepwell_chunks where run in (select value from json_each(:runs));
delete from stepwell_entries where run in (select value from json_each(:runs));
delete from stepwell_names where run in (select value from json_each(:runs));
delete from stepwell_attempts where run in (select value from json_each(:runs));
delete from stepwell_progress where run in (select value from json_each(:runs));
delete from stepwell_cursors where run in (select value from json_each(:runs));
delete from stepwell_waits where run in (select value from json_each(:runs));
delete from stepwell_discards where run in (select value from json_each(:runs));
delete from stepwell_payloads where run in (select value from json_each(:runs));
delete from stepwell_runs where id in (select value from json_each(:runs));

-- name: note
-- An act on a workflow, because the run is gone. It says which run, and nothing of its values.
insert into stepwell_audit (workflow, at, verb, by, before, after, reason)
values (:workflow, :now, 'erase', :by, :before, 'erased', :reason);

-- name: list_events
select
    e.number,
    e.forget_at <= :now and (e.kept_until is null or e.kept_until <= :now or e.is_taken = 1)
        and not exists (select 1 from stepwell_receipts as r where r.event = e.number and r.is_read = 0)
from stepwell_events as e
where e.number > :after
order by e.number
limit :limit;

-- name: forget_events
delete from stepwell_receipts where event in (select value from json_each(:numbers));
delete from stepwell_events where number in (select value from json_each(:numbers));

-- name: list_signals
select number, run is not null and payload is null and dedup_key is null and sent_at < :before
from stepwell_signals
where number > :after
order by number
limit :limit;

-- name: forget_signals
delete from stepwell_replies where number in (select value from json_each(:numbers));
delete from stepwell_signals where number in (select value from json_each(:numbers));

-- name: has_old_blobs
select 1 from stepwell_blobs where stored_at < :before limit 1;

-- name: find_oldest_owned
-- When the oldest run that a worker has now was started.
select min(coalesce(started_at, created_at))
from stepwell_runs
where status in ('running', 'cancelling', 'compensating') and status <> 'completed' and owner is not null;

-- name: list_old_blobs
select hash from stepwell_blobs where stored_at < :before;

-- name: list_referring
-- Every value that is long enough to contain a reference. One statement, so that it sees one moment.
select value
from (
    select input as value from stepwell_payloads
    union all select output from stepwell_payloads
    union all select failure from stepwell_payloads
    union all select value from stepwell_published
    union all select value from stepwell_chunks
    union all select value from stepwell_entries
    union all select undo from stepwell_entries
    union all select failure from stepwell_attempts
    union all select state from stepwell_progress
    union all select state from stepwell_cursors
    union all select payload from stepwell_events
    union all select payload from stepwell_signals
    union all select value from stepwell_replies
    union all select payload from stepwell_outbox
    union all select body from stepwell_records
    union all select data from stepwell_record_events
)
where length(value) >= 67 and instr(value, x'72') > 0;

-- name: drop_blobs
delete from stepwell_blobs
where hash in (select unhex(value) from json_each(:hashes)) and stored_at < :before;
