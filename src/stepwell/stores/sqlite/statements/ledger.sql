-- name: forget
-- Only expired keys: a key is never deleted early.
delete from stepwell_requests where kept_until <= :now;

-- name: find
select fingerprint, answer from stepwell_requests where scope = :scope and key = :key;

-- name: reserve
insert into stepwell_requests (scope, key, fingerprint, answer, kept_until)
values (:scope, :key, :fingerprint, :answer, :kept_until);

-- name: settle
update stepwell_requests set answer = :answer where scope = :scope and key = :key;

-- name: head
select number, chain from stepwell_chain where id = 1;

-- name: set_head
update stepwell_chain set number = :number, chain = :chain where id = 1;

-- name: find_act
select number, at, request_id, who, act, target, outcome, before, after, chain
from stepwell_acts
where request_id = :request_id and outcome = :outcome;

-- name: add_act
insert into stepwell_acts (number, at, request_id, who, act, target, outcome, before, after, chain)
values (:number, :at, :request_id, :who, :act, :target, :outcome, :before, :after, :chain);

-- name: list_acts
select number, at, request_id, who, act, target, outcome, before, after, chain
from stepwell_acts
where number < :below
order by number desc
limit :limit;
