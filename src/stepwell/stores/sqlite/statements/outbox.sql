-- name: owe
-- Due at once, unless the run owes this sink an earlier event.
insert into stepwell_outbox (run, sink, event_id, name, path, payload, at, next_at)
values (
    :run, :sink, :event_id, :name, :path, :payload, :at,
    case
        when exists (select 1 from stepwell_outbox where run = :run and sink = :sink and died_at is null) then null
        else :now
    end
);

-- name: describe_end
select r.run_id, d.workflow, d.version, r.key, r.status, r.epoch, r.generation, r.created_at, r.started_at, r.ended_at
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
where r.id = :run;

-- name: list_taken
select number, run from stepwell_outbox where owner = :owner and sink = :sink order by number;

-- name: list_due
select number, run
from stepwell_outbox
where sink = :sink and next_at is not null and next_at <= :now
order by next_at, number
limit :limit;

-- name: hand_out
update stepwell_outbox set owner = :owner, next_at = null where number = :number;

-- name: list_queue
select o.number, o.sink, o.event_id, o.name, o.path, o.payload, o.at, r.run_id, d.workflow, r.key, o.attempts, o.next_at,
    o.died_at, o.failure, o.died_by, p.headers
from stepwell_outbox as o
cross join stepwell_runs as r on r.id = o.run
cross join stepwell_payloads as p on p.run = r.id
cross join stepwell_definitions as d on d.id = r.definition
where o.run = :run and o.sink = :sink and o.died_at is null
order by o.number
limit :limit;

-- name: find_taken
select run, sink from stepwell_outbox where number = :number and owner = :owner;

-- name: give_back
update stepwell_outbox set owner = null where number = :number;

-- name: remove
delete from stepwell_outbox where number = :number and run = :run and sink = :sink;

-- name: fail
update stepwell_outbox set attempts = attempts + 1, failure = :failure where number = :number;

-- name: mark_dead
update stepwell_outbox set died_at = :now, next_at = null, died_by = :by where number = :number;

-- name: find_first
select o.number, o.owner, o.next_at, r.run_id
from stepwell_outbox as o
cross join stepwell_runs as r on r.id = o.run
where o.run = :run and o.sink = :sink and o.died_at is null
order by o.number
limit 1;

-- name: make_due
update stepwell_outbox set next_at = :next_at where number = :number;

-- name: list_taken_by
select o.number, r.run_id
from stepwell_outbox as o
cross join stepwell_runs as r on r.id = o.run
where o.owner = :owner
order by o.number;

-- name: next_due
select min(next_at) from stepwell_outbox where sink = :sink and next_at is not null;

-- name: list_owed
select o.number, o.sink, o.event_id, o.name, o.path, o.payload, o.at, r.run_id, d.workflow, r.key, o.attempts, o.next_at,
    o.died_at, o.failure, o.died_by, p.headers
from stepwell_outbox as o
cross join stepwell_runs as r on r.id = o.run
cross join stepwell_payloads as p on p.run = r.id
cross join stepwell_definitions as d on d.id = r.definition
where o.number > :after and (o.died_at is not null) = :is_dead
order by o.number
limit :limit;

-- name: list_dead
select o.number, o.run, o.sink, o.name, r.run_id, r.status
from stepwell_outbox as o
cross join stepwell_runs as r on r.id = o.run
where o.event_id = :event_id and o.died_at is not null and (:sink is null or o.sink = :sink)
order by o.number;

-- name: list_event
-- For people only, and rare: there is no index by event id.
select o.number, o.run, o.sink, o.name, r.run_id, r.status
from stepwell_outbox as o
cross join stepwell_runs as r on r.id = o.run
where o.event_id = :event_id and o.owner is null and (:sink is null or o.sink = :sink)
order by o.number;

-- name: owe_again
insert into stepwell_outbox (run, sink, event_id, name, path, payload, at, next_at)
select
    dead.run, dead.sink, dead.event_id, dead.name, dead.path, coalesce(:payload, dead.payload), dead.at,
    case
        when exists (
            select 1 from stepwell_outbox as o where o.run = dead.run and o.sink = dead.sink and o.died_at is null
        ) then null
        else :now
    end
from stepwell_outbox as dead
where dead.number = :number;
