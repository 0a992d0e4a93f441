-- name: add
insert into stepwell_waits (run, position, location, kind, token, due_at, names, limit_at)
values (:run, :position, :location, :kind, :token, :due_at, :names, :limit_at);

-- name: clear
delete from stepwell_waits where run = :run;

-- name: list
select location, kind, token, due_at, names, limit_at from stepwell_waits where run = :run order by position;

-- name: list_child_locations
select location from stepwell_waits where run = :run and kind = 'child';

-- name: list_signal_names
select names from stepwell_waits where run = :run and kind = 'signal';
