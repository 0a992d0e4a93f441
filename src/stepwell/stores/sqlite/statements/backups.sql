-- name: raise_epochs
update stepwell_runs set epoch = epoch + :skipped;

-- name: raise_versions
update stepwell_records set version = version + :skipped;

-- name: raise_numbers
update stepwell_meta set value = value + :skipped where name in ('armed', 'receipts');
insert into sqlite_sequence (name, seq)
select value, 0
from json_each('["stepwell_outbox", "stepwell_records"]')
where not exists (select 1 from sqlite_sequence where name = value);
update sqlite_sequence set seq = seq + :skipped where name in ('stepwell_outbox', 'stepwell_records');

-- name: integrity_check
pragma integrity_check(10);

-- name: count_runs
select count(*) from stepwell_runs;
