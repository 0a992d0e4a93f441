-- Commits. A commit that has only entries is sent without its other fields; nearly every commit is like that.

-- Lock the topics of new waits, and of "one" events that return to their topics when these runs end.
create function {f}.lock_topics(p_commits jsonb, p_ending text[]) returns void language plpgsql volatile as $$
declare
    v_name text;
begin
    for v_name in
        select distinct topic
        from (
            select w->{Wait.names}->>0 as topic
            from jsonb_array_elements(p_commits) as c,
                jsonb_array_elements(case when jsonb_typeof(c->{Commit.waits}) = 'array'
                    then c->{Commit.waits} else '[]' end) as w
            where w->>{Wait.kind} = 'topic'
            union all
            select e.topic
            from {t}.runs as r
            join {t}.receipts as got on got.run = r.id and not got.is_read
            join {t}.events as e on e.number = got.event and e.deliver = 'one'
            where r.run_id = any (p_ending)
        ) as topics
        order by 1
    loop
        perform {f}.lock_topic(v_name);
    end loop;
end $$;

-- Lock everything that a batch needs, in the common order. Keys and topics are searched only where there may be any. The
-- general path locks the run of a single commit itself; the fast path for moves does not (`p_locks_single`).
create function {f}.lock_for(p_commits jsonb, p_locks_single boolean) returns void language plpgsql volatile as $$
declare
    v_name text;
    v_ending text[];
    v_affects_others boolean;
begin
    if p_commits @? '$[*][{Commit.children}][*]' then
        for v_name in
            select distinct child->>{Child.key}
            from jsonb_array_elements(p_commits) as c, jsonb_array_elements(c->{Commit.children}) as child
            where jsonb_array_length(c) > {Commit.attempts} and child->>{Child.key} is not null
            order by 1
        loop
            perform {f}.lock_key(v_name);
        end loop;
    end if;
    select array_agg(c->>{Commit.run_id}) into v_ending from jsonb_array_elements(p_commits) as c
        where c->{Commit.move}->>{Move.kind} = 'end';
    if jsonb_array_length(p_commits) = 1 and not p_commits @? '$[*][{Commit.waits}][*][{Wait.kind}] ? (@ == "topic")' then
        -- By a single id, which is several times faster than by a list of one.
        if v_ending is not null then
            select r.parent is not null or exists (
                select 1 from {t}.receipts as got where got.run = r.id and not got.is_read
            )
            into v_affects_others
            from {t}.runs as r where r.run_id = v_ending[1];
        end if;
        if v_affects_others is not true then
            if p_locks_single then
                perform 1 from {t}.runs where run_id = p_commits->0->>{Commit.run_id} for no key update;
            end if;
            return;
        end if;
    end if;
    perform {f}.lock_topics(p_commits, v_ending);
    perform 1
    from {t}.runs
    where run_id = any (
        array(select c->>{Commit.run_id} from jsonb_array_elements(p_commits) as c)
        || array(select r.parent from {t}.runs as r where r.run_id = any (v_ending) and r.parent is not null)
    )
    order by id
    for no key update;
end $$;

-- Returns the seq of the last entry. Entries must continue the history without a gap: a gap would be a lost result.
create function {f}.append_entries(p_run bigint, p_run_id text, p_entries jsonb, p_last_seq bigint) returns bigint
language plpgsql volatile as $$
declare
    e jsonb;
    v_last bigint := p_last_seq;
begin
    for e in select one from jsonb_array_elements(p_entries) as one loop
        v_last := v_last + 1;
        if (e->>{Entry.seq})::bigint <> v_last then
            perform {f}.refuse_value('run ' || p_run_id || ' expects entry ' || v_last || ', not ' || (e->>{Entry.seq}));
        end if;
        insert into {t}.entries (run, {Entry.*})
        values (
            p_run, {Entry.* from e}
        );
    end loop;
    return v_last;
end $$;

create function {f}.append_names(p_run bigint, p_names jsonb) returns void language sql volatile as $$
    insert into {t}.names (run, number, name)
    select p_run, (select coalesce(max(number), -1) from {t}.names where run = p_run) + place, name
    from jsonb_array_elements_text(p_names) with ordinality as x (name, place)
$$;

-- Delete the entries in a range of locations, except entries that may have to be undone, and cancel the children
-- started there.
create function {f}.trim(p_now bigint, p_run bigint, p_run_id text, p_low bytea, p_high bytea, p_announce jsonb) returns void
language plpgsql volatile as $$
declare
    v_child bigint;
begin
    -- A beginning need not be undone once the result is recorded.
    delete from {t}.entries as e
    where e.run = p_run and e.location >= p_low and e.location < p_high and (
        e.undo is null
        or e.kind = 'g' and exists (
            select 1 from {t}.entries as done
            where done.run = p_run and done.status = 'd'
                and done.location = substr(e.location, 1, octet_length(e.location) - 1)
        )
    );
    -- Except what a rewind has left of a dropped child, which was moved to `~was1`: it gives the next child another id.
    delete from {t}.attempts as a
    where a.run = p_run and a.location >= p_low and a.location < p_high and not exists (
        select 1 from {t}.runs as child
        where child.parent = p_run_id and child.parent_location = a.location || '\x5101'::bytea
    );
    delete from {t}.cursors where run = p_run and location >= p_low and location < p_high;
    for v_child in
        select id from {t}.runs
        where parent = p_run_id and parent_location >= p_low and parent_location < p_high and not detached
            and ended_at is null
        order by id
    loop
        perform {f}.cancel_family(p_now, v_child, true, 'its parent no longer needs it', p_announce);
    end loop;
    perform {f}.close_with_run(p_run, p_low, p_high);
end $$;

-- Signals that the run read, refused, or answered.
create function {f}.settle_signals(p_now bigint, p_run bigint, p_run_id text, c jsonb) returns void
language plpgsql volatile as $$
declare
    v_number bigint;
    v_reason text;
begin
    for v_number in select one::bigint from jsonb_array_elements_text(c->{Commit.consumed}) as one loop
        update {t}.signals set payload = null
        where number = v_number and run = p_run and payload is not null and refused is null;
        if not found then
            perform {f}.refuse_value('run ' || p_run_id || ' has no pending signal ' || v_number);
        end if;
    end loop;
    for v_number, v_reason in select (one->>{Refusal.number})::bigint, one->>{Refusal.reason}
        from jsonb_array_elements(c->{Commit.refused}) as one loop
        update {t}.signals set refused = v_reason, refused_by = c->{Commit.fence}->>{Fence.incarnation}
        where number = v_number and run = p_run and payload is not null and refused is null;
        if not found then
            perform {f}.refuse_value('run ' || p_run_id || ' has no pending signal ' || v_number);
        end if;
    end loop;
    if jsonb_array_length(c->{Commit.replies}) > 0 then
        insert into {t}.replies (number, status, value, at)
        select (one->>{Reply.number})::bigint, one->>{Reply.status}, {f}.unb64(one->>{Reply.value}), p_now
        from jsonb_array_elements(c->{Commit.replies}) with ordinality as x (one, place)
        order by place
        on conflict do nothing;
        perform {f}.hint('replied', p_run_id);
    end if;
end $$;

-- A child has a failure for the case that its key belongs to another active run: its message ends where that one is named.
create function {f}.start_child(
    p_now bigint, p_run bigint, p_child jsonb, inout q {f}.quota, p_announce jsonb, out claimed json
) language plpgsql volatile as $$
declare
    v_holder text;
    v_failure text;
    v_added record;
begin
    if exists (select 1 from {t}.runs where run_id = p_child->>{Child.run_id}) then
        return;
    end if;
    if p_child->>{Child.key} is not null then
        select run_id into v_holder from {t}.runs where id = {f}.find_active(p_child->>{Child.key});
    end if;
    if v_holder is null then
        select * into v_added from {f}.insert_run(p_now, p_child, q);
        q := v_added.q;
        claimed := v_added.claimed;
        return;
    end if;
    select json_strip_nulls(to_json(f))::text into v_failure
    from (
        select x.failure->>'type' as type, (x.failure->>'message') || v_holder as message,
            x.failure->>'qualified' as qualified, x.failure->>'code' as code,
            {f}.spell({f}.unb64(p_child->{Child.parent}->>{Parent.location}), {f}.names_of(p_run)) as path
        from (select p_child->{Child.failure} as failure) as x
    ) as f;
    perform {f}.announce_end(
        p_now, {f}.insert_failed(p_now, p_child, convert_to(v_failure, 'utf8')), p_announce
    );
end $$;

-- Append to streams. The first line of a part withdraws what other parts of its source wrote.
create function {f}.append_chunks(p_run bigint, p_run_id text, p_appends jsonb) returns void language plpgsql volatile as $$
declare
    a record;
    v_first bigint;
    v_last bigint;
begin
    for a in
        select one->>{Append.stream} as stream, one->>{Append.kind} as kind, {f}.unb64(one->>{Append.value}) as value,
            one->>{Append.source} as source,
            (one->>{Append.part})::bigint as part, (one->>{Append.begins})::boolean as begins
        from jsonb_array_elements(p_appends) with ordinality as x (one, place)
        order by place
    loop
        select coalesce(max(number), 0) into v_last from {t}.chunks where run = p_run and stream = a.stream;
        if a.begins then
            select min(number) into v_first from {t}.chunks
            where run = p_run and stream = a.stream and source = a.source and part <> a.part and kind = 'd';
            if v_first is not null then
                -- First the reset, then the deletion: the reset must get an offset above all deleted lines.
                v_last := v_last + 1;
                insert into {t}.chunks (run, stream, number, kind, source, part, value)
                values (p_run, a.stream, v_last, 'r', a.source, a.part, convert_to(v_first::text, 'utf8'));
                delete from {t}.chunks
                where run = p_run and stream = a.stream and number >= v_first and source = a.source
                    and part <> a.part and kind = 'd';
            end if;
        end if;
        insert into {t}.chunks (run, stream, number, kind, source, part, value)
        values (p_run, a.stream, v_last + 1, a.kind, a.source, a.part, a.value);
    end loop;
    perform {f}.hint('stream', p_run_id);
end $$;

-- Store the progress of step bodies. Returns whether a state changed.
create function {f}.keep_progress(p_run bigint, p_progress jsonb, p_ended jsonb) returns boolean
language plpgsql volatile as $$
declare
    one jsonb;
    v_state bytea;
    v_is_further boolean := false;
begin
    for one in select p from jsonb_array_elements(p_progress) as p loop
        select state into v_state from {t}.progress where run = p_run and location = {f}.unb64(one->>{Progress.location});
        v_is_further := v_is_further or v_state is distinct from {f}.unb64(one->>{Progress.state});
        insert into {t}.progress (run, {Progress.*})
        values (
            p_run, {Progress.* from one}
        )
        on conflict (run, location) do update
        set at = excluded.at, state = excluded.state, done = excluded.done, total = excluded.total,
            unit = excluded.unit, note = excluded.note, turns = excluded.turns;
    end loop;
    delete from {t}.progress
    where run = p_run and location in (select {f}.unb64(l) from jsonb_array_elements_text(p_ended) as l);
    return v_is_further;
end $$;

-- Write everything after the entries except the move, in the order of the contract. Returns the children that were
-- claimed, and whether there was progress.
create function {f}.write_rest(
    p_now bigint, p_run bigint, c jsonb, inout q {f}.quota, out claimed text, out has_progress boolean
) language plpgsql volatile as $$
declare
    v_run_id text := c->>{Commit.run_id};
    one jsonb;
    v_started record;
    v_claimed text[] := '{}';
begin
    has_progress := jsonb_array_length(c->{Commit.attempts}) > 0 or jsonb_array_length(c->{Commit.cursors}) > 0;
    if has_progress then
        -- The beginning of a body is not progress, unless the step runs at most once; its outcome replaces it.
        has_progress := jsonb_array_length(c->{Commit.cursors}) > 0 or exists (
            select from jsonb_array_elements(c->{Commit.attempts}) as a where a->>{Attempt.failure} is not null
                or a->>{Attempt.next_at} is null
        );
        insert into {t}.attempts (run, {Attempt.*})
        select p_run, {Attempt.* from a}
        from jsonb_array_elements(c->{Commit.attempts}) as a
        on conflict (run, location, number) do update
        set at = excluded.at, failure = excluded.failure, next_at = excluded.next_at;
        insert into {t}.cursors (run, {Cursor.*})
        select p_run, {Cursor.* from a}
        from jsonb_array_elements(c->{Commit.cursors}) as a
        on conflict (run, location) do update
        set iteration = excluded.iteration, trimmed = excluded.trimmed, state = excluded.state;
    end if;
    if jsonb_array_length(c->{Commit.ended_attempts}) > 0 then
        delete from {t}.attempts as t
        using jsonb_array_elements(c->{Commit.ended_attempts}) as a
        where t.run = p_run and t.location = {f}.unb64(a->>{AttemptKey.location})
            and t.number = (a->>{AttemptKey.number})::bigint;
    end if;
    if jsonb_array_length(c->{Commit.ended_cursors}) > 0 then
        delete from {t}.cursors
        where run = p_run and location in (select {f}.unb64(l) from jsonb_array_elements_text(c->{Commit.ended_cursors}) as l);
    end if;
    for one in select a from jsonb_array_elements(c->{Commit.trims}) as a loop
        perform {f}.trim(p_now, p_run, v_run_id, {f}.unb64(one->>{Trim.low}), {f}.unb64(one->>{Trim.high}),
            c->{Commit.announce});
    end loop;
    if jsonb_array_length(c->{Commit.consumed}) > 0 or jsonb_array_length(c->{Commit.refused}) > 0
        or jsonb_array_length(c->{Commit.replies}) > 0 then
        perform {f}.settle_signals(p_now, p_run, v_run_id, c);
    end if;
    for one in select a from jsonb_array_elements(c->{Commit.received}) as a loop
        perform {f}.receive_event(p_run, v_run_id, (one#>>'{}')::bigint);
    end loop;
    for one in select a from jsonb_array_elements(c->{Commit.children}) as a loop
        select * into v_started from {f}.start_child(p_now, p_run, one, q, c->{Commit.announce});
        q := v_started.q;
        if v_started.claimed is not null then
            v_claimed := v_claimed || v_started.claimed::text;
        end if;
    end loop;
    claimed := '[' || array_to_string(v_claimed, ',') || ']';
    if jsonb_array_length(c->{Commit.published}) > 0 then
        -- One by one: a name may occur twice. A value with an earlier position comes from a replay, and is older.
        for one in select a from jsonb_array_elements(c->{Commit.published}) as a loop
            insert into {t}.published as p (run, {Published.*})
            values (p_run, {Published.* from one})
            on conflict (run, name) do update set position = excluded.position, value = excluded.value
            where excluded.position >= p.position;
        end loop;
    end if;
    if jsonb_array_length(c->{Commit.appends}) > 0 then
        perform {f}.append_chunks(p_run, v_run_id, c->{Commit.appends});
    end if;
    if jsonb_typeof(c->{Commit.waits}) = 'array' then
        perform {f}.replace_waits(p_now, p_run, v_run_id, c->{Commit.waits});
    end if;
    if jsonb_array_length(c->{Commit.emits}) > 0 then
        perform {f}.store_emits(p_now, p_run, v_run_id, c->{Commit.emits});
    end if;
    if jsonb_array_length(c->{Commit.opened}) > 0 then
        perform {f}.note_records(jsonb_build_array('open', p_run, c->{Commit.opened}));
    end if;
    if jsonb_array_length(c->{Commit.closed}) > 0 then
        perform {f}.note_records(jsonb_build_array('close', p_run, c->{Commit.closed}));
    end if;
    if jsonb_typeof(c->{Commit.description}) = 'array' then
        perform {f}.describe(p_run, v_run_id, c->{Commit.description});
    end if;
    if jsonb_array_length(c->{Commit.progress}) > 0 or jsonb_array_length(c->{Commit.ended_progress}) > 0 then
        has_progress := {f}.keep_progress(p_run, c->{Commit.progress}, c->{Commit.ended_progress}) or has_progress;
    end if;
end $$;

-- Null if a commit may be applied; else the answer to its sender.
create function {f}.judge(
    p_now bigint, c jsonb, p_status text, p_owner text, p_epoch bigint, p_number bigint, p_revision bigint,
    p_wake_at bigint, p_deadline_at bigint, p_is_held boolean
) returns text language plpgsql immutable as $$
declare
    v_number bigint := (c->>{Commit.number})::bigint;
    v_move text := c->{Commit.move}->>{Move.kind};
begin
    if p_epoch <> (c->{Commit.fence}->>{Fence.epoch})::bigint or v_number < 1 then
        return '["fenced"]';
    end if;
    if v_number = p_number then
        return '["applied",' || (p_status = 'cancelling')::text || ',' || p_revision || ','
            || coalesce(v_move = 'park' and p_wake_at <= p_now, false)::text || ',[],' || p_is_held::text || ']';
    end if;
    if p_owner is distinct from c->{Commit.fence}->>{Fence.incarnation} or v_number <> p_number + 1 then
        return '["fenced"]';
    end if;
    if p_status = 'cancelling' and v_move is not null and not (
        v_move = 'release' or v_move = 'rollback' and c->{Commit.move}->>{BeginRollback.cause} = 'cancelled'
            or v_move = 'end' and c->{Commit.move}->>{End.status} = 'cancelled'
    ) then
        return '["cancelling"]';
    end if;
    if p_status = 'running' and p_deadline_at <= p_now and v_move = 'end'
        and c->{Commit.move}->>{End.status} in ('completed', 'continued') then
        return '["expired"]';
    end if;
    return null;
end $$;

-- Whether a run leaves signals that it could still read: those that came after it began (all of them, for the first of
-- a chain), or any, if it has received some.
create function {f}.leaves_unread(p_run bigint, c jsonb) returns boolean language sql volatile as $$
    select coalesce(bool_or(r.generation = 1 or s.sent_at > r.created_at), false)
        or count(*) > 0 and (
            jsonb_array_length(c->{Commit.consumed}) > 0
            or exists (select 1 from {t}.signals as read where read.run = p_run and read.payload is null)
        )
    from {t}.signals as s
    join {t}.runs as r on r.id = s.run
    where s.run = p_run and s.payload is not null and s.refused is null and left(s.name, 1) <> '~'
        and s.number > (c->{Commit.move}->>{End.unread_above})::bigint
        and not c->{Commit.consumed} @> to_jsonb(s.number)
        and s.number not in (
            select (one->>{Refusal.number})::bigint from jsonb_array_elements(c->{Commit.refused}) as one
        )
$$;

-- Returns [run_id, revision] of the plain commits that were applied, [run_id, revision, is_awake] of the simple moves,
-- and one answer for each other commit, including plain ones and simple moves that turned out not to be simple.
create function {f}.apply(
    p_now bigint, p_seen bigint, p_plain jsonb, p_moving jsonb, p_commits jsonb, p_places jsonb, p_claimant jsonb
) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    q {f}.quota;
    c jsonb;
    r record;
    v_rest record;
    v_claimed text;
    v_last bigint;
    v_has_progress boolean;
    v_move text;
    v_is_awake boolean;
    v_answer text;
    v_applied text := '';
    v_advanced text := '[]';
    v_moved text := '[]';
    v_missing jsonb := '[]';
begin
    if p_moving is not null then
        perform {f}.lock_for(p_moving || p_commits, true);
    elsif jsonb_array_length(p_commits) > 1 or jsonb_array_length(p_commits->0) > {Commit.attempts} then
        perform {f}.lock_for(p_commits, false);
    end if;
    v_now := {f}.begin_at(p_now, p_seen);
    if p_plain is not null then
        v_advanced := {f}.advance(v_now, v_now, p_plain);
        v_missing := {f}.list_missing(p_plain, v_advanced);
    end if;
    if p_moving is not null then
        v_moved := {f}.move_batch(v_now, p_moving);
        v_missing := v_missing || {f}.list_missing(p_moving, v_moved);
    end if;
    if p_claimant is not null then
        q := {f}.offer(v_now, p_claimant);
    end if;
    if p_places is not null and v_missing <> '[]' then
        -- In their order: what one commit ends or gives back is visible to later commits, but not to earlier ones.
        select jsonb_agg(one order by (p_places->>(one->>{Commit.run_id}))::bigint) into p_commits
        from jsonb_array_elements(p_commits || v_missing) as one;
    else
        p_commits := p_commits || v_missing;
    end if;
    for c in select one from jsonb_array_elements(p_commits) as one loop
        select run.id, run.status, w.incarnation, run.epoch, h.number, h.revision, h.last_seq, run.wake_at, run.deadline_at,
            run.hold is not null as is_held
        into r
        from {t}.runs as run
        join {t}.heads as h on h.run = run.id
        left join {t}.workers as w on w.id = run.owner
        where run.run_id = c->>{Commit.run_id}
        for no key update of run, h;
        v_answer := case
            when found then {f}.judge(
                v_now, c, r.status, r.incarnation, r.epoch, r.number, r.revision, r.wake_at, r.deadline_at, r.is_held
            )
            else '["fenced"]'
        end;
        if v_answer is not null then
            v_applied := v_applied || v_answer || ',';
            continue;
        end if;
        v_move := c->{Commit.move}->>{Move.kind};
        if v_move is not null then
            perform {f}.check_move(r.status, c->{Commit.move});
        end if;
        if v_move = 'end' and c->{Commit.move}->>{End.unread_above} is not null and {f}.leaves_unread(r.id, c) then
            v_applied := v_applied || '["unread"],';
            continue;
        end if;
        if jsonb_array_length(c->{Commit.names}) > 0 then
            perform {f}.append_names(r.id, c->{Commit.names});
        end if;
        v_has_progress := jsonb_array_length(c->{Commit.entries}) > 0;
        v_last := r.last_seq;
        if v_has_progress then
            v_last := {f}.append_entries(r.id, c->>{Commit.run_id}, c->{Commit.entries}, r.last_seq);
        end if;
        v_claimed := '[]';
        if jsonb_array_length(c) > {Commit.attempts} then
            select * into v_rest from {f}.write_rest(v_now, r.id, c, q);
            q := v_rest.q;
            v_claimed := v_rest.claimed;
            v_has_progress := v_has_progress or v_rest.has_progress;
        end if;
        update {t}.heads
        set number = (c->>{Commit.number})::bigint, revision = r.revision + 1, last_seq = v_last,
            stalls = case when v_has_progress or v_move <> 'release' then 0 else stalls end,
            fence = case when v_move is null then fence end
        where run = r.id;
        v_is_awake := v_move is not null
            and {f}.move_run(v_now, r.id, c, case when r.status = 'running' then r.deadline_at end, r.is_held);
        v_applied := v_applied || '["applied",'
            || (r.status = 'cancelling' and coalesce(v_move, 'release') = 'release')::text || ',' || (r.revision + 1) || ','
            || v_is_awake::text || ',' || v_claimed || ','
            || (r.is_held and coalesce(v_move, '') not in ('rollback', 'end'))::text || '],';
    end loop;
    perform {f}.settle_records(v_now);
    return {f}.answer(
        v_now, '[' || v_advanced || ',' || v_moved || ',[' || rtrim(v_applied, ',') || ']]'
    );
end $$;

-- The answer of `apply` to a commit that will be made in its own transaction, without writing; null if it may be
-- applied.
create function {f}.find_refusal(p_now bigint, p_seen bigint, c jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    r record;
    v_answer text;
begin
    select run.id, run.status, w.incarnation, run.epoch, h.number, h.revision, run.hold is not null as is_held into r
    from {t}.runs as run
    join {t}.heads as h on h.run = run.id
    left join {t}.workers as w on w.id = run.owner
    where run.run_id = c->>{Commit.run_id}
    for no key update of run, h;
    v_now := {f}.begin_at(p_now, p_seen);
    if r.id is null then
        return {f}.answer(v_now, '["fenced"]');
    end if;
    v_answer := {f}.judge(v_now, c, r.status, r.incarnation, r.epoch, r.number, r.revision, null, null, r.is_held);
    if v_answer is null and r.status = 'cancelling' then
        v_answer := '["cancelling"]';
    end if;
    return {f}.answer(v_now, coalesce(v_answer, 'null'));
end $$;
