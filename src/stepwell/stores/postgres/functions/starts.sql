-- Starting runs.

create function {f}.find_active(p_key text) returns bigint language sql stable as $$
    select id from {t}.runs
    where key = p_key and ended_at is null and replaced_by is null and debounced_until is null
$$;

-- Add a run, which takes over what is held for its key, and claim it if possible.
create function {f}.insert_run(
    p_now bigint, p_new jsonb, inout q {f}.quota, out run bigint, out claimed json,
    p_generation bigint default 1, p_previous text default null, p_previous_started_at bigint default null,
    p_debounced_until bigint default null
) language plpgsql volatile as $$
declare
    v_key text := p_new->>{NewRun.key};
    v_delay bigint := (p_new->>{NewRun.delay})::bigint;
    v_deadline bigint := (p_new->>{NewRun.deadline_at})::bigint;
    v_is_claimed boolean;
begin
    v_is_claimed := v_delay <= 0
        and {f}.may_take(q, p_now, p_new->>{NewRun.workflow}, (p_new->>{NewRun.version})::bigint,
            (p_new->>{NewRun.priority})::bigint);
    insert into {t}.runs (
        run_id, definition, status, epoch, owner, wake_at, created_at, started_at, key, generation, parent, parent_location,
        detached, tied, previous, previous_started_at, previous_finished_at,
        deadline_at, max_suspend, debounced_until, dedup, reason, undo_floor, discards
    ) values (
        p_new->>{NewRun.run_id}, {f}.define(p_new->>{NewRun.workflow}, (p_new->>{NewRun.version})::bigint,
            (p_new->>{NewRun.priority})::bigint),
        case when v_is_claimed then 'running' else 'pending' end,
        case when v_is_claimed then 1 else 0 end,
        case when v_is_claimed then q.owner end,
        case when not v_is_claimed then least(p_now + v_delay, v_deadline) end,
        p_now, case when v_is_claimed then p_now end, v_key, p_generation,
        p_new->{NewRun.parent}->>{Parent.run_id}, {f}.unb64(p_new->{NewRun.parent}->>{Parent.location}),
        coalesce((p_new->{NewRun.parent}->>{Parent.detached})::boolean, false),
        coalesce((p_new->{NewRun.parent}->>{Parent.tied})::boolean, false),
        p_previous, p_previous_started_at, case when p_previous is not null then p_now end,
        v_deadline, (p_new->>{NewRun.max_suspend})::bigint, p_debounced_until,
        case when v_key is null then 0 else (p_new->>{NewRun.dedup})::bigint end, '', 0, (p_new->>{NewRun.discards})::boolean
    )
    returning id into run;
    insert into {t}.heads (run, number, revision, last_seq, stalls) values (run, 0, 0, 0, 0);
    insert into {t}.payloads (run, input, tags, title, started_by, headers, retry)
    values (run, {f}.unb64(p_new->>{NewRun.input}), (p_new->{NewRun.tags})::json, p_new->>{NewRun.title},
        p_new->>{NewRun.started_by}, {f}.unb64(p_new->>{NewRun.headers}), p_new->>{NewRun.retry});
    if p_new->{NewRun.attributes} <> '[]' then
        perform {f}.set_attributes(run, p_new->>{NewRun.run_id}, p_new->{NewRun.attributes});
    end if;
    if v_key is not null and p_debounced_until is null then
        update {t}.signals set run = insert_run.run, key = null where key = v_key;
    end if;
    if v_is_claimed then
        q.room := q.room - 1;
        claimed := {f}.read_claimed(run);
    else
        perform {f}.hint('ready', p_new->>{NewRun.run_id});
    end if;
end $$;

-- Add a run that could not be started: it has ended already and has no key.
create function {f}.insert_failed(p_now bigint, p_new jsonb, p_failure bytea) returns bigint language plpgsql volatile as $$
declare
    v_run bigint;
begin
    insert into {t}.runs (
        run_id, definition, status, epoch, created_at, ended_at, generation, parent,
        parent_location, detached, tied, deadline_at, max_suspend, reason, undo_floor, discards
    ) values (
        p_new->>{NewRun.run_id}, {f}.define(p_new->>{NewRun.workflow}, (p_new->>{NewRun.version})::bigint,
            (p_new->>{NewRun.priority})::bigint), 'failed', 0, p_now, p_now,
        1, p_new->{NewRun.parent}->>{Parent.run_id}, {f}.unb64(p_new->{NewRun.parent}->>{Parent.location}),
        coalesce((p_new->{NewRun.parent}->>{Parent.detached})::boolean, false),
        coalesce((p_new->{NewRun.parent}->>{Parent.tied})::boolean, false), (p_new->>{NewRun.deadline_at})::bigint,
            (p_new->>{NewRun.max_suspend})::bigint, '', 0,
        (p_new->>{NewRun.discards})::boolean
    )
    returning id into v_run;
    insert into {t}.heads (run, number, revision, last_seq, stalls) values (v_run, 0, 0, 0, 0);
    insert into {t}.payloads (run, input, failure, tags, title, started_by, headers, retry)
    values (v_run, {f}.unb64(p_new->>{NewRun.input}), p_failure, (p_new->{NewRun.tags})::json, p_new->>{NewRun.title},
        p_new->>{NewRun.started_by}, {f}.unb64(p_new->>{NewRun.headers}), p_new->>{NewRun.retry});
    if p_new->{NewRun.attributes} <> '[]' then
        perform {f}.set_attributes(v_run, p_new->>{NewRun.run_id}, p_new->{NewRun.attributes});
    end if;
    perform {f}.hint('ended', p_new->>{NewRun.run_id});
    return v_run;
end $$;

-- Move signals that are held for a key to the run that has it now. Signals that the run knows already count as
-- consumed.
create function {f}.take_over_held(p_run bigint, p_key text) returns void language plpgsql volatile as $$
begin
    update {t}.signals as s
    set run = p_run, key = null, dedup_key = null, payload = null
    where s.key = p_key and s.dedup_key is not null and exists (
        select 1 from {t}.signals as known
        where known.run = p_run and known.name = s.name and known.dedup_key = s.dedup_key
    );
    update {t}.signals set run = p_run, key = null where key = p_key;
end $$;

-- The answer of a start is `Created`.
create function {f}.create_one(p_now bigint, p_new jsonb, inout q {f}.quota, p_together text[], out created json)
language plpgsql volatile as $$
declare
    v_input bytea;
    v_met record;
    v_replaced text;
    v_added record;
begin
    select p.input into v_input from {t}.runs as r join {t}.payloads as p on p.run = r.id
        where r.run_id = p_new->>{NewRun.run_id};
    if found then
        created := json_build_array(
            p_new->>{NewRun.run_id}, (p_new->>{NewRun.own_id})::boolean, v_input = {f}.unb64(p_new->>{NewRun.input}),
            not (p_new->>{NewRun.own_id})::boolean, null, null
        );
        return;
    end if;
    if p_new->>{NewRun.key} is not null then
        select r.id, r.run_id, r.status, p.input into v_met
        from {t}.runs as r join {t}.payloads as p on p.run = r.id
        where r.id = {f}.find_active(p_new->>{NewRun.key});
        if not found and (p_new->>{NewRun.dedup})::bigint > 0 and p_new->>{NewRun.on_conflict} <> 'replace' then
            select r.id, r.run_id, r.status, p.input into v_met
            from {t}.runs as r join {t}.payloads as p on p.run = r.id
            where r.key = p_new->>{NewRun.key} and r.ended_at > p_now - (p_new->>{NewRun.dedup})::bigint
                and r.status <> 'continued'
                and r.replaced_by is null and r.debounced_until is null
            order by r.ended_at desc, r.id desc
            limit 1;
        end if;
        if v_met.id is not null and (p_new->>{NewRun.on_conflict} = 'get' or v_met.run_id = any (p_together)) then
            created := json_build_array(v_met.run_id, false, v_met.input = {f}.unb64(p_new->>{NewRun.input}), false, null,
                null);
            return;
        end if;
        if v_met.id is not null then
            -- Its worker may be changing its status right now.
            select status into v_met.status from {t}.runs where id = v_met.id for no key update;
            if p_new->>{NewRun.on_conflict} <> 'replace' or v_met.status = 'compensation_failed' then
                raise exception using errcode = 'SW003', message = 'the key is taken',
                    detail = json_build_array(p_new->>{NewRun.key}, p_new->>{NewRun.on_conflict}, v_met.run_id,
                        v_met.status)::text;
            end if;
            if (select r.ended_at is null from {t}.runs as r where r.id = v_met.id) then
                v_replaced := v_met.run_id;
                perform {f}.cancel_family(p_now, v_met.id, true, 'replaced by run ' || (p_new->>{NewRun.run_id}),
                    p_new->{NewRun.announce});
                update {t}.runs set replaced_by = p_new->>{NewRun.run_id} where id = v_met.id;
            end if;
        end if;
    end if;
    select * into v_added from {f}.insert_run(p_now, p_new, q);
    q := v_added.q;
    created := json_build_array(p_new->>{NewRun.run_id}, true, true, false, v_added.claimed, v_replaced);
end $$;

-- The answer if one of the ids is taken, by an existing run or by an earlier run of the same call: then none is
-- started. Otherwise null.
create function {f}.refused_ids(p_runs jsonb) returns text language sql stable as $$
    with given as (
        select new->>{NewRun.run_id} as run_id, (new->>{NewRun.own_id})::boolean as own_id,
            {f}.unb64(new->>{NewRun.input}) as input, place,
            first_value({f}.unb64(new->>{NewRun.input})) over (partition by new->>{NewRun.run_id} order by place) as first_input,
            row_number() over (partition by new->>{NewRun.run_id} order by place) > 1 as is_second
        from jsonb_array_elements(p_runs) with ordinality as x (new, place)
    ),
    judged as (
        select g.run_id, g.place, not g.own_id and (p.run is not null or g.is_second) as is_taken,
            coalesce(p.input, g.first_input) = g.input as is_same
        from given as g
        left join {t}.runs as r on r.run_id = g.run_id
        left join {t}.payloads as p on p.run = r.id
    )
    select json_agg(
        json_build_array(run_id, false, is_same or not is_taken, is_taken, null, null) order by place
    )::text
    from judged
    having bool_or(is_taken)
$$;

-- If all runs are new and claimed, the answer is only the time, from which the caller derives the rest.
create function {f}.create_runs(p_now bigint, p_seen bigint, p_runs jsonb, p_claimant jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    q {f}.quota;
    v_key text;
    v_new jsonb;
    v_made record;
    v_created text[] := '{}';
    v_together text[];
    v_claimant jsonb := p_claimant;
    v_answer text;
begin
    for v_key in
        select distinct new->>{NewRun.key} from jsonb_array_elements(p_runs) as new
            where new->>{NewRun.key} is not null order by 1
    loop
        perform {f}.lock_key(v_key);
    end loop;
    v_now := {f}.begin_at(p_now, p_seen);
    if jsonb_array_length(p_runs) > 1 then
        select array_agg(new->>{NewRun.run_id}) into v_together from jsonb_array_elements(p_runs) as new;
        if (select count(distinct new->>{NewRun.priority}) > 1 from jsonb_array_elements(p_runs) as new) then
            v_claimant := null;  -- a later run may be more urgent; the next claim sorts them
        end if;
    else
        v_together := array[p_runs->0->>{NewRun.run_id}];
    end if;
    q := {f}.offer(v_now, v_claimant);
    if jsonb_array_length(p_runs) > 1 then
        v_answer := {f}.create_batch(v_now, p_runs, v_together, q);
        if v_answer is not null then
            return {f}.answer(v_now, v_answer);
        end if;
        v_answer := {f}.refused_ids(p_runs);
        if v_answer is not null then
            return {f}.answer(v_now, v_answer);
        end if;
    end if;
    for v_new in select new from jsonb_array_elements(p_runs) as new loop
        select * into v_made from {f}.create_one(v_now, v_new, q, v_together);
        q := v_made.q;
        v_created := v_created || v_made.created::text;
    end loop;
    perform {f}.settle_records(v_now);
    return {f}.answer(v_now, '[' || array_to_string(v_created, ',') || ']');
end $$;

create function {f}.debounce(p_now bigint, p_seen bigint, p_new jsonb, p_quiet bigint, p_max_wait bigint) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    v_planned record;
    v_input bytea;
begin
    perform {f}.lock_key(p_new->>{NewRun.key});
    v_now := {f}.begin_at(p_now, p_seen);
    select id, run_id, debounced_until into v_planned
    from {t}.runs
    where key = p_new->>{NewRun.key} and debounced_until is not null and ended_at is null
    for no key update;
    if not found then
        select p.input into v_input
        from {t}.runs as r join {t}.payloads as p on p.run = r.id where r.run_id = p_new->>{NewRun.run_id};
        if found then
            return {f}.answer(
                v_now, json_build_array(p_new->>{NewRun.run_id}, false, v_input <> {f}.unb64(p_new->>{NewRun.input}))::text
            );
        end if;
        perform {f}.insert_run(
            v_now, jsonb_set(p_new, '{{NewRun.delay}}', to_jsonb(least(p_quiet, p_max_wait))), {f}.offer(v_now, null),
            p_debounced_until => v_now + p_max_wait
        );
        return {f}.answer(v_now, json_build_array(p_new->>{NewRun.run_id}, true, false)::text);
    end if;
    if v_planned.run_id <> p_new->>{NewRun.run_id} then
        return {f}.answer(v_now, json_build_array(v_planned.run_id, false, true)::text);
    end if;
    update {t}.runs
    set definition = {f}.define(p_new->>{NewRun.workflow}, (p_new->>{NewRun.version})::bigint,
        (p_new->>{NewRun.priority})::bigint),
        wake_at = case when status <> 'paused' then least(v_now + p_quiet, v_planned.debounced_until) end
    where id = v_planned.id;
    update {t}.payloads set input = {f}.unb64(p_new->>{NewRun.input}) where run = v_planned.id;
    perform {f}.hint('ready', v_planned.run_id);
    return {f}.answer(v_now, json_build_array(v_planned.run_id, false, false)::text);
end $$;
