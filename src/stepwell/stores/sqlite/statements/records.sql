-- name: find_change
-- The version that a change made, if it was applied before.
select version from stepwell_record_events where change_id = :change_id;

-- name: find_known
select number, version, is_open, due_at from stepwell_records where kind = :kind and record_id = :record_id;

-- name: add
-- Does nothing if the record exists.
insert into stepwell_records (
    kind, record_id, version, state, is_open, due_at, end_state, run, location, created_at, updated_at, body
) values (:kind, :record_id, 1, :state, :is_open, :due_at, :end_state, :run, :location, :now, :now, :body)
on conflict (kind, record_id) do nothing
returning number;

-- name: replace
update stepwell_records
set version = version + 1, state = :state, is_open = :is_open, due_at = :due_at, end_state = :end_state,
    updated_at = :now, body = :body
where number = :number;

-- name: close
-- Without a state, in the one that it has for the end of its run.
update stepwell_records
set version = version + 1, state = coalesce(:state, end_state), is_open = 0, due_at = null, updated_at = :now
where number = :number;

-- name: list_labels
select label from stepwell_record_labels where record = :record order by label;

-- name: add_label
insert into stepwell_record_labels (record, label, kind, is_open, due_at)
values (:record, :label, :kind, :is_open, :due_at);

-- name: mark_labels
update stepwell_record_labels set is_open = :is_open, due_at = :due_at where record = :record;

-- name: clear_labels
delete from stepwell_record_labels where record = :record;

-- name: append_event
insert into stepwell_record_events (record, number, at, by, verb, version, data, change_id)
values (
    :record,
    coalesce((select number from stepwell_record_events where record = :record order by number desc limit 1), 0) + 1,
    :now, :by, :verb, (select version from stepwell_records where number = :record), :data, :change_id
);

-- name: find_open_of_run
select number
from stepwell_records
where kind = :kind and record_id = :record_id and run = :run and is_open = 1;

-- name: list_versions
-- The open records of a kind that have a label.
select r.record_id, r.version
from stepwell_record_labels as l
cross join stepwell_records as r on r.number = l.record
where l.kind = :kind and l.label = :label and l.is_open = 1;

-- name: list_closing
-- What the end of a run closes. The index is named: the one of all records of a run would read closed ones too.
select number
from stepwell_records indexed by stepwell_records_closing
where run = :run and is_open = 1 and end_state is not null
order by number;

-- name: list_closing_between
select number
from stepwell_records indexed by stepwell_records_closing
where run = :run and is_open = 1 and end_state is not null and location >= :low and location < :high
order by number;

-- name: list_closing_lost
-- At locations where nothing is recorded and nothing is awaited.
select r.number
from stepwell_records as r indexed by stepwell_records_closing
where r.run = :run and r.is_open = 1 and r.end_state is not null
    and not exists (select 1 from stepwell_entries as e where e.run = r.run and e.location = r.location)
    and not exists (select 1 from stepwell_waits as w where w.run = r.run and w.location = r.location)
order by r.number;

-- name: list_due
select due_at, number
from stepwell_records
where kind = :kind and due_at is not null and due_at <= :now
order by due_at, number
limit :limit;

-- name: next_due
select min(due_at) from stepwell_records where kind = :kind and due_at is not null;

-- name: list_old
select number
from stepwell_records
where kind = :kind and is_open = 0 and updated_at < :before
order by updated_at, number
limit :limit;

-- name: prune
delete from stepwell_record_events where record in (select value from json_each(:numbers));
delete from stepwell_record_labels where record in (select value from json_each(:numbers));
delete from stepwell_records where number in (select value from json_each(:numbers));

-- name: list
-- The markers are replaced by texts from the allow-list in stores/sql/records.py. It returns only what orders the page:
-- other columns are not read for records that are not on it.
select {keys} from {table} where {conditions} order by {order} limit :limit;

-- name: count
-- Markers as in list.
select count(*) from (select 1 from {table} where {conditions} limit :limit);

-- name: find_many
select {Record.*} from stepwell_record_rows where number in (select value from json_each(:numbers));

-- name: find_readable
-- The columns that can be read whatever a row contains.
select number, hex(kind), hex(record_id), version, hex(state), due_at, is_open, created_at, updated_at
from stepwell_records
where number = :number;

-- name: list_events
select e.number, e.at, e.by, e.verb, e.version, e.data
from stepwell_records as r
cross join stepwell_record_events as e on e.record = r.number
where r.kind = :kind and r.record_id = :record_id and e.number < :before
order by e.number desc
limit :limit;
