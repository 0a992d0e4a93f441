-- name: append
-- The next number is one above the last: a look at the end of the run's range.
insert into stepwell_names (run, number, name)
values (:run, (select coalesce(max(number) + 1, 0) from stepwell_names where run = :run), :name);

-- name: list
select name from stepwell_names where run = :run order by number;
