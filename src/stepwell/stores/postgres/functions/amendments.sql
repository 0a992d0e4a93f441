-- Repairs: amendments of a run's history, and forks.

-- Move a child to a location where its parent does not look, and cancel it.
create function {f}.drop_child(p_now bigint, p_child jsonb, p_announce jsonb) returns void language plpgsql volatile as $$
declare
    c record;
begin
    select id, detached, ended_at, key into c
    from {t}.runs where run_id = p_child->>{Dropped.run_id} and parent is not null for no key update;
    if not found then
        return;
    end if;
    update {t}.runs set parent_location = {f}.unb64(p_child->>{Dropped.location}) where id = c.id;
    if c.ended_at is not null or c.detached then
        return;
    end if;
    if c.key is not null and p_child->>{Dropped.successor} is not null then
        update {t}.runs set replaced_by = p_child->>{Dropped.successor} where id = c.id;
    end if;
    perform {f}.cancel_family(p_now, c.id, true, 'its parent was rewound', p_announce);
end $$;

-- Change the recorded history of the run, except its waits.
create function {f}.rewrite(p_run bigint, a jsonb) returns void language plpgsql volatile as $$
begin
    perform {f}.append_names(p_run, a->{Amendment.names});
    delete from {t}.entries
    where run = p_run and location in (select {f}.unb64(l) from jsonb_array_elements_text(a->{Amendment.forgotten}) as l);
    delete from {t}.cursors
    where run = p_run and location in (select {f}.unb64(l) from jsonb_array_elements_text(a->{Amendment.ended_cursors}) as l);
    delete from {t}.progress
    where run = p_run and location in (select {f}.unb64(l) from jsonb_array_elements_text(a->{Amendment.ended_progress}) as l);
    insert into {t}.attempts (run, location, number, at, failure, next_at)
    -- A statement can write a row only once: of several outcomes of an attempt, the last one counts.
    select distinct on (one->>{Attempt.location}, one->{Attempt.number})
        p_run, {Attempt.* from one}
    from jsonb_array_elements(a->{Amendment.attempts}) with ordinality as x (one, place)
    order by one->>{Attempt.location}, one->{Attempt.number}, place desc
    on conflict (run, location, number) do update
    set at = excluded.at, failure = excluded.failure, next_at = excluded.next_at;
end $$;

create function {f}.amend(p_now bigint, p_seen bigint, a jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    v_key text;
    r record;
    v_topic text;
    v_last bigint;
    v_one jsonb;
    v_revives boolean;
begin
    select key into v_key from {t}.runs where run_id = a->>{Amendment.run_id};
    if not found then
        v_now := {f}.begin_at(p_now, p_seen);
        raise exception using errcode = 'SW005', message = 'no such run', detail = a->>{Amendment.run_id};
    end if;
    if v_key is not null then
        perform {f}.lock_key(v_key);
    end if;
    for v_topic in
        select distinct w->{Wait.names}->>0 from jsonb_array_elements(a->{Amendment.waits}) as w
            where w->>{Wait.kind} = 'topic' order by 1
    loop
        perform {f}.lock_topic(v_topic);
    end loop;
    select run.id, run.status, run.epoch, h.revision, h.last_seq, run.amendment, d.workflow, d.priority into r
    from {t}.runs as run
    join {t}.heads as h on h.run = run.id
    join {t}.definitions as d on d.id = run.definition
    where run.run_id = a->>{Amendment.run_id}
    for no key update of run, h;
    v_now := {f}.begin_at(p_now, p_seen);
    if r.amendment = a->>{Amendment.amendment_id} then
        return {f}.answer(v_now, '"applied"');
    end if;
    if r.status <> a->>{Amendment.status} or r.epoch <> (a->>{Amendment.epoch})::bigint
        or r.revision <> (a->>{Amendment.revision})::bigint
        or r.status not in ('pending', 'waiting', 'paused', 'failed')
    then
        return {f}.answer(v_now, '"stale"');
    end if;
    v_revives := r.status = 'failed' and v_key is not null;
    if v_revives and {f}.find_active(v_key) is not null then
        return {f}.answer(v_now, '"key_taken"');
    end if;
    -- A dropped child that has continued as a run that the plan does not know: that run would keep the child's place in the
    -- parent, and its key. The lock keeps the children as they are until they are dropped.
    perform 1
    from {t}.runs
    where run_id in (select one->>{Dropped.run_id} from jsonb_array_elements(a->{Amendment.children}) as one)
    order by id for no key update;
    if exists (
        select 1
        from jsonb_array_elements(a->{Amendment.children}) as one
        join {t}.runs as c on c.run_id = one->>{Dropped.run_id}
        where c.successor is not null
            and not exists (
                select 1 from jsonb_array_elements(a->{Amendment.children}) as other
                where other->>{Dropped.run_id} = c.successor
            )
    ) then
        return {f}.answer(v_now, '"stale"');
    end if;
    perform {f}.rewrite(r.id, a);
    v_last := {f}.append_entries(r.id, a->>{Amendment.run_id}, a->{Amendment.entries}, r.last_seq);
    for v_one in select one from jsonb_array_elements(a->{Amendment.consumed}) as one loop
        update {t}.signals set payload = null
        where number = v_one::bigint and run = r.id and payload is not null and refused is null;
        if not found then
            perform {f}.refuse_value('run ' || (a->>{Amendment.run_id}) || ' has no pending signal ' || v_one);
        end if;
    end loop;
    for v_one in select one from jsonb_array_elements(a->{Amendment.children}) as one loop
        perform {f}.drop_child(v_now, v_one, a->{Amendment.announce});
    end loop;
    for v_one in select one from jsonb_array_elements(a->{Amendment.retries}) as one loop
        perform {f}.retry_one(v_now, v_one#>>'{}', a->>{Amendment.by});
    end loop;
    perform {f}.replace_waits(v_now, r.id, a->>{Amendment.run_id}, a->{Amendment.waits});
    update {t}.runs
    set status = 'pending', epoch = epoch + 1, ended_at = null, cause = null, undo_floor = 0,
        retried_at = case
            when a->>{Amendment.wake_at} is null
                then greatest(v_now, (select max(at) from {t}.attempts where run = r.id))
            else retried_at
        end,
        wake_at = coalesce((a->>{Amendment.wake_at})::bigint, v_now), hold = null,
        amendment = a->>{Amendment.amendment_id}, loose = (a->{Amendment.loose})::json,
        deadline_at = case when deadline_at > v_now then deadline_at end,
        definition = case
            when a->>{Amendment.version} is null then definition else {f}.define(r.workflow,
                (a->>{Amendment.version})::bigint, r.priority)
        end
    where id = r.id;
    update {t}.heads set revision = revision + 1, last_seq = v_last, stalls = 0 where run = r.id;
    update {t}.payloads set failure = null, input = coalesce({f}.unb64(a->>{Amendment.input}), input) where run = r.id;
    if v_revives then
        perform {f}.take_over_held(r.id, v_key);
    end if;
    perform {f}.note(v_now, r.id, a->>{Amendment.verb}, a->>{Amendment.by}, r.status, a->>{Amendment.reason});
    perform {f}.hint('ready', a->>{Amendment.run_id});
    perform {f}.close_unused(r.id);
    perform {f}.settle_records(v_now);
    return {f}.answer(v_now, '"applied"');
end $$;

create function {f}.fork(p_now bigint, p_seen bigint, p_fork jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    r record;
    v_is_known boolean;
    v_made record;
    v_run bigint;
begin
    if p_fork->{Fork.new}->>{NewRun.key} is not null then
        perform {f}.lock_key(p_fork->{Fork.new}->>{NewRun.key});
    end if;
    select run.id, run.status, run.epoch, h.revision into r
    from {t}.runs as run
    join {t}.heads as h on h.run = run.id
    where run.run_id = p_fork->>{Fork.source}
    for no key update of run, h;
    v_now := {f}.begin_at(p_now, p_seen);
    if r.id is null then
        raise exception using errcode = 'SW005', message = 'no such run', detail = p_fork->>{Fork.source};
    end if;
    v_is_known := exists (select 1 from {t}.runs where run_id = p_fork->{Fork.new}->>{NewRun.run_id});
    if not v_is_known and (r.epoch <> (p_fork->>{Fork.epoch})::bigint or r.revision <> (p_fork->>{Fork.revision})::bigint) then
        return {f}.answer(v_now, 'null');
    end if;
    select * into v_made
    from {f}.create_one(v_now, p_fork->{Fork.new}, {f}.offer(v_now, null), array[p_fork->{Fork.new}->>{NewRun.run_id}]);
    if v_is_known or v_made.created->>{Created.run_id} <> p_fork->{Fork.new}->>{NewRun.run_id} then
        return {f}.answer(v_now, v_made.created::text);
    end if;
    select id into strict v_run from {t}.runs where run_id = p_fork->{Fork.new}->>{NewRun.run_id};
    perform {f}.append_names(v_run, p_fork->{Fork.names});
    perform {f}.append_entries(v_run, p_fork->{Fork.new}->>{NewRun.run_id}, p_fork->{Fork.entries}, 0);
    insert into {t}.cursors (run, {Cursor.*})
    select v_run, {Cursor.* from c}
    from jsonb_array_elements(p_fork->{Fork.cursors}) as c;
    update {t}.heads set revision = 1, last_seq = jsonb_array_length(p_fork->{Fork.entries}) where run = v_run;
    update {t}.runs set forked_from = p_fork->>{Fork.source}, retried_at = v_now, loose = (p_fork->{Fork.loose})::json
        where id = v_run;
    perform {f}.note(v_now, r.id, p_fork->>{Fork.verb}, p_fork->>{Fork.by}, r.status, p_fork->>{Fork.reason});
    perform {f}.note(v_now, v_run, 'forked', p_fork->>{Fork.by}, 'pending', p_fork->>{Fork.reason});
    perform {f}.settle_records(v_now);
    return {f}.answer(v_now, v_made.created::text);
end $$;
