-- Operators' acts on runs; each writes an audit row.

create function {f}.cancel(
    p_now bigint, p_seen bigint, p_run_id text, p_compensate boolean, p_reason text, p_by text, p_announce jsonb,
    p_act text
) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    v_run bigint;
    v_before text;
    v_changed text[];
begin
    if {f}.has_acted(p_run_id, p_act) then
        return {f}.answer({f}.begin_at(p_now, p_seen), '[true]');
    end if;
    select id, status into v_run, v_before from {t}.runs where run_id = p_run_id for no key update;
    v_now := {f}.begin_at(p_now, p_seen);
    if v_run is null then
        raise exception using errcode = 'SW005', message = 'no such run', detail = p_run_id;
    end if;
    v_changed := {f}.cancel_family(v_now, v_run, p_compensate, p_reason, p_announce);
    if cardinality(v_changed) > 0 then
        perform {f}.note(v_now, v_run, 'cancel', p_by, v_before, p_reason, p_act);
    end if;
    perform {f}.settle_records(v_now);
    return {f}.answer(v_now, json_build_array(cardinality(v_changed) > 0, v_changed)::text);
end $$;

create function {f}.resume(
    p_now bigint, p_seen bigint, p_run_id text, p_by text, p_even_if_held boolean, p_act text
) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    r record;
begin
    if {f}.has_acted(p_run_id, p_act) then
        return {f}.answer({f}.begin_at(p_now, p_seen), 'true');
    end if;
    select id, status, cause into r
    from {t}.runs
    where run_id = p_run_id and (status = 'paused' or status = 'running' and hold is not null)
        and (hold is null or p_even_if_held)
    for no key update;
    v_now := {f}.begin_at(p_now, p_seen);
    if r.id is null then
        return {f}.answer(v_now, 'false');
    end if;
    if r.status = 'running' then
        -- The owner has not released it yet, so it keeps the run.
        update {t}.runs set hold = null where id = r.id;
        perform {f}.note(v_now, r.id, 'resume', p_by, 'running', '', p_act);
        return {f}.answer(v_now, 'true');
    end if;
    update {t}.runs
    set status = case when r.cause is null then 'pending' else 'compensating' end, hold = null,
        wake_at = greatest(v_now, debounced_until)  -- a planned run must not begin before its quiet time has passed
    where id = r.id;
    update {t}.heads set stalls = 0 where run = r.id;
    if r.cause is null then
        update {t}.payloads set failure = null where run = r.id;
    end if;
    perform {f}.note(v_now, r.id, 'resume', p_by, 'paused', '', p_act);
    perform {f}.hint('ready', p_run_id);
    return {f}.answer(v_now, 'true');
end $$;

-- Whether a failure, or one of its causes, happened at a path or below it. A child's own failure (SW454) contains the
-- child's paths.
create function {f}.concerns(p_failure json, p_path text) returns boolean language plpgsql immutable as $$
begin
    return starts_with(coalesce(p_failure->>'path', '') || '/', p_path || '/')
        or coalesce(p_failure->>'code', '') <> 'SW454' and exists (
            select 1
            from json_each(coalesce(p_failure->'causes', '{}')) as cause
            where {f}.concerns(cause.value, p_path)
        );
end $$;

-- Delete the failed entries that made a run fail, or its rollback stop. Returns their locations. See
-- model.amendments.loosened.
create function {f}.forget_failed(p_run bigint, p_is_rollback boolean) returns bytea[] language plpgsql volatile as $$
declare
    v_failure json;
    v_names text[];
    v_failed_at bytea[];
    v_first bigint;
    v_last bigint;
begin
    select convert_from(failure, 'utf8')::json into v_failure from {t}.payloads where run = p_run;
    if v_failure is null then
        return '{}';
    end if;
    v_names := {f}.names_of(p_run);
    with forgotten as (
        delete from {t}.entries
        where run = p_run and status = 'f' and {f}.is_undoing(location) = p_is_rollback
            and {f}.concerns(v_failure, {f}.spell(location, v_names))
        returning location, seq
    )
    select coalesce(array_agg(location), '{}'), min(seq) into v_failed_at, v_first from forgotten;
    select max(seq) into v_last from {t}.entries where run = p_run and seq > v_first;
    if v_last is not null then
        update {t}.runs set loose = (loose::jsonb || jsonb_build_array(jsonb_build_array(v_first, v_last)))::json
        where id = p_run;
    end if;
    return v_failed_at;
end $$;

-- Let a failed run repeat what failed, and retry a failed child at the same place.
create function {f}.retry_one(p_now bigint, p_run_id text, p_by text, p_act text default '') returns boolean
language plpgsql volatile as $$
declare
    r record;
    v_failed_at bytea[];
begin
    select id, key into r from {t}.runs where run_id = p_run_id and status = 'failed' for no key update;
    if not found then
        return false;
    end if;
    if r.key is not null then
        perform {f}.lock_key(r.key);
        if {f}.find_active(r.key) is not null then
            return false;
        end if;
    end if;
    v_failed_at := {f}.forget_failed(r.id, false);
    update {t}.runs
    set status = 'pending', ended_at = null, cause = null, undo_floor = 0, wake_at = p_now,
        retried_at = greatest(p_now, (select max(at) from {t}.attempts where run = r.id)),
        deadline_at = case when deadline_at > p_now then deadline_at end
    where id = r.id;
    update {t}.heads set stalls = 0 where run = r.id;
    update {t}.payloads set failure = null where run = r.id;
    if r.key is not null then
        perform {f}.take_over_held(r.id, r.key);
    end if;
    perform {f}.note(p_now, r.id, 'retry', p_by, 'failed', '', p_act);
    perform {f}.hint('ready', p_run_id);
    perform {f}.retry_children(p_now, p_run_id, v_failed_at, p_by);
    return true;
end $$;

-- Retry the failed children at these locations.
create function {f}.retry_children(p_now bigint, p_run_id text, p_failed_at bytea[], p_by text) returns void
language plpgsql volatile as $$
declare
    v_child text;
begin
    for v_child in
        select run_id from {t}.runs
        where parent = p_run_id and status = 'failed' and parent_location = any (p_failed_at)
        order by id
    loop
        perform {f}.retry_one(p_now, v_child, p_by);
    end loop;
end $$;

-- Record that a person has undone the effect of the step at a location; false if nothing is to be undone there.
create function {f}.append_undo(p_now bigint, p_run bigint, p_location bytea) returns boolean
language plpgsql volatile as $$
declare
    v_undo bytea := p_location || '\x40'::bytea;
    v_seq bigint;
begin
    if not exists (select 1 from {t}.entries where run = p_run and location = p_location and undo is not null)
        or exists (select 1 from {t}.entries where run = p_run and location = v_undo)
    then
        return false;
    end if;
    update {t}.heads set last_seq = last_seq + 1, revision = revision + 1 where run = p_run returning last_seq into v_seq;
    insert into {t}.entries (run, {Entry.*}) values (p_run, v_seq, v_undo, 'u', 'd', 'jnull'::bytea, p_now, 0, 0, null, null);
    return true;
end $$;

-- Continue a rollback that stopped, and run the failed part of its compensation again, or count it as undone.
create function {f}.resume_rollback(
    p_now bigint, p_seen bigint, p_run_id text, p_by text, p_act text, p_undone text, p_reason text
) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    v_run bigint;
    v_failed_at bytea[];
begin
    if {f}.has_acted(p_run_id, p_act) then
        return {f}.answer({f}.begin_at(p_now, p_seen), 'true');
    end if;
    select id into v_run from {t}.runs where run_id = p_run_id and status = 'compensation_failed' for no key update;
    v_now := {f}.begin_at(p_now, p_seen);
    if v_run is null or p_undone is not null and not {f}.append_undo(v_now, v_run, {f}.unb64(p_undone)) then
        return {f}.answer(v_now, 'false');
    end if;
    v_failed_at := {f}.forget_failed(v_run, true);
    update {t}.runs
    set status = 'compensating', wake_at = v_now,
        retried_at = greatest(v_now, (select max(at) from {t}.attempts where run = v_run))
    where id = v_run;
    perform {f}.note(
        v_now, v_run, case when p_undone is null then 'resume_rollback' else 'mark_undone' end, p_by,
        'compensation_failed', p_reason, p_act
    );
    perform {f}.hint('ready', p_run_id);
    perform {f}.retry_children(v_now, p_run_id, v_failed_at, p_by);
    return {f}.answer(v_now, 'true');
end $$;

create function {f}.retry(p_now bigint, p_seen bigint, p_run_id text, p_by text, p_act text) returns text
language plpgsql volatile as $$
declare
    v_has_acted boolean := {f}.has_acted(p_run_id, p_act);
    v_now bigint := {f}.begin_at(p_now, p_seen);
begin
    return {f}.answer(v_now, (v_has_acted or {f}.retry_one(v_now, p_run_id, p_by, p_act))::text);
end $$;
