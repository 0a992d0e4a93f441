-- name: find
-- By its id, wherever it is and in any state.
select r.run_id from stepwell_signals as s left join stepwell_runs as r on r.id = s.run where s.signal_id = :signal_id;

-- name: find_duplicate
select 1 from stepwell_signals where run = :run and name = :name and dedup_key = :dedup_key;

-- name: find_ended_duplicate
-- The newest run with the target's id or key that knows the dedup key.
with recursive meant (id, run_id, successor) as (
    select id, run_id, successor from stepwell_runs where run_id = :target
    union
    select id, run_id, successor from stepwell_runs where key = :target
    union
    select r.id, r.run_id, r.successor from meant as m cross join stepwell_runs as r on r.run_id = m.successor
)
select m.run_id
from meant as m
where exists (select 1 from stepwell_signals as s where s.run = m.id and s.name = :name and s.dedup_key = :dedup_key)
order by m.id desc
limit 1;

-- name: find_held_duplicate
select 1 from stepwell_signals where key = :key and name = :name and dedup_key = :dedup_key;

-- name: insert
-- Does nothing if the signal is known.
insert into stepwell_signals (signal_id, run, key, name, dedup_key, payload, sent_at, asks)
values (:signal_id, :run, :key, :name, :dedup_key, :payload, :sent_at, :asks)
on conflict (signal_id) do nothing;

-- name: insert_refused
-- Of an ended run, for people.
insert into stepwell_signals (signal_id, run, name, dedup_key, payload, sent_at, asks, refused)
values (:signal_id, :run, :name, :dedup_key, :payload, :now, 0, :reason);

-- name: list_pending
select number, name, payload, sent_at, case when asks then signal_id end
from stepwell_signals
where run = :run and payload is not null and refused is null
order by number;

-- name: list_pending_names
select distinct name from stepwell_signals where run = :run and payload is not null and refused is null;

-- name: consume
-- The row stays, so that a duplicate is recognised.
update stepwell_signals
set payload = null
where number = :number and run = :run and payload is not null and refused is null;

-- name: refuse
-- It keeps its payload, so that people can read it and deliver it again.
update stepwell_signals
set refused = :reason, refused_by = :by
where number = :number and run = :run and payload is not null and refused is null;

-- name: plan_discard
insert into stepwell_discards (run) values (:run);

-- name: discard
-- Does nothing unless the run was created with `discards`.
update stepwell_signals
set payload = null
where
    run = :run
    and payload is not null
    and refused is null
    and exists (select 1 from stepwell_discards as d where d.run = stepwell_signals.run);

-- name: pass_on
update stepwell_signals set run = :successor where run = :run and payload is not null and refused is null;

-- name: drop_held_duplicates
-- Held signals that the run knows already count as consumed.
update stepwell_signals
set run = :run, key = null, dedup_key = null, payload = null
where key = :key and dedup_key is not null and exists (
    select 1
    from stepwell_signals as known
    where known.run = :run and known.name = stepwell_signals.name and known.dedup_key = stepwell_signals.dedup_key
);

-- name: take_over_held
update stepwell_signals set run = :run, key = null where key = :key;

-- name: find_held
select 1 from stepwell_signals where key = :key limit 1;

-- name: find_undelivered
-- A signal that no run will read: held, refused, or left by an ended run.
select s.name, s.dedup_key
from stepwell_signals as s
left join stepwell_runs as r on r.id = s.run
where s.number = :number and s.payload is not null and (
    s.key is not null or s.refused is not null or (r.ended_at is not null and r.status <> 'continued')
);

-- name: find_known
-- Another signal of the run with the same dedup key.
select 1 from stepwell_signals where run = :run and name = :name and dedup_key = :dedup_key and number <> :number;

-- name: find_left
-- A signal that a run refused, or that an ended run did not read.
select s.run, s.name, r.status
from stepwell_signals as s
cross join stepwell_runs as r on r.id = s.run
where s.number = :number and s.payload is not null and (s.refused is not null or r.ended_at is not null);

-- name: forget_payload
update stepwell_signals set payload = null where number = :number;

-- name: drop_undelivered
update stepwell_signals set run = :run, key = null, dedup_key = null, payload = null where number = :number;

-- name: redeliver
-- A new number: a running run has passed the old numbers already.
update stepwell_signals
set
    number = (select max(number) + 1 from stepwell_signals),
    run = :run,
    key = null,
    refused = null,
    payload = :payload
where number = :number;

-- name: list_held
select key, number, name, payload, sent_at, case when asks then signal_id end
from stepwell_signals
where key is not null
order by number
limit :limit;

-- name: list_held_for
select key, number, name, payload, sent_at, case when asks then signal_id end
from stepwell_signals
where key = :key
order by number
limit :limit;

-- name: list_unread
select
    r.run_id,
    r.status,
    coalesce(s.refused, ''),
    s.number,
    s.name,
    s.payload,
    s.sent_at,
    case when s.asks then s.signal_id end,
    s.refused_by
from stepwell_signals as s
cross join stepwell_runs as r on r.id = s.run
where
    s.run is not null
    and s.payload is not null
    and (s.refused is not null or (r.ended_at is not null and not :is_refused))
    and s.number > :after
    and (:run_id is null or r.run_id = :run_id)
order by s.number
limit :limit;

-- name: list_left
-- Signals that a run could still read, and whether they came after it began (all of them, for the first of a chain).
select s.number, r.generation = 1 or s.sent_at > r.created_at
from stepwell_signals as s
join stepwell_runs as r on r.id = s.run
where s.run = :run and s.payload is not null and s.refused is null and s.number > :above and substr(s.name, 1, 1) <> '~';

-- name: find_received
select number from stepwell_signals where run = :run and payload is null limit 1;

-- name: count_pending
select count(*) from (select 1 from stepwell_signals where run = :at and payload is not null limit :max);

-- name: count_held
select count(*) from (select 1 from stepwell_signals where key = :at limit :max);
