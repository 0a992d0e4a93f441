-- name: find_for_commit
-- The facts that decide about a commit. Hot statements bind parameters by position, in the order of their first use.
select r.id, r.revision, r.wake_at, r.hold, r.status, w.incarnation, r.epoch, r.number, r.last_seq, r.deadline_at
from stepwell_runs as r
left join stepwell_workers as w on w.id = r.owner
where r.run_id = :run_id;

-- name: advance_known
-- The hot path: one statement checks and advances the run, if its state is known. It changes no indexed column.
update stepwell_runs
set number = :number, revision = :revision, last_seq = :last_seq, stalls = 0
where id = :id and run_id = :run_id and revision = :revision - 1 and number = :number - 1 and last_seq = :before
    and epoch = :epoch and status <> 'cancelling' and hold is null
    and owner = (select id from stepwell_workers where incarnation = :incarnation);

-- name: finish_known
-- The same for a run that completes, if its end affects no other run and leaves nothing to delete.
update stepwell_runs
set number = :number, revision = :revision, last_seq = :last_seq, stalls = 0,
    status = 'completed', ended_at = :now, owner = null, wake_at = null
where id = :id and run_id = :run_id and revision = :revision - 1 and number = :number - 1 and last_seq = :before
    and epoch = :epoch and status = 'running' and hold is null and parent is null
    and (deadline_at is null or deadline_at > :now)
    and owner = (select id from stepwell_workers where incarnation = :incarnation)
    and (:are_waits_cleared or not exists (select 1 from stepwell_waits as w where w.run = :id))
    and not exists (select 1 from stepwell_cursors as c where c.run = :id)
    and not exists (select 1 from stepwell_receipts as e where e.run = :id)
    and not exists (select 1 from stepwell_discards as d where d.run = :id)
    and not exists (
        select 1 from stepwell_waits as o indexed by stepwell_waits_run
        where o.kind = 'run' and o.names = json_array(:run_id)
    )
    and not exists (
        select 1 from stepwell_records as k indexed by stepwell_records_closing
        where k.run = :id and k.is_open = 1 and k.end_state is not null
    )
    and not exists (select 1 from stepwell_runs as c where c.parent = :run_id and c.tied = 1 and c.ended_at is null)
    and (key is null or not exists (
        select 1 from stepwell_runs as d
        where d.key = stepwell_runs.key and d.debounced_until is not null and d.ended_at is null
    ));

-- name: advance
-- The hot path: one row, and no indexed column.
update stepwell_runs
set number = :number, revision = :revision, last_seq = :last_seq, stalls = 0
where id = :id;

-- name: touch
-- A commit without progress does not reset the stalls.
update stepwell_runs
set number = :number, revision = :revision
where id = :id;

-- name: park
update stepwell_runs
set number = :number, revision = :revision, last_seq = :last_seq, stalls = 0,
    status = case status when 'running' then 'waiting' else status end, owner = null, wake_at = :wake_at
where id = :id;

-- name: pause
update stepwell_runs
set number = :number, revision = :revision, last_seq = :last_seq, stalls = 0,
    status = 'paused', owner = null, wake_at = null
where id = :id;

-- name: begin_rollback
update stepwell_runs
set number = :number, revision = :revision, last_seq = :last_seq, stalls = 0,
    status = 'compensating', cause = :cause, undo_floor = :undo_floor, hold = null
where id = :id;

-- name: finish
update stepwell_runs
set number = :number, revision = :revision, last_seq = :last_seq, stalls = 0,
    status = :status, ended_at = :ended_at, owner = null, wake_at = null, successor = :successor, hold = null
where id = :id;

-- name: release
-- The caller decides whether there was progress.
update stepwell_runs
set number = :number, revision = :revision, last_seq = :last_seq, stalls = case when :has_progress then 0 else stalls end,
    status = case when hold is not null then 'paused' when status = 'running' then 'pending' else status end,
    owner = null, wake_at = iif(hold is null, :now, null)
where id = :id;

-- name: insert
insert into stepwell_runs (
    run_id, definition, status, epoch, number, revision, last_seq, stalls, owner, wake_at, created_at, started_at, ended_at,
    key, generation, parent, parent_location, detached, tied, previous, previous_started_at, previous_finished_at,
    deadline_at, max_suspend, debounced_until, dedup, reason, undo_floor
) values (
    :run_id, :definition, :status, :epoch, 0, 0, 0, 0, :owner, :wake_at, :created_at, :started_at, :ended_at,
    :key, :generation, :parent, :parent_location, :detached, :tied, :previous, :previous_started_at, :previous_finished_at,
    :deadline_at, :max_suspend, :debounced_until, :dedup, '', 0
) returning id;

-- name: find_input
select p.input from stepwell_runs as r join stepwell_payloads as p on p.run = r.id where r.run_id = :run_id;

-- name: list_inputs
select r.run_id, p.input
from json_each(:ids) as given
cross join stepwell_runs as r on r.run_id = given.value
cross join stepwell_payloads as p on p.run = r.id;

-- name: find_active_of_key
select run_id, id
from stepwell_runs
where key = :key and ended_at is null and replaced_by is null and debounced_until is null;

-- name: find_ended_of_key
-- The run that ended last, within the window.
select run_id, id
from stepwell_runs
where key = :key and ended_at > :since and status <> 'continued' and replaced_by is null and debounced_until is null
order by ended_at desc, id desc
limit 1;

-- name: find_last_ended_of_key
select id, run_id from stepwell_runs where key = :key and ended_at is not null order by id desc limit 1;

-- name: list_due
-- Per definition: its due runs are one range of the index, oldest first, so that no definition can starve an old run.
select wake_at, id, debounced_until
from stepwell_runs
where definition = :definition and wake_at is not null and wake_at <= :now
order by wake_at, id
limit :limit;

-- name: list_soon
select wake_at, id
from stepwell_runs
where definition = :definition and wake_at is not null and wake_at > :now and wake_at <= :until and status = 'waiting'
order by wake_at, id
limit :limit;

-- name: find_key
select key, debounced_until from stepwell_runs where id = :id;

-- name: wake_debounced
-- A planned run that is due, but whose key this run had until now.
update stepwell_runs
set wake_at = :now
where key = (select r.key from stepwell_runs as r where r.id = :id)
    and debounced_until is not null and ended_at is null and wake_at > max(debounced_until, :now)
returning run_id;

-- name: begin_debounced
-- The run holds its key from now on.
update stepwell_runs set debounced_until = null where id = :id;

-- name: postpone
update stepwell_runs set wake_at = :wake_at where id = :id;

-- name: find_debounced
select run_id, id, debounced_until from stepwell_runs where key = :key and debounced_until is not null and ended_at is null;

-- name: debounce
update stepwell_runs
set definition = :definition, wake_at = iif(status = 'paused', null, :wake_at)
where id = :id;

-- name: claim
update stepwell_runs
set status = case when status in ('pending', 'waiting') then 'running' else status end,
    epoch = epoch + 1, number = 0, owner = :owner, wake_at = null, started_at = coalesce(started_at, :now)
where id = :id;

-- name: read
select {Run.* to row} from stepwell_run_rows where id = :id;

-- name: read_claimed
-- Also whether there may be signals, children and events for the run: most runs have none of these.
select
    {Run.* to row},
    exists (select 1 from stepwell_signals as s where s.run = :id and s.payload is not null),
    exists (select 1 from stepwell_waits as w where w.run = :id and (w.kind = 'child' or w.kind = 'run')),
    exists (select 1 from stepwell_receipts as e where e.run = :id)
from stepwell_run_rows
where id = :id;

-- name: find_claim
select r.epoch, w.incarnation from stepwell_runs as r join stepwell_workers as w on w.id = r.owner where r.id = :id;

-- name: read_by_id
select {Run.* to row} from stepwell_run_rows where run_id = :run_id;

-- name: find_for_signal
-- Also the names that the run waits for: a JSON list for each wait, one per line.
select
    r.id, r.run_id, r.status, r.owner, r.wake_at, r.successor, r.ended_at,
    (select group_concat(w.names, char(10)) from stepwell_waits as w where w.run = r.id and w.kind = 'signal'),
    d.workflow || '@' || d.version, d.priority
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
where r.run_id = :run_id;

-- name: find_active_for_signal
select
    r.id, r.run_id, r.status, r.owner, r.wake_at, r.successor, r.ended_at,
    (select group_concat(w.names, char(10)) from stepwell_waits as w where w.run = r.id and w.kind = 'signal'),
    d.workflow || '@' || d.version, d.priority
from stepwell_runs as r
cross join stepwell_definitions as d on d.id = r.definition
where r.key = :key and r.ended_at is null and r.replaced_by is null and r.debounced_until is null;

-- name: wake
-- A run that is due already keeps its place.
update stepwell_runs set wake_at = :now where id = :id and (wake_at is null or wake_at > :now);

-- name: list_owned
select id, run_id, status, stalls, cause, hold
from stepwell_runs
where status in ('running', 'cancelling', 'compensating') and status <> 'completed' and owner = :owner
order by id;

-- name: count_owned
select count(*)
from stepwell_runs
where status in ('running', 'cancelling', 'compensating') and status <> 'completed' and owner = :owner;

-- name: list_cancelling
select run_id from stepwell_runs where status = 'cancelling' and status <> 'completed' and owner = :owner order by id;

-- name: list_held
-- Runs that were paused, themselves or with their workflow. While no workflow is paused, its other runs are not read.
select run_id
from (
    select id, run_id from stepwell_runs where owner = :owner and owner is not null and hold is not null
    union
    select r.id, r.run_id
    from stepwell_definitions as d
    cross join stepwell_runs as r on +r.definition = d.id and r.owner = :owner
    where exists (select 1 from stepwell_holds as h where h.workflow in ('', d.workflow))
        and r.status in ('running', 'cancelling', 'compensating') and r.status <> 'completed'
)
order by id;

-- name: free
update stepwell_runs
set status = case when hold is not null then 'paused' when status = 'running' then 'pending' else status end,
    owner = null, wake_at = iif(hold is null, :now, null), stalls = :stalls
where id = :id;

-- name: pause_unowned
update stepwell_runs set status = 'paused', wake_at = null, hold = :hold where id = :id;

-- name: mark_held
update stepwell_runs set hold = :hold where id = :id;

-- name: quarantine
update stepwell_runs
set status = 'paused', owner = null, wake_at = null, stalls = :stalls, cause = :cause
where id = :id;

-- name: find_for_cancel
select id, run_id, status, owner, cause, parent, parent_location from stepwell_runs where run_id = :run_id;

-- name: replace
-- The run continues to its end without the key.
update stepwell_runs set replaced_by = :successor where id = :id;

-- name: list_tied
-- Children that end with their parent.
select id, run_id, status, owner, cause, parent, parent_location
from stepwell_runs
where parent = :parent and tied = 1 and ended_at is null
order by id;

-- name: list_attached
select id, run_id, status, owner, cause, parent, parent_location
from stepwell_runs
where parent = :parent and (detached = 0 or tied = 1)
order by id;

-- name: list_attached_between
select id, run_id, status, owner, cause, parent, parent_location
from stepwell_runs
where parent = :parent and parent_location >= :low and parent_location < :high and detached = 0 and ended_at is null
order by id;

-- name: mark_cancelling
-- Earlier stalls do not count against the rollback.
update stepwell_runs set status = 'cancelling', reason = :reason, hold = null, stalls = 0 where id = :id;

-- name: cancel
-- The raised epoch fences a worker that is executing a turn.
update stepwell_runs
set status = 'cancelled', reason = :reason, epoch = epoch + 1, owner = null, wake_at = null, ended_at = :now, hold = null
where id = :id;

-- name: find_for_operator
select id, status, key, cause, hold, owner from stepwell_runs where run_id = :run_id;

-- name: resume
-- A planned run must not begin before its quiet time has passed. That time is not stored, so `debounced_until` counts.
update stepwell_runs
set status = :status, wake_at = max(:now, coalesce(debounced_until, :now)), stalls = 0, hold = null
where id = :id;

-- name: resume_rollback
update stepwell_runs
set status = 'compensating', wake_at = :now,
    retried_at = max(:now, (select coalesce(max(at), 0) from stepwell_attempts where run = :id))
where id = :id;

-- name: add_entry
update stepwell_runs set last_seq = :seq, revision = revision + 1 where id = :id;

-- name: retry
update stepwell_runs
set status = 'pending', ended_at = null, cause = null, undo_floor = 0, wake_at = :now, stalls = 0,
    retried_at = max(:now, (select coalesce(max(at), 0) from stepwell_attempts where run = :id)),
    deadline_at = case when deadline_at > :now then deadline_at end
where id = :id;

-- name: begin_with
update stepwell_runs set revision = 1, last_seq = :last_seq where id = :id;

-- name: find_loose
select loose from stepwell_runs where id = :id;

-- name: loosen
update stepwell_runs set loose = :loose where id = :id;

-- name: list_ended_children
-- The children that the run's waits name. A continued child has not ended: its successor has the same location.
select c.parent_location, c.run_id, c.status, p.output, p.failure
from stepwell_runs as c
cross join stepwell_payloads as p on p.run = c.id
where c.parent = :run_id
    and c.parent_location in (select w.location from stepwell_waits as w where w.run = :run and w.kind = 'child')
    and c.ended_at is not null
    and c.status <> 'continued'
order by c.id;

-- name: list_ended_ahead
-- Spawned children behind an awaited one, in the order of their places, whose end no operator can undo.
select c.parent_location, c.run_id, c.status, p.output, p.failure
from stepwell_runs as c
cross join stepwell_payloads as p on p.run = c.id
where c.parent = :run_id and c.parent_location > :location and c.detached = 1
    and c.status in ('completed', 'compensated', 'cancelled')
order by c.parent_location
limit :limit;

-- name: list_ended_watched
-- The other runs that the run's waits name. A run that does not exist has failed, without a failure.
select w.location, json_extract(w.names, '$[0]') as awaited, coalesce(c.status, 'failed') as status, p.output, p.failure
from stepwell_waits as w
left join stepwell_runs as c on c.run_id = json_extract(w.names, '$[0]')
left join stepwell_payloads as p on p.run = c.id
where w.run = :run and w.kind = 'run' and (c.id is null or c.ended_at is not null and c.status <> 'continued')
order by w.position;

-- name: find_last_of_chain
with recursive chain (run_id, successor, place) as (
    select run_id, successor, 0 from stepwell_runs where run_id = :run_id
    union all
    select r.run_id, r.successor, c.place + 1
    from chain as c
    cross join stepwell_runs as r on r.run_id = c.successor
)
select run_id from chain order by place desc limit 1;

-- name: find_family
-- What an end needs to know: the parent to notify, and what a successor inherits. A run that was replaced has lost its
-- key.
select
    r.parent, r.parent_location, r.detached, r.tied, case when r.replaced_by is null then r.key end, r.generation,
    coalesce(r.started_at, r.created_at), r.dedup,
    exists (select 1 from stepwell_runs as c where c.parent = r.run_id and c.tied = 1 and c.ended_at is null),
    exists (select 1 from stepwell_runs as d where d.key = r.key and d.debounced_until is not null and d.ended_at is null),
    exists (select 1 from stepwell_discards as d where d.run = r.id),
    exists (select 1 from stepwell_receipts as e where e.run = r.id),
    exists (select 1 from stepwell_waits as w where w.run = r.id),
    exists (select 1 from stepwell_cursors as c where c.run = r.id),
    exists (
        select 1 from stepwell_records as k indexed by stepwell_records_closing
        where k.run = r.id and k.is_open = 1 and k.end_state is not null
    )
from stepwell_runs as r
where r.id = :id;

-- name: find_creation
select created_at from stepwell_runs where id = :id;

-- name: list_failed_children
select run_id, parent_location from stepwell_runs where parent = :run_id and status = 'failed' order by id;
