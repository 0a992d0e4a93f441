-- Pausing runs and workflows.

create function {f}.pause(p_now bigint, p_seen bigint, p_run_id text, p_by text, p_reason text, p_act text) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    r record;
begin
    if {f}.has_acted(p_run_id, p_act) then
        return {f}.answer({f}.begin_at(p_now, p_seen), 'true');
    end if;
    select id, status, owner, cause, hold into r from {t}.runs where run_id = p_run_id for no key update;
    v_now := {f}.begin_at(p_now, p_seen);
    if r.id is null or r.status not in ('pending', 'running', 'waiting', 'paused') or r.cause is not null
        or r.hold is not null
    then
        return {f}.answer(v_now, 'false');
    end if;
    update {t}.runs set hold = json_build_array(p_by, p_reason, v_now) where id = r.id;
    if r.owner is null then
        update {t}.runs set status = 'paused', wake_at = null where id = r.id;
        perform {f}.hint('ended', p_run_id);
    else
        perform {f}.close_head(r.id);
        perform {f}.hint('mail', p_run_id);
    end if;
    perform {f}.note(v_now, r.id, 'pause', p_by, r.status, p_reason, p_act);
    return {f}.answer(v_now, 'true');
end $$;

create function {f}.note_hold(
    p_now bigint, p_workflow text, p_verb text, p_by text, p_reason text, p_act text
) returns void language sql volatile as $$
    insert into {t}.audit (workflow, at, verb, by, before, after, reason, act)
    values (p_workflow, p_now, p_verb, p_by, '', '', p_reason, nullif(p_act, ''))
$$;

-- A claim in progress is not waited for: its worker learns of the pause from the hint or from `renew`.
create function {f}.pause_workflow(
    p_now bigint, p_seen bigint, p_workflow text, p_by text, p_reason text, p_act text
) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
begin
    if {f}.has_acted('', p_act) then
        return {f}.answer(v_now, 'true');
    end if;
    insert into {t}.holds (workflow, by, reason, at) values (coalesce(p_workflow, ''), p_by, p_reason, v_now)
    on conflict (workflow) do nothing;
    if not found then
        return {f}.answer(v_now, {f}.has_acted('', p_act)::text);  -- the same request may have been in progress
    end if;
    perform {f}.note_hold(v_now, coalesce(p_workflow, ''), 'pause', p_by, p_reason, p_act);
    perform {f}.hint('held', '');
    return {f}.answer(v_now, 'true');
end $$;

create function {f}.resume_workflow(p_now bigint, p_seen bigint, p_workflow text, p_by text, p_act text) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
begin
    if {f}.has_acted('', p_act) then
        return {f}.answer(v_now, 'true');
    end if;
    delete from {t}.holds where workflow = coalesce(p_workflow, '');
    if not found then
        return {f}.answer(v_now, {f}.has_acted('', p_act)::text);
    end if;
    perform {f}.note_hold(v_now, coalesce(p_workflow, ''), 'resume', p_by, '', p_act);
    perform {f}.hint('ready', '');
    return {f}.answer(v_now, 'true');
end $$;

create function {f}.read_holds() returns json language sql stable as $$
    select coalesce(
        json_agg(json_build_array(nullif(workflow, ''), json_build_array(by, reason, at)) order by workflow), '[]'
    )
    from {t}.holds
$$;

create function {f}.list_holds(p_now bigint, p_seen bigint) returns text language sql stable as $$
    select {f}.read_holds()::text
$$;

-- The latest acts (null: all), newest first.
create function {f}.list_hold_acts(p_now bigint, p_seen bigint, p_limit bigint) returns text language sql stable as $$
    select coalesce(
        json_agg(json_build_array(at, nullif(workflow, ''), verb, by, reason) order by id desc), '[]'
    )::text
    from (select * from {t}.audit where workflow is not null order by id desc limit p_limit) as acts
$$;

-- Pause the same workflows as in the source of a batch.
create function {f}.replace_holds(p_holds jsonb, p_acts jsonb) returns void language sql volatile as $$
    delete from {t}.holds;
    delete from {t}.audit where workflow is not null;
    insert into {t}.holds (workflow, by, reason, at)
    select coalesce(h->>{WorkflowHold.workflow}, ''), h->{WorkflowHold.hold}->>{Hold.by},
        h->{WorkflowHold.hold}->>{Hold.reason}, (h->{WorkflowHold.hold}->>{Hold.at})::bigint
        from jsonb_array_elements(p_holds) as h;
    insert into {t}.audit (workflow, at, verb, by, before, after, reason)
    select coalesce(a->>{HoldAct.workflow}, ''), (a->>{HoldAct.at})::bigint, a->>{HoldAct.verb}, a->>{HoldAct.by}, '', '',
        a->>{HoldAct.reason}
    from jsonb_array_elements(p_acts) with ordinality as x (a, place)
    order by place
$$;
