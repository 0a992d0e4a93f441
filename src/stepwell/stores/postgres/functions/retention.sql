-- Deleting what nobody needs any more.

-- Whether a sink is owed an event of a run, it refused a signal that is kept, or it has an open record.
create function {f}.is_needed(p_run bigint) returns boolean language sql stable as $$
    select exists (select 1 from {t}.outbox where run = p_run and died_at is null)
        or exists (select 1 from {t}.outbox where run = p_run and died_at is not null)
        or exists (select 1 from {t}.signals where run = p_run and payload is not null and refused is not null)
        or exists (select 1 from {t}.records where run = p_run and is_open)
$$;

create function {f}.facts_of(p_run bigint) returns json language sql stable as $$
    select json_build_array(
        r.run_id, d.workflow, r.status, r.ended_at, r.dedup, r.parent, r.previous, r.successor,
        exists (select 1 from {t}.runs as c where c.parent = r.run_id), {f}.is_needed(r.id)
    )
    from {t}.runs as r join {t}.definitions as d on d.id = r.definition
    where r.id = p_run
$$;

-- In the order of the index of ends.
create function {f}.list_ended(
    p_now bigint, p_seen bigint, p_before bigint, p_limit bigint, p_after_at bigint, p_after_id text
) returns text language sql stable as $$
    select coalesce(json_agg({f}.facts_of(found.id) order by found.ended, found.run_id), '[]')::text
    from (
        select id, run_id, coalesce(ended_at, -1) as ended
        from {t}.runs
        where ended_at is not null and coalesce(ended_at, -1) < p_before
            and (coalesce(ended_at, -1), run_id) > (p_after_at, p_after_id)
        order by coalesce(ended_at, -1), run_id
        limit p_limit
    ) as found
$$;

create function {f}.list_relatives(p_now bigint, p_seen bigint, p_ids jsonb, p_parents jsonb) returns text
language sql stable as $$
    select coalesce(json_agg({f}.facts_of(found.id)), '[]')::text
    from (
        select one.id
        from jsonb_array_elements_text(p_ids) as given
        cross join lateral (select id from {t}.runs where run_id = given offset 0) as one
        union
        select one.id
        from jsonb_array_elements_text(p_parents) as given
        cross join lateral (select id from {t}.runs where parent = given offset 0) as one
    ) as found
$$;

-- Delete the trees that nothing has changed since they were planned. The runs are locked first, in the order of all
-- transitions.
create function {f}.prune_runs(
    p_now bigint, p_seen bigint, p_trees jsonb, p_is_erasure boolean, p_by text, p_reason text
) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_all bigint[];
    v_tree jsonb;
    v_runs bigint[];
    v_doomed bigint[] := '{}';
    v_pruned boolean[] := '{}';
    v_goes boolean;
begin
    select coalesce(array_agg(id), '{}') into v_all
    from (
        select r.id
        from {t}.runs as r
        where r.run_id in (
            select named->>{Ended.run_id}
            from jsonb_array_elements(p_trees) as tree
            cross join lateral jsonb_array_elements((tree->{Tree.runs}) || (tree->{Tree.witnesses})) as named
        )
        order by r.id
        for update
    ) as locked;
    for v_tree in select one from jsonb_array_elements(p_trees) as one loop
        -- An end that differs, or a run that is gone, keeps the tree.
        select coalesce(bool_and(r.ended_at is not distinct from (named->>{Ended.ended_at})::bigint and r.id is not null), false)
        into v_goes
        from jsonb_array_elements((v_tree->{Tree.runs}) || (v_tree->{Tree.witnesses})) as named
        left join {t}.runs as r on r.run_id = named->>{Ended.run_id};
        v_runs := array(
            select r.id
            from jsonb_array_elements(v_tree->{Tree.runs}) as named
            join {t}.runs as r on r.run_id = named->>{Ended.run_id}
        );
        v_goes := v_goes and cardinality(v_runs) > 0
            and (p_is_erasure or not exists (select 1 from unnest(v_runs) as x (id) where {f}.is_needed(x.id)));
        v_pruned := v_pruned || v_goes;
        if v_goes then
            v_doomed := v_doomed || v_runs;
        end if;
    end loop;
    if p_is_erasure then
        insert into {t}.audit (workflow, at, verb, by, before, after, reason)
        select d.workflow, v_now, 'erase', p_by, r.status, 'erased',
            'run ' || r.run_id || case when p_reason <> '' then ': ' || p_reason else '' end
        from {t}.runs as r join {t}.definitions as d on d.id = r.definition
        where r.id = any (v_doomed)
        order by r.id;
    end if;
    if cardinality(v_doomed) > 0 then
        perform {f}.delete_runs(v_doomed);
    end if;
    return {f}.answer(v_now, to_json(v_pruned)::text);
end $$;

-- Everything that belongs to runs, and at last their rows.
create function {f}.delete_runs(p_runs bigint[]) returns void language plpgsql volatile as $$
begin
    delete from {t}.record_events where record in (select number from {t}.records where run = any (p_runs));
    delete from {t}.record_labels as l
    using {t}.records as k
    where k.run = any (p_runs) and l.kind = k.kind and l.label = any (k.labels) and l.is_open = k.is_open
        and l.number = k.number;
    delete from {t}.records where run = any (p_runs);
    delete from {t}.replies
    where number in (
        select number from {t}.signals where run = any (p_runs) and payload is not null
        union all
        select number from {t}.signals where run = any (p_runs) and dedup_key is not null
        union all
        select number from {t}.signals where run = any (p_runs) and payload is null and dedup_key is null
    );
    delete from {t}.signals where run = any (p_runs) and payload is not null;
    delete from {t}.signals where run = any (p_runs) and dedup_key is not null;
    delete from {t}.signals where run = any (p_runs) and payload is null and dedup_key is null;
    delete from {t}.receipts where run = any (p_runs);
    delete from {t}.outbox where run = any (p_runs) and died_at is null;
    delete from {t}.outbox where run = any (p_runs) and died_at is not null;
    delete from {t}.audit where run = any (p_runs);
    delete from {t}.attributes where run = any (p_runs);
    delete from {t}.published where run = any (p_runs);
    delete from {t}.chunks where run = any (p_runs);
    delete from {t}.entries where run = any (p_runs);
    delete from {t}.names where run = any (p_runs);
    delete from {t}.attempts where run = any (p_runs);
    delete from {t}.progress where run = any (p_runs);
    delete from {t}.cursors where run = any (p_runs);
    delete from {t}.waits where run = any (p_runs);
    delete from {t}.payloads where run = any (p_runs);
    delete from {t}.heads where run = any (p_runs);
    delete from {t}.runs where id = any (p_runs);
end $$;

create function {f}.sweep(p_now bigint, p_seen bigint, p_part text, p_before bigint, p_after bigint, p_limit bigint)
returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_old bigint[];
    v_last bigint;
    v_count bigint;
begin
    if p_part = 'events' then
        select array_agg(number) filter (where is_old), max(number), count(*) into v_old, v_last, v_count
        from (
            select e.number,
                e.forget_at <= v_now and (e.kept_until is null or e.kept_until <= v_now or e.is_taken)
                    and not exists (select 1 from {t}.receipts as r where r.event = e.number and not r.is_read) as is_old
            from {t}.events as e
            where e.number > p_after
            order by e.number
            limit p_limit
        ) as seen;
        perform {f}.lock_topic(topic) from (
            select distinct topic from {t}.events where number = any (v_old) order by topic
        ) as topics;
        -- A wait may have taken one of them meanwhile.
        v_old := array(
            select e.number from {t}.events as e
            where e.number = any (v_old)
                and not exists (select 1 from {t}.receipts as r where r.event = e.number and not r.is_read)
        );
        delete from {t}.receipts where event = any (v_old);
        delete from {t}.events where number = any (v_old);
    else
        select array_agg(number) filter (where is_old), max(number), count(*) into v_old, v_last, v_count
        from (
            select number, run is not null and payload is null and dedup_key is null and sent_at < p_before as is_old
            from {t}.signals
            where number > p_after
            order by number
            limit p_limit
        ) as seen;
        delete from {t}.replies where number = any (v_old);
        delete from {t}.signals where number = any (v_old);
    end if;
    return {f}.answer(
        v_now, json_build_array(coalesce(cardinality(v_old), 0), case when v_count = p_limit then v_last end)::text
    );
end $$;

create function {f}.has_old_blobs(p_now bigint, p_seen bigint, p_before bigint) returns text language sql stable as $$
    select exists (select 1 from {t}.blobs where stored_at < p_before)::text
$$;

-- The old payloads to which no row refers. One statement, so that it sees one moment.
create function {f}.list_unused_blobs(p_now bigint, p_seen bigint, p_before bigint) returns text language sql stable as $$
    with used as materialized (
        select distinct found[1] as hash
        from (
            select input as value from {t}.payloads
            union all select output from {t}.payloads
            union all select failure from {t}.payloads
            union all select value from {t}.published
            union all select value from {t}.chunks
            union all select value from {t}.entries
            union all select undo from {t}.entries
            union all select failure from {t}.attempts
            union all select state from {t}.progress
            union all select state from {t}.cursors
            union all select payload from {t}.events
            union all select payload from {t}.signals
            union all select value from {t}.replies
            union all select payload from {t}.outbox
            union all select body from {t}.records
            union all select data from {t}.record_events
        ) as stored
        cross join lateral regexp_matches(encode(value, 'escape'), 'r([0-9a-f]{64}):[0-9]', 'g') as found
        where length(value) >= 67
    )
    select coalesce(json_agg(encode(b.hash, 'hex')), '[]')::text
    from {t}.blobs as b
    where b.stored_at < p_before and not exists (select 1 from used where used.hash = encode(b.hash, 'hex'))
$$;

create function {f}.drop_blobs(p_now bigint, p_seen bigint, p_hashes jsonb, p_before bigint, p_slack bigint) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_count bigint;
begin
    delete from {t}.blobs
    where hash in (select decode(one, 'hex') from jsonb_array_elements_text(p_hashes) as one)
        and stored_at < least(
            p_before,
            (select min(coalesce(started_at, created_at)) - p_slack from {t}.runs where owner is not null)
        );
    get diagnostics v_count = row_count;
    return {f}.answer(v_now, v_count::text);
end $$;
