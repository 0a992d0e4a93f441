-- The fast path for batches of simple requests: runs that start, continue, wait and complete. Each function does for
-- all runs at once what the general transition would do for one after the other; requests that are not simple are left
-- to that.

-- Add runs without keys, parents, delays, priorities and attributes, and claim as many as the quota allows. If all are claimed, the
-- answer is only the time, from which the caller derives the rest; else it is that of `create_runs`. Null, and nothing
-- is written, if a run is not that simple.
create function {f}.create_batch(p_now bigint, p_runs jsonb, p_ids text[], q {f}.quota) returns text
language plpgsql volatile as $$
declare
    v_is_claimed boolean;
    v_ready text;
    v_created text;
    v_numbers regclass := pg_get_serial_sequence('{t}.runs', 'id');
begin
    if q.is_ranked
        or exists (
            select 1
            from jsonb_array_elements(p_runs) as new
            where new->>{NewRun.key} is not null or new->>{NewRun.parent} is not null or (new->>{NewRun.delay})::bigint > 0
                or (new->>{NewRun.priority})::bigint <> 0 or new->{NewRun.attributes} <> '[]'
        )
        or cardinality(p_ids) > (select count(distinct id) from unnest(p_ids) as id)
        or exists (select 1 from {t}.runs where run_id = any (p_ids))
    then
        return null;
    end if;
    -- Numbers are assigned first: to find each run again by its id, the planner would compare all with all.
    with new as materialized (
        select
            nextval(v_numbers) as id, place, new->>{NewRun.run_id} as run_id, new->>{NewRun.workflow} as workflow,
            (new->>{NewRun.version})::bigint as version, {f}.unb64(new->>{NewRun.input}) as input,
            (new->{NewRun.tags})::json as tags, new->>{NewRun.title} as title, new->>{NewRun.started_by} as started_by,
            {f}.unb64(new->>{NewRun.headers}) as headers, new->>{NewRun.retry} as retry,
            (new->>{NewRun.deadline_at})::bigint as deadline_at,
                (new->>{NewRun.max_suspend})::bigint as max_suspend,
            (new->>{NewRun.discards})::boolean as discards
        from jsonb_array_elements(p_runs) with ordinality as x (new, place)
    ),
    defined as materialized (
        select workflow, version, {f}.define(workflow, version, 0) as definition,
            coalesce(workflow || '@' || version = any (q.served), false) as is_served
        from (select distinct workflow, version from new) as d
    ),
    -- In their order, while there is room.
    planned as materialized (
        select new.*, d.definition,
            d.is_served and count(*) filter (where d.is_served) over (order by new.place) <= q.room as is_claimed
        from new
        join defined as d using (workflow, version)
    ),
    made as (
        insert into {t}.runs (
            id, run_id, definition, status, epoch, owner, wake_at, created_at, started_at, generation, detached, tied,
            deadline_at, max_suspend, reason, undo_floor, discards
        )
        overriding system value
        select
            p.id, p.run_id, p.definition, case when p.is_claimed then 'running' else 'pending' end, p.is_claimed::int,
            case when p.is_claimed then q.owner end, case when not p.is_claimed then least(p_now, p.deadline_at) end, p_now,
            case when p.is_claimed then p_now end, 1, false, false, p.deadline_at, p.max_suspend, '', 0, p.discards
        from planned as p
        order by p.id
    ),
    headed as (
        insert into {t}.heads (run, number, revision, last_seq, stalls) select id, 0, 0, 0, 0 from planned order by id
    ),
    paid as (
        insert into {t}.payloads (run, input, tags, title, started_by, headers, retry)
        select id, input, tags, title, started_by, headers, retry from planned order by id
    )
    select bool_and(is_claimed), string_agg('["ready",' || to_json(run_id)::text || '],', '') filter (where not is_claimed)
    into v_is_claimed, v_ready
    from planned;
    if v_is_claimed then
        return p_now::text;
    end if;
    v_created := set_config('stepwell.hints', current_setting('stepwell.hints') || coalesce(v_ready, ''), true);
    select json_agg(
        json_build_array(
            r.run_id, true, true, false, case when r.owner is not null then {f}.read_claimed(r.id) end, null
        )
        order by r.id
    )::text
    into v_created
    from {t}.runs as r where r.run_id = any (p_ids);
    return v_created;
end $$;

-- Apply commits that have only entries, all at once. Returns [run_id, revision] of each commit that was applied. Runs
-- of the missing ones were not in the expected state; `apply` judges these commits.
create function {f}.advance(p_now bigint, p_seen bigint, p_commits jsonb) returns text language plpgsql volatile as $$
declare
    v_advanced text;
begin
    with c as materialized (
        select c->>{Commit.run_id} as run_id, c->{Commit.fence}->>{Fence.incarnation} as incarnation,
            (c->{Commit.fence}->>{Fence.epoch})::bigint as epoch, (c->>{Commit.number})::bigint as number,
            (c->{Commit.entries}->0->>{Entry.seq})::bigint - 1 as before, jsonb_array_length(c->{Commit.entries}) as count,
                c->{Commit.names} as names, c->{Commit.entries} as entries
        from jsonb_array_elements(p_commits) as c
    ),
    -- One look-up for each, whatever the planner estimates: it would rather read all running runs.
    sought as materialized (
        select (select r.id from {t}.runs as r where r.run_id = c.run_id) as id, c.* from c order by 1
    ),
    -- `+ 0`: in a database without statistics the planner would search each among all runs of one worker.
    owned as materialized (
        select s.*
        from sought as s
        cross join lateral (
            select 1
            from {t}.runs as r
            where r.id = s.id and r.epoch = s.epoch and r.status in ('running', 'compensating') and r.hold is null
                and r.owner + 0 = (
                    select w.id from {t}.workers as w where w.incarnation = s.incarnation and not w.writes_plain
                )
            for no key update
        ) as locked
    ),
    advanced as (
        update {t}.heads as h
        set number = o.number, revision = h.revision + 1, last_seq = o.before + o.count, stalls = 0
        from owned as o
        where h.run = o.id and h.number = o.number - 1 and h.last_seq = o.before
        returning h.run, h.revision, o.run_id, o.names, o.entries
    ),
    kept as (
        insert into {t}.entries (run, {Entry.*})
        select
            a.run, {Entry.* from e}
        from advanced as a
        cross join lateral jsonb_array_elements(a.entries) as e
    ),
    named as (
        insert into {t}.names (run, number, name)
        select a.run, (select coalesce(max(n.number), -1) from {t}.names as n where n.run = a.run) + x.place, x.name
        from advanced as a
        cross join lateral jsonb_array_elements_text(a.names) with ordinality as x (name, place)
    )
    select coalesce(json_agg(json_build_array(run_id, revision)), '[]') into v_advanced from advanced;
    return v_advanced;
end $$;

-- The commits that close no records.
create function {f}.without_records(p_commits jsonb) returns jsonb language sql stable as $$
    select coalesce(jsonb_agg(c order by place), '[]')
    from jsonb_array_elements(p_commits) with ordinality as x (c, place)
    where c->{Commit.move}->>{Move.kind} = 'park' or not exists (
        select 1 from {t}.records as r
        where r.run = (select run.id from {t}.runs as run where run.run_id = c->>{Commit.run_id}) and r.is_open
            and r.end_state is not null
    )
$$;

-- Apply commits that complete their run, or make it wait for signals and timers, and have otherwise only entries and at
-- most one consumed signal. Returns [run_id, revision, is_awake] of each commit that is simple enough; `apply`, which
-- has locked all runs, judges the others.
create function {f}.move_batch(p_now bigint, p_commits jsonb) returns text language plpgsql volatile as $$
declare
    v_moved text;
    v_hints text;
begin
    -- One look for the whole batch. In an order, because without one the whole table might be read up to the first.
    if (
        select run from {t}.records where run is not null and is_open and end_state is not null order by run limit 1
    ) is not null then
        p_commits := {f}.without_records(p_commits);
    end if;
    with c as materialized (
        select c->>{Commit.run_id} as run_id, c->{Commit.fence}->>{Fence.incarnation} as incarnation,
            (c->{Commit.fence}->>{Fence.epoch})::bigint as epoch, (c->>{Commit.number})::bigint as number,
            (c->{Commit.entries}->0->>{Entry.seq})::bigint - 1 as before, jsonb_array_length(c->{Commit.entries}) as count,
                c->{Commit.names} as names, c->{Commit.entries} as entries,
            (c->{Commit.consumed}->>0)::bigint as signal, c->{Commit.waits} as waits,
                c->{Commit.move}->>{Move.kind} = 'park' as is_park, c->{Commit.move} as move
        from jsonb_array_elements(p_commits) as c
    ),
    -- One look-up for each, by number: see `advance`.
    sought as materialized (
        select (select r.id from {t}.runs as r where r.run_id = c.run_id) as id, c.* from c order by 1
    ),
    -- One subquery per run: as joins, they would read whole tables. They count where there are few rows: a table that
    -- was empty when this was planned would be read from its beginning to find the first row.
    owned as materialized (
        select s.*, case when s.is_park then least((s.move->>{Park.wake_at})::bigint, r.deadline_at) end as wake_at
        from sought as s
        cross join lateral (
            select r.epoch, r.status, r.owner, r.hold, r.parent, r.key, r.deadline_at, r.discards, h.number, h.last_seq
            from {t}.runs as r
            join {t}.heads as h on h.run = r.id
            where r.id = s.id
            offset 0
        ) as r
        where r.epoch = s.epoch and r.owner = (select w.id from {t}.workers as w where w.incarnation = s.incarnation)
            and r.status = 'running' and r.hold is null
            and r.number = s.number - 1 and r.last_seq = coalesce(s.before, r.last_seq)
            and (
                s.signal is null or (
                    select 1 from {t}.signals as g
                    where g.number = s.signal and g.run = s.id and g.payload is not null and g.refused is null
                ) is not null
            )
            and (
                s.is_park or r.parent is null and not r.discards and coalesce(r.deadline_at > p_now, true)
                and (select count(*) from {t}.receipts as got where got.run = s.id) = 0
                and (select count(*) from {t}.cursors as cur where cur.run = s.id) = 0
                and (select count(*) from {t}.waits as o where o.kind = 'run' and o.names[1] = s.run_id) = 0
                and (
                    select 1 from {t}.runs as child
                    where child.parent = s.run_id and child.tied and child.ended_at is null
                    limit 1
                ) is null
                and (
                    r.key is null or (
                        select 1 from {t}.runs as later
                        where later.key = r.key and later.debounced_until is not null and later.ended_at is null
                    ) is null
                )
            )
    ),
    -- Whether a wait is satisfied already, so that nothing is lost between the check and the move.
    planned as materialized (
        select o.*,
            case
                when o.is_park and coalesce(o.wake_at > p_now, true) and (
                    select count(*)
                    from jsonb_array_elements(o.waits) as w
                    join {t}.signals as g on g.run = o.id
                    where w->>{Wait.kind} = 'signal' and g.payload is not null and g.refused is null
                        and g.number is distinct from o.signal
                        and (jsonb_array_length(w->{Wait.names}) = 0 and left(g.name, 1) <> '~' or w->{Wait.names} ? g.name)
                ) > 0
                    then p_now
                else o.wake_at
            end as woken_at
        from owned as o
    ),
    named as (
        insert into {t}.names (run, number, name)
        select p.id, (select coalesce(max(n.number), -1) from {t}.names as n where n.run = p.id) + x.place, x.name
        from planned as p
        cross join lateral jsonb_array_elements_text(p.names) with ordinality as x (name, place)
    ),
    kept as (
        insert into {t}.entries (run, {Entry.*})
        select
            p.id, {Entry.* from e}
        from planned as p
        cross join lateral jsonb_array_elements(p.entries) as e
    ),
    headed as (
        update {t}.heads as h
        set number = p.number, revision = h.revision + 1, last_seq = h.last_seq + p.count, stalls = 0, fence = null
        from planned as p where h.run = p.id
        returning p.run_id, p.is_park, p.woken_at, h.revision
    ),
    moved as (
        update {t}.runs as r
        set status = case when p.is_park then 'waiting' else 'completed' end, owner = null, wake_at = p.woken_at,
            ended_at = case when not p.is_park then p_now end
        from planned as p where r.id = p.id
    ),
    paid as (
        update {t}.payloads as o set output = {f}.unb64(p.move->>{End.output}) from planned as p where o.run = p.id
            and not p.is_park
    ),
    unheard as (
        delete from {t}.waits as w using planned as p
        where w.run = p.id and (not p.is_park or w.position >= jsonb_array_length(p.waits))
    ),
    awaited as (
        insert into {t}.waits (run, position, location, kind, token, due_at, names, limit_at)
        select
            p.id, x.place - 1, {f}.unb64(w->>{Wait.location}), w->>{Wait.kind}, (w->>{Wait.token})::bigint,
            (w->>{Wait.due_at})::bigint, {f}.texts(w->{Wait.names}), (w->>{Wait.limit_at})::bigint
        from planned as p
        cross join lateral jsonb_array_elements(case when p.is_park then p.waits else '[]' end)
            with ordinality as x (w, place)
        on conflict (run, position) do update
        set location = excluded.location, kind = excluded.kind, token = excluded.token, due_at = excluded.due_at,
            names = excluded.names, limit_at = excluded.limit_at, since = null, facets = null, topic = null, facet = null,
            armed = null
    ),
    taken as (
        update {t}.signals as g set payload = null from planned as p where g.number = p.signal
    )
    select
        coalesce(json_agg(json_build_array(run_id, revision, coalesce(woken_at <= p_now, false))), '[]'),
        string_agg(case when is_park then '["ready",' else '["ended",' end || to_json(run_id)::text || '],', '')
            filter (where not is_park or woken_at is not null)
    into v_moved, v_hints
    from headed;
    v_hints := set_config('stepwell.hints', current_setting('stepwell.hints') || coalesce(v_hints, ''), true);
    return v_moved;
end $$;

-- The commits that were not written, in their order.
create function {f}.list_missing(p_commits jsonb, p_written text) returns jsonb language plpgsql immutable as $$
begin
    if json_array_length(p_written::json) = jsonb_array_length(p_commits) then
        return '[]';
    end if;
    return (
        select jsonb_agg(one order by place)
        from jsonb_array_elements(p_commits) with ordinality as x (one, place)
        where one->>{Commit.run_id} not in (select a->>{Written.run_id} from json_array_elements(p_written::json) as a)
    );
end $$;
