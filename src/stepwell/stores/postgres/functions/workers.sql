-- Workers, their leases, and freeing runs of workers that died, stopped, or do not know of them.

-- Registering again extends a live lease; an expired lease is refused.
create function {f}.register(p_now bigint, p_seen bigint, p_worker jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_until bigint := v_now + (p_worker->>{NewWorker.lease})::bigint;
    v_started_at bigint;
begin
    insert into {t}.workers as w (incarnation, name, started_at, lease_until, definitions, functions)
    values (p_worker->>{NewWorker.incarnation}, p_worker->>{NewWorker.name}, v_now, v_until,
        {f}.texts(p_worker->{NewWorker.definitions}), trim(both '"' from '{f}'))
    on conflict (incarnation) do update
    set name = excluded.name, lease_until = excluded.lease_until, definitions = excluded.definitions
    where w.lease_until > v_now
    returning w.started_at into v_started_at;
    if v_started_at is null then
        perform {f}.refuse_lease(p_worker->>{NewWorker.incarnation});
    end if;
    return {f}.answer(
        v_now, json_build_array(p_worker->>{NewWorker.incarnation}, p_worker->>{NewWorker.name}, v_started_at, v_until,
            (p_worker->{NewWorker.definitions})::json)::text
    );
end $$;

-- The paused runs of a worker, paused themselves or with their workflow. While no workflow is paused, its other runs
-- are not read.
create function {f}.list_held(p_worker bigint) returns json language plpgsql stable as $$
begin
    if not exists (select 1 from {t}.holds) then
        return (
            select coalesce(json_agg(run_id order by id), '[]')
            from {t}.runs where owner = p_worker and owner is not null and hold is not null
        );
    end if;
    return (
        select coalesce(json_agg(r.run_id order by r.id), '[]')
        from {t}.runs as r
        where r.owner = p_worker and (
            r.hold is not null
            or exists (
                select 1 from {t}.holds as h join {t}.definitions as d on h.workflow in ('', d.workflow)
                where d.id = r.definition
            )
        )
    );
end $$;

create function {f}.renew(p_now bigint, p_seen bigint, p_incarnation text, p_lease bigint) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_worker bigint;
begin
    update {t}.workers set lease_until = v_now + p_lease
    where incarnation = p_incarnation and lease_until > v_now
    returning id into v_worker;
    if v_worker is null then
        perform {f}.refuse_lease(p_incarnation);
    end if;
    -- If a server with a clock that is behind takes over, it continues from this floor.
    update {t}.meta set value = v_now where name = 'floor' and value < v_now - 500000;
    return {f}.answer(v_now, json_build_array(
        v_now + p_lease,
        (
            select coalesce(json_agg(run_id order by id), '[]')
            from {t}.runs where owner = v_worker and status = 'cancelling'
        ),
        {f}.list_held(v_worker),
        (select count(*) from {t}.runs where owner = v_worker and owner is not null)
    )::text);
end $$;

-- Make everything due that a dead worker had taken from the outbox.
create function {f}.free_taken(p_now bigint, p_owner bigint) returns void language plpgsql volatile as $$
declare
    v_run_id text;
begin
    for v_run_id in
        with freed as (
            update {t}.outbox set owner = null, next_at = p_now where owner = p_owner returning number, run
        )
        select r.run_id from freed join {t}.runs as r on r.id = freed.run order by freed.number
    loop
        perform {f}.hint('owed', v_run_id);
    end loop;
end $$;

-- Free the runs that an incarnation owns but does not know of. Returns these runs.
create function {f}.relinquish(p_now bigint, p_seen bigint, p_incarnation text, p_keep jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_worker bigint := (select id from {t}.workers where incarnation = p_incarnation);
    v_keep text[] := {f}.texts(p_keep);
    r record;
    v_freed text[] := '{}';
begin
    for r in
        select id, run_id from {t}.runs
        where owner = v_worker and not run_id = any (v_keep)
        order by id
        for no key update
    loop
        perform {f}.free(v_now, r.id, r.run_id);
        v_freed := v_freed || r.run_id;
    end loop;
    return {f}.answer(v_now, to_json(v_freed)::text);
end $$;

-- A run that another transition or an unfinished transactional step has locked is not waited for: it then has an owner
-- without a lease, and the next rescue frees it.
create function {f}.retire(p_now bigint, p_seen bigint, p_incarnation text) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_worker bigint := (select id from {t}.workers where incarnation = p_incarnation);
    r record;
begin
    if v_worker is not null then
        for r in select id, run_id from {t}.runs where owner = v_worker order by id for no key update skip locked loop
            perform {f}.free(v_now, r.id, r.run_id);
        end loop;
        perform {f}.free_taken(v_now, v_worker);
        delete from {t}.workers where id = v_worker;
    end if;
    return {f}.answer(v_now, 'null');
end $$;

-- Owners without a live lease. Jumps over the index from owner to owner: the cost grows with the workers, not with the
-- runs that they own. A worker without a row is as dead as a worker with an expired lease.
create function {f}.dead_owners(p_now bigint) returns setof bigint language sql stable as $$
    with recursive owners (id) as (
        select min(owner) from {t}.runs where owner is not null
        union all
        select (select min(r.owner) from {t}.runs as r where r.owner is not null and r.owner > owners.id)
        from owners
        where owners.id is not null
    )
    select owners.id
    from owners
    where owners.id is not null
        and not exists (select 1 from {t}.workers as w where w.id = owners.id and w.lease_until > p_now)
$$;

-- The same for workers that have taken events from the outbox. A request may be carried out after its worker has left.
create function {f}.dead_takers(p_now bigint) returns setof bigint language sql stable as $$
    with recursive takers (id) as (
        select min(owner) from {t}.outbox where owner is not null
        union all
        select (select min(o.owner) from {t}.outbox as o where o.owner is not null and o.owner > takers.id)
        from takers
        where takers.id is not null
    )
    select takers.id
    from takers
    where takers.id is not null
        and not exists (select 1 from {t}.workers as w where w.id = takers.id and w.lease_until > p_now)
$$;

-- Lock the runs of these owners, and their heads: a plain commit of a known run locks only its head.
create function {f}.lock_owned(p_owners bigint[]) returns void language plpgsql volatile as $$
declare
    v_runs bigint[] := array(select id from {t}.runs where owner = any (p_owners) order by id for no key update);
begin
    perform 1 from {t}.heads where run = any (v_runs) order by run for no key update;
end $$;

-- Lock the runs of dead owners. Waits for commits in progress, but not for long: if a row stays locked for longer, this
-- locks none. It runs before the time is read, as in commits: a test's clock is a row, too.
create function {f}.await_owned(p_now bigint, p_seen bigint) returns void language plpgsql volatile as $$
declare
    v_patience text := current_setting('lock_timeout');
    v_now bigint := {f}.peek_clock(p_now, p_seen);
begin
    perform set_config('lock_timeout', '500ms', true);
    perform {f}.lock_owned(array(select {f}.dead_owners(v_now)));
    perform set_config('lock_timeout', v_patience, true);
exception when lock_not_available then
    return;
end $$;

-- Free runs whose owner has no live lease. Runs that stalled too often are only returned, with the facts for their
-- failure: [freed, [[run_id, epoch, stalls, path, own failure], ...]]. A run that a transactional step has locked is
-- left for the next call: that process may be suspended for long, and other runs must not wait for it.
create function {f}.rescue(p_now bigint, p_seen bigint, p_stalls_max bigint) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    v_owner bigint;
    r record;
    v_freed text[] := '{}';
    v_poison text[] := '{}';
begin
    perform {f}.await_owned(p_now, p_seen);
    v_now := {f}.begin_at(p_now, p_seen);
    for v_owner in select * from {f}.dead_owners(v_now) loop
        for r in
            select run.id, run.run_id, run.epoch, h.stalls, run.cause
            from {t}.runs as run join {t}.heads as h on h.run = run.id
            where run.owner = v_owner
            order by run.id
            for no key update skip locked
        loop
            if r.stalls + 1 < p_stalls_max then
                perform {f}.free(v_now, r.id, r.run_id);
                update {t}.heads set stalls = r.stalls + 1 where run = r.id;
                v_freed := v_freed || r.run_id;
            else
                v_poison := v_poison || json_build_array(
                    r.run_id, r.epoch, r.stalls + 1, {f}.latest_place(r.id),
                    case when r.cause is not null then (select {f}.b64(failure) from {t}.payloads where run = r.id) end
                )::text;
            end if;
        end loop;
    end loop;
    for v_owner in select * from {f}.dead_takers(v_now) loop
        perform {f}.free_taken(v_now, v_owner);
    end loop;
    delete from {t}.workers
    where id in (select id from {t}.workers where lease_until <= v_now order by id for update skip locked);
    return {f}.answer(v_now, '[' || to_json(v_freed)::text || ',[' || array_to_string(v_poison, ',') || ']]');
end $$;

-- The last recorded place; a failed attempt counts, too.
create function {f}.latest_place(p_run bigint) returns text language sql stable as $$
    select coalesce(
        (
            select {f}.spell(location, {f}.names_of(p_run))
            from (
                select at, seq, location from {t}.entries where run = p_run
                union all
                select at, 0, location from {t}.attempts where run = p_run
            ) as places
            order by at desc, seq desc, location desc
            limit 1
        ),
        ''
    )
$$;

-- Pause a run that crashes its workers, if its state has not changed. A cancel must survive the pause: with a cause, a
-- resumed run continues its rollback instead of running forwards.
create function {f}.quarantine(p_now bigint, p_seen bigint, p_run_id text, p_epoch bigint, p_stalls bigint, p_failure text)
returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_run bigint;
begin
    select r.id into v_run
    from {t}.runs as r join {t}.heads as h on h.run = r.id
    where r.run_id = p_run_id and r.epoch = p_epoch and r.owner is not null and h.stalls = p_stalls - 1
        and not exists (select 1 from {t}.workers as w where w.id = r.owner and w.lease_until > v_now)
    for no key update of r, h;
    if v_run is null then
        return {f}.answer(v_now, 'false');
    end if;
    update {t}.runs
    set status = 'paused', owner = null, wake_at = null,
        cause = case when status = 'cancelling' then 'cancelled' else cause end
    where id = v_run;
    update {t}.heads set stalls = p_stalls, fence = null where run = v_run;
    update {t}.payloads set failure = {f}.unb64(p_failure) where run = v_run;
    perform {f}.hint('ended', p_run_id);
    return {f}.answer(v_now, 'true');
end $$;
