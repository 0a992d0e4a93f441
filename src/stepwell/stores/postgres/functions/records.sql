-- Records, their histories, and their listings by label.
--
-- Rows of records are locked last, after all runs. A transition that ends runs notes which records that closes
-- (`close_with_run`), and closes them when it has locked everything else (`settle_records`). So a run that ends, a
-- change that signals the run, and a cancel wait for each other in one order.
--
-- What every change does is in plpgsql, whose plans a session keeps; a function in SQL is planned in each transaction.
-- A record is found by two variables. By two expressions, of which each costs something, the index of all records of a kind
-- seems cheaper while the table is empty; and a session that began then would keep that plan.

-- --- rows ---

create function {f}.read_records(p_numbers bigint[]) returns table (number bigint, value json) language sql stable as $$
    select x.number, found.value
    from unnest(p_numbers) as x (number)
    cross join lateral (
        select
            json_build_array(
                r.number, r.kind, r.record_id, r.version, r.state, r.labels, r.due_at, r.is_open, r.end_state,
                (select run.run_id from {t}.runs as run where run.id = r.run), {f}.b64(r.location), {f}.b64(r.body),
                r.created_at, r.updated_at
            ) as value
        from {t}.records as r
        where r.number = x.number
        offset 0
    ) as found
$$;

create function {f}.read_record(p_number bigint) returns json language sql stable as $$
    select value from {f}.read_records(array[p_number])
$$;

create function {f}.find_number(p_kind text, p_record_id text) returns bigint language sql stable as $$
    select number from {t}.records where kind = p_kind and record_id = p_record_id
$$;

-- Labels are a list in JSON, as in a change.
create function {f}.enter_labels(
    p_number bigint, p_kind text, p_labels jsonb, p_is_open boolean, p_state text, p_due_at bigint
) returns void language plpgsql volatile as $$
begin
    insert into {t}.record_labels (kind, label, is_open, number, state, due_at)
    select p_kind, label, p_is_open, p_number, p_state, p_due_at from jsonb_array_elements_text(p_labels) as label;
end $$;

-- The first of the events gets the id of the change, if there is one.
create function {f}.append_record_events(
    p_now bigint, p_number bigint, p_version bigint, p_events jsonb, p_change_id text
) returns void language plpgsql volatile as $$
begin
    insert into {t}.record_events (record, number, at, by, verb, version, data, change_id)
    select
        p_number, (select coalesce(max(e.number), 0) from {t}.record_events as e where e.record = p_number) + place, p_now,
        one->>{NewRecordEvent.by}, one->>{NewRecordEvent.verb}, p_version, {f}.unb64(one->>{NewRecordEvent.data}),
        case when place = 1 then p_change_id end
    from jsonb_array_elements(p_events) with ordinality as x (one, place);
    if p_events @? '$[*][{NewRecordEvent.replaces}] ? (@ == true)' then
        delete from {t}.record_events as e
        using jsonb_array_elements(p_events) as one
        where e.record = p_number and e.version < p_version and e.verb = one->>{NewRecordEvent.verb}
            and (one->>{NewRecordEvent.replaces})::boolean;
    end if;
end $$;

-- Add a record, with its labels and its first events. Does nothing if it exists.
create function {f}.insert_record(
    p_now bigint, p_record jsonb, p_run bigint, p_location bytea, p_events jsonb, p_change_id text
) returns void language plpgsql volatile as $$
declare
    v_kind text := p_record->>{NewRecord.kind};
    v_record_id text := p_record->>{NewRecord.record_id};
    v_due_at bigint := case
        when (p_record->>{NewRecord.is_open})::boolean then (p_record->>{NewRecord.due_at})::bigint
    end;
    v_number bigint;
begin
    if exists (select 1 from {t}.records where kind = v_kind and record_id = v_record_id) then
        return;
    end if;
    insert into {t}.records (
        kind, record_id, version, state, labels, due_at, is_open, end_state, run, location, body, created_at, updated_at
    )
    values (
        v_kind, v_record_id, 1, p_record->>{NewRecord.state},
        array(select jsonb_array_elements_text(p_record->{NewRecord.labels})), v_due_at, (p_record->>{NewRecord.is_open})::boolean,
        p_record->>{NewRecord.end_state}, p_run, p_location, {f}.unb64(p_record->>{NewRecord.body}), p_now, p_now
    )
    returning number into v_number;
    if p_record->{NewRecord.labels} <> '[]' then
        perform {f}.enter_labels(v_number, v_kind, p_record->{NewRecord.labels},
            (p_record->>{NewRecord.is_open})::boolean, p_record->>{NewRecord.state}, v_due_at);
    end if;
    perform {f}.append_record_events(p_now, v_number, 1, p_events, p_change_id);
    if v_due_at is not null then
        perform {f}.hint('due', '');
    end if;
end $$;

create function {f}.close_record(p_now bigint, p_number bigint, p_state text, p_events jsonb) returns void
language plpgsql volatile as $$
declare
    r record;
begin
    update {t}.records
    set state = p_state, version = version + 1, is_open = false, due_at = null, updated_at = greatest(p_now, updated_at)
    where number = p_number
    returning kind, labels, version, updated_at into strict r;
    update {t}.record_labels set is_open = false, state = p_state, due_at = null
    where kind = r.kind and label = any (r.labels) and is_open and number = p_number;
    perform {f}.append_record_events(r.updated_at, p_number, r.version, p_events, null);
end $$;

-- --- locks ---

-- The number by which a record is locked before it exists.
create function {f}.lock_of(p_record jsonb) returns int language sql immutable
return hashtext((p_record->>{NewRecord.kind}) || e'\x1f' || (p_record->>{NewRecord.record_id}));

-- Lock records that may be created, and then rows that exist. Every transition takes these locks last.
create function {f}.lock_records(p_created int[], p_numbers bigint[]) returns void language plpgsql volatile as $$
declare
    v_lock int;
begin
    for v_lock in select distinct one from unnest(p_created) as one order by 1 loop
        perform pg_advisory_xact_lock(1398034261, v_lock);
    end loop;
    if cardinality(p_numbers) > 0 then
        perform 1 from {t}.records where number = any (p_numbers) order by number for no key update;
    end if;
end $$;

-- --- records of runs ---

-- Note something to do with records at the end of this transition: what, for which run, and with what, a list.
create function {f}.note_records(p_act jsonb) returns void language plpgsql volatile as $$
begin
    perform set_config(
        'stepwell.records', coalesce(current_setting('stepwell.records', true), '') || p_act::text || ',', true
    );
end $$;

-- Close the records of a run that ends, begins its rollback, or no longer needs what is between two locations. The
-- caller has locked the run, so the run opens no other record. A record that this transition opened is only noted yet.
create function {f}.close_with_run(p_run bigint, p_low bytea default null, p_high bytea default null) returns void
language plpgsql volatile as $$
begin
    if current_setting('stepwell.records', true) <> ''
        or exists (select 1 from {t}.records where run = p_run and is_open and end_state is not null)
    then
        perform {f}.note_records(jsonb_build_array('close_all', p_run, jsonb_build_array({f}.b64(p_low), {f}.b64(p_high))));
    end if;
end $$;

-- Close the records of a repaired run whose place has neither an entry nor a wait.
create function {f}.close_unused(p_run bigint) returns void language plpgsql volatile as $$
begin
    if current_setting('stepwell.records', true) <> ''
        or exists (select 1 from {t}.records where run = p_run and is_open and end_state is not null)
    then
        perform {f}.note_records(jsonb_build_array('close_unused', p_run, '[]'::jsonb));
    end if;
end $$;

create function {f}.close_some(p_now bigint, p_run bigint, p_low bytea, p_high bytea, p_only_unused boolean) returns void
language plpgsql volatile as $$
declare
    r record;
begin
    for r in
        select number, end_state from {t}.records as one
        where one.run = p_run and one.is_open and one.end_state is not null
            and (p_low is null or one.location >= p_low) and (p_high is null or one.location < p_high)
            and not (
                p_only_unused and (
                    exists (select 1 from {t}.entries as e where e.run = p_run and e.location = one.location)
                    or exists (select 1 from {t}.waits as w where w.run = p_run and w.location = one.location)
                )
            )
        order by number
    loop
        perform {f}.close_record(p_now, r.number, r.end_state, '[["closed_with_run", "", ""]]');
    end loop;
end $$;

-- Open and close records as one commit asks.
create function {f}.open_records(p_now bigint, p_run bigint, p_opened jsonb) returns void language plpgsql volatile as $$
declare
    one jsonb;
begin
    for one in select o from jsonb_array_elements(p_opened) as o loop
        perform {f}.insert_record(
            p_now, one->{RecordOpening.record}, p_run, {f}.unb64(one->>{RecordOpening.location}),
            one->{RecordOpening.events}, null
        );
    end loop;
end $$;

create function {f}.close_records(p_now bigint, p_run bigint, p_closed jsonb) returns void language plpgsql volatile as $$
declare
    one jsonb;
    v_kind text;
    v_record_id text;
    v_number bigint;
begin
    for one in select o from jsonb_array_elements(p_closed) as o loop
        v_kind := one->>{RecordClosing.kind};
        v_record_id := one->>{RecordClosing.record_id};
        select number into v_number from {t}.records
        where kind = v_kind and record_id = v_record_id and run = p_run and is_open;
        if found then
            perform {f}.close_record(
                p_now, v_number, one->>{RecordClosing.state}, jsonb_build_array(one->{RecordClosing.event})
            );
        end if;
    end loop;
end $$;

-- Do what was noted, in its order. Every transition that may end runs calls this when it has locked them all.
create function {f}.settle_records(p_now bigint) returns void language plpgsql volatile as $$
declare
    v_acts jsonb;
    a jsonb;
begin
    if coalesce(current_setting('stepwell.records', true), '') = '' then
        return;
    end if;
    v_acts := ('[' || rtrim(current_setting('stepwell.records'), ',') || ']')::jsonb;
    perform set_config('stepwell.records', '', true);
    perform {f}.lock_records(
        array(
            select {f}.lock_of(one->{RecordOpening.record})
            from jsonb_array_elements(v_acts) as act, jsonb_array_elements(act->2) as one
            where act->>0 = 'open'
        ),
        array(
            select r.number
            from jsonb_array_elements(v_acts) as act
            join {t}.records as r on r.run = (act->>1)::bigint and r.is_open and r.end_state is not null
            where act->>0 in ('close_all', 'close_unused')
            union
            select r.number
            from jsonb_array_elements(v_acts) as act
            cross join lateral jsonb_array_elements(act->2) as one
            join {t}.records as r on r.kind = one->>{RecordClosing.kind} and r.record_id = one->>{RecordClosing.record_id}
            where act->>0 = 'close'
        )
    );
    for a in select act from jsonb_array_elements(v_acts) as act loop
        case a->>0
            when 'open' then perform {f}.open_records(p_now, (a->>1)::bigint, a->2);
            when 'close' then perform {f}.close_records(p_now, (a->>1)::bigint, a->2);
            when 'close_all' then
                perform {f}.close_some(p_now, (a->>1)::bigint, {f}.unb64(a->2->>0), {f}.unb64(a->2->>1), false);
            when 'close_unused' then perform {f}.close_some(p_now, (a->>1)::bigint, null, null, true);
        end case;
    end loop;
end $$;

-- --- changes ---

-- The run that gets a signal to a target, or keeps it if it has ended; null if there is none.
create function {f}.find_keeper(p_target text) returns bigint language plpgsql stable as $$
declare
    r record;
    v_id text := p_target;
begin
    loop
        select id, status, successor into r from {t}.runs where run_id = v_id;
        exit when not found or r.status <> 'continued';
        v_id := r.successor;
    end loop;
    return coalesce(
        r.id, {f}.find_active(p_target),
        (select id from {t}.runs where key = p_target and ended_at is not null order by id desc limit 1)
    );
end $$;

-- The runs that the starts of these changes may cancel, and the parents of the first ones, which would be woken.
create function {f}.list_replaced(p_changes jsonb) returns bigint[] language sql stable as $$
    with recursive family as (
        select r.id, r.run_id, r.parent
        from jsonb_array_elements(p_changes) as c
        cross join lateral jsonb_array_elements(c->{RecordChange.starts}) as new
        join {t}.runs as r on r.id = {f}.find_active(new->>{NewRun.key})
        where new->>{NewRun.on_conflict} <> 'get'
        union
        select c.id, c.run_id, c.parent
        from family as f
        join {t}.runs as c on c.parent = f.run_id and (not c.detached or c.tied)
    )
    select array(
        select id from family
        union
        select p.id from family as f join {t}.runs as p on p.run_id = f.parent
    )
$$;

-- Lock everything that the consequences of these changes write: keys, then runs. Returns the runs that they may cancel.
create function {f}.lock_consequences(p_changes jsonb) returns bigint[] language plpgsql volatile as $$
declare
    v_name text;
    v_runs bigint[] := '{}';
    v_replaced bigint[] := '{}';
    v_found bigint[];
begin
    -- Most changes send one signal, to the id of a run.
    if jsonb_array_length(p_changes) = 1 and jsonb_array_length(p_changes->0->{RecordChange.signals}) = 1
        and p_changes->0->{RecordChange.starts} = '[]'
    then
        perform 1 from {t}.runs
        where run_id = p_changes->0->{RecordChange.signals}->0->>{NewSignal.target} and status <> 'continued'
        for no key update;
        if found then
            return v_replaced;
        end if;
    end if;
    for v_name in
        select new->>{NewRun.key}
        from jsonb_array_elements(p_changes) as c, jsonb_array_elements(c->{RecordChange.starts}) as new
        where new->>{NewRun.key} is not null
        union
        -- A signal without a run is held under its target.
        select s->>{NewSignal.target}
        from jsonb_array_elements(p_changes) as c, jsonb_array_elements(c->{RecordChange.signals}) as s
        where not exists (select 1 from {t}.runs where run_id = s->>{NewSignal.target})
        order by 1
    loop
        perform {f}.lock_key(v_name);
    end loop;
    -- Until none is found that is not locked: while this waited, a run may have continued as another.
    loop
        v_found := array(
            select {f}.find_keeper(s->>{NewSignal.target})
            from jsonb_array_elements(p_changes) as c, jsonb_array_elements(c->{RecordChange.signals}) as s
        );
        if p_changes @? '$[*][{RecordChange.starts}][*][{NewRun.on_conflict}] ? (@ != "get")' then
            v_replaced := {f}.list_replaced(p_changes);
        end if;
        v_found := array_remove(v_found || v_replaced, null);
        exit when v_found <@ v_runs;
        v_runs := v_runs || v_found;
        perform 1 from {t}.runs where id = any (v_runs) order by id for no key update;
    end loop;
    return v_replaced;
end $$;

-- Lock everything that these changes write, in the common order.
create function {f}.lock_changes(p_changes jsonb) returns void language plpgsql volatile as $$
declare
    v_first jsonb := p_changes->0->{RecordChange.record};
    v_kind text := v_first->>{NewRecord.kind};
    v_record_id text := v_first->>{NewRecord.record_id};
    v_replaced bigint[] := '{}';
begin
    if p_changes @? '$[*][{RecordChange.signals}, {RecordChange.starts}][*]' then
        v_replaced := {f}.lock_consequences(p_changes);
    end if;
    if jsonb_array_length(p_changes) = 1 and (p_changes->0->>{RecordChange.expected})::bigint > 0 and v_replaced = '{}' then
        perform 1 from {t}.records where kind = v_kind and record_id = v_record_id for no key update;
        return;
    end if;
    perform {f}.lock_records(
        array(
            select {f}.lock_of(c->{RecordChange.record})
            from jsonb_array_elements(p_changes) as c
            where (c->>{RecordChange.expected})::bigint = 0
        ),
        array(
            select r.number
            from jsonb_array_elements(p_changes) as c
            join {t}.records as r on r.kind = c->{RecordChange.record}->>{NewRecord.kind}
                and r.record_id = c->{RecordChange.record}->>{NewRecord.record_id}
            union
            select r.number from {t}.records as r
            where r.run = any (v_replaced) and r.is_open and r.end_state is not null
        )
    );
end $$;

-- Deliver a signal, or keep it where people find it: with the ended run that it was meant for, or under its target.
create function {f}.deliver_surely(p_now bigint, p_new jsonb, inout woken bigint[], out delivered json)
language plpgsql volatile as $$
declare
    v_made record;
    v_run bigint;
begin
    select * into v_made from {f}.deliver_one(p_now, p_new, woken);
    woken := v_made.woken;
    delivered := v_made.delivered;
    if delivered->>{Delivered.delivery} <> 'missing' then
        return;
    end if;
    v_run := {f}.find_keeper(p_new->>{NewSignal.target});
    if v_run is null then
        select json_build_array(h.held, null, false, h.pending) into delivered
        from {f}.hold_signal(p_now, p_new, p_new->>{NewSignal.target}) as h;
        return;
    end if;
    perform {f}.insert_signal(p_now, p_new, v_run, null);
    update {t}.signals set refused = 'it came after the end of the run' where signal_id = p_new->>{NewSignal.signal_id};
    delivered := json_build_array('missing', (select run_id from {t}.runs where id = v_run), false);
end $$;

-- Start the runs of a change, except those whose id or key is taken.
create function {f}.start_some(p_now bigint, p_runs jsonb, inout q {f}.quota, out started text[], out claimed text[])
language plpgsql volatile as $$
declare
    v_together constant text[] := array(select new->>{NewRun.run_id} from jsonb_array_elements(p_runs) as new);
    v_room constant int := q.room;
    v_new jsonb;
    v_made record;
begin
    started := '{}';
    claimed := '{}';
    if (select count(distinct new->>{NewRun.priority}) > 1 from jsonb_array_elements(p_runs) as new) then
        q.room := 0;  -- a later run may be more urgent; the next claim sorts them
    end if;
    for v_new in select new from jsonb_array_elements(p_runs) as new loop
        continue when exists (select 1 from {t}.runs where run_id = v_new->>{NewRun.run_id});
        select * into v_made from {f}.create_one(p_now, v_new, q, v_together);
        q := v_made.q;
        if (v_made.created->>{Created.is_new})::boolean then
            started := started || (v_made.created->>{Created.run_id});
        end if;
        if v_made.created->>{Created.claimed} is not null then
            claimed := claimed || (v_made.created->{Created.claimed})::text;
        end if;
    end loop;
    q.room := v_room - cardinality(claimed);
end $$;

-- Whether a change from this version was applied before. Versions grow with the numbers of the events, so only the events
-- that are newer are read.
create function {f}.has_changed(p_number bigint, p_expected bigint, p_change_id text) returns boolean
language plpgsql stable as $$
declare
    e record;
begin
    for e in select version, change_id from {t}.record_events where record = p_number order by number desc loop
        if e.version <= p_expected then
            return false;
        elsif e.version = p_expected + 1 and e.change_id = p_change_id then
            return true;
        end if;
    end loop;
    return false;
end $$;

-- Write the record of a change. The outcome is null if it is written; else it is the answer. Its plans are made once: the
-- server believes that a plan for a few known labels is better, and would plan every change again, which takes longer than
-- the change.
create function {f}.write_change(p_now bigint, c jsonb) returns text language plpgsql volatile
set plan_cache_mode = force_generic_plan as $$
declare
    v_new jsonb := c->{RecordChange.record};
    v_kind text := v_new->>{NewRecord.kind};
    v_record_id text := v_new->>{NewRecord.record_id};
    v_is_open boolean := (v_new->>{NewRecord.is_open})::boolean;
    v_due_at bigint := case when v_is_open then (v_new->>{NewRecord.due_at})::bigint end;
    v_expected bigint := (c->>{RecordChange.expected})::bigint;
    v_labels text[];  -- null: those that it has
    v_none text;
    r record;
begin
    select number, version, state, labels, is_open, due_at, greatest(p_now, updated_at) as now,
        to_jsonb(labels) = v_new->{NewRecord.labels} as has_same_labels
    into r
    from {t}.records where kind = v_kind and record_id = v_record_id
    for no key update;
    if r.version > v_expected then
        if {f}.has_changed(r.number, v_expected, c->>{RecordChange.change_id}) then
            return '["changed",' || (v_expected + 1) || ',[],[],[]]';
        end if;
    end if;
    if coalesce(r.version, 0) <> v_expected then
        return '["stale",' || coalesce(r.version, 0) || ',[],[],[]]';
    elsif r.number is null then
        perform {f}.insert_record(p_now, v_new, null, null, c->{RecordChange.events}, c->>{RecordChange.change_id});
        return null;
    elsif not r.has_same_labels then
        v_labels := {f}.texts(v_new->{NewRecord.labels});
        delete from {t}.record_labels
        where kind = v_kind and label = any (r.labels) and is_open = r.is_open and number = r.number;
        perform {f}.enter_labels(
            r.number, v_kind, v_new->{NewRecord.labels}, v_is_open, v_new->>{NewRecord.state}, v_due_at
        );
    end if;
    with written as (
        update {t}.records
        set version = v_expected + 1, state = v_new->>{NewRecord.state}, labels = coalesce(v_labels, labels),
            due_at = v_due_at, is_open = v_is_open, end_state = v_new->>{NewRecord.end_state},
            body = {f}.unb64(v_new->>{NewRecord.body}), updated_at = r.now
        where number = r.number
    )
    update {t}.record_labels
    set is_open = v_is_open, state = v_new->>{NewRecord.state}, due_at = v_due_at
    where v_labels is null
        and (r.is_open, r.state, r.due_at) is distinct from (v_is_open, v_new->>{NewRecord.state}, v_due_at)
        and kind = v_kind and label = any (r.labels) and is_open = r.is_open and number = r.number;
    -- Assigned, not performed: see `begin_at`.
    v_none := {f}.append_record_events(
        r.now, r.number, v_expected + 1, c->{RecordChange.events}, c->>{RecordChange.change_id}
    )::text;
    if v_due_at < r.due_at or v_due_at is not null and r.due_at is null then
        perform {f}.hint('due', '');
    end if;
    return null;
end $$;

-- Apply one change, and claim what it starts or wakes. Returns `Changed`.
create function {f}.change_one(p_now bigint, c jsonb, p_claimant jsonb, inout q {f}.quota, out changed text)
language plpgsql volatile as $$
declare
    v_signal jsonb;
    v_made record;
    v_started json := '[]';
    v_delivered text[] := '{}';
    v_woken bigint[] := '{}';
    v_claimed text[] := '{}';
    v_taken text;
begin
    changed := {f}.write_change(p_now, c);
    if changed is not null then
        return;
    end if;
    if jsonb_array_length(c->{RecordChange.starts}) > 0 then
        select * into v_made from {f}.start_some(p_now, c->{RecordChange.starts}, q);
        q := v_made.q;
        v_started := to_json(v_made.started);
        v_claimed := v_made.claimed;
    end if;
    for v_signal in select one from jsonb_array_elements(c->{RecordChange.signals}) as one loop
        select * into v_made from {f}.deliver_surely(p_now, v_signal, v_woken);
        v_woken := v_made.woken;
        v_delivered := v_delivered || v_made.delivered::text;
    end loop;
    if cardinality(v_woken) > 0 and q.room > 0 then
        v_taken := {f}.take_woken(p_now, v_woken, jsonb_set(p_claimant, '{{Claimant.limit}}', to_jsonb(q.room)));
        q.room := q.room - json_array_length(v_taken::json);
        v_claimed := v_claimed || array(select one::text from json_array_elements(v_taken::json) as one);
    end if;
    changed := '["changed",' || ((c->>{RecordChange.expected})::bigint + 1) || ',[' || array_to_string(v_delivered, ',')
        || '],' || v_started::text || ',[' || array_to_string(v_claimed, ',') || ']]';
end $$;

create function {f}.change_records(p_now bigint, p_seen bigint, p_changes jsonb, p_claimant jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    q {f}.quota;
    c jsonb;
    v_made record;
    v_changed text[] := '{}';
    v_answer text;
begin
    if jsonb_array_length(p_changes) = 1 and p_claimant is null then
        v_answer := {f}.change_single(p_now, p_seen, p_changes->0);
        if v_answer is not null then
            return v_answer;
        end if;
    end if;
    perform {f}.lock_changes(p_changes);
    v_now := {f}.begin_at(p_now, p_seen);
    q := {f}.offer(v_now, p_claimant);
    for c in select one from jsonb_array_elements(p_changes) as one loop
        select * into v_made from {f}.change_one(v_now, c, p_claimant, q);
        q := v_made.q;
        v_changed := v_changed || v_made.changed;
    end loop;
    perform {f}.settle_records(v_now);
    return {f}.answer(v_now, '[' || array_to_string(v_changed, ',') || ']');
end $$;

create function {f}.prune_records(p_now bigint, p_seen bigint, p_kind text, p_older_than bigint, p_limit bigint) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    r record;
    v_count bigint := 0;
begin
    for r in
        select number, labels from {t}.records
        where kind = p_kind and not is_open and updated_at < v_now - p_older_than
        order by updated_at, number
        limit p_limit
        for update skip locked
    loop
        delete from {t}.record_events where record = r.number;
        delete from {t}.record_labels
        where kind = p_kind and label = any (r.labels) and not is_open and number = r.number;
        delete from {t}.records where number = r.number;
        v_count := v_count + 1;
    end loop;
    return {f}.answer(v_now, v_count::text);
end $$;

-- --- reads ---

-- The earliest due time of these kinds. Its plan does not depend on the time, so a session plans it only once.
create function {f}.earliest_due(p_kinds jsonb) returns bigint language plpgsql stable as $$
begin
    return (
        select min(
            (
                select r.due_at from {t}.records as r
                where r.kind = asked.kind and r.due_at is not null
                order by r.due_at
                limit 1
            )
        )
        from jsonb_array_elements_text(p_kinds) as asked (kind)
    );
end $$;

-- Mostly nothing is due. Then nothing is planned: among many records, planning takes longer than looking.
create function {f}.due_records(p_now bigint, p_seen bigint, p_kinds jsonb, p_limit bigint) returns text
language plpgsql stable as $$
declare
    v_now bigint := {f}.peek_clock(p_now, p_seen);
    v_earliest bigint := {f}.earliest_due(p_kinds);
begin
    if v_earliest is null or v_earliest > v_now then
        return '[]';
    end if;
    return (
        select coalesce(json_agg({f}.read_record(due.number) order by due.due_at, due.number), '[]')::text
        from (
            select found.number, found.due_at
            from (select distinct kind from jsonb_array_elements_text(p_kinds) as x (kind)) as asked
            cross join lateral (
                select r.number, r.due_at from {t}.records as r
                where r.kind = asked.kind and r.due_at is not null and r.due_at <= v_now
                order by r.due_at, r.number
                limit p_limit
            ) as found
            order by found.due_at, found.number
            limit p_limit
        ) as due
    );
end $$;

create function {f}.next_due_record(p_now bigint, p_seen bigint, p_kinds jsonb) returns text language plpgsql stable as $$
begin
    return coalesce({f}.earliest_due(p_kinds)::text, 'null');
end $$;

create function {f}.find_record(p_now bigint, p_seen bigint, p_kind text, p_record_id text) returns text
language sql stable as $$
    select coalesce({f}.read_record({f}.find_number(p_kind, p_record_id))::text, 'null')
$$;

create function {f}.list_record_events(
    p_now bigint, p_seen bigint, p_kind text, p_record_id text, p_limit bigint, p_before bigint
) returns text language sql stable as $$
    select coalesce(json_agg(json_build_array({RecordEvent.* to json}) order by number desc), '[]')::text
    from (
        select e.* from {t}.record_events as e
        where e.record = {f}.find_number(p_kind, p_record_id) and (p_before is null or e.number < p_before)
        order by e.number desc
        limit p_limit
    ) as page
$$;

-- The conditions of a filter that the range of an index may not meet. A row of a label does not have the other labels.
create function {f}.other_conditions(p_filter jsonb, p_has_label boolean) returns text language sql immutable
return case
        when jsonb_array_length(p_filter->{RecordFilter.labels}) <= p_has_label::int then ''
        when p_has_label then ' and exists (select 1 from {t}.records as r where r.number = one.number'
            || ' and r.labels @> {f}.texts($1->{RecordFilter.labels}) offset 0)'
        else ' and labels @> {f}.texts($1->{RecordFilter.labels})'
    end
    || case when p_filter->{RecordFilter.states} = '[]' then ''
        else ' and state = any ({f}.texts($1->{RecordFilter.states}))' end
    || case when p_filter->>{RecordFilter.is_open} is null then ''
        else ' and is_open = ($1->>{RecordFilter.is_open})::boolean' end;

-- The records that a filter selects, as parts of a statement: the first ones of a few ranges, each in the order of one
-- index. A range compares rows, and its order names all columns of the index. So no other index will do, whatever the
-- server believes of the contents. Where no index has the order, the records are found first and then sorted. The
-- parameters are the filter, the number of its run, the numbers and the due time between which the page is, and its
-- length.
create function {f}.parts_of(p_filter jsonb) returns text[] language plpgsql immutable as $$
declare
    v_order constant text := p_filter->>{RecordFilter.order};
    v_is_open constant boolean := (p_filter->>{RecordFilter.is_open})::boolean;
    v_has_run constant boolean := p_filter->>{RecordFilter.run_id} is not null;
    v_has_label constant boolean := not v_has_run and p_filter->{RecordFilter.labels} <> '[]';
    v_has_due constant boolean := v_order = 'due' or p_filter->>{RecordFilter.due_before} is not null;
    v_is_by_state constant boolean := not (v_has_run or v_has_label or v_has_due) and p_filter->{RecordFilter.states} <> '[]';
    v_columns text := case when v_has_label then 'kind, label' else 'kind' end;
    v_given constant text := '$1->>{RecordFilter.kind}' || case when v_has_label then ', $1->{RecordFilter.labels}->>0' else '' end;
    v_from text := 'select number, due_at from {t}.' || case when v_has_label then 'record_labels' else 'records' end || ' as one where ';
    v_more constant text := {f}.other_conditions(p_filter, v_has_label);
    v_due_before constant text := 'coalesce(($1->>{RecordFilter.due_before})::bigint, 9223372036854775807)';
    v_way constant text := case when v_order = 'newest' then ' desc' else '' end;
    v_ranges text[];
begin
    if v_has_due and not v_is_open then
        return '{}';  -- a closed record has no due time
    end if;
    v_from := v_from || case when v_has_due then 'due_at is not null and ' else '' end;
    if v_has_run or v_has_due and v_order <> 'due' then
        return array[
            '(select * from (' || v_from || format('(%s) = (%s)', v_columns, v_given) || v_more
            || case when v_has_run then ' and run = $2' else '' end
            || case when v_has_due then ' and due_at < ' || v_due_before else '' end
            || case when v_order = 'due' then ' and (due_at, number) > ($5, $3)' else ' and number > $3 and number < $4' end
            || ' offset 0) as found order by ' || case when v_order = 'due' then 'due_at, ' else '' end || 'number' || v_way
            || ' limit $6)'
        ];
    elsif v_has_due then
        return array[
            '(' || v_from || format('(%s, due_at, number) > (%s, $5, $3)', v_columns, v_given)
            || format(' and (%s, due_at, number) < (%s, %s, 0)', v_columns, v_given, v_due_before) || v_more
            || format(' order by %s, due_at, number limit $6)', v_columns)
        ];
    end if;
    v_ranges := case
        when v_is_by_state then array(
            select format('$1->{RecordFilter.states}->>%s', min(place) - 1)
            from jsonb_array_elements_text(p_filter->{RecordFilter.states}) with ordinality as x (state, place)
            group by state
        )
        when v_is_open is null then array['true', 'false']
        else array[v_is_open::text]
    end;
    v_columns := v_columns || case when v_is_by_state then ', state' else ', is_open' end;
    return array(
        select '(' || v_from || format('(%s, number) > (%s, %s, $3)', v_columns, v_given, one)
            || format(' and (%s, number) < (%s, %s, $4)', v_columns, v_given, one) || v_more
            || ' order by ' || replace(v_columns, ',', v_way || ',') || v_way || ', number' || v_way || ' limit $6)'
        from unnest(v_ranges) as one
    );
end $$;

create function {f}.list_records(
    p_now bigint, p_seen bigint, p_filter jsonb, p_limit bigint, p_number bigint, p_due_at bigint
) returns text language plpgsql stable set enable_sort = off set enable_incremental_sort = off as $$
declare
    v_order constant text := p_filter->>{RecordFilter.order};
    v_parts constant text[] := {f}.parts_of(p_filter);
    v_found bigint[];
begin
    if cardinality(v_parts) = 0 or v_order = 'due' and p_number is not null and p_due_at is null then
        return '[]';
    end if;
    execute 'select array(select number from (' || array_to_string(v_parts, ' union all ') || ') as parts order by '
        || case v_order when 'due' then 'due_at, number' when 'oldest' then 'number' else 'number desc' end || ' limit $6)'
    into v_found
    using p_filter, (select id from {t}.runs where run_id = p_filter->>{RecordFilter.run_id}),
        case when v_order <> 'newest' then coalesce(p_number, 0) else 0 end,
        case when v_order = 'newest' then coalesce(p_number, 9223372036854775807) else 9223372036854775807 end,
        coalesce(p_due_at, -1), p_limit;
    return (
        select coalesce(json_agg({f}.read_record(number) order by place), '[]')::text
        from unnest(v_found) with ordinality as x (number, place)
    );
end $$;

create function {f}.count_records(p_now bigint, p_seen bigint, p_filter jsonb, p_limit bigint) returns text
language plpgsql stable set enable_sort = off set enable_incremental_sort = off as $$
declare
    -- In an order that an index has.
    v_parts constant text[] := {f}.parts_of(
        case when p_filter->>{RecordFilter.due_before} is null then p_filter
            else jsonb_set(p_filter, '{{RecordFilter.order}}', '"due"') end
    );
    v_count bigint;
begin
    if cardinality(v_parts) = 0 then
        return '0';
    end if;
    execute 'select count(*) from (select 1 from (' || array_to_string(v_parts, ' union all ') || ') as parts limit $6) as found'
    into v_count
    using p_filter, (select id from {t}.runs where run_id = p_filter->>{RecordFilter.run_id}), 0::bigint, 9223372036854775807,
        -1::bigint, p_limit;
    return v_count::text;
end $$;

-- Whether the open records of a kind and label are others than these.
create function {f}.is_stale(p_seen jsonb) returns boolean language plpgsql volatile as $$
declare
    v_now jsonb := (
        select jsonb_agg(jsonb_build_array(r.record_id, r.version) order by r.record_id)
        from {t}.record_labels as l join {t}.records as r on r.number = l.number
        where l.kind = p_seen->>{RecordsSeen.kind} and l.label = p_seen->>{RecordsSeen.label} and l.is_open
    );
begin
    return coalesce(v_now, '[]') <> p_seen->{RecordsSeen.versions};
end $$;
