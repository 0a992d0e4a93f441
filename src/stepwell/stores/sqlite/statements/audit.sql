-- name: note
insert into stepwell_audit (run, at, verb, by, before, after, reason, act)
select :run, :now, :verb, :by, :before, r.status, :reason, nullif(:act, '') from stepwell_runs as r where r.id = :run;

-- name: find_act
select 1 from stepwell_audit where act = :act;

-- name: list
select a.at, r.run_id, a.verb, a.by, a.before, a.after, a.reason
from stepwell_runs as r
join stepwell_audit as a on a.run = r.id
where r.run_id = :run_id
order by a.id;
