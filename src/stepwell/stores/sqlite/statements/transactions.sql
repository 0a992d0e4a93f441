-- name: begin
-- Immediate always: a deferred transaction that turns into a write fails at once, without waiting, if another one wrote.
begin immediate;

-- name: begin_read
-- One snapshot for several reads.
begin;

-- name: commit
commit;

-- name: rollback
rollback;
