-- name: set
insert or replace into stepwell_cursors (run, location, iteration, trimmed, state)
values (:run, :location, :iteration, :trimmed, :state);

-- name: end
delete from stepwell_cursors where run = :run and location = :location;

-- name: trim
delete from stepwell_cursors where run = :run and location >= :low and location < :high;

-- name: clear
delete from stepwell_cursors where run = :run;

-- name: list
select location, iteration, trimmed, state from stepwell_cursors where run = :run order by location;
