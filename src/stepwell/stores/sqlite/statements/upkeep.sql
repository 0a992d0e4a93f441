-- name: pages
-- Of each table and index, its bytes and its rows: every page is looked at. A row of a table with a rowid is a cell of a
-- leaf; in other trees the inner pages have rows too.
select
    s.tbl_name,
    s.type,
    sum(p.pgsize),
    sum(case when p.pagetype = 'leaf' or (p.pagetype = 'internal' and s.is_keyed) then p.ncell else 0 end)
from dbstat as p
join (
    select name, tbl_name, type, coalesce(sql like '%without rowid%', false) as is_keyed from sqlite_schema
) as s on s.name = p.name
group by s.tbl_name, s.type;

-- name: free
select
    (select page_size from pragma_page_size) * (select page_count from pragma_page_count),
    (select page_size from pragma_page_size) * (select freelist_count from pragma_freelist_count);

-- name: count
select d.workflow, count(*), sum(r.run_id >= :since and r.run_id < :until)
from stepwell_definitions as d
cross join stepwell_runs as r indexed by stepwell_runs_definition on r.definition = d.id
group by d.workflow;

-- name: range
select coalesce(min(id), 0), coalesce(max(id), 0) from stepwell_runs;

-- name: weigh
-- The values of some runs, and about 100 bytes for each row.
select
    d.workflow,
    count(*),
    sum(
        400
        + coalesce((select octet_length(input) + coalesce(octet_length(output), 0) + coalesce(octet_length(failure), 0)
            + coalesce(octet_length(headers), 0) from stepwell_payloads where run = r.id), 0)
        + coalesce((select sum(100 + octet_length(value) + coalesce(octet_length(undo), 0)) from stepwell_entries where run = r.id), 0)
        + coalesce((select sum(100 + octet_length(value)) from stepwell_chunks where run = r.id), 0)
        + coalesce((select sum(100 + octet_length(value)) from stepwell_published where run = r.id), 0)
        + coalesce((select sum(100 + coalesce(octet_length(state), 0)) from stepwell_progress where run = r.id), 0)
        + coalesce((select sum(100 + octet_length(state)) from stepwell_cursors where run = r.id), 0)
        + coalesce((select sum(100 + coalesce(octet_length(failure), 0)) from stepwell_attempts where run = r.id), 0)
        + coalesce((select sum(100 + octet_length(value)) from stepwell_attributes where run = r.id), 0)
        + coalesce((select sum(150 + octet_length(payload)) from stepwell_signals where run = r.id and payload is not null), 0)
        + coalesce((select sum(150 + octet_length(payload)) from stepwell_outbox where run = r.id and died_at is not null), 0)
    )
from json_each(:runs) as given
cross join stepwell_runs as r on r.id = given.value
cross join stepwell_definitions as d on d.id = r.definition
group by d.workflow;
