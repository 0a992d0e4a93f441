-- name: publish
-- A value with an earlier position comes from a replay, and is older than the stored value.
insert into stepwell_published (run, name, position, value) values (:run, :name, :position, :value)
on conflict (run, name) do update set position = excluded.position, value = excluded.value
where excluded.position >= position;

-- name: list_published
select s.name, s.position, s.value
from stepwell_runs as r
cross join stepwell_published as s on s.run = r.id
where r.run_id = :run_id
order by s.name;

-- name: find_earlier
select min(number) from stepwell_chunks
where run = :run and stream = :stream and source = :source and part <> :part and kind = 'd';

-- name: append
insert into stepwell_chunks (run, stream, number, kind, source, part, value)
select :run, :stream, coalesce(max(number), 0) + 1, :kind, :source, :part, :value
from stepwell_chunks
where run = :run and stream = :stream;

-- name: withdraw
delete from stepwell_chunks
where run = :run and stream = :stream and number >= :since and source = :source and part <> :part and kind = 'd';

-- name: read_chunks
select c.number, c.kind, c.source, c.value
from stepwell_runs as r
cross join stepwell_chunks as c on c.run = r.id
where r.run_id = :run_id and c.stream = :stream and c.number > :after
order by c.number
limit :limit;

-- name: has_ended
select ended_at is not null from stepwell_runs where run_id = :run_id;

-- name: list_streams
select distinct c.stream
from stepwell_runs as r
cross join stepwell_chunks as c on c.run = r.id
where r.run_id = :run_id
order by c.stream;
