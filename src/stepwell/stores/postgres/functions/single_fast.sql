-- The fast path for a single simple request: one run that starts, gets a signal that it waits for, or completes, or one
-- record whose change signals a waiting run. Each function does what the general transition would do, with fewer
-- statements. If the request turns out not to be simple, the general transition runs in the same transaction; nothing is
-- written before that is known.

-- The worker of a claimant that may take another run of this definition, if no run could be more urgent.
create function {f}.find_taker(p_now bigint, p_claimant jsonb, p_definition text, p_priority bigint) returns bigint
language plpgsql stable as $$
begin
    if p_claimant is null or p_priority <> 0 or (p_claimant->>{Claimant.limit})::int <= 0
        or not p_claimant->{Claimant.definitions} ? p_definition then
        return null;
    end if;
    return (
        select w.id
        from {t}.workers as w
        where w.incarnation = p_claimant->>{Claimant.incarnation} and w.lease_until > p_now
            and not exists (select 1 from {t}.holds)
            and not exists (select 1 from {t}.definitions as d where d.priority <> 0)
    );
end $$;

-- `create_runs` for one run. If the run is new and claimed, the answer is only the time, from which the caller derives
-- the rest; else it is the same answer.
create function {f}.create_single(p_now bigint, p_seen bigint, p_new jsonb, p_claimant jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    v_owner bigint;
    v_definition int;
    v_run bigint;
begin
    -- A run with a key, a parent or a delay may affect others.
    if p_new->>{NewRun.key} is null and p_new->>{NewRun.parent} is null and (p_new->>{NewRun.delay})::bigint <= 0 then
        v_now := {f}.begin_at(p_now, p_seen);
        v_owner := {f}.find_taker(v_now, p_claimant, (p_new->>{NewRun.workflow}) || '@' || (p_new->>{NewRun.version}),
            (p_new->>{NewRun.priority})::bigint);
    end if;
    if v_owner is not null then
        v_definition := {f}.define(p_new->>{NewRun.workflow}, (p_new->>{NewRun.version})::bigint, 0);
        with made as (
            insert into {t}.runs (
                run_id, definition, status, epoch, owner, created_at, started_at, generation, detached, tied, deadline_at,
                max_suspend, reason, undo_floor, discards
            )
            values (
                p_new->>{NewRun.run_id}, v_definition, 'running', 1, v_owner, v_now, v_now, 1, false, false,
                (p_new->>{NewRun.deadline_at})::bigint,
                (p_new->>{NewRun.max_suspend})::bigint, '', 0, (p_new->>{NewRun.discards})::boolean
            )
            on conflict (run_id) do nothing
            returning id
        ),
        headed as (
            insert into {t}.heads (run, number, revision, last_seq, stalls) select id, 0, 0, 0, 0 from made
        )
        insert into {t}.payloads (run, input, tags, title, started_by, headers, retry)
        select id, {f}.unb64(p_new->>{NewRun.input}), (p_new->{NewRun.tags})::json, p_new->>{NewRun.title},
            p_new->>{NewRun.started_by}, {f}.unb64(p_new->>{NewRun.headers}), p_new->>{NewRun.retry}
        from made
        returning run into v_run;
        if p_new->{NewRun.attributes} <> '[]' and v_run is not null then
            perform {f}.set_attributes(v_run, p_new->>{NewRun.run_id}, p_new->{NewRun.attributes});
        end if;
    end if;
    if v_run is null then
        return {f}.create_runs(p_now, p_seen, jsonb_build_array(p_new), p_claimant);
    end if;
    return {f}.answer(v_now, v_now::text);
end $$;

-- `deliver_all` for one signal to a run that waits for it and is claimed with it; null if this does not apply.
create function {f}.deliver_single(p_now bigint, p_new jsonb, p_claimant jsonb) returns text language plpgsql volatile as $$
declare
    v_name text := p_new->>{NewSignal.name};
    v_owner bigint;
    v_pending bigint;
    r record;
begin
    if p_claimant is null or p_new->>{NewSignal.dedup_key} is not null then
        return null;
    end if;
    select run.id, run.run_id, d.workflow || '@' || d.version as definition, d.priority into r
    from {t}.runs as run
    join {t}.definitions as d on d.id = run.definition
    where run.run_id = p_new->>{NewSignal.target} and run.status = 'waiting' and run.owner is null and run.hold is null
    for no key update of run;
    if not found then
        return null;
    end if;
    v_owner := {f}.find_taker(p_now, p_claimant, r.definition, r.priority);
    if v_owner is null or not exists (
        select 1 from {t}.waits
        where run = r.id and kind = 'signal' and (cardinality(names) = 0 and left(v_name, 1) <> '~' or v_name = any (names))
    ) then
        return null;
    end if;
    v_pending := {f}.count_signals(p_new, r.id, null);
    if v_pending >= (p_new->>{NewSignal.pending_max})::bigint then
        return null;
    end if;
    insert into {t}.signals (signal_id, run, name, payload, sent_at, asks)
    values (p_new->>{NewSignal.signal_id}, r.id, v_name, {f}.unb64(p_new->>{NewSignal.payload}), p_now,
        (p_new->>{NewSignal.asks})::boolean)
    on conflict (signal_id) do nothing;
    if not found then
        return null;
    end if;
    return '[[["delivered",' || to_json(r.run_id)::text || ',true,' || coalesce(v_pending + 1, 0) || ']],' || {f}.claim_runs(p_now, array[r.id], v_owner) || ']';
end $$;

-- `change_records` for one change of a record that sends one signal to a waiting run, which nobody claims with it; null if
-- this does not apply.
create function {f}.change_single(p_now bigint, p_seen bigint, c jsonb) returns text language plpgsql volatile as $$
declare
    v_signal jsonb := c->{RecordChange.signals}->0;
    v_made bigint := (c->>{RecordChange.expected})::bigint + 1;
    v_now bigint;
    v_answer text;
    v_sent bigint;
    v_none text;
    r record;
begin
    if v_made = 1 or jsonb_array_length(c->{RecordChange.signals}) <> 1 or c->{RecordChange.starts} <> '[]'
        or v_signal->>{NewSignal.dedup_key} is not null
    then
        return null;
    end if;
    -- The run is locked before the record, as in `lock_changes`.
    select id, run_id, status, owner into r
    from {t}.runs where run_id = v_signal->>{NewSignal.target} and status <> 'continued' for no key update;
    if r.id is null or r.status <> 'waiting' or r.owner is not null then
        return null;
    end if;
    v_now := {f}.begin_at(p_now, p_seen);
    v_answer := {f}.write_change(v_now, c);
    if v_answer is not null then
        return {f}.answer(v_now, '[' || v_answer || ']');
    end if;
    with sent as (
        insert into {t}.signals (signal_id, run, name, payload, sent_at, asks)
        select v_signal->>{NewSignal.signal_id}, r.id, v_signal->>{NewSignal.name},
            {f}.unb64(v_signal->>{NewSignal.payload}), v_now, (v_signal->>{NewSignal.asks})::boolean
        where exists (
            select 1 from {t}.waits
            where run = r.id and kind = 'signal' and (
                cardinality(names) = 0 and left(v_signal->>{NewSignal.name}, 1) <> '~'
                or v_signal->>{NewSignal.name} = any (names)
            )
        )
        on conflict (signal_id) do nothing
        returning number
    ),
    woken as (
        update {t}.runs set wake_at = v_now
        where id = r.id and (wake_at is null or wake_at > v_now) and exists (select 1 from sent)
    )
    select number into v_sent from sent;
    if v_sent is null then
        -- It waits for another signal, or the signal is known.
        select '[' || delivered::text || ']' into v_answer from {f}.deliver_surely(v_now, v_signal, '{}');
    else
        v_none := {f}.hint('ready', r.run_id)::text;
        v_answer := '[["delivered",' || to_json(r.run_id)::text || ',true]]';
    end if;
    return {f}.answer(v_now, '[["changed",' || v_made || ',' || v_answer || ',[],[]]]');
end $$;

-- `apply` for one commit that completes its run and has otherwise only entries and at most one consumed signal. Only
-- the run's owner can do this, so it is as safe as a plain commit while the store is being closed: see `enter`.
create function {f}.finish(p_now bigint, p_seen bigint, c jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    v_count int := jsonb_array_length(c->{Commit.entries});
    v_signal bigint := (c->{Commit.consumed}->>0)::bigint;
    v_taken bigint;
    r record;
begin
    -- The end of a child, or of a run with events, affects others.
    select run.id, run.key, run.deadline_at, h.revision, h.last_seq into r
    from {t}.runs as run
    join {t}.heads as h on h.run = run.id
    where run.run_id = c->>{Commit.run_id} and run.epoch = (c->{Commit.fence}->>{Fence.epoch})::bigint
        and run.status = 'running' and run.hold is null
        and run.owner = (select w.id from {t}.workers as w where w.incarnation = c->{Commit.fence}->>{Fence.incarnation})
        and h.number = (c->>{Commit.number})::bigint - 1
            and h.last_seq = coalesce((c->{Commit.entries}->0->>{Entry.seq})::bigint - 1, h.last_seq)
        and run.parent is null and not run.discards
        and not exists (select 1 from {t}.receipts as got where got.run = run.id)
    for no key update of run, h;
    if found then
        v_now := {f}.read_clock(p_now, p_seen);
    end if;
    -- Check again what may have changed meanwhile, and the rare cases.
    if r.id is null or r.deadline_at <= v_now
        or exists (select 1 from {t}.receipts where run = r.id)
        or exists (select 1 from {t}.cursors where run = r.id)
        or exists (select 1 from {t}.waits where kind = 'run' and names[1] = c->>{Commit.run_id})
        or exists (select 1 from {t}.records where run = r.id and is_open and end_state is not null)
        or exists (select 1 from {t}.runs where parent = c->>{Commit.run_id} and tied and ended_at is null)
        or r.key is not null and exists (
            select 1 from {t}.runs where key = r.key and debounced_until is not null and ended_at is null
        )
    then
        return {f}.apply(p_now, p_seen, null, null, jsonb_build_array(c), null, null);
    end if;
    with named as (
        insert into {t}.names (run, number, name)
        select r.id, (select coalesce(max(number), -1) from {t}.names where run = r.id) + place, name
        from jsonb_array_elements_text(c->{Commit.names}) with ordinality as x (name, place)
    ),
    kept as (
        insert into {t}.entries (run, {Entry.*})
        select
            r.id, {Entry.* from e}
        from jsonb_array_elements(c->{Commit.entries}) as e
    ),
    headed as (
        update {t}.heads
        set number = (c->>{Commit.number})::bigint, revision = r.revision + 1, last_seq = r.last_seq + v_count, stalls = 0,
            fence = null
        where run = r.id
    ),
    ended as (
        update {t}.runs set status = 'completed', ended_at = v_now, owner = null, wake_at = null where id = r.id
    ),
    paid as (
        update {t}.payloads set output = {f}.unb64(c->{Commit.move}->>{End.output}) where run = r.id
    ),
    unheard as (
        delete from {t}.waits where run = r.id
    ),
    taken as (
        update {t}.signals set payload = null
        where number = v_signal and run = r.id and payload is not null and refused is null
        returning number
    )
    select number into v_taken from taken;
    if v_taken is distinct from v_signal then
        perform {f}.refuse_value('run ' || (c->>{Commit.run_id}) || ' has no pending signal ' || v_signal);
    end if;
    return '[' || v_now || ',[[],[],[["applied",false,' || (r.revision + 1) || ',false,[],false]]],[["ended",'
        || to_json(c->>{Commit.run_id})::text || ']]]';
end $$;
