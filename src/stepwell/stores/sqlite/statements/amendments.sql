-- name: find
select id, status, epoch, revision, last_seq, key, amendment, definition from stepwell_runs where run_id = :run_id;

-- name: apply
update stepwell_runs
set status = 'pending', epoch = epoch + 1, revision = revision + 1, last_seq = :last_seq, definition = :definition,
    ended_at = null, cause = null, undo_floor = 0, wake_at = coalesce(:wake_at, :now), stalls = 0, amendment = :amendment, hold = null,
    loose = :loose,
    retried_at = case
        when :wake_at is null then max(:now, (select coalesce(max(at), 0) from stepwell_attempts where run = :id))
        else retried_at
    end,
    deadline_at = case when deadline_at > :now then deadline_at end
where id = :id;

-- name: find_definition
select workflow, version, priority from stepwell_definitions where id = :id;

-- name: move_child
update stepwell_runs set parent_location = :location where id = :id;

-- name: find_child
-- As `runs.find_for_cancel` returns it, with whether the child is detached, when it ended, and its key.
select id, run_id, status, owner, cause, parent, parent_location, detached, ended_at, key
from stepwell_runs
where run_id = :run_id and parent is not null;

-- name: find_successor
select successor from stepwell_runs where run_id = :run_id and successor is not null;

-- name: begin_fork
update stepwell_runs set revision = 1, last_seq = :last_seq, forked_from = :source, retried_at = :now, loose = :loose
where id = :id;
