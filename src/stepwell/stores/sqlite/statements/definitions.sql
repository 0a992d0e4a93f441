-- name: find
select id from stepwell_definitions where workflow = :workflow and version = :version and priority = :priority;

-- name: list_lanes
-- One row for each priority that a run of the definition ever had.
select priority, id from stepwell_definitions where workflow = :workflow and version = :version;

-- name: find_more_urgent
-- Whether a run of a higher priority is due: a claim at the start would overtake it.
select 1
from stepwell_definitions as d
where d.priority > :priority
    and d.workflow || '@' || d.version in (select value from json_each(:definitions))
    and exists (select 1 from stepwell_runs as r where r.definition = d.id and r.wake_at is not null and r.wake_at <= :now)
limit 1;

-- name: add
insert into stepwell_definitions (workflow, version, priority) values (:workflow, :version, :priority) returning id;

-- name: list
-- A debounced start may change its definition, and leave a definition without runs. No index finds the first run of
-- each, so this is for people.
select distinct d.workflow, d.version
from stepwell_definitions as d
where exists (select 1 from stepwell_runs as r where r.definition = d.id);
