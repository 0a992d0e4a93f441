-- name: find_many_by_id
select {Run.* to row} from stepwell_run_rows where run_id in (select value from json_each(:ids));

-- name: find_many_by_key
-- For each key the active run, else the run created last.
select {Run.* to row}
from stepwell_run_rows
where id in (
    select (
        select r.id
        from stepwell_runs as r
        where r.key = wanted.value
        order by r.ended_at is null and r.replaced_by is null and r.debounced_until is null desc, r.id desc
        limit 1
    )
    from json_each(:keys) as wanted
);

-- name: find_by_key
-- The active run of the key, else the run created last.
select {Run.* to row}
from stepwell_run_rows
where id = (
    select r.id
    from stepwell_runs as r
    where r.key = :key
    order by r.ended_at is null and r.replaced_by is null and r.debounced_until is null desc, r.id desc
    limit 1
);

-- name: find_by_prefix
-- All texts with the prefix are between the prefix and the prefix followed by the highest character.
select run_id
from stepwell_runs
where run_id >= :prefix and run_id < :prefix || char(1114111)
order by run_id
limit :limit;

-- name: measure
-- How much a load would read.
select coalesce(sum(last_seq), 0) from stepwell_runs where run_id in (select value from json_each(:ids));

-- name: list_ids
select run_id, id from stepwell_runs where run_id in (select value from json_each(:ids));

-- name: list_children
select {Run.* to row} from stepwell_run_rows where parent = :run_id order by id;

-- name: list_runs
-- The markers are replaced by texts from the allow-list in stores/sql/filters.py. It returns only ids: other columns
-- are not read for runs that are not on the page.
select r.id from {tables} where {conditions} and {more} order by {order} limit :limit;

-- name: find_many
select {Run.* to row} from stepwell_run_rows where id in (select value from json_each(:ids));

-- name: find_readable
-- The columns that can be read whatever a row contains, in the order of a run's fields.
select
    cast(hex(run_id) as text),
    '?',
    0,
    hex(status),
    null,
    null,
    null,
    null,
    null,
    cast(created_at as integer),
    null,
    cast(ended_at as integer)
from stepwell_runs
where id = :id;

-- name: count_selected
-- Up to a bound; the marker is replaced by a select from the allow-list in stores/sql/indexed_filters.py.
select count(*) from (select 1 from ({select}) limit :limit);

-- name: count_runs
-- Markers as in list_runs.
select count(*) from (select 1 from {tables} where {conditions} limit :limit);

-- name: count_unfinished
-- The states are listed, so that the index covers the query.
select status, count(*)
from stepwell_runs
where status in ('pending', 'running', 'waiting', 'paused', 'cancelling', 'compensating', 'compensation_failed')
    and status <> 'completed'
group by status;

-- name: count_due
-- One index range for each priority.
select
    coalesce(
        sum(
            (
                select count(*) from stepwell_runs as r
                where r.definition = d.id and r.wake_at is not null and r.wake_at <= :now
            )
        ),
        0
    ),
    min(
        (
            select min(r.wake_at) from stepwell_runs as r
            where r.definition = d.id and r.wake_at is not null and r.wake_at <= :now
        )
    )
from stepwell_definitions as d;

-- name: tally_runs
-- No index covers it, so this is for people.
select
    d.workflow || '@' || d.version as definition,
    r.status,
    count(*),
    max(max(r.created_at, coalesce(r.started_at, 0), coalesce(r.ended_at, 0)))
from stepwell_runs as r join stepwell_definitions as d on d.id = r.definition
group by 1, 2;

-- name: next_wake
-- One index look-up for each priority.
select min((select min(r.wake_at) from stepwell_runs as r where r.definition = d.id and r.wake_at is not null))
from stepwell_definitions as d
where d.workflow = :workflow and d.version = :version;

-- name: list_orphans
select r.run_id
from stepwell_runs as r
where r.ended_at is null and r.owner is null and r.wake_at is null and r.status not in ('paused', 'compensation_failed')
    and not (
        r.status in ('waiting', 'compensating') and exists (
            select 1
            from stepwell_waits as w
            where w.run = r.id and (
                w.kind = 'signal'
                or w.topic is not null
                or w.kind = 'run' and exists (
                    select 1 from stepwell_runs as c
                    where c.run_id = json_extract(w.names, '$[0]') and c.ended_at is null
                )
                or w.kind = 'child' and exists (
                    select 1
                    from stepwell_runs as c
                    where c.parent = r.run_id and c.parent_location = w.location and c.ended_at is null
                )
            )
        )
    )
order by r.id;
