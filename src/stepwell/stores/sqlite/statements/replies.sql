-- name: give
insert into stepwell_replies (number, status, value, at) values (:number, :status, :value, :now) on conflict do nothing;

-- name: find
-- The state of a signal that asked: the run that has it, and the reply if there is one.
select
    r.run_id,
    r.status as run_status,
    s.payload is null or s.refused is not null as is_read,
    p.number,
    p.status,
    p.value
from stepwell_signals as s
left join stepwell_runs as r on r.id = s.run
left join stepwell_replies as p on p.number = s.number
where s.signal_id = :signal_id;
