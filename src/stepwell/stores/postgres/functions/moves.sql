-- Applies a commit's move to a run. The kind of a move is 'park', 'release', 'pause', 'rollback' or 'end'.

-- Reject an invalid move before anything is written. An owned run is running, cancelling or compensating.
create function {f}.check_move(p_status text, p_move jsonb) returns void language plpgsql immutable as $$
declare
    v_to text := p_move->>{End.status};
    v_allowed boolean;
begin
    if p_move->>{Move.kind} <> 'end' then
        return;
    end if;
    if v_to not in (
        'completed', 'failed', 'compensated', 'cancelled', 'continued', 'compensation_failed'
    ) then
        perform {f}.refuse_value(v_to || ' is no end');
    end if;
    if (v_to = 'continued') <> (p_move->{End.successor}->>{NewRun.run_id} is not null) then
        perform {f}.refuse_value('a run that continues has a successor, and no other has one');
    end if;
    v_allowed := case p_status
        when 'running' then v_to in ('completed', 'failed', 'cancelled', 'continued')
        when 'cancelling' then v_to = 'cancelled'
        when 'compensating' then v_to in ('compensated', 'cancelled', 'failed', 'compensation_failed', 'continued')
        else false
    end;
    if not v_allowed then
        raise exception using errcode = 'SW004', message = 'a run that is ' || p_status || ' cannot become ' || v_to;
    end if;
end $$;

-- Whether a stored wait is satisfied already, so that nothing is lost between the check and the move.
create function {f}.is_satisfied(p_run bigint, p_run_id text) returns boolean language sql stable as $$
    select exists (
        select 1
        from {t}.waits as w
        join {t}.signals as s on s.run = w.run
        where w.run = p_run and w.kind = 'signal' and s.payload is not null and s.refused is null
            and (cardinality(w.names) = 0 and left(s.name, 1) <> '~' or s.name = any (w.names))
    ) or exists (
        select 1
        from {t}.waits as w
        join {t}.runs as c on c.parent = p_run_id and c.parent_location = w.location
        where w.run = p_run and w.kind = 'child' and c.ended_at is not null and c.status <> 'continued'
    ) or exists (
        select 1
        from {t}.waits as w
        left join {t}.runs as c on c.run_id = w.names[1]
        where w.run = p_run and w.kind = 'run' and (c.id is null or c.ended_at is not null and c.status <> 'continued')
    ) or {f}.has_receiver(p_run)
$$;

create function {f}.end_run(p_now bigint, p_run bigint, c jsonb) returns void language plpgsql volatile as $$
declare
    r record;
    v_run_id text := c->>{Commit.run_id};
    v_status text := c->{Commit.move}->>{End.status};
    v_is_end boolean := c->{Commit.move}->>{End.status} <> 'compensation_failed';
    v_heir jsonb := c->{Commit.move}->{End.successor};
    v_heir_run bigint;
begin
    select parent, parent_location, detached, tied, case when replaced_by is null then key end as inherited_key, generation,
        coalesce(started_at, created_at) as began_at, discards, hold, key, dedup
    into strict r from {t}.runs where id = p_run;
    if v_heir->>{NewRun.run_id} is not null and exists (select 1 from {t}.runs where run_id = v_heir->>{NewRun.run_id}) then
        perform {f}.refuse_value('the successor''s id ' || (v_heir->>{NewRun.run_id}) || ' is taken');
    end if;
    update {t}.runs
    set status = v_status, ended_at = case when v_is_end then p_now end, owner = null, wake_at = null,
        successor = v_heir->>{NewRun.run_id}, hold = null
    where id = p_run;
    if c->{Commit.move}->>{End.output} is not null or c->{Commit.move}->>{End.failure} is not null then
        -- An end without a failure keeps the stored failure, which is the cause of a rollback.
        update {t}.payloads
        set output = {f}.unb64(c->{Commit.move}->>{End.output}),
            failure = coalesce({f}.unb64(c->{Commit.move}->>{End.failure}), failure)
        where run = p_run;
    end if;
    delete from {t}.waits where run = p_run;
    if v_status not in ('failed', 'compensation_failed') then
        delete from {t}.cursors where run = p_run;
    end if;
    if r.discards and v_status in ('completed', 'compensated', 'cancelled') then
        update {t}.signals set payload = null where run = p_run and payload is not null and refused is null;
    end if;
    perform {f}.close_with_run(p_run);
    perform {f}.hint('ended', v_run_id);
    perform {f}.announce_end(p_now, p_run, c->{Commit.announce});
    if v_is_end then
        perform {f}.cancel_tied(p_now, v_run_id, c->{Commit.announce});
    end if;
    if v_heir->>{NewRun.run_id} is not null then
        v_heir := jsonb_set(v_heir, '{{NewRun.dedup}}', to_jsonb(r.dedup));
        v_heir := jsonb_set(jsonb_set(v_heir, '{{NewRun.key}}', coalesce(to_jsonb(r.inherited_key), 'null')), '{{NewRun.parent}}',
            case
                when r.parent is null then 'null'
                else jsonb_build_array(r.parent, {f}.b64(r.parent_location), r.detached, r.tied)
            end
        );
        v_heir_run := (
            select made.run
            from {f}.insert_run(
                p_now, v_heir, {f}.offer(p_now, null), r.generation + 1, v_run_id, r.began_at
            ) as made
        );
        if jsonb_array_length(c->{Commit.move}->{End.entries}) > 0 then
            perform {f}.append_names(v_heir_run, c->{Commit.move}->{End.names});
            update {t}.heads
            set revision = 1, last_seq = {f}.append_entries(v_heir_run, v_heir->>{NewRun.run_id},
                c->{Commit.move}->{End.entries}, 0)
            where run = v_heir_run;
        end if;
        if r.hold is not null then
            update {t}.runs set status = 'paused', wake_at = null, hold = r.hold where id = v_heir_run;
            perform {f}.hint('ended', v_heir->>{NewRun.run_id});
        end if;
        update {t}.signals set run = v_heir_run where run = p_run and payload is not null and refused is null;
        update {t}.waits set names = array[v_heir->>{NewRun.run_id}] where kind = 'run' and names[1] = v_run_id;
        -- The successor has no waits at these locations.
        update {t}.receipts set run = v_heir_run, locations = '{}' where run = p_run;
        return;
    end if;
    if v_is_end then
        perform {f}.wake_debounced(p_now, r.key);
        perform {f}.give_back(p_now, p_run);
        perform {f}.notify_watchers(p_now, v_run_id);
        if r.parent is not null then
            perform {f}.notify_parent(p_now, r.parent, r.parent_location);
        end if;
    end if;
end $$;

-- Apply a move that is allowed. Returns whether the run waits and is due already.
create function {f}.move_run(p_now bigint, p_run bigint, c jsonb, p_deadline_at bigint, p_is_held boolean) returns boolean
language plpgsql volatile as $$
declare
    v_run_id text := c->>{Commit.run_id};
    m jsonb := c->{Commit.move};
    v_wake_at bigint;
begin
    case m->>{Move.kind}
        when 'end' then
            perform {f}.end_run(p_now, p_run, c);
        when 'park' then
            if p_is_held then
                update {t}.runs set status = 'paused', owner = null, wake_at = null where id = p_run;
                perform {f}.hint('ended', v_run_id);
                return false;
            end if;
            v_wake_at := least((m->>{Park.wake_at})::bigint, p_deadline_at);
            if (v_wake_at is null or v_wake_at > p_now) and {f}.is_satisfied(p_run, v_run_id) then
                v_wake_at := p_now;
            end if;
            update {t}.runs
            set status = case status when 'running' then 'waiting' else status end, owner = null, wake_at = v_wake_at
            where id = p_run;
            if v_wake_at is not null then
                perform {f}.hint('ready', v_run_id);
                return v_wake_at <= p_now;
            end if;
        when 'release' then
            perform {f}.free(p_now, p_run, v_run_id);
        when 'pause' then
            update {t}.runs set status = 'paused', owner = null, wake_at = null where id = p_run;
            update {t}.payloads set failure = {f}.unb64(m->>{Pause.failure}) where run = p_run;
            perform {f}.hint('ended', v_run_id);
        when 'rollback' then
            update {t}.runs
            set status = 'compensating', cause = m->>{BeginRollback.cause},
                undo_floor = (m->>{BeginRollback.undo_floor})::bigint, hold = null
            where id = p_run;
            update {t}.payloads set failure = {f}.unb64(m->>{BeginRollback.failure}) where run = p_run;
            delete from {t}.waits where run = p_run;
            perform {f}.close_with_run(p_run);
            perform {f}.cancel_tied(p_now, v_run_id, c->{Commit.announce});
    end case;
    return false;
end $$;
