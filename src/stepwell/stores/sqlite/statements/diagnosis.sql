-- name: has_unfinished
select exists (
    select 1 from stepwell_runs where status in ('pending', 'running', 'waiting', 'cancelling', 'compensating')
);

-- name: count_owned
select count(*)
from stepwell_runs
where status in ('running', 'cancelling', 'compensating') and status <> 'completed' and owner = :owner;

-- name: backlog
select
    (
        select count(*)
        from (select 1 from stepwell_runs where wake_at is not null and wake_at <= :now limit :limit)
    ) as due,
    (
        select max(0, coalesce(:now - min(earliest), 0))
        from (
            select (
                select min(r.wake_at) from stepwell_runs as r where r.definition = d.id and r.wake_at is not null
            ) as earliest
            from stepwell_definitions as d
        )
    ) as oldest;

-- name: list_due_definitions
select d.workflow || '@' || d.version
from stepwell_definitions as d
where exists (select 1 from stepwell_runs as r where r.definition = d.id and r.wake_at is not null and r.wake_at <= :now);

-- name: count_runs
select count(*) from stepwell_runs;

-- name: count_recent
select count(*) from (select 1 from stepwell_runs where run_id >= :since and run_id < :until limit :limit);

-- name: quick_check
pragma quick_check(3);
