-- name: append
-- The primary key rejects a second result at one location.
insert into stepwell_entries (run, location, seq, kind, status, value, at, took, attempts, undo, fingerprint)
values (:run, :location, :seq, :kind, :status, :value, :at, :took, :attempts, :undo, :fingerprint);

-- name: trim
-- Entries that may have to be undone stay. A beginning need not be undone once the result is recorded.
delete from stepwell_entries
where run = :run and location >= :low and location < :high and (
    undo is null
    or kind = 'g' and exists (
        select 1 from stepwell_entries as done
        where done.run = :run and done.status = 'd'
            and done.location = substr(stepwell_entries.location, 1, length(stepwell_entries.location) - 1)
    )
);

-- name: list
-- Sorted by seq in Python: the rows are mostly in order already, which SQLite's sorter does not exploit.
select seq, location, kind, status, value, at, took, attempts, undo, fingerprint from stepwell_entries where run = :run;

-- name: has_undo
select 1 from stepwell_entries where run = :run and undo is not null limit 1;

-- name: find_left_to_undo
-- A step with a compensation that has not been undone.
select 1
from stepwell_entries
where run = :run and location = :location and undo is not null
    and not exists (select 1 from stepwell_entries where run = :run and location = :undo);

-- name: list_failed
select location from stepwell_entries where run = :run and status = 'f';

-- name: forget
delete from stepwell_entries where run = :run and location = :location;

-- name: find_latest
-- The last recorded place; a failed attempt counts, too.
select location
from (
    select at, seq, location from stepwell_entries where run = :run
    union all
    select at, 0, location from stepwell_attempts where run = :run
)
order by at desc, seq desc, location desc
limit 1;

-- name: list_seqs
select location, seq from stepwell_entries where run = :run;
