-- name: look_in
-- The time, and what the tables say of themselves: it fails unless the tables and this release's functions are there.
select
    json_build_array(
        {f}.read_time($1::bigint, $2::bigint)::bigint,
        (select value from {t}.meta where name = 'schema'),
        (select value from {t}.meta where name = 'identity')
    )::text;
