-- name: keep
insert or replace into stepwell_progress (run, location, at, state, done, total, unit, note, turns)
values (:run, :location, :at, :state, :done, :total, :unit, :note, :turns);

-- name: find_state
select state from stepwell_progress where run = :run and location = :location;

-- name: end
delete from stepwell_progress where run = :run and location = :location;

-- name: clear
delete from stepwell_progress where run = :run;

-- name: list
select location, at, state, done, total, unit, note, turns
from stepwell_progress
where run = :run
order by location;

-- name: list_many
select r.run_id, p.location, p.at, p.state, p.done, p.total, p.unit, p.note, p.turns
from (select distinct value from json_each(:ids)) as wanted
cross join stepwell_runs as r on r.run_id = wanted.value
cross join stepwell_progress as p on p.run = r.id
order by r.run_id, p.location;
