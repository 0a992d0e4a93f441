-- name: identify
-- One statement, so one snapshot: another process may be creating the schema at this moment.
select
    (select count(*) from sqlite_schema) as objects,
    (select application_id from pragma_application_id) as application_id,
    (select user_version from pragma_user_version) as version,
    (select count(*) from sqlite_schema where name = 'stepwell_meta') as ours;

-- name: find_schema
-- The schema's number in a shared file, where the pragmas belong to the application.
select value from stepwell_meta where name = 'schema';

-- name: set_schema
insert into stepwell_meta (name, value) values ('schema', :version)
on conflict (name) do update set value = excluded.value;

-- name: read_state
-- The clock, whether values are encrypted and, if the database is closed, its seal: what another process may have
-- changed and every transaction must know.
select c.floor, c.uptime, c.boot, c.divisor, s.transfer_id, s.kind, s.peer, s.at,
    (select value from stepwell_meta where name = 'encrypted')
from stepwell_clock as c
left join stepwell_seals as s on s.id = 1
where c.id = 1;

-- name: mark_encrypted
update stepwell_meta set value = :value where name = 'encrypted';

-- name: set_clock
update stepwell_clock set floor = :floor, uptime = :uptime, boot = :boot, divisor = :divisor where id = 1;

-- name: raise
-- Do not assign numbers again that came from another database.
update stepwell_meta set value = max(value, :value) where name = :name;

-- name: next
update stepwell_meta set value = value + 1 where name = :name returning value;
