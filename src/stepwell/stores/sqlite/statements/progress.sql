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
