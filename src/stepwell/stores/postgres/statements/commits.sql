-- name: advance_one
-- The most common commit: one entry of a run in the expected state. Returns its revision and its number, by which
-- `advance_known` finds it. No row: `apply` judges the commit.
with owned as (
    select r.id
    from {t}.runs as r
    where r.run_id = $1::text and r.epoch = $3::bigint and r.status in ('running', 'compensating') and r.hold is null
        and r.owner = (select w.id from {t}.workers as w where w.incarnation = $2::text and not w.writes_plain)
    for no key update
),
advanced as (
    update {t}.heads as h
    set number = $4::bigint, revision = h.revision + 1, last_seq = $5::bigint, stalls = 0, fence = $3::bigint
    from owned as o
    where h.run = o.id and h.number = $4::bigint - 1 and h.last_seq = $5::bigint - 1
    returning h.run, h.revision
),
kept as (
    insert into {t}.entries (run, location, seq, kind, status, value, at, took, attempts, undo, fingerprint)
    select
        run, $6::bytea, $5::bigint, $7::text, $8::text, $9::bytea, $10::bigint, $11::bigint, $12::bigint, $13::bytea,
        $14::bytea
    from advanced
)
select revision || ' ' || run from advanced;

-- name: advance_known
-- The same for a run that `advance_one` has found: only its row in `heads` is checked. Returns its revision.
with advanced as (
    update {t}.heads as h
    set number = $3::bigint, revision = h.revision + 1, last_seq = $4::bigint, stalls = 0
    where h.run = $1::bigint and h.fence = $2::bigint and h.number = $3::bigint - 1 and h.last_seq = $4::bigint - 1
    returning h.run, h.revision
),
kept as (
    insert into {t}.entries (run, location, seq, kind, status, value, at, took, attempts, undo, fingerprint)
    select
        run, $5::bytea, $4::bigint, $6::text, $7::text, $8::bytea, $9::bigint, $10::bigint, $11::bigint, $12::bytea,
        $13::bytea
    from advanced
)
select revision from advanced;
