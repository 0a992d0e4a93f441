-- name: begin
-- Always immediate: a deferred transaction that begins to write fails at once, without waiting, if another one wrote.
begin immediate;

-- name: begin_read
-- One snapshot for several reads.
begin;

-- name: commit
commit;

-- name: rollback
rollback;

-- name: save
-- An author's writes within our transaction can be undone separately.
savepoint stepwell_work;

-- name: release
release stepwell_work;

-- name: roll_back_to_save
rollback to stepwell_work;
