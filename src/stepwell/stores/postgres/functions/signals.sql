-- Delivers signals to runs.

-- The active run for a target, locked, and whether the target is the id of a run at all.
create function {f}.find_target(p_target text, out run bigint, out run_id text, out status text, out owner bigint,
    out is_known_id boolean
) language plpgsql volatile as $$
declare
    r record;
    v_id text := p_target;
begin
    loop
        select t.id, t.run_id, t.status, t.owner, t.successor, t.ended_at into r
        from {t}.runs as t where t.run_id = v_id for no key update;
        exit when not found or r.status <> 'continued';
        v_id := r.successor;
    end loop;
    is_known_id := r.id is not null or v_id <> p_target;
    if not is_known_id then
        select t.id, t.run_id, t.status, t.owner, t.successor, t.ended_at into r
        from {t}.runs as t where t.id = {f}.find_active(p_target) for no key update;
        -- While this waited for the lock, the run may have ended or lost the key; then another run may have the key.
        while r.id is not null and r.id is distinct from {f}.find_active(p_target) loop
            select t.id, t.run_id, t.status, t.owner, t.successor, t.ended_at into r
            from {t}.runs as t where t.id = {f}.find_active(p_target) for no key update;
        end loop;
    end if;
    if r.id is not null and r.ended_at is null then
        run := r.id;
        run_id := r.run_id;
        status := r.status;
        owner := r.owner;
    end if;
end $$;

create function {f}.insert_signal(p_now bigint, p_new jsonb, p_run bigint, p_key text) returns void
language sql volatile as $$
    insert into {t}.signals (signal_id, run, key, name, dedup_key, payload, sent_at, asks)
    values (
        p_new->>{NewSignal.signal_id}, p_run, p_key, p_new->>{NewSignal.name}, p_new->>{NewSignal.dedup_key},
        {f}.unb64(p_new->>{NewSignal.payload}), p_now, (p_new->>{NewSignal.asks})::boolean
    )
$$;

-- How many signals there are for a run or a key, up to the limit of the sender; null without a limit.
create function {f}.count_signals(p_new jsonb, p_run bigint, p_key text) returns bigint language plpgsql stable as $$
declare
    v_max bigint := (p_new->>{NewSignal.pending_max})::bigint;
begin
    if v_max is null then
        return null;
    elsif p_run is not null then
        return (
            select count(*) from (select 1 from {t}.signals where run = p_run and payload is not null limit v_max) as s
        );
    end if;
    return (select count(*) from (select 1 from {t}.signals where key = p_key limit v_max) as s);
end $$;

create function {f}.hold_signal(p_now bigint, p_new jsonb, p_key text, out held text, out pending bigint)
language plpgsql volatile as $$
begin
    pending := 0;
    if p_new->>{NewSignal.dedup_key} is not null and exists (
        select 1 from {t}.signals where key = p_key and name = p_new->>{NewSignal.name}
            and dedup_key = p_new->>{NewSignal.dedup_key}
    ) then
        held := 'duplicate';
        return;
    end if;
    pending := {f}.count_signals(p_new, null, p_key);
    if pending >= (p_new->>{NewSignal.pending_max})::bigint then
        held := 'full';
        return;
    end if;
    pending := coalesce(pending + 1, 0);
    perform {f}.insert_signal(p_now, p_new, null, p_key);
    held := 'held';
end $$;

-- Wake a run that just got a signal, if it waits for this signal.
create function {f}.notify_run(p_now bigint, p_run bigint, p_run_id text, p_status text, p_owner bigint, p_name text)
returns boolean language plpgsql volatile as $$
begin
    if p_owner is not null then
        perform {f}.hint('mail', p_run_id);
        return false;
    end if;
    if p_status not in ('waiting', 'compensating') or not exists (
        select 1 from {t}.waits
        where run = p_run and kind = 'signal' and (cardinality(names) = 0 and left(p_name, 1) <> '~' or p_name = any (names))
    ) then
        return false;
    end if;
    perform {f}.wake(p_now, p_run, p_run_id);
    return true;
end $$;

-- The newest run with the target's id or key that knows the dedup key.
create function {f}.find_ended_duplicate(p_new jsonb) returns text language plpgsql stable as $$
begin
    if p_new->>{NewSignal.dedup_key} is null then
        return null;
    end if;
    return (
        with recursive meant as (
            select id, run_id, successor from {t}.runs where run_id = p_new->>{NewSignal.target}
                or key = p_new->>{NewSignal.target}
            union
            select r.id, r.run_id, r.successor from meant as m join {t}.runs as r on r.run_id = m.successor
        )
        select m.run_id
        from meant as m
        where exists (select 1 from {t}.signals as s where s.run = m.id and s.name = p_new->>{NewSignal.name}
            and s.dedup_key = p_new->>{NewSignal.dedup_key})
        order by m.id desc
        limit 1
    );
end $$;

create function {f}.deliver_one(p_now bigint, p_new jsonb, inout woken bigint[], out delivered json)
language plpgsql volatile as $$
declare
    v_known text;
    v record;
    v_woke boolean;
    v_pending bigint;
begin
    select r.run_id into v_known
    from {t}.signals as s left join {t}.runs as r on r.id = s.run where s.signal_id = p_new->>{NewSignal.signal_id};
    if found then
        delivered := json_build_array('duplicate', v_known, false);
        return;
    end if;
    select * into v from {f}.find_target(p_new->>{NewSignal.target});
    if v.run is null then
        if not v.is_known_id and (p_new->>{NewSignal.hold})::boolean then
            select json_build_array(h.held, null, false, h.pending) into delivered
            from {f}.hold_signal(p_now, p_new, p_new->>{NewSignal.target}) as h;
            return;
        end if;
        v_known := {f}.find_ended_duplicate(p_new);
        delivered := json_build_array(case when v_known is null then 'missing' else 'duplicate' end, v_known, false);
        return;
    end if;
    if p_new->>{NewSignal.dedup_key} is not null and exists (
        select 1 from {t}.signals where run = v.run and name = p_new->>{NewSignal.name}
            and dedup_key = p_new->>{NewSignal.dedup_key}
    ) then
        delivered := json_build_array('duplicate', v.run_id, false);
        return;
    end if;
    v_pending := {f}.count_signals(p_new, v.run, null);
    if v_pending >= (p_new->>{NewSignal.pending_max})::bigint then
        delivered := json_build_array('full', v.run_id, false, v_pending);
        return;
    end if;
    perform {f}.insert_signal(p_now, p_new, v.run, null);
    v_woke := {f}.notify_run(p_now, v.run, v.run_id, v.status, v.owner, p_new->>{NewSignal.name});
    if v_woke and not v.run = any (woken) then
        woken := woken || v.run;
    end if;
    delivered := json_build_array('delivered', v.run_id, v_woke, coalesce(v_pending + 1, 0));
end $$;

create function {f}.deliver_all(p_now bigint, p_signals jsonb, p_claimant jsonb) returns text
language plpgsql volatile as $$
declare
    v_new jsonb;
    v_made record;
    v_delivered text[] := '{}';
    v_woken bigint[] := '{}';
begin
    for v_new in select one from jsonb_array_elements(p_signals) as one loop
        select * into v_made from {f}.deliver_one(p_now, v_new, v_woken);
        v_woken := v_made.woken;
        v_delivered := v_delivered || v_made.delivered::text;
    end loop;
    return '[[' || array_to_string(v_delivered, ',') || '],' || {f}.take_woken(p_now, v_woken, p_claimant) || ']';
end $$;

-- The target is locked as a key only if the signal may have to be held; otherwise the row of the run is enough.
create function {f}.deliver(p_now bigint, p_seen bigint, p_signals jsonb, p_claimant jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    v_key text;
    v_answer text;
begin
    if jsonb_array_length(p_signals) = 1 and not (p_signals->0->>{NewSignal.hold})::boolean then
        v_now := {f}.begin_at(p_now, p_seen);
        v_answer := {f}.deliver_single(v_now, p_signals->0, p_claimant);
        return {f}.answer(v_now, coalesce(v_answer, {f}.deliver_all(v_now, p_signals, p_claimant)));
    end if;
    for v_key in
        select distinct one->>{NewSignal.target} from jsonb_array_elements(p_signals) as one
            where (one->>{NewSignal.hold})::boolean order by 1
    loop
        perform {f}.lock_key(v_key);
    end loop;
    if jsonb_array_length(p_signals) > 1 then
        perform 1
        from {t}.runs
        where run_id in (select one->>{NewSignal.target} from jsonb_array_elements(p_signals) as one)
        order by id
        for no key update;
    end if;
    v_now := {f}.begin_at(p_now, p_seen);
    return {f}.answer(v_now, {f}.deliver_all(v_now, p_signals, p_claimant));
end $$;

-- Deliver to the active run of a key, or create it. The signal is held first: a new run takes over held signals.
create function {f}.deliver_or_create(p_now bigint, p_seen bigint, p_signal jsonb, p_new jsonb, p_claimant jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    v_known text;
    v record;
    v_answer jsonb;
    v_held record;
    v_made record;
begin
    perform {f}.lock_key(p_new->>{NewRun.key});
    v_now := {f}.begin_at(p_now, p_seen);
    select r.run_id into v_known
    from {t}.signals as s left join {t}.runs as r on r.id = s.run where s.signal_id = p_signal->>{NewSignal.signal_id};
    if found then
        return {f}.answer(v_now, json_build_array(
            json_build_array(v_known, v_known is not distinct from p_new->>{NewRun.run_id}, true, false, null, null),
            json_build_array('duplicate', v_known, false), '[]'::json
        )::text);
    end if;
    select r.id, r.run_id, p.input into v
    from {t}.runs as r join {t}.payloads as p on p.run = r.id
    where r.id = {f}.find_active(p_new->>{NewRun.key})
    for no key update of r;
    if v.id is not null and v.id is distinct from {f}.find_active(p_new->>{NewRun.key}) then
        v.id := null;  -- it ended while this waited; no other run can have taken the key since
    end if;
    if v.id is not null then
        v_answer := {f}.deliver_all(v_now, jsonb_build_array(jsonb_set(p_signal, '{{NewSignal.target}}',
            p_new->{NewRun.key})), p_claimant)::jsonb;
        return {f}.answer(v_now, json_build_array(
            json_build_array(
                v.run_id, v.run_id = p_new->>{NewRun.run_id}, v.input = {f}.unb64(p_new->>{NewRun.input}), false, null, null
            ),
            v_answer->{DeliverResult.delivered}->0, v_answer->{DeliverResult.claimed}
        )::text);
    end if;
    v_known := {f}.find_ended_duplicate(jsonb_set(p_signal, '{{NewSignal.target}}', p_new->{NewRun.key}));
    if v_known is not null then
        return {f}.answer(v_now, json_build_array(
            json_build_array(
                v_known, false,
                (
                    select p.input = {f}.unb64(p_new->>{NewRun.input})
                    from {t}.runs as r join {t}.payloads as p on p.run = r.id
                    where r.run_id = v_known
                ),
                false, null, null
            ),
            json_build_array('duplicate', v_known, false), '[]'::json
        )::text);
    end if;
    select * into v_held from {f}.hold_signal(v_now, p_signal, p_new->>{NewRun.key});
    if v_held.held = 'full' then
        return {f}.answer(v_now, json_build_array(
            json_build_array(p_new->>{NewRun.run_id}, false, true, false, null, null),
            json_build_array('full', null, false, v_held.pending), '[]'::json
        )::text);
    end if;
    select * into v_made
    from {f}.create_one(v_now, p_new, {f}.offer(v_now, p_claimant), array[p_new->>{NewRun.run_id}]);
    perform {f}.settle_records(v_now);
    return {f}.answer(v_now, json_build_array(
        v_made.created,
        json_build_array(
            case v_held.held when 'held' then 'delivered' else v_held.held end, v_made.created->>{Created.run_id}, false,
            v_held.pending
        ),
        case when v_made.created->>{Created.claimed} is null
            then '[]'::json else json_build_array(v_made.created->{Created.claimed}) end
    )::text);
end $$;

-- Move undelivered signals to runs that may read them.
create function {f}.redeliver(p_now bigint, p_seen bigint, p_letters jsonb, p_claimant jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_letter jsonb;
    v_stray record;
    v record;
    v_woke boolean;
    v_delivered text[] := '{}';
    v_woken bigint[] := '{}';
    v_number bigint;
begin
    for v_letter in select one from jsonb_array_elements(p_letters) as one loop
        v_number := (v_letter->>{Redelivery.number})::bigint;
        select * into v from {f}.find_target(v_letter->>{Redelivery.target});
        -- A signal that no run will read: held, refused, or left by an ended run.
        select s.name, s.dedup_key into v_stray
        from {t}.signals as s
        left join {t}.runs as r on r.id = s.run
        where s.number = v_number and s.payload is not null and (
            s.key is not null or s.refused is not null or (r.ended_at is not null and r.status <> 'continued')
        )
        for update of s;
        if not found or v.run is null then
            v_delivered := v_delivered || '["missing",null,false]'::text;
            continue;
        end if;
        if v_stray.dedup_key is not null and exists (
            select 1 from {t}.signals
            where run = v.run and name = v_stray.name and dedup_key = v_stray.dedup_key and number <> v_number
        ) then
            update {t}.signals set run = v.run, key = null, dedup_key = null, payload = null where number = v_number;
            v_delivered := v_delivered || json_build_array('duplicate', v.run_id, false)::text;
            continue;
        end if;
        -- A new number: a running run has passed the old numbers already.
        update {t}.signals
        set number = nextval(pg_get_serial_sequence('{t}.signals', 'number')), run = v.run, key = null, refused = null,
            payload = {f}.unb64(v_letter->>{Redelivery.payload})
        where number = v_number;
        v_woke := {f}.notify_run(v_now, v.run, v.run_id, v.status, v.owner, v_stray.name);
        if v_woke and not v.run = any (v_woken) then
            v_woken := v_woken || v.run;
        end if;
        v_delivered := v_delivered || json_build_array('delivered', v.run_id, v_woke)::text;
    end loop;
    return {f}.answer(
        v_now, '[[' || array_to_string(v_delivered, ',') || '],' || {f}.take_woken(v_now, v_woken, p_claimant) || ']'
    );
end $$;

-- Drop a signal that a run refused, or that an ended run did not read. Its ids stay known.
create function {f}.drop_signal(p_now bigint, p_seen bigint, p_number bigint, p_by text, p_reason text) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v record;
begin
    perform 1 from {t}.runs as r where r.id = (select run from {t}.signals where number = p_number) for no key update;
    select s.run, s.name, r.status into v
    from {t}.signals as s join {t}.runs as r on r.id = s.run
    where s.number = p_number and s.payload is not null and (s.refused is not null or r.ended_at is not null)
    for update of s;
    if not found then
        return {f}.answer(v_now, 'false');
    end if;
    update {t}.signals set payload = null where number = p_number;
    perform {f}.note(
        v_now, v.run, 'drop_signal', p_by, v.status, v.name || case when p_reason <> '' then ': ' || p_reason else '' end
    );
    return {f}.answer(v_now, 'true');
end $$;
