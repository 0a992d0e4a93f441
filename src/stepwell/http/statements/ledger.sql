-- What the HTTP API keeps in the engine's database, in tables of its own.

-- name: create_requests
create table if not exists swhttp_requests (
    scope text not null,
    request_key text not null,
    fingerprint text not null,
    answer text not null,
    kept_until bigint not null,
    primary key (scope, request_key)
);

-- name: create_requests_kept
create index if not exists swhttp_requests_kept on swhttp_requests (kept_until);

-- name: create_audit
create table if not exists swhttp_audit (
    number bigint primary key,
    at bigint not null,
    request_id text not null,
    who text not null,
    act text not null,
    target text not null,
    outcome text not null,
    state_before text not null,
    state_after text not null,
    chain text not null
);

-- name: forget
-- Only what is over: a key that is still remembered must never be forgotten early.
delete from swhttp_requests where kept_until <= ?;

-- name: reserve
insert into swhttp_requests (scope, request_key, fingerprint, answer, kept_until) values (?, ?, ?, ?, ?)
on conflict do nothing;

-- name: settle
update swhttp_requests set answer = ? where scope = ? and request_key = ?;

-- name: find
select fingerprint, answer from swhttp_requests where scope = ? and request_key = ?;

-- name: last
select number, chain from swhttp_audit order by number desc limit 1;

-- name: note
insert into swhttp_audit (number, at, request_id, who, act, target, outcome, state_before, state_after, chain)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: list
select number, at, request_id, who, act, target, outcome, state_before, state_after, chain from swhttp_audit
where number < ? order by number desc limit ?;
