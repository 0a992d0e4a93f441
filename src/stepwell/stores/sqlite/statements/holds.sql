-- name: list
select workflow, by, reason, at from stepwell_holds order by workflow;

-- name: list_workflows
select workflow from stepwell_holds;

-- name: add
insert into stepwell_holds (workflow, by, reason, at) values (:workflow, :by, :reason, :at)
on conflict (workflow) do nothing;

-- name: remove
delete from stepwell_holds where workflow = :workflow;

-- name: note
insert into stepwell_audit (workflow, at, verb, by, before, after, reason, act)
values (:workflow, :at, :verb, :by, '', '', :reason, nullif(:act, ''));

-- name: list_acts
select at, workflow, verb, by, reason
from stepwell_audit
where workflow is not null
order by id desc
limit :limit;

-- name: forget_all
-- Two statements: the contents of another database replace what is there.
delete from stepwell_holds;
delete from stepwell_audit where workflow is not null;
