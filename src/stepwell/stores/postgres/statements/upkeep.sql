-- The space of the tables, and the functions of other releases.

-- name: tables
-- Of each table: its bytes with large values and without its indexes, those of its indexes, and the rows that the
-- statistics know.
select c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid), coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0)
from pg_class as c
left join pg_stat_user_tables as s on s.relid = c.oid
where c.relnamespace = to_regnamespace(%(tables)s) and c.relkind = 'r'
order by pg_total_relation_size(c.oid) desc, c.relname;

-- name: count
select d.workflow, count(*), count(*) filter (where r.run_id >= %(since)s and r.run_id < %(until)s)
from {t}.runs as r
join {t}.definitions as d on d.id = r.definition
group by d.workflow
order by d.workflow;

-- name: range
select coalesce(min(id), 0), coalesce(max(id), 0) from {t}.runs;

-- name: weigh
-- The stored values of some runs, compressed as they are, and about 100 bytes for each row.
select
    d.workflow,
    count(*),
    sum(
        400
        + coalesce((select pg_column_size(x) from {t}.payloads as x where x.run = r.id), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.entries as x where x.run = r.id), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.chunks as x where x.run = r.id), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.published as x where x.run = r.id), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.progress as x where x.run = r.id), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.cursors as x where x.run = r.id), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.attempts as x where x.run = r.id), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.attributes as x where x.run = r.id), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.signals as x where x.run = r.id and x.payload is not null), 0)
        + coalesce((select sum(60 + pg_column_size(x)) from {t}.outbox as x where x.run = r.id and x.died_at is not null), 0)
    )::bigint
from {t}.runs as r
join {t}.definitions as d on d.id = r.definition
where r.id = any (%(runs)s)
group by d.workflow;

-- name: autovacuum
-- Whether it is on, when it last worked on one of our tables, and how many of them it has ever worked on.
select
    current_setting('autovacuum') = 'on' and current_setting('track_counts') = 'on',
    max(greatest(last_autovacuum, last_vacuum)) at time zone 'utc',
    count(*) filter (where last_autovacuum is not null or last_vacuum is not null)
from pg_stat_user_tables
where schemaname = %(schema)s;

-- name: other_releases
-- The schemas with functions that were installed before those of this release, and whether a live worker uses them. Later
-- ones are of a release whose workers may be about to start. Such a schema has types, and no tables.
with found as (
    select n.oid, n.nspname, coalesce(nullif(regexp_replace(obj_description(n.oid, 'pg_namespace'), '\D', '', 'g'), ''), '0')::numeric as at
    from pg_namespace as n
    where n.nspname ~ %(pattern)s
)
select n.nspname, exists (
    select 1 from {t}.workers as w
    where w.functions = n.nspname and w.lease_until > (extract(epoch from clock_timestamp()) * 1000000)::bigint
)
from found as n
where n.at < (select own.at from found as own where own.nspname = %(own)s)
    and not exists (select 1 from pg_class as c where c.relnamespace = n.oid and c.relkind <> 'c')
    and exists (select 1 from pg_proc as p where p.pronamespace = n.oid and p.proname = 'begin_at')
order by n.nspname;
