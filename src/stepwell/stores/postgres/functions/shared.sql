-- {t} is the schema of the tables and {f} that of these functions. A function that the store calls takes the time of a
-- test's clock (null: the server's own) and the latest instant that its process has seen. It returns one JSON text: the
-- time, the result, and the hints. Values are arrays in the order of the model's fields, with bytes as base64;
-- composites.py gives their indexes names.
--
-- Locks are taken in one order, so that transitions rarely block each other: keys, then topics (both by name), then
-- runs by number, then records by number. The lock of the whole store (`enter`) is taken with the time, after the locks that a transition
-- begins with. A transition that closes the store takes it first, and otherwise locks only the runs of dead workers.
-- The server resolves remaining deadlocks, and the store repeats the call.

create function {f}.b64(p_bytes bytea) returns text language sql immutable strict parallel safe
return translate(encode(p_bytes, 'base64'), e'\n', '');

create function {f}.unb64(p_text text) returns bytea language sql immutable strict parallel safe
return decode(p_text, 'base64');

create function {f}.texts(p_list jsonb) returns text[] language sql immutable parallel safe
return array(select jsonb_array_elements_text(p_list));

-- Never behind an instant that the caller has seen, nor behind the floor, which live workers raise.
create function {f}.read_clock(p_now bigint, p_seen bigint) returns bigint language plpgsql volatile as $$
declare
    v_floor bigint := (select value from {t}.meta where name = 'floor');
    v_now bigint := greatest(coalesce(p_now, (extract(epoch from clock_timestamp()) * 1000000)::bigint), p_seen, v_floor);
begin
    -- A test's clock may be set back between any two calls.
    if p_now is not null and v_now > v_floor then
        update {t}.meta set value = v_now where name = 'floor' and value < v_now;
    end if;
    return v_now;
end $$;

-- Let a transition continue only if the store is open, and keep it open until the transition has ended: closing the
-- store takes the same lock exclusively, and waits. Transitions without `enter` are fenced too: plain commits
-- (`advance`, `advance_one`, `advance_known`) are for runs with an owner, and closing the store first frees every run,
-- for which it waits for each row that is being written. Only the floor of the clock can still rise.
create function {f}.enter() returns void language plpgsql volatile as $$
declare
    v_none text := pg_advisory_xact_lock_shared(1398034259, hashtext('{t}'))::text;
    v_values text;
    v_is_encrypted boolean;
    v_is_sealed boolean;
begin
    -- A transaction with a fixed snapshot would not see a seal that was set while it waited. It updates this row, which
    -- changes with every seal, so it conflicts and is repeated.
    if current_setting('transaction_isolation') <> 'read committed' then
        perform 1 from {t}.meta where name = 'seals' for share;
    end if;
    select m.value <> 0, s.id is not null into v_is_encrypted, v_is_sealed
    from {t}.meta as m left join {t}.seals as s on true
    where m.name = 'encrypted';
    if v_is_sealed then
        perform {f}.refuse_sealed();
    end if;
    -- What the caller declares of its values: "encrypted", "none", or nothing, which means plain.
    v_values := coalesce(current_setting('stepwell.values', true), '');
    if v_is_encrypted and v_values = '' then
        raise exception using errcode = 'SW011', message = 'the store takes encrypted values only';
    elsif not v_is_encrypted and v_values = 'encrypted' then
        perform {f}.mark_encrypted();
    end if;
end $$;

-- From the commit of this transaction on, the store accepts only encrypted values. Plain commits do not use `enter`, so
-- the plain commits of existing workers are rejected and take the general path; no worker that encrypts can be among
-- them yet. Transactions with a fixed snapshot conflict on the row of the seals.
create function {f}.mark_encrypted() returns void language plpgsql volatile as $$
begin
    update {t}.meta set value = 1 where name = 'encrypted';
    update {t}.meta set value = value + 1 where name = 'seals';
    update {t}.workers set writes_plain = true;
    perform {f}.close_head(id) from {t}.runs where owner is not null;
end $$;

create function {f}.refuse_sealed() returns void language plpgsql as $$
begin
    raise exception using errcode = 'SW006', message = 'the store is sealed',
        detail = (select json_build_array(transfer_id, kind, peer, at) from {t}.seals)::text;
end $$;

-- The time, for reads: nothing is stored.
create function {f}.peek_clock(p_now bigint, p_seen bigint) returns bigint language sql stable as $$
    select greatest(
        coalesce(p_now, (extract(epoch from clock_timestamp()) * 1000000)::bigint), p_seen,
        (select value from {t}.meta where name = 'floor')
    )
$$;

-- The beginning of every transition: check that the store is open, read the time, and clear the hints.
create function {f}.begin_at(p_now bigint, p_seen bigint) returns bigint language plpgsql volatile as $$
declare
    v_none text;
begin
    -- Assigned, not performed: an assignment is evaluated in place, `perform` is a query.
    v_none := {f}.enter()::text;
    v_none := set_config('stepwell.hints', '', true);
    return {f}.read_clock(p_now, p_seen);
end $$;

-- The beginning of an author's transaction.
create function {f}.begin_work(p_now bigint, p_seen bigint) returns text language plpgsql volatile as $$
begin
    return {f}.answer({f}.begin_at(p_now, p_seen), 'null');
end $$;

create function {f}.hint(p_kind text, p_run_id text) returns void language plpgsql volatile as $$
declare
    v_none text;
begin
    v_none := set_config(
        'stepwell.hints',
        current_setting('stepwell.hints') || '["' || p_kind || '",' || to_json(p_run_id)::text || '],',
        true
    );
end $$;

-- Do not send this hint after all.
create function {f}.unhint(p_kind text, p_run_id text) returns void language plpgsql volatile as $$
begin
    perform set_config(
        'stepwell.hints',
        replace(current_setting('stepwell.hints'), '["' || p_kind || '",' || to_json(p_run_id)::text || '],', ''),
        true
    );
end $$;

create function {f}.answer(p_now bigint, p_result text) returns text language sql volatile
return '[' || p_now || ',' || p_result || ',[' || rtrim(current_setting('stepwell.hints'), ',') || ']]';

-- The advisory locks of this library: a class for each kind of name.
create function {f}.lock_key(p_key text) returns void language sql volatile
begin atomic
    select pg_advisory_xact_lock(1398034251, hashtext(p_key));
end;

create function {f}.lock_topic(p_topic text) returns void language sql volatile
begin atomic
    select pg_advisory_xact_lock(1398034260, hashtext(p_topic));
end;

create function {f}.refuse_lease(p_incarnation text) returns void language plpgsql as $$
begin
    raise exception using errcode = 'SW001', message = 'lease lost', detail = coalesce(p_incarnation, '');
end $$;

create function {f}.refuse_value(p_text text) returns void language plpgsql as $$
begin
    raise exception using errcode = 'SW002', message = p_text;
end $$;

create function {f}.define(p_workflow text, p_version bigint, p_priority bigint) returns int language plpgsql volatile as $$
declare
    v_id int;
begin
    select id into v_id from {t}.definitions
    where workflow = p_workflow and version = p_version and priority = p_priority;
    if v_id is null then
        insert into {t}.definitions (workflow, version, priority) values (p_workflow, p_version, p_priority)
        on conflict do nothing returning id into v_id;
        if v_id is null then
            select id into strict v_id from {t}.definitions
            where workflow = p_workflow and version = p_version and priority = p_priority;
        end if;
    end if;
    return v_id;
end $$;

-- Whether a location is an undo, or is below one; see model.locations.is_undoing.
create function {f}.is_undoing(p_location bytea) returns boolean language plpgsql immutable as $$
declare
    v_at int := 0;
begin
    while v_at < length(p_location) loop
        if get_byte(p_location, v_at) & 240 = 64 then
            return true;
        end if;
        v_at := v_at + 1 + (get_byte(p_location, v_at) & 15);
    end loop;
    return false;
end $$;

-- A packed location in readable form; see model/locations.py.
create function {f}.spell(p_location bytea, p_names text[]) returns text language plpgsql immutable as $$
declare
    v_at int := 0;
    v_tag int;
    v_size int;
    v_number bigint;
    v_parts text[] := '{}';
    v_count int := 0;
    v_use text := '';  -- of the name that comes next
begin
    while v_at < length(p_location) loop
        v_tag := get_byte(p_location, v_at) & 240;
        v_size := get_byte(p_location, v_at) & 15;
        v_number := 0;
        for i in 1..v_size loop
            v_number := v_number * 256 + get_byte(p_location, v_at + i);
        end loop;
        v_at := v_at + 1 + v_size;
        case v_tag
            when 0 then v_use := '#' || v_number;
            when 16 then
                v_parts := v_parts || (p_names[v_number + 1] || v_use);
                v_use := '';
            when 32 then v_parts := v_parts || ('~' || v_number);
            when 48 then v_parts[v_count] := v_parts[v_count] || '#' || v_number;
            when 64 then
                if v_count = 0 then
                    v_parts := array['~undo'];
                else
                    v_parts[v_count] := v_parts[v_count] || '~undo';
                end if;
            when 80 then v_parts[v_count] := v_parts[v_count] || '~was' || v_number;
            when 112 then v_parts[v_count] := v_parts[v_count] || '~begun';
            when 96 then v_parts := v_parts || ('~run' || v_number);
            else perform {f}.refuse_value('location ' || encode(p_location, 'hex') || ' cannot be read');
        end case;
        v_count := cardinality(v_parts);
    end loop;
    return array_to_string(v_parts, '/');
end $$;

create function {f}.names_of(p_run bigint) returns text[] language sql stable as $$
    select array(select name from {t}.names where run = p_run order by number)
$$;

create function {f}.note(
    p_now bigint, p_run bigint, p_verb text, p_by text, p_before text, p_reason text, p_act text default ''
) returns void language sql volatile as $$
    insert into {t}.audit (run, at, verb, by, before, after, reason, act)
    select p_run, p_now, p_verb, p_by, p_before, r.status, p_reason, nullif(p_act, '') from {t}.runs as r where r.id = p_run
$$;

-- Whether a request was carried out before. Waits for the same request if it is in progress for the same run.
create function {f}.has_acted(p_run_id text, p_act text) returns boolean language plpgsql volatile as $$
begin
    if p_act = '' then
        return false;
    end if;
    perform 1 from {t}.runs where run_id = p_run_id for no key update;
    return exists (select 1 from {t}.audit where act = p_act);
end $$;

-- Notify other processes of possible changes. Nothing depends on it, so the commit does not wait for the disk.
create function {f}.notify(p_now bigint, p_seen bigint, p_channel text, p_payloads jsonb) returns text
language plpgsql volatile as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    perform pg_notify(p_channel, payload) from jsonb_array_elements_text(p_payloads) as payload;
    return 'null';
end $$;
