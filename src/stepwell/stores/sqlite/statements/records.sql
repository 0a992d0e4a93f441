-- name: find_known
-- And whether the labels are these, and everything in the other indexes apart from the due time.
select
    number, version, is_open, due_at,
    labels = :labels,
    state = :state and is_open = :is_open and end_state is :end_state
from stepwell_records
where kind = :kind and record_id = :record_id;

-- name: find_number
select number from stepwell_records where kind = :kind and record_id = :record_id;

-- name: find_made
-- The last change that made this version or an earlier one. It is read backwards, because repeated and outdated changes
-- are mostly made from a version shortly before the last.
select version, change_id
from stepwell_record_events
where record = :record and version <= :version and change_id is not null
order by number desc
limit 1;

-- name: add
-- Does nothing if the record exists.
insert into stepwell_records (
    kind, record_id, version, state, labels, is_open, due_at, end_state, run, location, created_at, updated_at, body
) values (:kind, :record_id, 1, :state, :labels, :is_open, :due_at, :end_state, :run, :location, :now, :now, :body)
on conflict (kind, record_id) do nothing
returning number;

-- name: replace
update stepwell_records
set version = version + 1, state = :state, labels = :labels, is_open = :is_open, due_at = :due_at,
    end_state = :end_state, updated_at = :now, body = :body
where number = :number;

-- name: rewrite
-- An index is written if one of its columns is set, even to the value that it has: so this one sets none.
update stepwell_records set version = version + 1, labels = :labels, updated_at = :now, body = :body where number = :number;

-- name: reschedule
update stepwell_records
set version = version + 1, labels = :labels, due_at = :due_at, updated_at = :now, body = :body
where number = :number;

-- name: close
-- Without a state, in the one that it has for the end of its run.
update stepwell_records
set version = version + 1, state = coalesce(:state, end_state), is_open = 0, due_at = null, updated_at = :now
where number = :number;

-- name: add_labels
-- Labels that could not be read, and so not removed, are replaced.
insert or replace into stepwell_record_labels (kind, label, is_open, record, due_at)
select :kind, value, :is_open, :record, :due_at from json_each(:labels);

-- name: mark_labels
-- The labels are not read in Python: a row that cannot be read must not stop the end of its run.
update stepwell_record_labels
set is_open = :is_open, due_at = :due_at
where kind = :kind and is_open = :was_open and record = :record and label in (
    select l.value
    from stepwell_records as r cross join json_each(iif(json_valid(r.labels), r.labels, '[]')) as l
    where r.number = :record
);

-- name: mark_label
-- One of the labels, which the caller knows: several times faster than finding them.
update stepwell_record_labels
set is_open = :is_open, due_at = :due_at
where kind = :kind and label = :label and is_open = :was_open and record = :record;

-- name: remove_labels
delete from stepwell_record_labels
where kind = :kind and is_open = :was_open and record = :record and label in (
    select l.value
    from stepwell_records as r cross join json_each(iif(json_valid(r.labels), r.labels, '[]')) as l
    where r.number = :record
);

-- name: append_event
insert into stepwell_record_events (record, number, at, by, verb, version, data, change_id)
values (
    :record,
    coalesce((select number from stepwell_record_events where record = :record order by number desc limit 1), 0) + 1,
    :now, :by, :verb, :version, :data, :change_id
);

-- name: drop_events
-- After the event that replaces them was appended, so that no number is used twice.
delete from stepwell_record_events
where record = :record and verb = :verb and version < :version;

-- name: find_open_of_run
select number, kind, version, labels <> '[]'
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
select number, kind, version, labels <> '[]'
from stepwell_records indexed by stepwell_records_closing
where run = :run and is_open = 1 and end_state is not null
order by number;

-- name: list_closing_between
select number, kind, version, labels <> '[]'
from stepwell_records indexed by stepwell_records_closing
where run = :run and is_open = 1 and end_state is not null and location >= :low and location < :high
order by number;

-- name: list_closing_lost
-- At locations where nothing is recorded and nothing is awaited.
select r.number, r.kind, r.version, r.labels <> '[]'
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
delete from stepwell_record_events where record = :number;
delete from stepwell_records where number = :number;

-- name: list_states
-- Which states there are: one step in the index for each. As bytes, because one of them may not be readable.
with recursive found (state) as (
    select min(state) from stepwell_records where kind = :kind and is_open = :is_open
    union all
    select (
        select min(r.state) from stepwell_records as r
        where r.kind = :kind and r.is_open = :is_open and r.state > found.state
    )
    from found
    where found.state is not null
)
select cast(state as blob) from found where state is not null;

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
