-- The recorded history and the inbox of runs, as JSON; for transitions and for people.

create function {f}.list_signals(p_run bigint) returns json language sql stable as $$
    select coalesce(
        json_agg(
            json_build_array(number, name, {f}.b64(payload), sent_at, case when asks then signal_id end) order by number
        ),
        '[]'
    )
    from {t}.signals
    where run = p_run and payload is not null and refused is null
$$;

-- Of the children, and of other runs; a run that does not exist has failed, without a failure.
create function {f}.list_outcomes(p_run bigint, p_run_id text) returns json language sql stable as $$
    select coalesce(
        json_agg(
            json_build_array({f}.b64(o.location), o.run_id, o.status, {f}.b64(o.output), {f}.b64(o.failure))
            order by o.is_other, o.place
        ),
        '[]'
    )
    from (
        select c.parent_location as location, c.run_id, c.status, p.output, p.failure, false as is_other, c.id as place
        from {t}.runs as c
        join {t}.payloads as p on p.run = c.id
        where c.parent = p_run_id and c.ended_at is not null and c.status <> 'continued'
            and c.parent_location in (select w.location from {t}.waits as w where w.run = p_run and w.kind = 'child')
        union all
        select w.location, w.names[1], coalesce(c.status, 'failed'), p.output, p.failure, true, w.position
        from {t}.waits as w
        left join {t}.runs as c on c.run_id = w.names[1]
        left join {t}.payloads as p on p.run = c.id
        where w.run = p_run and w.kind = 'run' and (c.id is null or c.ended_at is not null and c.status <> 'continued')
        union all
        -- Further spawned children, in the order of their places; see `Inbox` in model/runs.py.
        select a.parent_location, a.run_id, a.status, p.output, p.failure, true, 1000000 + a.place
        from (
            select c.id, c.parent_location, c.run_id, c.status,
                row_number() over (order by c.parent_location) as place
            from {t}.runs as c
            where c.parent = p_run_id and c.detached and c.status in ('completed', 'compensated', 'cancelled')
                and c.parent_location > (
                    select (array_agg(w.location order by w.location))[1]
                    from {t}.waits as w
                    where w.run = p_run and w.kind = 'child'
                    having count(*) <= 4
                )
            order by c.parent_location
            limit 100
        ) as a
        join {t}.payloads as p on p.run = a.id
        where a.parent_location not in (
            select w.location from {t}.waits as w where w.run = p_run and w.kind = 'child'
        )
    ) as o
$$;

create function {f}.b64s(p_list bytea[]) returns json language sql immutable as $$
    select coalesce(json_agg({f}.b64(one) order by place), '[]') from unnest(p_list) with ordinality as x (one, place)
$$;

create function {f}.list_events(p_run bigint) returns json language sql stable as $$
    select coalesce(
        json_agg(
            json_build_array(
                r.number, e.event_id, e.topic, {f}.b64(e.payload), e.facets, e.published_at, {f}.b64s(r.locations)
            )
            order by r.number
        ),
        '[]'
    )
    from {t}.receipts as r
    join {t}.events as e on e.number = r.event
    where r.run = p_run and not r.is_read
$$;

create function {f}.read_inbox(p_run bigint, p_run_id text) returns json language sql stable as $$
    select json_build_array({f}.list_signals(p_run), {f}.list_outcomes(p_run, p_run_id), {f}.list_events(p_run))
$$;

create function {f}.list_waits(p_run bigint) returns json language sql stable as $$
    select coalesce(
        json_agg(
            json_build_array(
                {f}.b64(location), kind, token, due_at, names, coalesce(facets, '{}'), coalesce(since, 'wait'), limit_at
            )
            order by position
        ),
        '[]'
    )
    from {t}.waits
    where run = p_run
$$;

create function {f}.read_history(p_run bigint) returns json language sql stable as $$
    select json_build_array(
        to_json({f}.names_of(p_run)),
        (
            select coalesce(
                json_agg(
                    json_build_array({Entry.* to json})
                    order by seq
                ),
                '[]'
            )
            from {t}.entries
            where run = p_run
        ),
        (
            select coalesce(
                json_agg(
                    json_build_array({Attempt.* to json}) order by location, number
                ),
                '[]'
            )
            from {t}.attempts
            where run = p_run
        ),
        (
            select coalesce(
                json_agg(json_build_array({Cursor.* to json}) order by location), '[]'
            )
            from {t}.cursors
            where run = p_run
        ),
        {f}.list_waits(p_run),
        (
            select coalesce(
                json_agg(
                    json_build_array({Progress.* to json})
                    order by location
                ),
                '[]'
            )
            from {t}.progress
            where run = p_run
        )
    )
$$;

-- One look-up for each run: without statistics, or with those of an empty table, a join would read all runs.
create function {f}.read_runs(p_runs bigint[]) returns table (run bigint, value json) language sql stable as $$
    select x.run, found.value
    from unnest(p_runs) as x (run)
    cross join lateral (
        select json_build_array({Run.* to json}) as value
        from {t}.runs as r
        join {t}.heads as h on h.run = r.id
        join {t}.definitions as d on d.id = r.definition
        join {t}.payloads as p on p.run = r.id
        left join {t}.workers as w on w.id = r.owner
        where r.id = x.run
        offset 0
    ) as found
$$;

create function {f}.read_run(p_run bigint) returns json language sql stable as $$
    select value from {f}.read_runs(array[p_run])
$$;

-- In the order of the requested ids; an unknown run has an empty history.
create function {f}.load(p_now bigint, p_seen bigint, p_ids jsonb) returns text language plpgsql stable as $$
declare
    v_result json;
begin
    select json_agg(
        case when r.id is null then '[[],[],[],[],[],[]]'::json else {f}.read_history(r.id) end order by wanted.place
    )
    into v_result
    from jsonb_array_elements_text(p_ids) with ordinality as wanted (run_id, place)
    left join {t}.runs as r on r.run_id = wanted.run_id;
    return coalesce(v_result, '[]');
end $$;

create function {f}.inbox(p_now bigint, p_seen bigint, p_run_id text) returns text language sql stable as $$
    select coalesce(
        (select {f}.read_inbox(r.id, r.run_id)::text from {t}.runs as r where r.run_id = p_run_id), '[[],[],[]]'
    )
$$;
