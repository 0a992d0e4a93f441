-- The queries of `stepwell doctor`. {t} is the schema of the tables, {f} that of this release's functions.

-- name: settings
select name, setting
from pg_settings
where name in (
    'autovacuum', 'fsync', 'full_page_writes', 'max_connections', 'reserved_connections', 'superuser_reserved_connections',
    'synchronous_commit', 'synchronous_standby_names', 'track_counts'
);

-- name: connections
-- A role that may not see the activity of others still sees their connections.
select count(*) from pg_stat_activity where datid is not null and usesysid is not null;

-- name: clock
select (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- name: released
-- The number of releases whose functions are installed.
select count(*) from pg_namespace where nspname ~ %(pattern)s;

-- name: begun
-- Whether the schema exists, and whether the role may create one.
select to_regnamespace(%(tables)s) is not null, has_database_privilege(current_database(), 'create');

-- name: rights
-- The rights that the role lacks, one row each. Sequences of identity columns need none.
select 'usage on schema ' || quote_ident(nspname)
from pg_namespace
where nspname = any (%(schemas)s) and not has_schema_privilege(oid, 'usage')
union all
select lower(wanted) || ' on table ' || c.oid::regclass
from pg_class as c
cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) as wanted
where c.relnamespace = to_regnamespace(%(tables)s) and c.relkind = 'r' and not has_table_privilege(c.oid, wanted)
union all
select 'usage on sequence ' || c.oid::regclass
from pg_class as c
where c.relnamespace = to_regnamespace(%(tables)s)
    and case when c.relkind = 'S' then not has_sequence_privilege(c.oid, 'usage') end
    and not exists (select 1 from pg_depend as d where d.objid = c.oid and d.deptype = 'i')
union all
select 'execute on function ' || p.oid::regprocedure
from pg_proc as p
where p.pronamespace = to_regnamespace(%(functions)s) and not has_function_privilege(p.oid, 'execute')
order by 1;

-- name: seal
select transfer_id, kind, peer, at from {t}.seals;

-- name: workers
select name, lease_until > (select {f}.peek_clock(null, 0)), lease_until from {t}.workers order by started_at, id;

-- name: has_unfinished
select exists (
    select 1 from {t}.runs where status in ('pending', 'running', 'waiting', 'cancelling', 'compensating')
);

-- name: stranded
select count(*)
from {f}.dead_owners({f}.peek_clock(null, 0)) as dead (owner)
join {t}.runs as r on r.owner = dead.owner;

-- name: orphans
select {f}.orphans(null, 0);

-- name: backlog
-- One index range for each definition, read only as far as it is counted.
with clock as materialized (select {f}.peek_clock(null, 0) as now)
select count(*), coalesce(max(clock.now - due.wake_at), 0)
from clock
cross join {t}.definitions as d
cross join lateral (
    select r.wake_at
    from {t}.runs as r
    where r.definition = d.id and r.wake_at is not null and r.wake_at <= clock.now
    order by r.wake_at
    limit %(limit)s
) as due;

-- name: unserved
with clock as materialized (select {f}.peek_clock(null, 0) as now),
alive as (select w.definitions from {t}.workers as w, clock where w.lease_until > clock.now)
select
    array(
        select distinct d.workflow || '@' || d.version
        from {t}.definitions as d, clock
        where exists (
            select 1 from {t}.runs as r where r.definition = d.id and r.wake_at is not null and r.wake_at <= clock.now
        ) and not exists (select 1 from alive where d.workflow || '@' || d.version = any (alive.definitions))
        order by 1
    ),
    exists (select 1 from alive);

-- name: count_recent
select count(*)
from (select 1 from {t}.runs where run_id >= %(since)s and run_id < %(until)s limit %(limit)s) as recent;

-- name: dead_rows
select relname, n_live_tup, n_dead_tup
from pg_stat_user_tables
where schemaname = %(schema)s and n_dead_tup >= %(floor)s and n_dead_tup > n_live_tup
order by n_dead_tup desc;

-- name: size
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint,
    coalesce(max(greatest(c.reltuples, 0)) filter (where c.relname = 'runs'), 0)::bigint
from pg_class as c
where c.relnamespace = to_regnamespace(%(tables)s) and c.relkind = 'r';

-- name: unused_blobs
select case when exists (select 1 from {t}.blobs where stored_at < %(before)s)
    then {f}.list_unused_blobs(null, 0, %(before)s) else '[]' end;

-- name: audit_head
select number, chain from {t}.chain;

-- name: audit
select number, at, request_id, who, act, target, outcome, before, after, chain from {t}.acts order by number;
