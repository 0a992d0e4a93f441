-- name: record
-- The outcome of an at-most-once step replaces its start.
insert or replace into stepwell_attempts (run, location, number, at, failure, next_at)
values (:run, :location, :number, :at, :failure, :next_at);

-- name: end
delete from stepwell_attempts where run = :run and location = :location and number = :number;

-- name: trim
-- Except what a rewind has left of a dropped child, which was moved to `~was1`: it gives the next child another id.
delete from stepwell_attempts
where run = :run and location >= :low and location < :high and not exists (
    select 1 from stepwell_runs as child
    where child.parent = (select run_id from stepwell_runs where id = :run)
        and child.parent_location = cast(stepwell_attempts.location || x'5101' as blob)
);

-- name: list
select location, number, at, failure, next_at from stepwell_attempts where run = :run order by location, number;
