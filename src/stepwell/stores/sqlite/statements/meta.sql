-- name: identify
-- One statement, so one snapshot: another process may be creating the schema at this moment.
select
    (select count(*) from sqlite_schema) as objects,
    (select application_id from pragma_application_id) as application_id,
    (select user_version from pragma_user_version) as version;

-- name: floor
select value from stepwell_meta where name = 'floor';

-- name: raise_floor
update stepwell_meta set value = :floor where name = 'floor';

-- name: next
update stepwell_meta set value = value + 1 where name = :name returning value;
