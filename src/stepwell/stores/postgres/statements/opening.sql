-- name: read_opening
-- The time, the version of the tables and their identity. It fails unless tables and this release's functions exist.
select
    json_build_array(
        {f}.read_time($1::bigint, $2::bigint)::bigint,
        (select value from {t}.meta where name = 'schema'),
        (select value from {t}.meta where name = 'identity')
    )::text;
