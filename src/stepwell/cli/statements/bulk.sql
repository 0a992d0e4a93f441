-- What the command line keeps of acts on many runs in the engine's database, in tables of its own.

-- name: create_acts
create table if not exists swcli_bulk_acts (
    number bigint primary key,
    verb text not null,
    who text not null,
    chosen text not null,
    total bigint not null,
    began_at bigint not null,
    ended_at bigint,
    state text not null
);

-- name: create_items
create table if not exists swcli_bulk_items (
    act bigint not null,
    place bigint not null,
    run_id text not null,
    outcome text not null,
    status text not null,
    primary key (act, place)
);

-- name: last
select coalesce(max(number), 0) from swcli_bulk_acts;

-- name: begin
insert into swcli_bulk_acts (number, verb, who, chosen, total, began_at, ended_at, state)
values (?, ?, ?, ?, ?, ?, null, 'running');

-- name: note
insert into swcli_bulk_items (act, place, run_id, outcome, status) values (?, ?, ?, ?, ?);

-- name: state
select state from swcli_bulk_acts where number = ?;

-- name: end
update swcli_bulk_acts set state = ?, ended_at = ? where number = ?;

-- name: abort
update swcli_bulk_acts set state = 'aborting' where number = ? and state = 'running';

-- name: list
select a.number, a.verb, a.who, a.chosen, a.total, a.began_at, a.ended_at, a.state, i.outcome, count(i.act)
from swcli_bulk_acts as a
left join swcli_bulk_items as i on i.act = a.number
where a.number >= ? and a.number <= ?
group by a.number, a.verb, a.who, a.chosen, a.total, a.began_at, a.ended_at, a.state, i.outcome
order by a.number desc, i.outcome;

-- name: items
select run_id, outcome, status from swcli_bulk_items where act = ? order by place;
