-- name: add
insert into stepwell_waits (run, position, location, kind, token, due_at, names, limit_at)
values (:run, :position, :location, :kind, :token, :due_at, :names, :limit_at);

-- name: add_topic
insert into stepwell_waits (run, position, location, kind, token, due_at, names, since, facets, topic, facet, armed, limit_at)
values (:run, :position, :location, 'topic', :token, :due_at, :names, :since, :facets, :topic, :facet, :armed, :limit_at);

-- name: list_topics
select location, token, due_at, names, since, facets, limit_at, topic, armed from stepwell_waits where run = :run and kind = 'topic';

-- name: list_open
-- A wait without conditions has an empty facet; a wait with conditions is found by the first of them.
select w.armed, w.run, w.position, w.location, w.facets, r.run_id, r.status, r.owner
from stepwell_waits as w
cross join stepwell_runs as r on r.id = w.run
where w.topic = :topic and w.facet in (select value from json_each(:facets)) and r.status <> 'cancelling';

-- name: close
update stepwell_waits set topic = null, facet = null, armed = null where run = :run and position = :position;

-- name: clear
delete from stepwell_waits where run = :run;

-- name: list
select location, kind, token, due_at, names, since, facets, limit_at from stepwell_waits where run = :run order by position;

-- name: list_child_locations
select location from stepwell_waits where run = :run and kind = 'child';

-- name: list_watchers
-- The runs that wait for the end of a run that is not their child.
select distinct r.id, r.run_id, r.status, r.owner
from stepwell_waits as w
cross join stepwell_runs as r on r.id = w.run
where w.kind = 'run' and w.names = json_array(:run_id);

-- name: follow
-- A run that continues as new is followed by those that wait for its end.
update stepwell_waits set names = json_array(:successor) where kind = 'run' and names = json_array(:run_id);

-- name: list_signal_names
select names from stepwell_waits where run = :run and kind = 'signal';
