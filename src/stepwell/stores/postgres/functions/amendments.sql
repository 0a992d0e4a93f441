-- An amendment is [amendment_id, run_id, status, epoch, revision, verb, by, reason, forgotten, ended_cursors, ended_progress,
-- attempts, entries, waits, children, retries, version, input, announce, names, consumed, loose]; a fork is [new, source, epoch, revision, names, entries,
-- cursors, by, reason, loose].

-- Let a child, [run_id, location, successor], stand where its parent does not look for it, and stop it.
create function {f}.drop_child(p_now bigint, p_child jsonb, p_announce jsonb) returns void language plpgsql volatile as $$
declare
    c record;
begin
    select id, detached, ended_at, key into c
    from {t}.runs where run_id = p_child->>0 and parent is not null for no key update;
    if not found then
        return;
    end if;
    update {t}.runs set parent_location = {f}.unb64(p_child->>1) where id = c.id;
    if c.ended_at is not null or c.detached then
        return;
    end if;
    if c.key is not null and p_child->>2 is not null then
        update {t}.runs set replaced_by = p_child->>2 where id = c.id;
    end if;
    perform {f}.cancel_family(p_now, c.id, true, 'its parent was rewound', p_announce);
end $$;

-- What is recorded of the run, but for its waits.
create function {f}.rewrite(p_run bigint, a jsonb) returns void language plpgsql volatile as $$
begin
    perform {f}.append_names(p_run, a->19);
    delete from {t}.entries
    where run = p_run and location in (select {f}.unb64(l) from jsonb_array_elements_text(a->8) as l);
    delete from {t}.cursors
    where run = p_run and location in (select {f}.unb64(l) from jsonb_array_elements_text(a->9) as l);
    delete from {t}.progress
    where run = p_run and location in (select {f}.unb64(l) from jsonb_array_elements_text(a->10) as l);
    insert into {t}.attempts (run, location, number, at, failure, next_at)
    -- One statement writes a row once: of several outcomes of an attempt the last one counts.
    select distinct on (one->>0, one->1)
        p_run, {f}.unb64(one->>0), (one->>1)::bigint, (one->>2)::bigint, {f}.unb64(one->>3), (one->>4)::bigint
    from jsonb_array_elements(a->11) with ordinality as x (one, place)
    order by one->>0, one->1, place desc
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
    select key into v_key from {t}.runs where run_id = a->>1;
    if not found then
        v_now := {f}.begin_at(p_now, p_seen);
        raise exception using errcode = 'SW005', message = 'no such run', detail = a->>1;
    end if;
    if v_key is not null then
        perform {f}.lock_key(v_key);
    end if;
    for v_topic in
        select distinct w->4->>0 from jsonb_array_elements(a->13) as w where w->>1 = 'topic' order by 1
    loop
        perform {f}.lock_topic(v_topic);
    end loop;
    select run.id, run.status, run.epoch, h.revision, h.last_seq, run.amendment, d.workflow, d.priority into r
    from {t}.runs as run
    join {t}.heads as h on h.run = run.id
    join {t}.definitions as d on d.id = run.definition
    where run.run_id = a->>1
    for no key update of run, h;
    v_now := {f}.begin_at(p_now, p_seen);
    if r.amendment = a->>0 then
        return {f}.answer(v_now, '"applied"');
    end if;
    if r.status <> a->>2 or r.epoch <> (a->>3)::bigint or r.revision <> (a->>4)::bigint
        or r.status not in ('pending', 'waiting', 'paused', 'failed')
    then
        return {f}.answer(v_now, '"stale"');
    end if;
    v_revives := r.status = 'failed' and v_key is not null;
    if v_revives and {f}.find_active(v_key) is not null then
        return {f}.answer(v_now, '"key_taken"');
    end if;
    perform {f}.rewrite(r.id, a);
    v_last := {f}.append_entries(r.id, a->>1, a->12, r.last_seq);
    for v_one in select one from jsonb_array_elements(a->20) as one loop
        update {t}.signals set payload = null
        where number = v_one::bigint and run = r.id and payload is not null and refused is null;
        if not found then
            perform {f}.refuse_value('run ' || (a->>1) || ' has no pending signal ' || v_one);
        end if;
    end loop;
    for v_one in select one from jsonb_array_elements(a->14) as one loop
        perform {f}.drop_child(v_now, v_one, a->18);
    end loop;
    for v_one in select one from jsonb_array_elements(a->15) as one loop
        perform {f}.retry_one(v_now, v_one#>>'{}', a->>6);
    end loop;
    perform {f}.replace_waits(v_now, r.id, a->>1, a->13);
    update {t}.runs
    set status = 'pending', epoch = epoch + 1, ended_at = null, cause = null, undo_floor = 0,
        retried_at = greatest(v_now, (select max(at) from {t}.attempts where run = r.id)), wake_at = v_now, hold = null, amendment = a->>0, loose = (a->21)::json, deadline_at = case when deadline_at > v_now then deadline_at end,
        definition = case
            when a->>16 is null then definition else {f}.define(r.workflow, (a->>16)::bigint, r.priority)
        end
    where id = r.id;
    update {t}.heads set revision = revision + 1, last_seq = v_last, stalls = 0 where run = r.id;
    update {t}.payloads set failure = null, input = coalesce({f}.unb64(a->>17), input) where run = r.id;
    if v_revives then
        perform {f}.take_over_held(r.id, v_key);
    end if;
    perform {f}.note(v_now, r.id, a->>5, a->>6, r.status, a->>7);
    perform {f}.hint('ready', a->>1);
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
    if p_fork->0->>4 is not null then
        perform {f}.lock_key(p_fork->0->>4);
    end if;
    select run.id, run.status, run.epoch, h.revision into r
    from {t}.runs as run
    join {t}.heads as h on h.run = run.id
    where run.run_id = p_fork->>1
    for no key update of run, h;
    v_now := {f}.begin_at(p_now, p_seen);
    if r.id is null then
        raise exception using errcode = 'SW005', message = 'no such run', detail = p_fork->>1;
    end if;
    v_is_known := exists (select 1 from {t}.runs where run_id = p_fork->0->>0);
    if not v_is_known and (r.epoch <> (p_fork->>2)::bigint or r.revision <> (p_fork->>3)::bigint) then
        return {f}.answer(v_now, 'null');
    end if;
    select * into v_made
    from {f}.create_one(v_now, p_fork->0, {f}.offer(v_now, null), array[p_fork->0->>0]);
    if v_is_known or v_made.created->>0 <> p_fork->0->>0 then
        return {f}.answer(v_now, v_made.created::text);
    end if;
    select id into strict v_run from {t}.runs where run_id = p_fork->0->>0;
    perform {f}.append_names(v_run, p_fork->4);
    perform {f}.append_entries(v_run, p_fork->0->>0, p_fork->5, 0);
    insert into {t}.cursors (run, location, iteration, trimmed, state)
    select v_run, {f}.unb64(c->>0), (c->>1)::bigint, (c->>2)::bigint, {f}.unb64(c->>3)
    from jsonb_array_elements(p_fork->6) as c;
    update {t}.heads set revision = 1, last_seq = jsonb_array_length(p_fork->5) where run = v_run;
    update {t}.runs set forked_from = p_fork->>1, retried_at = v_now, loose = (p_fork->9)::json where id = v_run;
    perform {f}.note(v_now, r.id, 'fork', p_fork->>7, r.status, p_fork->>8);
    perform {f}.note(v_now, v_run, 'forked', p_fork->>7, 'pending', p_fork->>8);
    return {f}.answer(v_now, v_made.created::text);
end $$;
