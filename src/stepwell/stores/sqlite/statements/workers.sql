-- name: find
select id, incarnation, name, started_at, lease_until, definitions from stepwell_workers where incarnation = :incarnation;

-- name: find_live
-- Also whether priorities are used at all: definitions are few, and without priorities no claim need check them. And
-- whether any workflow is paused: then the claim checks which.
select id, exists (select 1 from stepwell_definitions where priority <> 0), exists (select 1 from stepwell_holds where workflow >= '')
from stepwell_workers
where incarnation = :incarnation and lease_until > :now;

-- name: register
-- Registering again extends a live lease; the caller has refused an expired lease.
insert into stepwell_workers (incarnation, name, started_at, lease_until, definitions)
values (:incarnation, :name, :now, :lease_until, :definitions)
on conflict (incarnation) do update
set name = excluded.name, lease_until = excluded.lease_until, definitions = excluded.definitions
returning started_at;

-- name: renew
update stepwell_workers set lease_until = :lease_until where id = :id;

-- name: remove
delete from stepwell_workers where id = :id;

-- name: remove_dead
delete from stepwell_workers where lease_until <= :now;

-- name: list
select id, incarnation, name, started_at, lease_until, definitions from stepwell_workers order by started_at, id;

-- name: find_dead
select 1 from stepwell_workers where lease_until <= :now limit 1;

-- name: next_lease_end
select min(lease_until) from stepwell_workers where lease_until > :now;

-- name: list_dead
select id from stepwell_workers where lease_until <= :now;

-- name: list_dead_owners
-- Jumps over the index from owner to owner: the cost grows with the workers, not with the runs that they own. A worker
-- without a row is as dead as a worker with an expired lease.

with recursive owners (status, id) as (
    select
        s.column1,
        (select min(r.owner) from stepwell_runs as r where r.status = s.column1 and r.status <> 'completed' and r.owner > 0)
    from (values ('running'), ('cancelling'), ('compensating')) as s
    union all
    select
        o.status,
        (select min(r.owner) from stepwell_runs as r where r.status = o.status and r.status <> 'completed' and r.owner > o.id)
    from owners as o
    where o.id is not null
)
select distinct owners.id
from owners
left join stepwell_workers as w on w.id = owners.id and w.lease_until > :now
where owners.id is not null and w.id is null;
