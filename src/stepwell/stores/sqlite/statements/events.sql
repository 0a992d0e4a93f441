-- name: find
select reached from stepwell_events where event_id = :event_id;

-- name: insert
insert into stepwell_events (event_id, topic, payload, facets, deliver, published_at, kept_until, is_taken, reached, forget_at)
values (:event_id, :topic, :payload, :facets, :deliver, :now, :kept_until, :is_taken, :reached, :forget_at)
returning number;

-- name: count_kept
select count(*)
from stepwell_events
where topic = :topic and kept_until is not null and is_taken = 0 and kept_until > :now;

-- name: list_kept
select event_id, topic, payload, deliver, published_at, kept_until
from stepwell_events
where kept_until is not null and is_taken = 0 and kept_until > :now and (:topic is null or topic = :topic)
order by number
limit :limit;

-- name: list_kept_for
-- The events that a wait may take: not those that its run received before.
select e.number, e.facets, e.deliver
from stepwell_events as e
where e.topic = :topic and e.kept_until is not null and e.is_taken = 0 and e.kept_until > :now and e.published_at >= :first
    and not exists (select 1 from stepwell_receipts as r where r.run = :run and r.event = e.number)
order by e.number;

-- name: take
update stepwell_events set is_taken = 1 where number = :number;

-- name: give_back
update stepwell_events
set is_taken = :is_taken, kept_until = :kept_until, forget_at = max(forget_at, :kept_until)
where number = :number;

-- name: empty
-- An event that is neither kept by its topic nor in an inbox loses its payload; only its id is remembered.
update stepwell_events
set payload = null
where number = :number and (kept_until is null or is_taken = 1)
    and not exists (select 1 from stepwell_receipts as r where r.event = :number and r.is_read = 0);

-- name: list_forgettable
select e.number
from stepwell_events as e
where e.topic = :topic and e.forget_at <= :now
    and not exists (select 1 from stepwell_receipts as r where r.event = e.number and r.is_read = 0)
limit 100;

-- name: forget
delete from stepwell_events where number = :number;
