-- How many runs a claimant may still take within one transition; without a live lease, none.
create type {f}.quota as (owner bigint, room int, served text[], is_ranked boolean);

-- The definitions whose runs may be claimed now: those of paused workflows are left out.
create function {f}.not_held(p_definitions text[]) returns text[] language plpgsql stable as $$
begin
    if not exists (select 1 from {t}.holds) then
        return p_definitions;
    end if;
    return array(
        select d
        from unnest(p_definitions) as d
        where not exists (
            select 1 from {t}.holds as h where h.workflow in ('', left(d, length(d) - position('@' in reverse(d))))
        )
    );
end $$;

create function {f}.offer(p_now bigint, p_claimant jsonb) returns {f}.quota language plpgsql stable as $$
declare
    q {f}.quota;
begin
    if jsonb_typeof(p_claimant) = 'array' then
        select w.id, (p_claimant->>{Claimant.limit})::int, {f}.not_held({f}.texts(p_claimant->{Claimant.definitions})),
            exists (select 1 from {t}.definitions where priority <> 0)
        into q
        from {t}.workers as w
        where w.incarnation = p_claimant->>{Claimant.incarnation} and w.lease_until > p_now;
    end if;
    q.room := coalesce(q.room, 0);
    return q;
end $$;

-- Whether another run of this definition may be taken, and no more urgent run is due.
create function {f}.may_take(q {f}.quota, p_now bigint, p_workflow text, p_version bigint, p_priority bigint)
returns boolean language plpgsql stable as $$
begin
    if coalesce(q.room, 0) <= 0 or not (p_workflow || '@' || p_version) = any (q.served) then
        return false;
    end if;
    return not (q.is_ranked or p_priority <> 0) or not exists (
        select 1
        from {t}.definitions as d
        where d.priority > p_priority and d.workflow || '@' || d.version = any (q.served)
            and exists (
                select 1 from {t}.runs as r
                where r.definition = d.id and r.wake_at is not null and r.wake_at <= p_now
            )
    );
end $$;

-- Runs that were just claimed. A run without an applied commit has no waits, so it has no child outcomes, and no events
-- except those of a predecessor. Most runs have neither, and checking that costs less than building an empty list.
create function {f}.read_claims(p_runs bigint[]) returns table (run bigint, value json) language sql stable as $$
    select
        mine.run,
        json_build_array(
            found.value,
            json_build_array(
                case
                    when exists (
                        select 1 from {t}.signals as s where s.run = mine.run and s.payload is not null and s.refused is null
                    )
                        then {f}.list_signals(mine.run)
                    else '[]'::json
                end,
                case
                    when r.revision > 0 and exists (select 1 from {t}.waits as w where w.run = mine.run and w.kind in ('child', 'run'))
                        then {f}.list_outcomes(mine.run, r.run_id)
                    else '[]'::json
                end,
                case
                    when (r.revision > 0 or r.previous is not null) and exists (
                        select 1 from {t}.receipts as got where got.run = mine.run and not got.is_read
                    )
                        then {f}.list_events(mine.run)
                    else '[]'::json
                end
            ),
            r.revision = 0
        )
    from unnest(p_runs) as mine (run)
    cross join lateral {f}.read_runs(array[mine.run]) as found
    cross join lateral (
        select runs.run_id, runs.previous, h.revision
        from {t}.runs
        join {t}.heads as h on h.run = runs.id
        where runs.id = mine.run
        offset 0
    ) as r
$$;

create function {f}.read_claimed(p_run bigint) returns json language sql stable as $$
    select value from {f}.read_claims(array[p_run])
$$;

-- Make a worker the owner of runs, each under a new epoch. Returns the claims, in their order.
create function {f}.claim_runs(p_now bigint, p_runs bigint[], p_owner bigint) returns text language plpgsql volatile as $$
begin
    if cardinality(p_runs) = 0 then
        return '[]';
    end if;
    if cardinality(p_runs) = 1 then
        -- By a single number, which is several times faster than by a list of one.
        update {t}.runs
        set status = case when status in ('pending', 'waiting') then 'running' else status end,
            epoch = epoch + 1, owner = p_owner, wake_at = null, started_at = coalesce(started_at, p_now)
        where id = p_runs[1];
        update {t}.heads set number = 0 where run = p_runs[1] and number <> 0;
        return '[' || {f}.read_claimed(p_runs[1])::text || ']';
    end if;
    update {t}.runs
    set status = case when status in ('pending', 'waiting') then 'running' else status end,
        epoch = epoch + 1, owner = p_owner, wake_at = null, started_at = coalesce(started_at, p_now)
    where id = any (p_runs);
    update {t}.heads set number = 0 where run = any (p_runs) and number <> 0;
    return (
        select coalesce(json_agg(claimed.value order by mine.place), '[]')::text
        from unnest(p_runs) with ordinality as mine (run, place)
        cross join lateral {f}.read_claims(array[mine.run]) as claimed
    );
end $$;

-- Claim runs that were woken, if the claimant serves them and the limit allows. Their READY hints are dropped.
create function {f}.take_woken(p_now bigint, p_runs bigint[], p_claimant jsonb) returns text language plpgsql volatile as $$
declare
    q {f}.quota;
    v_run record;
    v_mine bigint[] := '{}';
begin
    if cardinality(p_runs) = 0 or p_claimant is null then
        return '[]';
    end if;
    q := {f}.offer(p_now, p_claimant);
    if q.room > 0 then
        for v_run in
            select r.id, r.run_id, d.workflow, d.version, d.priority
            from unnest(p_runs) with ordinality as woken (id, place)
            join {t}.runs as r on r.id = woken.id
            join {t}.definitions as d on d.id = r.definition
            where r.wake_at <= p_now  -- otherwise a later part of the same transition ended it
            order by woken.place
        loop
            if {f}.may_take(q, p_now, v_run.workflow, v_run.version, v_run.priority) then
                q.room := q.room - 1;
                v_mine := v_mine || v_run.id;
                perform {f}.unhint('ready', v_run.run_id);
                -- It is no longer due, so it does not block less urgent runs.
                update {t}.runs set wake_at = null where id = v_run.id;
            end if;
        end loop;
    end if;
    return {f}.claim_runs(p_now, v_mine, q.owner);
end $$;

-- Give a debounced run its key. False if another run has the key; the end of that run wakes this one.
create function {f}.begin_debounced(p_now bigint, p_run bigint) returns boolean language plpgsql volatile as $$
declare
    v_key text;
    v_until bigint;
begin
    select key, debounced_until into strict v_key, v_until from {t}.runs where id = p_run;
    perform {f}.lock_key(v_key);
    if exists (
        select 1 from {t}.runs
        where key = v_key and ended_at is null and replaced_by is null and debounced_until is null
    ) then
        update {t}.runs set wake_at = greatest(p_now, v_until) + 3600000000 where id = p_run;
        return false;
    end if;
    update {t}.runs set debounced_until = null where id = p_run;
    perform {f}.take_over_held(p_run, v_key);
    return true;
end $$;

create function {f}.claim(p_now bigint, p_seen bigint, p_claimant jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_owner bigint;
    v_left int := (p_claimant->>{Claimant.limit})::int;
    v_served text[] := {f}.not_held({f}.texts(p_claimant->{Claimant.definitions}));
    v_until bigint := v_now + (p_claimant->>{Claimant.ahead})::bigint;
    v_lane record;
    v_due record;
    v_is_complete boolean;
    v_mine bigint[] := '{}';
    v_taken bigint[];
begin
    select id into v_owner from {t}.workers where incarnation = p_claimant->>{Claimant.incarnation} and lease_until > v_now;
    if v_owner is null then
        perform {f}.refuse_lease(p_claimant->>{Claimant.incarnation});
    end if;
    for v_lane in
        select d.priority, array_agg(d.id) as ids
        from {t}.definitions as d
        where d.workflow || '@' || d.version = any (v_served)
        group by d.priority
        order by d.priority desc
    loop
        loop
            exit when v_left <= 0;
            v_is_complete := true;
            v_taken := '{}';
            for v_due in
                select due.id, due.debounced_until
                from unnest(v_lane.ids) as lane (definition)
                cross join lateral (
                    select r.id, r.wake_at, r.debounced_until
                    from {t}.runs as r
                    where r.definition = lane.definition and r.wake_at is not null and r.wake_at <= v_now
                        and not r.id = any (v_mine)
                    order by r.wake_at, r.id
                    limit v_left
                    for no key update skip locked
                ) as due
                order by due.wake_at, due.id
                limit v_left
            loop
                if v_due.debounced_until is null or {f}.begin_debounced(v_now, v_due.id) then
                    v_taken := v_taken || v_due.id;
                    v_left := v_left - 1;
                else
                    v_is_complete := false;  -- it was not claimed, so another run of this priority may be
                end if;
            end loop;
            v_mine := v_mine || v_taken;
            exit when v_is_complete;
        end loop;
    end loop;
    if v_until > v_now and v_left > 0 then
        -- Waiting runs that will be due soon.
        for v_due in
            select soon.id
            from {t}.definitions as d
            cross join lateral (
                select r.id, r.wake_at
                from {t}.runs as r
                where r.definition = d.id and r.wake_at is not null and r.wake_at > v_now and r.wake_at <= v_until
                    and r.status = 'waiting'
                order by r.wake_at, r.id
                limit v_left
                for no key update skip locked
            ) as soon
            where d.workflow || '@' || d.version = any (v_served)
            order by d.priority desc, soon.wake_at, soon.id
            limit v_left
        loop
            v_mine := v_mine || v_due.id;
        end loop;
    end if;
    return {f}.answer(v_now, {f}.claim_runs(v_now, v_mine, v_owner));
end $$;

-- From here on the owner's commits take the general path. Waits for a plain commit that is being written.
create function {f}.close_head(p_run bigint) returns void language sql volatile as $$
    update {t}.heads set fence = null where run = p_run and fence is not null
$$;

-- Take a run from its owner. Any worker may claim it at once, unless it is paused.
create function {f}.free(p_now bigint, p_run bigint, p_run_id text) returns void
language plpgsql volatile as $$
declare
    v_status text;
begin
    update {t}.runs
    set status = case when hold is not null then 'paused' when status = 'running' then 'pending' else status end,
        owner = null, wake_at = case when hold is null then p_now end
    where id = p_run
    returning status into v_status;
    perform {f}.close_head(p_run);
    perform {f}.hint(case when v_status = 'paused' then 'ended' else 'ready' end, p_run_id);
end $$;

-- Make a run due now. A run that is due already keeps its place.
create function {f}.wake(p_now bigint, p_run bigint, p_run_id text) returns void language plpgsql volatile as $$
begin
    update {t}.runs set wake_at = p_now where id = p_run and (wake_at is null or wake_at > p_now);
    perform {f}.hint('ready', p_run_id);
end $$;
