-- name: prepare
-- Nothing of this has to survive a crash, and the rows of finished runs need no room to grow.
alter table stepwell.runs set unlogged;
alter table stepwell.heads set unlogged;
alter table stepwell.entries set unlogged;
alter table stepwell.runs set (fillfactor = 100);
alter table stepwell.heads set (fillfactor = 100);
insert into stepwell.definitions (workflow, version, priority)
select case n when 0 then 'flow' when 20 then 'rare' else 'other' || n end, 1, 0 from generate_series(0, 20) as n order by n;

-- name: finished
insert into stepwell.runs (
    run_id, definition, status, epoch, created_at, started_at, ended_at, key, generation, detached, tied, reason,
    undo_floor, discards
)
select '018bcfe5-' || lpad(to_hex(n), 8, '0'), case when n < 4 then 21 else n % 20 + 1 end, 'completed', 1, n, n, n + 1, 'key-' || lpad(n::text, 8, '0'),
    0, false, false, '', 0, false
from generate_series(1, 1000000) as n;

-- name: heads
insert into stepwell.heads (run, number, revision, last_seq, stalls) select n, 1, 1, 1, 0 from generate_series(1, 1000000) as n;

-- name: histories
-- Fewer will do: an index is worth its cost long before a million rows.
insert into stepwell.entries (run, location, seq, kind, status, value, at, took, attempts)
select n, '\x1100', 1, 's', 'd', '1', n, 1, 1 from generate_series(1, 200000) as n;
insert into stepwell.payloads (run, input, output, tags, started_by)
select n, '1', '1', '[]', case n % 100000 when 7 then 'ann' end from generate_series(1, 1000000) as n;
insert into stepwell.attributes (run, name, value, shown, run_id)
select n, 'n', 'n2' || lpad(n::text, 8, '0'), '', '018bcfe5-' || lpad(to_hex(n), 8, '0') from generate_series(1, 100000) as n
union all
select n, 'region', 't' || n % 3, '', '018bcfe5-' || lpad(to_hex(n), 8, '0') from generate_series(1, 100000) as n;
insert into stepwell.names (run, number, name) select n, 0, 'charge' from generate_series(1, 50000) as n;
insert into stepwell.attempts (run, location, number, at) select n, '\x1100', 1, n from generate_series(1, 50000) as n;
insert into stepwell.published (run, name, position, value) select n, 'state', 1, '1' from generate_series(1, 50000) as n;
insert into stepwell.chunks (run, stream, number, kind, source, part, value)
select n, 'log', 1, 'd', '', 1, '1' from generate_series(1, 50000) as n;
insert into stepwell.progress (run, location, at, unit, note, turns)
select n, '\x1100', n, '', '', 0 from generate_series(1, 50000) as n;
insert into stepwell.cursors (run, location, iteration, trimmed, state)
select n, '\x1100', 1, 0, '1' from generate_series(1, 50000) as n;
insert into stepwell.signals (signal_id, run, name, dedup_key, sent_at, asks)
select 'old-' || n, n, 'go', n::text, n, false from generate_series(1, 100000) as n;
insert into stepwell.replies (number, status, value, at) select n, 'd', '1', n from generate_series(1, 50000) as n;
insert into stepwell.events (event_id, topic, facets, deliver, published_at, is_taken, reached, forget_at)
select 'old-' || n, 'topic-' || n % 1000, '{}', 'all', n, false, 0, 9000000000000000 from generate_series(1, 50000) as n;
insert into stepwell.receipts (run, event, locations, is_read) select n, n, '{}', true from generate_series(1, 50000) as n;
insert into stepwell.audit (run, at, verb, by, before, after, reason)
select n, n, 'cancel', 'ann', '', '', '' from generate_series(1, 50000) as n;
insert into stepwell.outbox (run, sink, event_id, name, path, payload, at, died_at)
select n, 'mail', 'dead-' || n, 'e', '', '1', n, n from generate_series(1, 50000) as n;

-- name: active
-- Due, parked until a day in the future, parked for a signal, owned by workers that live, owned by one that does not.
insert into stepwell.workers (incarnation, name, started_at, lease_until, functions, definitions)
select 'worker-' || n, 'worker', 0, case n when 0 then 0 else 9000000000000000 end, '', '{flow@1}' from generate_series(0, 9) as n;
insert into stepwell.runs (
    run_id, definition, status, epoch, owner, wake_at, created_at, key, generation, detached, tied, reason, undo_floor,
    discards
)
select 'active-' || lpad(n::text, 6, '0'), 1, (array['pending', 'waiting', 'waiting', 'running', 'running'])[n % 5 + 1], 1,
    case n % 5 when 3 then n % 9 + 2 when 4 then case when n % 100 = 4 then 1 else 2 end end,
    case n % 5 when 0 then n when 1 then 8000000000000000 end, n, 'active-key-' || n, 0, false, false, '', 0, false
from generate_series(0, 19999) as n;
insert into stepwell.heads (run, number, revision, last_seq, stalls)
select id, 0, 0, 0, 0 from stepwell.runs where run_id >= 'active-';
insert into stepwell.payloads (run, input, tags) select id, '1', '[]' from stepwell.runs where run_id >= 'active-';
insert into stepwell.waits (run, position, location, kind, token, due_at, names)
select id, 0, '\x1100', case when wake_at is null then 'signal' else 'timer' end, 1, wake_at, '{}'
from stepwell.runs where run_id >= 'active-' and status = 'waiting';
insert into stepwell.waits (run, position, location, kind, token, names, since, facets, topic, facet, armed)
select id, 1, '\x1100', 'topic', 1, '{news}', 'wait', '{}', 'topic-' || id % 1000, '', id
from stepwell.runs where run_id >= 'active-' and status = 'waiting' and wake_at is null;
insert into stepwell.signals (signal_id, run, name, payload, sent_at, asks)
select 'new-' || id, id, 'go', '1', id, false from stepwell.runs where run_id >= 'active-' and status = 'running';
insert into stepwell.outbox (run, sink, event_id, name, path, payload, at, next_at)
select id, 'mail', 'due-' || id, 'e', '', '1', id, id from stepwell.runs where run_id >= 'active-' and status = 'running';

-- name: records
-- The closed ones come first, so that what is open is not found by reading from the beginning.
insert into stepwell.records (
    kind, record_id, version, state, labels, due_at, is_open, end_state, run, location, body, created_at, updated_at
)
select 'task', 'task-' || n, 2, case when n > 10000 then 'open' else 'done' end, array['for:' || n % 500, 'role'],
    case when n > 10000 then n * 1000000::bigint end, n > 10000, 'cancelled', n, '\x1100', convert_to(repeat('x', 300), 'utf8'), n, n
from generate_series(1, 11000) as n;
insert into stepwell.record_labels (kind, label, is_open, number, state, due_at)
select kind, label, is_open, number, state, due_at from stepwell.records cross join unnest(labels) as label;
insert into stepwell.record_events (record, number, at, by, verb, version, data, change_id)
select number, 1, number, '', 'opened', 1, '', 'old-' || number from stepwell.records;

-- name: settle
alter table stepwell.runs set (fillfactor = 50);
alter table stepwell.heads set (fillfactor = 50);
set default_statistics_target = 20;
analyze;
