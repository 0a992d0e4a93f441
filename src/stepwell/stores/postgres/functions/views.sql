-- Reads for people. No write depends on them. They return only the result.

-- The run with this id; else the active run of this key, or the one created last.
create function {f}.find_run(p_target text) returns bigint language sql stable as $$
    select coalesce(
        (select id from {t}.runs where run_id = p_target),
        (
            select id from {t}.runs
            where key = p_target
            order by ended_at is null and replaced_by is null and debounced_until is null desc, id desc
            limit 1
        )
    )
$$;

-- The types that an attribute has in any run: one look-up in the index for each.
create function {f}.list_attribute_kinds(p_now bigint, p_seen bigint, p_name text) returns text language sql stable as $$
    select coalesce(json_agg(kind), '[]')::text
    from unnest(array['b', 'n', 't', 'w']) as kind
    where exists (
        select 1 from {t}.attributes as a
        where a.name = p_name and a.value >= kind collate "C" and a.value < chr(ascii(kind) + 1) collate "C"
    )
$$;

create function {f}.find_many(p_now bigint, p_seen bigint, p_targets jsonb) returns text language plpgsql stable as $$
begin
    return (
        select coalesce(json_agg(found.value order by wanted.place), '[]')::text
        from (
            select x.place, coalesce((select r.id from {t}.runs as r where r.run_id = x.target), {f}.find_run(x.target)) as run
            from jsonb_array_elements_text(p_targets) with ordinality as x (target, place)
        ) as wanted
        left join lateral {f}.read_runs(array[wanted.run]) as found on true
    );
end $$;

-- All texts with the prefix are between the prefix and the prefix followed by the highest character.
create function {f}.find_by_prefix(p_now bigint, p_seen bigint, p_prefix text, p_limit bigint) returns text
language sql stable as $$
    select coalesce(json_agg(run_id order by run_id), '[]')::text
    from (
        select run_id from {t}.runs
        where run_id >= p_prefix and run_id < p_prefix || chr(1114111)
        order by run_id
        limit p_limit
    ) as found
$$;

create function {f}.detail(p_now bigint, p_seen bigint, p_run_id text) returns text language sql stable as $$
    select coalesce(
        (
            select json_build_array(
                {f}.read_run(r.id), {f}.read_history(r.id), {f}.list_signals(r.id),
                (
                    select coalesce(json_agg({f}.read_run(c.id) order by c.id), '[]')
                    from {t}.runs as c where c.parent = r.run_id
                ),
                {f}.list_events(r.id)
            )::text
            from {t}.runs as r
            where r.run_id = p_run_id
        ),
        'null'
    )
$$;

create function {f}.list_published(p_now bigint, p_seen bigint, p_run_id text) returns text language sql stable as $$
    select coalesce(json_agg(json_build_array(s.name, s.position, {f}.b64(s.value)) order by s.name), '[]')::text
    from {t}.runs as r join {t}.published as s on s.run = r.id
    where r.run_id = p_run_id
$$;

create function {f}.list_streams(p_now bigint, p_seen bigint, p_run_id text) returns text language sql stable as $$
    select coalesce(json_agg(stream order by stream), '[]')::text
    from (
        select distinct c.stream from {t}.runs as r join {t}.chunks as c on c.run = r.id where r.run_id = p_run_id
    ) as streams
$$;

-- The stream of an unknown run has ended.
create function {f}.read_stream(p_now bigint, p_seen bigint, p_run_id text, p_stream text, p_after bigint, p_limit bigint)
returns text language sql stable as $$
    select json_build_array(
        (
            select coalesce(json_agg(json_build_array(number, kind, source, {f}.b64(value)) order by number), '[]')
            from (
                select c.number, c.kind, c.source, c.value
                from {t}.runs as r join {t}.chunks as c on c.run = r.id
                where r.run_id = p_run_id and c.stream = p_stream and c.number > p_after
                order by c.number
                limit p_limit
            ) as page
        ),
        coalesce((select ended_at is not null from {t}.runs where run_id = p_run_id), true)
    )::text
$$;

create function {f}.list_progress(p_now bigint, p_seen bigint, p_ids jsonb) returns text language sql stable as $$
    select coalesce(
        json_agg(
            (
                select coalesce(
                    json_agg(
                        json_build_array(
                            {f}.spell(p.location, {f}.names_of(r.id)),
                            json_build_array(
                                {f}.b64(p.location), p.at, {f}.b64(p.state), p.done, p.total, p.unit, p.note, p.turns
                            )
                        )
                        order by p.location
                    ),
                    '[]'
                )
                from {t}.runs as r join {t}.progress as p on p.run = r.id
                where r.run_id = wanted.run_id
            )
            order by wanted.place
        ),
        '[]'
    )::text
    from jsonb_array_elements_text(p_ids) with ordinality as wanted (run_id, place)
$$;

create function {f}.list_workers(p_now bigint, p_seen bigint) returns text language sql stable as $$
    select coalesce(
        json_agg(json_build_array(incarnation, name, started_at, lease_until, definitions) order by started_at, id), '[]'
    )::text
    from {t}.workers
$$;

create function {f}.list_held(p_now bigint, p_seen bigint, p_limit bigint, p_key text) returns text language sql stable as $$
    select coalesce(
        json_agg(
            json_build_array(
                key, json_build_array(number, name, {f}.b64(payload), sent_at, case when asks then signal_id end)
            )
            order by number
        ),
        '[]'
    )::text
    from (
        select * from {t}.signals where key is not null and (p_key is null or key = p_key) order by number limit p_limit
    ) as held
$$;

create function {f}.list_unread(
    p_now bigint, p_seen bigint, p_limit bigint, p_run_id text, p_after bigint, p_is_refused boolean
) returns text
language sql stable as $$
    select coalesce(
        json_agg(
            json_build_array(
                run_id, status, refused,
                json_build_array(number, name, {f}.b64(payload), sent_at, case when asks then signal_id end), refused_by
            )
            order by number
        ),
        '[]'
    )::text
    from (
        select r.run_id, r.status, coalesce(s.refused, '') as refused, s.number, s.name, s.payload, s.sent_at, s.asks,
            s.signal_id, s.refused_by
        from {t}.signals as s join {t}.runs as r on r.id = s.run
        where s.run is not null and s.payload is not null and (s.refused is not null or r.ended_at is not null and not p_is_refused) and s.number > p_after
            and (p_run_id is null or r.run_id = p_run_id)
        order by s.number
        limit p_limit
    ) as unread
$$;

-- The state of a signal that asked: the run that has it, and the reply if there is one.
create function {f}.find_question(p_now bigint, p_seen bigint, p_signal_id text) returns text language sql stable as $$
    select coalesce(
        (
            select json_build_array(
                r.run_id, r.status, s.payload is null or s.refused is not null,
                case when p.number is not null then json_build_array(p.number, p.status, {f}.b64(p.value)) end
            )::text
            from {t}.signals as s
            left join {t}.runs as r on r.id = s.run
            left join {t}.replies as p on p.number = s.number
            where s.signal_id = p_signal_id
        ),
        'null'
    )
$$;

create function {f}.list_kept(p_now bigint, p_seen bigint, p_limit bigint,
    p_topic text) returns text language plpgsql stable as $$
declare
    v_now bigint := {f}.peek_clock(p_now, p_seen);
begin
    return (
        select coalesce(
            json_agg(
                json_build_array(event_id, topic, {f}.b64(payload), deliver, published_at, kept_until) order by number
            ),
            '[]'
        )::text
        from (
            select * from {t}.events
            where kept_until is not null and not is_taken and kept_until > v_now and (p_topic is null or topic = p_topic)
            order by number
            limit p_limit
        ) as kept
    );
end $$;

create function {f}.list_audit(p_now bigint, p_seen bigint, p_run_id text) returns text language sql stable as $$
    select coalesce(
        json_agg(json_build_array(a.at, r.run_id, a.verb, a.by, a.before, a.after, a.reason) order by a.id), '[]'
    )::text
    from {t}.runs as r join {t}.audit as a on a.run = r.id
    where r.run_id = p_run_id
$$;

create function {f}.list_definitions(p_now bigint, p_seen bigint) returns text language sql stable as $$
    select coalesce(json_agg(name order by name collate "C"), '[]')::text
    from (
        -- A debounced start may change its definition, and leave a definition without runs.
        select workflow || '@' || version as name
        from {t}.definitions as d
        where exists (select 1 from {t}.runs as r where r.definition = d.id)
        union
        select unnest(definitions) from {t}.workers
    ) as named
$$;

create function {f}.tally_runs(p_now bigint, p_seen bigint) returns text language sql stable as $$
    select coalesce(json_agg(json_build_array(definition, status, count, last_at)), '[]')::text
    from (
        select
            d.workflow || '@' || d.version as definition,
            r.status,
            count(*) as count,
            max(greatest(r.created_at, r.started_at, r.ended_at)) as last_at
        from {t}.runs as r join {t}.definitions as d on d.id = r.definition
        group by 1, 2
    ) as counted
$$;

-- The states are listed, so that the index covers the query.
create function {f}.count_unfinished(p_now bigint, p_seen bigint) returns text language plpgsql stable as $$
declare
    v_now bigint := {f}.peek_clock(p_now, p_seen);
begin
    return (
        select json_build_array(
            (
                select coalesce(json_object_agg(status, count), '{}')
                from (
                    select r.status, count(*) as count
                    from {t}.runs as r
                    where r.status in (
                        'pending', 'running', 'waiting', 'paused', 'cancelling', 'compensating', 'compensation_failed'
                    ) and r.status <> 'completed'
                    group by r.status
                ) as counted
            ),
            coalesce(sum(due.count), 0),
            min(due.since)
        )::text
        from {t}.definitions as d
        cross join lateral (
            select count(*) as count, min(r.wake_at) as since
            from {t}.runs as r
            where r.definition = d.id and r.wake_at is not null and r.wake_at <= v_now
        ) as due
    );
end $$;

-- One index look-up for each priority.
create function {f}.next_wake(p_now bigint, p_seen bigint, p_definitions jsonb) returns text language sql stable as $$
    select coalesce(
        min((select min(r.wake_at) from {t}.runs as r where r.definition = d.id and r.wake_at is not null))::text, 'null'
    )
    from {t}.definitions as d
    where d.workflow || '@' || d.version = any ({f}.not_held({f}.texts(p_definitions)))
$$;

create function {f}.has_stranded(p_now bigint, p_seen bigint) returns text language plpgsql stable as $$
declare
    v_now bigint := {f}.peek_clock(p_now, p_seen);
begin
    return (
        exists (select 1 from {t}.workers where lease_until <= v_now)
        or exists (select 1 from {f}.dead_owners(v_now))
        or exists (select 1 from {f}.dead_takers(v_now))
    )::text;
end $$;

create function {f}.upcoming_work(p_now bigint, p_seen bigint, p_definitions jsonb) returns text language plpgsql stable as $$
declare
    v_now bigint := {f}.peek_clock(p_now, p_seen);
begin
    return '[' || {f}.next_wake(p_now, p_seen, p_definitions) || ',' || {f}.has_stranded(p_now, v_now) || ','
        || coalesce((select min(lease_until)::text from {t}.workers where lease_until > v_now), 'null') || ']';
end $$;

-- The states are listed, so that ended runs are not read: they are many, and have no index.
create function {f}.orphans(p_now bigint, p_seen bigint) returns text language sql stable as $$
    select coalesce(json_agg(r.run_id order by r.id), '[]')::text
    from {t}.runs as r
    where r.status in ('pending', 'running', 'waiting', 'cancelling', 'compensating')
        and r.ended_at is null and r.owner is null and r.wake_at is null
        and not (
            r.status in ('waiting', 'compensating') and exists (
                select 1
                from {t}.waits as w
                where w.run = r.id and (
                    w.kind = 'signal'
                    or w.topic is not null
                    or w.kind = 'run' and exists (
                        select 1 from {t}.runs as c where c.run_id = w.names[1] and c.ended_at is null
                    )
                    or w.kind = 'child' and exists (
                        select 1 from {t}.runs as c
                        where c.parent = r.run_id and c.parent_location = w.location and c.ended_at is null
                    )
                )
            )
        )
$$;

create function {f}.read_time(p_now bigint, p_seen bigint) returns text language sql volatile as $$
    select {f}.read_clock(p_now, p_seen)::text
$$;
