-- name: find
-- Known by its id, wherever it is and whatever became of it.
select r.run_id from stepwell_signals as s left join stepwell_runs as r on r.id = s.run where s.signal_id = :signal_id;

-- name: find_twin
select 1 from stepwell_signals where run = :run and name = :name and dedup_key = :dedup_key;

-- name: find_held_twin
select 1 from stepwell_signals where key = :key and name = :name and dedup_key = :dedup_key;

-- name: insert
insert into stepwell_signals (signal_id, run, key, name, dedup_key, payload, sent_at)
values (:signal_id, :run, :key, :name, :dedup_key, :payload, :sent_at);

-- name: list_pending
select number, name, payload, sent_at
from stepwell_signals
where run = :run and payload is not null
order by number;

-- name: list_pending_names
select distinct name from stepwell_signals where run = :run and payload is not null;

-- name: consume
-- The row stays, so that a duplicate is still known.
update stepwell_signals set payload = null where number = :number and run = :run and payload is not null;

-- name: pass_on
update stepwell_signals set run = :successor where run = :run and payload is not null;

-- name: drop_held_twins
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

-- name: list_held
select key, number, name, payload, sent_at from stepwell_signals where key is not null order by number limit :limit;
