-- Cancelling runs, and notifying parents that a child has ended.

-- Make a planned (debounced) run due if it waits for this key, which is free now.
create function {f}.wake_debounced(p_now bigint, p_key text) returns void language plpgsql volatile as $$
declare
    v_run_id text;
begin
    if p_key is null then
        return;
    end if;
    for v_run_id in
        update {t}.runs
        set wake_at = p_now
        where key = p_key and debounced_until is not null and ended_at is null
            and wake_at > greatest(debounced_until, p_now)
        returning run_id
    loop
        perform {f}.hint('ready', v_run_id);
    end loop;
end $$;

-- Wake a parent that waits for this child, or notify its worker. The lock orders this with the parent's own commit: one
-- of the two sees what the other did.
create function {f}.notify_parent(p_now bigint, p_parent text, p_location bytea) returns void language plpgsql volatile as $$
declare
    v_parent record;
begin
    select id, status, owner into v_parent from {t}.runs where run_id = p_parent for no key update;
    if not found then
        return;
    end if;
    if v_parent.owner is not null then
        perform {f}.hint('mail', p_parent);
    elsif v_parent.status in ('waiting', 'compensating')
        and exists (select 1 from {t}.waits where run = v_parent.id and kind = 'child' and location = p_location)
    then
        perform {f}.wake(p_now, v_parent.id, p_parent);
    end if;
end $$;

-- Wake the runs that wait for the end of this run, or notify their workers. See `notify_parent` for the lock. Their
-- commits lock this run in turn when they store their wait: see `replace_waits`.
create function {f}.notify_watchers(p_now bigint, p_run_id text) returns void language plpgsql volatile as $$
declare
    v_run bigint;
    v_watcher record;
begin
    for v_run in select distinct run from {t}.waits where kind = 'run' and names[1] = p_run_id order by run loop
        select run_id, status, owner into v_watcher from {t}.runs where id = v_run for no key update;
        if v_watcher.owner is not null then
            perform {f}.hint('mail', v_watcher.run_id);
        elsif v_watcher.status in ('waiting', 'compensating')
            and exists (select 1 from {t}.waits where run = v_run and kind = 'run' and names[1] = p_run_id)
        then
            perform {f}.wake(p_now, v_run, v_watcher.run_id);
        end if;
    end loop;
end $$;

-- The run that continues a run now, locked against its end: the run itself if none does, or if it is not known.
create function {f}.find_last_of_chain(p_run_id text) returns text language plpgsql volatile as $$
declare
    r record;
    v_id text := p_run_id;
begin
    loop
        select status, successor into r from {t}.runs where run_id = v_id for share;
        if not found or r.status <> 'continued' then
            return v_id;
        end if;
        v_id := r.successor;
    end loop;
end $$;

-- Cancel one run. Returns whether it could still be cancelled. model/cancels.py has the same rules.
create function {f}.cancel_one(p_now bigint, p_run bigint, p_compensate boolean, p_reason text, p_announce jsonb)
returns boolean language plpgsql volatile as $$
declare
    r record;
begin
    select run_id, status, owner, cause, parent, parent_location, key, discards into strict r
    from {t}.runs where id = p_run for no key update;
    if r.status not in ('pending', 'running', 'waiting', 'paused') or r.status = 'paused' and r.cause is not null then
        return false;
    end if;
    if r.owner is not null then
        perform {f}.close_head(p_run);
        perform {f}.hint('mail', r.run_id);
    end if;
    if p_compensate and (
        r.owner is not null or exists (select 1 from {t}.entries where run = p_run and undo is not null)
    ) then
        update {t}.runs set status = 'cancelling', reason = p_reason, hold = null where id = p_run;
        -- Earlier stalls do not count against the rollback.
        update {t}.heads set stalls = 0 where run = p_run;
        if r.owner is null then
            perform {f}.wake(p_now, p_run, r.run_id);
        end if;
        return true;
    end if;
    -- The raised epoch fences a worker that is executing a turn.
    update {t}.runs
    set status = 'cancelled', reason = p_reason, epoch = epoch + 1, owner = null, wake_at = null, ended_at = p_now,
        hold = null
    where id = p_run;
    delete from {t}.waits where run = p_run;
    delete from {t}.cursors where run = p_run;
    perform {f}.wake_debounced(p_now, r.key);
    if r.discards then
        update {t}.signals set payload = null where run = p_run and payload is not null and refused is null;
    end if;
    perform {f}.give_back(p_now, p_run);
    perform {f}.close_with_run(p_run);
    if r.owner is null then  -- otherwise a worker that does not know of the cancel yet could restart a long step
        delete from {t}.progress where run = p_run;
    end if;
    perform {f}.hint('ended', r.run_id);
    perform {f}.notify_watchers(p_now, r.run_id);
    if r.parent is not null then
        perform {f}.notify_parent(p_now, r.parent, r.parent_location);
    end if;
    perform {f}.announce_end(p_now, p_run, p_announce);
    return true;
end $$;

-- Cancel a run and its attached descendants, root first. Does nothing if the root can no longer be cancelled. Returns
-- the cancelled runs.
create function {f}.cancel_family(p_now bigint, p_root bigint, p_compensate boolean, p_reason text, p_announce jsonb)
returns text[] language plpgsql volatile as $$
declare
    v_family bigint[] := array[p_root];
    v_changed text[];
    v_at int := 1;
    v_child record;
begin
    if not {f}.cancel_one(p_now, p_root, p_compensate, p_reason, p_announce) then
        return '{}';
    end if;
    select array[run_id] into v_changed from {t}.runs where id = p_root;
    while v_at <= cardinality(v_family) loop
        for v_child in
            select c.id, c.run_id
            from {t}.runs as c
            where c.parent = (select p.run_id from {t}.runs as p where p.id = v_family[v_at]) and (not c.detached or c.tied)
            order by c.id
        loop
            v_family := v_family || v_child.id;
            if {f}.cancel_one(p_now, v_child.id, p_compensate, p_reason, p_announce) then
                v_changed := v_changed || v_child.run_id;
            end if;
        end loop;
        v_at := v_at + 1;
    end loop;
    return v_changed;
end $$;

-- Cancel the children that end with this run, and their tied children.
create function {f}.cancel_tied(p_now bigint, p_run_id text, p_announce jsonb) returns void language plpgsql volatile as $$
declare
    v_child bigint;
begin
    for v_child in
        select id from {t}.runs where parent = p_run_id and tied and ended_at is null order by id
    loop
        perform {f}.cancel_family(p_now, v_child, true, 'its parent ended', p_announce);
    end loop;
end $$;
