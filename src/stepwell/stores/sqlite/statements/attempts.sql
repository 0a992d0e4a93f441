-- name: record
-- The outcome of an at-most-once step replaces its start.
insert or replace into stepwell_attempts (run, location, number, at, failure, next_at)
values (:run, :location, :number, :at, :failure, :next_at);

-- name: end
delete from stepwell_attempts where run = :run and location = :location and number = :number;

-- name: trim
delete from stepwell_attempts where run = :run and location >= :low and location < :high;

-- name: list
select location, number, at, failure, next_at from stepwell_attempts where run = :run order by location, number;
