-- name: add
insert into stepwell_receipts (number, run, event, locations, is_read) values (:number, :run, :event, :locations, 0);

-- name: list_unread
select r.number, e.event_id, e.topic, e.payload, e.facets, e.published_at, r.locations
from stepwell_receipts as r
cross join stepwell_events as e on e.number = r.event
where r.run = :run and r.is_read = 0
order by r.number;

-- name: list_of_run
select r.number, r.is_read, e.number, e.topic, e.facets, e.deliver, e.kept_until
from stepwell_receipts as r
cross join stepwell_events as e on e.number = r.event
where r.run = :run
order by r.number;

-- name: find_unread
select e.number, e.deliver = 'all' and e.kept_until is not null
from stepwell_receipts as r
cross join stepwell_events as e on e.number = r.event
where r.number = :number and r.run = :run and r.is_read = 0;

-- name: aim
update stepwell_receipts set locations = :locations where number = :number;

-- name: read
update stepwell_receipts set is_read = 1 where number = :number;

-- name: remove
delete from stepwell_receipts where number = :number;

-- name: pass_on
-- The successor has no waits at these locations.
update stepwell_receipts set run = :successor, locations = '[]' where run = :run;

-- name: forget
delete from stepwell_receipts where event = :event;
