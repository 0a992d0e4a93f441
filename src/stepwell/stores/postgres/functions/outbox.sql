-- Events that runs emitted and sinks have not received yet.

-- A row is due at once, unless the run owes this sink an earlier event.
create function {f}.owe(
    p_now bigint, p_run bigint, p_run_id text, p_sink text, p_event_id text, p_name text, p_path text, p_payload bytea,
    p_at bigint
) returns void language plpgsql volatile as $$
begin
    insert into {t}.outbox (run, sink, event_id, name, path, payload, at, next_at)
    values (
        p_run, p_sink, p_event_id, p_name, p_path, p_payload, p_at,
        case
            when not exists (select 1 from {t}.outbox where run = p_run and sink = p_sink and died_at is null) then p_now
        end
    );
    perform {f}.hint('owed', p_run_id);
end $$;

-- Owe each event to each of its sinks.
create function {f}.store_emits(p_now bigint, p_run bigint, p_run_id text, p_emits jsonb) returns void
language plpgsql volatile as $$
declare
    e jsonb;
    v_sink text;
begin
    for e in select one from jsonb_array_elements(p_emits) as one loop
        for v_sink in select one from jsonb_array_elements_text(e->{Emit.sinks}) as one loop
            perform {f}.owe(
                p_now, p_run, p_run_id, v_sink, e->>{Emit.event_id}, e->>{Emit.name}, e->>{Emit.path},
                {f}.unb64(e->>{Emit.payload}), (e->>{Emit.at})::bigint
            );
        end loop;
    end loop;
end $$;

-- An instant as in JSON: with six digits of a second, or none.
create function {f}.spell_time(p_at bigint) returns text language sql immutable as $$
    select case
        when p_at is null then 'null'
        else '"' || to_char(
            to_timestamp(0) at time zone 'utc' + make_interval(secs => p_at / 1000000), 'YYYY-MM-DD"T"HH24:MI:SS'
        ) || case when p_at % 1000000 = 0 then '' else '.' || lpad((p_at % 1000000)::text, 6, '0') end || 'Z"'
    end
$$;

-- The unique id of the event of a run's end; see ids.derived_run_id and model.outbox.ended_event_id.
create function {f}.ended_event_id(p_run_id text, p_created_at bigint, p_epoch bigint) returns text
language plpgsql immutable as $$
declare
    v_digest text := encode(
        sha256(convert_to(p_run_id || e'\x1f~emit\x1f~ended\x1f' || p_created_at || e'\x1f' || p_epoch, 'utf8')), 'hex'
    );
    v_entropy bit(80) := ('x' || left(v_digest, 20))::bit(80);
    v_prefix text := left(replace(p_run_id, '-', ''), 12);
    v_hex text;
begin
    if v_prefix !~ '^[0-9a-fA-F]{12}$' then
        v_prefix := '000000000000';
    end if;
    -- The lowest 74 of the 80 bits: twelve after the version, sixty-two after the variant.
    v_hex := lower(v_prefix) || '7'
        || to_hex((substring(v_entropy from 7 for 12))::bit(12)::int + 4096);
    v_hex := left(v_hex, 13) || right(v_hex, 3)
        || lpad(to_hex((b'10' || substring(v_entropy from 19 for 14))::bit(16)::int), 4, '0')
        || lpad(to_hex((substring(v_entropy from 33 for 48))::bit(48)::bigint), 12, '0');
    return substr(v_hex, 1, 8) || '-' || substr(v_hex, 9, 4) || '-' || substr(v_hex, 13, 4) || '-'
        || substr(v_hex, 17, 4) || '-' || substr(v_hex, 21, 12);
end $$;

-- Owe the event of a run's end to the sinks that subscribe to it: [{status: sinks}].
create function {f}.announce_end(p_now bigint, p_run bigint, p_announce jsonb) returns void language plpgsql volatile as $$
declare
    r record;
    v_sink text;
begin
    if jsonb_typeof(p_announce) is distinct from 'array' then
        return;
    end if;
    select run.run_id, run.status, d.version, run.epoch, run.generation, run.created_at, run.started_at, run.ended_at into r
    from {t}.runs as run join {t}.definitions as d on d.id = run.definition
    where run.id = p_run;
    if r.ended_at is null then
        return;
    end if;
    for v_sink in select one from jsonb_array_elements_text(coalesce(p_announce->{Announce.sinks}->r.status, '[]')) as one loop
        perform {f}.owe(
            p_now, p_run, r.run_id, v_sink, {f}.ended_event_id(r.run_id, r.created_at, r.epoch),
            'stepwell.run.' || r.status, '',
            convert_to(
                'j{"status":"' || r.status || '","version":' || r.version || ',"generation":' || r.generation
                || ',"created_at":' || {f}.spell_time(r.created_at) || ',"started_at":' || {f}.spell_time(r.started_at)
                || ',"ended_at":' || {f}.spell_time(r.ended_at) || '}',
                'utf8'
            ),
            r.ended_at
        );
    end loop;
end $$;

create function {f}.read_owed(p_number bigint) returns json language sql stable as $$
    select json_build_array(
        o.number, o.sink, o.event_id, o.name, o.path, {f}.b64(o.payload), o.at, r.run_id, d.workflow, r.key, o.attempts,
        o.next_at, o.died_at, o.failure, o.died_by, {f}.b64(p.headers)
    )
    from {t}.outbox as o
    join {t}.runs as r on r.id = o.run
    join {t}.payloads as p on p.run = r.id
    join {t}.definitions as d on d.id = r.definition
    where o.number = p_number
$$;

create function {f}.take(
    p_now bigint, p_seen bigint, p_incarnation text, p_sink text, p_limit bigint, p_batch_max bigint, p_keep jsonb
) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_worker bigint := (select id from {t}.workers where incarnation = p_incarnation and lease_until > v_now);
    v_first record;
    v_numbers bigint[];
    v_batches text[] := '{}';
begin
    if v_worker is null then
        perform {f}.refuse_lease(p_incarnation);
    end if;
    -- Batches that the worker has already come first, by number; then those that have been due longest.
    v_numbers := array(
        select o.number
        from {t}.outbox as o
        where o.owner = v_worker and o.sink = p_sink
            and not o.number in (select one::bigint from jsonb_array_elements_text(p_keep) as one)
        order by o.number
        limit p_limit
    );
    v_numbers := v_numbers || array(
        select o.number
        from {t}.outbox as o
        where o.sink = p_sink and o.next_at is not null and o.next_at <= v_now
        order by o.next_at, o.number
        limit p_limit - cardinality(v_numbers)
        for no key update skip locked
    );
    for v_first in
        select o.number, o.run
        from unnest(v_numbers) with ordinality as found (number, place)
        join {t}.outbox as o on o.number = found.number
        order by found.place
    loop
        update {t}.outbox set owner = v_worker, next_at = null where number = v_first.number;
        v_batches := v_batches || (
            select json_agg({f}.read_owed(q.number) order by q.number)::text
            from (
                select o.number from {t}.outbox as o
                where o.run = v_first.run and o.sink = p_sink and o.died_at is null
                order by o.number
                limit p_batch_max
            ) as q
        );
    end loop;
    return {f}.answer(v_now, '[' || array_to_string(v_batches, ',') || ']');
end $$;

-- Make the first event that a run owes a sink due, if no worker has it.
create function {f}.advance_queue(p_now bigint, p_run bigint, p_sink text, p_delay bigint) returns void
language plpgsql volatile as $$
declare
    o record;
begin
    select number, owner, next_at into o
    from {t}.outbox
    where run = p_run and sink = p_sink and died_at is null
    order by number
    limit 1
    for no key update;
    if o.number is not null and o.owner is null and o.next_at is null then
        update {t}.outbox set next_at = p_now + p_delay where number = o.number;
        perform {f}.hint('owed', (select run_id from {t}.runs where id = p_run));
    end if;
end $$;

-- The lock on the run's row orders all changes to its queues: a commit may add events at the same time.
create function {f}.settle_one(p_now bigint, p_worker bigint, p_incarnation text, s jsonb) returns boolean language plpgsql volatile as $$
declare
    o record;
    v_retry_in bigint := (s->{Settled.unsent}->>{Unsent.retry_in})::bigint;
begin
    select run, sink into o from {t}.outbox where number = (s->>{Settled.first})::bigint and owner = p_worker;
    if not found then
        return false;
    end if;
    perform 1 from {t}.runs where id = o.run for no key update;
    update {t}.outbox set owner = null where number = (s->>{Settled.first})::bigint and owner = p_worker;
    if not found then
        return false;
    end if;
    delete from {t}.outbox
    where number in (select one::bigint from jsonb_array_elements_text(s->{Settled.sent}) as one)
        and run = o.run and sink = o.sink;
    if s->{Settled.unsent}->>{Unsent.number} is not null then
        update {t}.outbox
        set attempts = attempts + 1, failure = s->{Settled.unsent}->>{Unsent.failure},
            died_at = case when s->{Settled.unsent}->>{Unsent.retry_in} is null then p_now else died_at end,
            died_by = case when s->{Settled.unsent}->>{Unsent.retry_in} is null then p_incarnation else died_by end,
            next_at = case when s->{Settled.unsent}->>{Unsent.retry_in} is null then null else next_at end
        where number = (s->{Settled.unsent}->>{Unsent.number})::bigint;
        if not found then
            v_retry_in := null;  -- it was dropped meanwhile, so there is nothing to retry
        end if;
    end if;
    perform {f}.advance_queue(p_now, o.run, o.sink, coalesce(v_retry_in, 0));
    return true;
end $$;

create function {f}.settle(p_now bigint, p_seen bigint, p_incarnation text, p_settled jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_worker bigint := (select id from {t}.workers where incarnation = p_incarnation);
    s jsonb;
    v_settled boolean[] := '{}';
begin
    perform 1
    from {t}.runs as r
    where r.id in (
        select o.run from {t}.outbox as o
        where o.number in (select (one->>{Settled.first})::bigint from jsonb_array_elements(p_settled) as one)
    )
    order by r.id
    for no key update;
    for s in select one from jsonb_array_elements(p_settled) as one loop
        v_settled := v_settled || (v_worker is not null and {f}.settle_one(v_now, v_worker, p_incarnation, s));
    end loop;
    return {f}.answer(v_now, to_json(v_settled)::text);
end $$;

create function {f}.next_due(p_now bigint, p_seen bigint, p_sink text) returns text language sql stable as $$
    select coalesce(min(next_at)::text, 'null') from {t}.outbox where sink = p_sink and next_at is not null
$$;

create function {f}.list_owed(p_now bigint, p_seen bigint, p_is_dead boolean, p_limit bigint, p_after bigint) returns text
language sql stable as $$
    select coalesce(json_agg({f}.read_owed(o.number) order by o.number), '[]')::text
    from (
        select number from {t}.outbox
        where number > p_after and (died_at is not null) = p_is_dead
        order by number
        limit p_limit
    ) as o
$$;

create function {f}.replay(
    p_now bigint, p_seen bigint, p_event_id text, p_sink text, p_by text, p_payload text
) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    o record;
    v_count int := 0;
begin
    perform 1
    from {t}.runs as r
    where r.id in (select d.run from {t}.outbox as d where d.event_id = p_event_id and d.died_at is not null)
    order by r.id
    for no key update;
    for o in
        select d.*, r.run_id, r.status
        from {t}.outbox as d join {t}.runs as r on r.id = d.run
        where d.event_id = p_event_id and d.died_at is not null and (p_sink is null or d.sink = p_sink)
        order by d.number
    loop
        perform {f}.owe(
            v_now, o.run, o.run_id, o.sink, o.event_id, o.name, o.path, coalesce({f}.unb64(p_payload), o.payload), o.at
        );
        delete from {t}.outbox where number = o.number;
        perform {f}.note(v_now, o.run, 'replay_event', p_by, o.status, o.name || ' to ' || o.sink);
        v_count := v_count + 1;
    end loop;
    return {f}.answer(v_now, v_count::text);
end $$;

-- For people only, and rare: there is no index by event id.
create function {f}.drop_event(
    p_now bigint, p_seen bigint, p_event_id text, p_sink text, p_by text, p_reason text
) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    o record;
    v_count int := 0;
begin
    perform 1
    from {t}.runs as r
    where r.id in (select d.run from {t}.outbox as d where d.event_id = p_event_id)
    order by r.id
    for no key update;
    for o in
        select d.number, d.run, d.sink, d.name, r.status
        from {t}.outbox as d join {t}.runs as r on r.id = d.run
        where d.event_id = p_event_id and d.owner is null and (p_sink is null or d.sink = p_sink)
        order by d.number
        for update of d
    loop
        delete from {t}.outbox where number = o.number;
        perform {f}.advance_queue(v_now, o.run, o.sink, 0);
        perform {f}.note(
            v_now, o.run, 'drop_event', p_by, o.status,
            o.name || ' to ' || o.sink || case when p_reason <> '' then ': ' || p_reason else '' end
        );
        v_count := v_count + 1;
    end loop;
    return {f}.answer(v_now, v_count::text);
end $$;
