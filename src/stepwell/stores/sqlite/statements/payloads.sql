-- name: insert
insert into stepwell_payloads (run, input, failure, tags, title, started_by, headers, retry)
values (:run, :input, :failure, :tags, :title, :started_by, :headers, :retry);

-- name: entitle
update stepwell_payloads set title = nullif(:title, '') where run = :run;

-- name: tag
update stepwell_payloads set tags = :tags where run = :run;

-- name: change_input
update stepwell_payloads set input = :input where run = :run;

-- name: read_failure
select failure from stepwell_payloads where run = :run;

-- name: fail
update stepwell_payloads set failure = :failure where run = :run;

-- name: finish
-- An end without a failure keeps the stored failure, which is the cause of a rollback.
update stepwell_payloads set output = :output, failure = coalesce(:failure, failure) where run = :run;
