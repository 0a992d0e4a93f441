-- name: raise_epochs
update stepwell_runs set epoch = epoch + :skipped;

-- name: raise_numbers
update stepwell_meta set value = value + :skipped where name in ('armed', 'receipts');
insert into sqlite_sequence (name, seq)
select 'stepwell_outbox', 0
where not exists (select 1 from sqlite_sequence where name = 'stepwell_outbox');
update sqlite_sequence set seq = seq + :skipped where name = 'stepwell_outbox';

-- name: integrity_check
pragma integrity_check(10);

-- name: count_runs
select count(*) from stepwell_runs;
