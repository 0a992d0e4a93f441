-- Overviews: reads for pages that are shown and refreshed often. The cost of each has a limit.

create function {f}.list_summaries(p_now bigint, p_seen bigint, p_filter jsonb, p_limit bigint, p_before text) returns text
language plpgsql stable as $$
declare
    v_found constant bigint[] := {f}.find_page(p_filter, p_limit, p_before);
begin
    return (
        select coalesce(json_agg(found.value order by listed.place), '[]')::text
        from unnest(v_found) with ordinality as listed (run, place)
        cross join lateral (
            select json_build_array(
                r.run_id, d.workflow, d.version, r.status, r.key, r.created_at, r.started_at, r.ended_at, {f}.b64(p.failure)
            ) as value
            from {t}.runs as r
            join {t}.definitions as d on d.id = r.definition
            join {t}.payloads as p on p.run = r.id
            where r.id = listed.run
            offset 0
        ) as found
    );
end $$;

-- The range is fenced by `offset 0`: otherwise another index could be used, which finds all runs of a workflow or a
-- status, from any time. The filter is parameter $1.
create function {f}.count_created(
    p_now bigint, p_seen bigint, p_filter jsonb, p_since bigint, p_until bigint, p_width bigint, p_scan_max bigint
) returns text
language plpgsql stable as $$
declare
    v_low bigint := coalesce(
        (
            select created_at + 1 from {t}.runs
            where ended_at is not null and created_at >= p_since and created_at < p_until
            order by created_at desc
            limit 1 offset p_scan_max
        ),
        p_since
    );
    v_parts text := '';
    v_runs text;
    v_bins text;
    v_unended bigint;
begin
    foreach v_runs in array array[
        '(select * from {t}.runs where ended_at is not null and created_at >= $2 and created_at < $3 offset 0)',
        '(select * from (select * from {t}.runs where ended_at is null and status <> ''completed'' and status in ('
            || '''pending'', ''running'', ''waiting'', ''paused'', ''cancelling'', ''compensating'', ''compensation_failed'''
            || ') limit $6) as few where created_at >= $4 and created_at < $3 offset 0)'
    ] loop
        v_parts := concat_ws(
            ' union all ', nullif(v_parts, ''),
            'select (r.created_at - $4) / $5 as part, r.status' || {f}.selection_of(p_filter, v_runs, false)
                || {f}.has_any_status(p_filter) || {f}.has_order(p_filter)
        );
    end loop;
    execute 'select coalesce(json_agg(json_build_array(part, runs, failed) order by part), ''[]'')::text from ('
        || 'select part, count(*) as runs, count(*) filter (where status in (''failed'', ''compensated'','
        || ' ''compensation_failed'')) as failed from (' || v_parts || ') as counted group by part) as bins'
    into v_bins
    using p_filter, v_low, p_until, p_since, p_width, p_scan_max;
    select count(*) into v_unended from (
        select 1 from {t}.runs
        where ended_at is null and status <> 'completed' and status in (
            'pending', 'running', 'waiting', 'paused', 'cancelling', 'compensating', 'compensation_failed'
        )
        limit p_scan_max + 1
    ) as counted;
    return '[' || v_bins || ',' || v_low || ',' || (v_unended <= p_scan_max)::text || ']';
end $$;

-- The state of a run, as an array.
create function {f}.states_of(p_runs bigint[]) returns table (run bigint, value json) language sql stable as $$
    select x.run, found.value
    from unnest(p_runs) as x (run)
    cross join lateral (
        select json_build_array(
            r.run_id, d.workflow, d.version, r.status, r.key, h.revision, r.created_at, r.ended_at
        ) as value
        from {t}.runs as r
        join {t}.heads as h on h.run = r.id
        join {t}.definitions as d on d.id = r.definition
        where r.id = x.run
        offset 0
    ) as found
$$;

create function {f}.attempts_at(p_run bigint, p_places bytea[]) returns json language sql stable as $$
    select coalesce(json_agg(json_build_array({Attempt.* to json}) order by location, number), '[]')
    from {t}.attempts
    where run = p_run and location = any (p_places)
$$;

create function {f}.list_standings(p_now bigint, p_seen bigint, p_ids jsonb, p_limit bigint) returns text
language sql stable as $$
    select coalesce(
        json_agg(
            case when r.id is null then '[[],[],[],[],[],[]]'::json else json_build_array(
                to_json({f}.names_of(r.id)),
                {f}.list_waits(r.id),
                {f}.attempts_at(r.id, array(select w.location from {t}.waits as w where w.run = r.id)),
                (
                    select coalesce(json_agg(json_build_array({Progress.* to json}) order by location), '[]')
                    from {t}.progress
                    where run = r.id
                ),
                (
                    select coalesce(
                        json_agg(
                            json_build_array(
                                number, name, {f}.b64(payload), sent_at, case when asks then signal_id end
                            )
                            order by number
                        ),
                        '[]'
                    )
                    from (
                        select * from {t}.signals as s
                        where s.run = r.id and s.payload is not null and s.refused is null
                        order by s.number
                        limit p_limit
                    ) as pending
                ),
                (
                    select coalesce(json_agg(states.value order by states.run), '[]')
                    from {f}.states_of(array(
                        select c.id from {t}.runs as c
                        where c.parent = r.run_id and c.ended_at is null
                        order by c.id
                        limit p_limit
                    )) as states
                )
            ) end
            order by wanted.place
        ),
        '[]'
    )::text
    from jsonb_array_elements_text(p_ids) with ordinality as wanted (run_id, place)
    left join {t}.runs as r on r.run_id = wanted.run_id
$$;

-- The numbers of rows are in the order of creation.
create function {f}.list_movement(p_now bigint, p_seen bigint, p_since bigint, p_watched jsonb, p_limit bigint) returns text
language plpgsql stable as $$
declare
    v_status text;
    v_found bigint[] := array(
        select id from (select id, created_at from {t}.runs order by id desc limit p_limit + 1) as newest
        where created_at >= p_since
    );
    v_all bigint[] := v_found[1:p_limit];
    v_is_whole boolean := cardinality(v_found) <= p_limit;
begin
    v_found := array(
        select id from {t}.runs
        where ended_at is not null and coalesce(ended_at, -1) >= p_since
        order by coalesce(ended_at, -1) desc, run_id desc
        limit p_limit + 1
    );
    v_all := v_all || v_found[1:p_limit];
    v_is_whole := v_is_whole and cardinality(v_found) <= p_limit;
    foreach v_status in array array[
        'running', 'cancelling', 'compensating', 'pending', 'paused', 'compensation_failed'
    ] loop
        v_all := v_all || array(
            select id from {t}.runs
            where status = v_status and status <> 'completed'
            order by run_id desc
            limit p_limit
        );
    end loop;
    v_all := v_all || array(select id from {t}.runs where run_id = any ({f}.texts(p_watched)));
    return (
        select json_build_array(coalesce(json_agg(states.value order by states.run), '[]'), v_is_whole)::text
        from {f}.states_of(array(select distinct one from unnest(v_all) as x (one))) as states
    );
end $$;

create function {f}.list_topics(p_now bigint, p_seen bigint, p_limit bigint) returns text language plpgsql stable as $$
declare
    v_now bigint := {f}.peek_clock(p_now, p_seen);
begin
    return (
        select coalesce(
            json_agg(
                json_build_array(topic, coalesce(waiting, 0), coalesce(kept, 0), coalesce(published, 0), last_at)
                order by topic collate "C"
            ),
            '[]'
        )::text
        from (
            select topic, count(*) as waiting
            from (select w.topic from {t}.waits as w where w.topic is not null limit p_limit) as open
            group by topic
        ) as waits
        full join (
            select topic, count(*) as kept
            from (
                select e.topic from {t}.events as e
                where e.kept_until is not null and not e.is_taken and e.kept_until > v_now
                limit p_limit
            ) as remaining
            group by topic
        ) as kept using (topic)
        full join (
            select topic, count(*) as published, max(published_at) as last_at
            from (select e.topic, e.published_at from {t}.events as e order by e.number desc limit p_limit) as latest
            group by topic
        ) as published using (topic)
    );
end $$;

-- The inner limit holds also for a topic with few events.
create function {f}.list_past_events(
    p_now bigint, p_seen bigint, p_topic text, p_limit bigint, p_scan_max bigint
) returns text
language plpgsql stable as $$
declare
    v_now bigint := {f}.peek_clock(p_now, p_seen);
begin
    return (
        select coalesce(
            json_agg(
                json_build_array(event_id, topic, deliver, published_at, reached, kept_until) order by number desc
            ),
            '[]'
        )::text
        from (
            select *
            from (
                select
                    e.number, e.event_id, e.topic, e.deliver, e.published_at, e.reached,
                    case when not e.is_taken and e.kept_until > v_now then e.kept_until end as kept_until
                from {t}.events as e
                order by e.number desc
                limit p_scan_max
            ) as latest
            where p_topic is null or topic = p_topic
            order by number desc
            limit p_limit
        ) as found
    );
end $$;

create function {f}.tally_owed(p_now bigint, p_seen bigint, p_limit bigint) returns text language sql stable as $$
    select coalesce(
        json_agg(json_build_array(sink, pending, failing, dead, oldest_at, failure) order by sink collate "C"), '[]'
    )::text
    from (
        select
            sink,
            count(*) filter (where died_at is null) as pending,
            count(*) filter (where died_at is null and failure <> '') as failing,
            count(*) filter (where died_at is not null) as dead,
            min(at) filter (where died_at is null) as oldest_at,
            coalesce((array_agg(failure order by number desc) filter (where failure <> ''))[1], '') as failure
        from (select o.number, o.sink, o.died_at, o.failure, o.at from {t}.outbox as o order by o.number limit p_limit) as owed
        group by sink
    ) as sinks
$$;

-- A wait for an event that has come has no topic any more.
create function {f}.tally_waits(p_now bigint, p_seen bigint, p_limit bigint) returns text language sql stable as $$
    select coalesce(json_agg(json_build_array(kind, names, workflow, version, runs, next_due_at, example)), '[]')::text
    from (
        select w.kind, w.names, d.workflow, d.version, count(distinct w.run) as runs, min(w.due_at) as next_due_at,
            min(r.run_id) as example
        from (select run, kind, names, topic, due_at from {t}.waits limit p_limit) as w
        join {t}.runs as r on r.id = w.run
        join {t}.definitions as d on d.id = r.definition
        where w.kind = 'signal' or w.topic is not null
        group by w.kind, w.names, d.workflow, d.version
    ) as groups
$$;

create function {f}.find_undelivered(p_now bigint, p_seen bigint, p_number bigint) returns text language sql stable as $$
    select coalesce(
        (
            select json_build_array(
                s.key, r.run_id, r.status, coalesce(s.refused, ''),
                json_build_array(
                    s.number, s.name, {f}.b64(s.payload), s.sent_at, case when s.asks then s.signal_id end
                )
            )::text
            from {t}.signals as s
            left join {t}.runs as r on r.id = s.run
            where s.number = p_number and s.payload is not null
                and (s.key is not null or s.refused is not null or r.ended_at is not null)
        ),
        'null'
    )
$$;

create function {f}.read_outline(p_now bigint, p_seen bigint, p_run_id text) returns text language sql stable as $$
    select coalesce(
        (
            select json_build_array(
                {f}.read_run(r.id),
                to_json({f}.names_of(r.id)),
                (
                    select coalesce(
                        json_agg(
                            json_build_array(
                                seq, {f}.b64(location), kind, status, '', at, took, attempts,
                                case when undo is not null then '' end
                            )
                            order by seq
                        ),
                        '[]'
                    )
                    from {t}.entries
                    where run = r.id
                ),
                {f}.list_waits(r.id),
                (
                    select coalesce(json_agg(json_build_array({Progress.* to json}) order by location), '[]')
                    from {t}.progress
                    where run = r.id
                )
            )::text
            from {t}.runs as r
            where r.run_id = p_run_id
        ),
        'null'
    )
$$;

-- The entries of a run with these numbers, with what belongs to their places.
create function {f}.read_passage(p_run bigint, p_seqs bigint[]) returns text language sql stable as $$
    select json_build_array(
        to_json({f}.names_of(p_run)),
        (
            select coalesce(json_agg(json_build_array({Entry.* to json}) order by seq), '[]')
            from {t}.entries
            where run = p_run and seq = any (p_seqs)
        ),
        {f}.attempts_at(
            p_run, array(select e.location from {t}.entries as e where e.run = p_run and e.seq = any (p_seqs))
        ),
        (
            select coalesce(json_agg({f}.b64(e.location) order by e.seq), '[]')
            from {t}.entries as e
            where e.run = p_run and e.seq = any (p_seqs) and exists (
                select 1 from {t}.entries as u
                where u.run = p_run and u.location = e.location || '\x40'::bytea and u.kind = 'u'
            )
        )
    )::text
$$;

create function {f}.list_entries(p_now bigint, p_seen bigint, p_run_id text, p_after bigint, p_limit bigint) returns text
language sql stable as $$
    select coalesce(
        (
            select {f}.read_passage(
                r.id,
                array(select e.seq from {t}.entries as e where e.run = r.id and e.seq > p_after order by e.seq limit p_limit)
            )
            from {t}.runs as r
            where r.run_id = p_run_id
        ),
        '[[],[],[],[]]'
    )
$$;

create function {f}.find_entries(p_now bigint, p_seen bigint, p_run_id text, p_seqs jsonb) returns text
language sql stable as $$
    select coalesce(
        (
            select {f}.read_passage(r.id, array(select one::bigint from jsonb_array_elements_text(p_seqs) as x (one)))
            from {t}.runs as r
            where r.run_id = p_run_id
        ),
        '[[],[],[],[]]'
    )
$$;
