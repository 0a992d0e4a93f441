-- name: append
-- The next number is one above the last, which is at the end of the run's range.
insert into stepwell_names (run, number, name)
values (:run, (select coalesce(max(number) + 1, 0) from stepwell_names where run = :run), :name);

-- name: list
select name from stepwell_names where run = :run order by number;

-- name: list_many
select r.run_id, n.name
from json_each(:ids) as wanted
cross join stepwell_runs as r on r.run_id = wanted.value
cross join stepwell_names as n on n.run = r.id
order by r.run_id, n.number;
