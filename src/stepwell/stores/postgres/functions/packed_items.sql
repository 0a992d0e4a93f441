-- Packed items as JSON, in the order of the fields of stores/base/packed_items.py, and back into rows.

create function {f}.packed_kinds() returns text[] language sql immutable
return array['blobs', 'events', 'runs', 'chunks', 'signals', 'owed', 'records', 'record_events', 'requests', 'acts'];

-- The field of a batch that has the items of a kind.
create function {f}.field_of(p_kind text) returns int language sql immutable
return case p_kind
    when 'blobs' then {TransferBatch.blobs}
    when 'events' then {TransferBatch.events}
    when 'runs' then {TransferBatch.runs}
    when 'chunks' then {TransferBatch.chunks}
    when 'signals' then {TransferBatch.signals}
    when 'owed' then {TransferBatch.owed}
    when 'records' then {TransferBatch.records}
    when 'record_events' then {TransferBatch.record_events}
    when 'requests' then {TransferBatch.requests}
    when 'acts' then {TransferBatch.acts}
end;

create function {f}.packed_blob(p_hash bytea) returns json language sql stable as $$
    select json_build_array(encode(hash, 'hex'), {f}.b64(content)) from {t}.blobs where hash = p_hash
$$;

create function {f}.packed_event(p_number bigint) returns json language sql stable as $$
    select json_build_array({PackedEvent.* to json})
    from {t}.events
    where number = p_number
$$;

create function {f}.packed_run(p_run bigint) returns json language sql stable as $$
    select json_build_array(
        {f}.read_run(r.id), h.number, r.discards, {f}.read_history(r.id),
        (
            select coalesce(json_agg(json_build_array(position, armed) order by position), '[]')
            from {t}.waits where run = r.id and topic is not null
        ),
        (
            select coalesce(
                json_agg(json_build_array(got.number, e.event_id, {f}.b64s(got.locations), got.is_read) order by got.number),
                '[]'
            )
            from {t}.receipts as got join {t}.events as e on e.number = got.event
            where got.run = r.id
        ),
        (
            select coalesce(json_agg(json_build_array({Published.* to json}) order by name), '[]')
            from {t}.published where run = r.id
        ),
        (
            select coalesce(json_agg(json_build_array(at, r.run_id, verb, by, before, after, reason) order by id), '[]')
            from {t}.audit where run = r.id
        )
    )
    from {t}.runs as r join {t}.heads as h on h.run = r.id
    where r.id = p_run
$$;

create function {f}.packed_chunk(p_run bigint, p_stream text, p_number bigint) returns json language sql stable as $$
    select json_build_array(r.run_id, c.stream, c.number, c.kind, c.source, c.part, {f}.b64(c.value))
    from {t}.chunks as c join {t}.runs as r on r.id = c.run
    where c.run = p_run and c.stream = p_stream and c.number = p_number
$$;

-- A reason is useless without the signal; a signal that was dropped later may still have one.
create function {f}.packed_signal(p_number bigint) returns json language sql stable as $$
    select json_build_array(
        s.number, s.signal_id, r.run_id, s.key, s.name, s.dedup_key, {f}.b64(s.payload), s.sent_at, s.asks,
        case when s.payload is not null then s.refused end, case when s.payload is not null then s.refused_by else '' end,
        case when p.number is not null then json_build_array(p.status, {f}.b64(p.value), p.at) end
    )
    from {t}.signals as s
    left join {t}.runs as r on r.id = s.run
    left join {t}.replies as p on p.number = s.number
    where s.number = p_number
$$;

create function {f}.packed_record_event(p_record bigint, p_number bigint) returns json language sql stable as $$
    select json_build_array(record, json_build_array({RecordEvent.* to json}), change_id)
    from {t}.record_events
    where record = p_record and number = p_number
$$;

create function {f}.packed_request(p_scope text, p_key text) returns json language sql stable as $$
    select json_build_array({Reservation.* to json})
    from {t}.requests
    where scope = p_scope and key = p_key
$$;

-- The marks of the next items of a kind: numbers, hashes, [run, stream, number], [record, number], or [scope, key]. Columns
-- that are formatted are qualified with their table: `order by number` alone would sort the formatted text.
create function {f}.list_marks(p_kind text, p_after text, p_limit bigint) returns text[] language plpgsql stable as $$
declare
    v_number bigint := case
        when p_kind not in ('blobs', 'chunks', 'record_events', 'requests') then coalesce(nullif(p_after, '')::bigint, 0)
    end;
    v_chunk jsonb := case when p_kind = 'chunks' then coalesce(nullif(p_after, '')::jsonb, '[0, "", 0]') end;
    v_line jsonb := case when p_kind = 'record_events' then coalesce(nullif(p_after, '')::jsonb, '[0, 0]') end;
    v_place jsonb := case when p_kind = 'requests' then coalesce(nullif(p_after, '')::jsonb, '["", ""]') end;
begin
    return case p_kind
        when 'blobs' then array(
            select encode(hash, 'hex') from {t}.blobs where hash > decode(p_after, 'hex') order by hash limit p_limit
        )
        when 'events' then array(
            select x.number::text from {t}.events as x where x.number > v_number order by x.number limit p_limit
        )
        when 'runs' then array(select x.id::text from {t}.runs as x where x.id > v_number order by x.id limit p_limit)
        when 'chunks' then array(
            select json_build_array(run, stream, number)::text
            from {t}.chunks
            where (run, stream, number) > ((v_chunk->>{ChunkMark.run})::bigint, v_chunk->>{ChunkMark.stream},
                (v_chunk->>{ChunkMark.number})::bigint)
            order by run, stream, number
            limit p_limit
        )
        when 'signals' then array(
            select x.number::text from {t}.signals as x where x.number > v_number order by x.number limit p_limit
        )
        when 'owed' then array(
            select x.number::text from {t}.outbox as x where x.number > v_number order by x.number limit p_limit
        )
        when 'records' then array(
            select x.number::text from {t}.records as x where x.number > v_number order by x.number limit p_limit
        )
        when 'record_events' then array(
            select json_build_array(x.record, x.number)::text
            from {t}.record_events as x
            where (x.record, x.number) > ((v_line->>{LineMark.record})::bigint, (v_line->>{LineMark.number})::bigint)
            order by x.record, x.number
            limit p_limit
        )
        when 'requests' then array(
            select json_build_array(scope, key)::text
            from {t}.requests
            where (scope, key) > (v_place->>{RequestMark.scope}, v_place->>{RequestMark.key})
            order by scope, key
            limit p_limit
        )
        when 'acts' then array(
            select x.number::text from {t}.acts as x where x.number > v_number order by x.number limit p_limit
        )
    end;
end $$;

create function {f}.read_marked(p_kind text, p_mark text) returns json language plpgsql stable as $$
begin
    return case p_kind
        when 'blobs' then {f}.packed_blob(decode(p_mark, 'hex'))
        when 'events' then {f}.packed_event(p_mark::bigint)
        when 'runs' then {f}.packed_run(p_mark::bigint)
        when 'chunks' then {f}.packed_chunk(
            (p_mark::jsonb->>{ChunkMark.run})::bigint, p_mark::jsonb->>{ChunkMark.stream},
                (p_mark::jsonb->>{ChunkMark.number})::bigint
        )
        when 'signals' then {f}.packed_signal(p_mark::bigint)
        when 'owed' then {f}.read_owed(p_mark::bigint)
        when 'records' then {f}.read_record(p_mark::bigint)
        when 'record_events' then {f}.packed_record_event(
            (p_mark::jsonb->>{LineMark.record})::bigint, (p_mark::jsonb->>{LineMark.number})::bigint
        )
        when 'requests' then {f}.packed_request(p_mark::jsonb->>{RequestMark.scope}, p_mark::jsonb->>{RequestMark.key})
        when 'acts' then {f}.packed_act(p_mark::bigint)
    end;
end $$;

-- Items of one kind, one by one until the batch is large enough: at most one of them is read in vain. `mark` is that of
-- the last item, or null if it is the last of its kind.
create function {f}.pack_kind(
    p_kind text, p_after text, p_limit bigint, p_bytes bigint, out items text[], out mark text
) language plpgsql stable as $$
declare
    v_marks text[] := {f}.list_marks(p_kind, p_after, p_limit);
    v_weight bigint := 0;
begin
    items := '{}';
    foreach mark in array v_marks loop
        items := items || {f}.read_marked(p_kind, mark)::text;
        v_weight := v_weight + octet_length(items[cardinality(items)]);
        if cardinality(items) >= p_limit or v_weight >= p_bytes then
            return;
        end if;
    end loop;
    mark := null;
end $$;

-- --- unpacking ---

-- The stored item with the same identity, if any.
create function {f}.find_packed(p_kind text, p_item jsonb) returns json language plpgsql stable as $$
begin
    return case p_kind
        when 'blobs' then {f}.packed_blob(decode(p_item->>{PackedBlob.name}, 'hex'))
        when 'events' then (select {f}.packed_event(number) from {t}.events where event_id = p_item->>{PackedEvent.event_id})
        when 'runs' then (select {f}.packed_run(id) from {t}.runs where run_id = p_item->{PackedRun.run}->>{Run.run_id})
        when 'chunks' then (
            select {f}.packed_chunk(id, p_item->>{PackedChunk.stream}, (p_item->>{PackedChunk.offset})::bigint)
                from {t}.runs where run_id = p_item->>{PackedChunk.run_id}
        )
        when 'signals' then (select {f}.packed_signal(number) from {t}.signals
            where signal_id = p_item->>{PackedSignal.signal_id})
        when 'owed' then {f}.read_owed((p_item->>{Owed.number})::bigint)
        when 'records' then {f}.read_record({f}.find_number(p_item->>{Record.kind}, p_item->>{Record.record_id}))
        when 'record_events' then {f}.packed_record_event(
            (p_item->>{PackedRecordEvent.record})::bigint, (p_item->{PackedRecordEvent.event}->>{RecordEvent.number})::bigint
        )
        when 'requests' then {f}.packed_request(p_item->>{Reservation.scope}, p_item->>{Reservation.key})
        when 'acts' then {f}.packed_act((p_item->>{Act.number})::bigint)
    end;
end $$;

-- Whether the run, event or record that an item belongs to is missing.
create function {f}.is_unattached(p_kind text, p_item jsonb) returns boolean language plpgsql stable as $$
declare
    v_run_id text := case p_kind when 'chunks' then p_item->>{PackedChunk.run_id} when 'signals'
        then p_item->>{PackedSignal.run_id} when 'owed' then p_item->>{Owed.run_id} when 'records'
        then p_item->>{Record.run_id} end;
begin
    if p_kind = 'record_events' then
        return not exists (select 1 from {t}.records where number = (p_item->>{PackedRecordEvent.record})::bigint);
    end if;
    if p_kind = 'runs' then
        return exists (
            select 1 from jsonb_array_elements(p_item->{PackedRun.receipts}) as got
            where not exists (select 1 from {t}.events as e where e.event_id = got->>{PackedReceipt.event_id})
        );
    end if;
    return v_run_id is not null and not exists (select 1 from {t}.runs where run_id = v_run_id);
end $$;

create function {f}.refuse_item(p_why text, p_kind text, p_place bigint) returns void language plpgsql as $$
begin
    raise exception using errcode = 'SW010', message = 'an item cannot be unpacked',
        detail = json_build_array(p_why, p_kind, p_place)::text;
end $$;

-- Add items of one kind; items that are there and identical are skipped. They start at `p_first` in the batch.
create function {f}.add_items(p_now bigint, p_kind text, p_items jsonb, p_first bigint) returns void
language plpgsql volatile as $$
declare
    v_other bigint;
    v_lost bigint;
    v_new jsonb;
begin
    with compared as materialized (
        select one, place, {f}.find_packed(p_kind, one)::jsonb as there
        from jsonb_array_elements(p_items) with ordinality as x (one, place)
    )
    select
        min(place) filter (where there <> one),
        min(place) filter (where there is null and {f}.is_unattached(p_kind, one)),
        coalesce(jsonb_agg(one order by place) filter (where there is null), '[]')
    into v_other, v_lost, v_new
    from compared;
    if v_other is not null then
        perform {f}.refuse_item('differs', p_kind, p_first + v_other - 1);
    end if;
    if v_lost is not null then
        perform {f}.refuse_item('unattached', p_kind, p_first + v_lost - 1);
    end if;
    case p_kind
        when 'blobs' then
            insert into {t}.blobs (hash, content, stored_at)
            select decode(one->>{PackedBlob.name}, 'hex'), {f}.unb64(one->>{PackedBlob.content}), p_now
                from jsonb_array_elements(v_new) as one;
        when 'events' then perform {f}.add_events(v_new);
        when 'runs' then perform {f}.add_runs(v_new);
        when 'chunks' then
            insert into {t}.chunks (run, stream, number, kind, source, part, value)
            select r.id, one->>{PackedChunk.stream}, (one->>{PackedChunk.offset})::bigint, one->>{PackedChunk.kind},
                one->>{PackedChunk.source}, (one->>{PackedChunk.part})::bigint, {f}.unb64(one->>{PackedChunk.value})
            from jsonb_array_elements(v_new) as one join {t}.runs as r on r.run_id = one->>{PackedChunk.run_id};
        when 'signals' then perform {f}.add_signals(v_new);
        when 'owed' then
            insert into {t}.outbox (
                number, run, sink, event_id, name, path, payload, at, attempts, next_at, died_at, failure, died_by
            )
            overriding system value
            select
                (one->>{Owed.number})::bigint, r.id, one->>{Owed.sink}, one->>{Owed.event_id}, one->>{Owed.name},
                    one->>{Owed.path}, {f}.unb64(one->>{Owed.payload}), (one->>{Owed.at})::bigint,
                (one->>{Owed.attempts})::bigint, (one->>{Owed.next_at})::bigint, (one->>{Owed.died_at})::bigint,
                    one->>{Owed.failure}, one->>{Owed.died_by}
            from jsonb_array_elements(v_new) as one join {t}.runs as r on r.run_id = one->>{Owed.run_id};
        when 'records' then perform {f}.add_records(v_new);
        when 'record_events' then
            insert into {t}.record_events (record, {RecordEvent.*}, change_id)
            select (one->>{PackedRecordEvent.record})::bigint, {RecordEvent.* from e}, one->>{PackedRecordEvent.change_id}
            from (
                select one, one->{PackedRecordEvent.event} as e from jsonb_array_elements(v_new) as one
            ) as coming;
        when 'requests' then
            insert into {t}.requests ({Reservation.*})
            select {Reservation.* from one} from jsonb_array_elements(v_new) as one;
        when 'acts' then
            insert into {t}.acts ({Act.*})
            select
                {Act.* from one}
            from jsonb_array_elements(v_new) as one;
    end case;
end $$;

create function {f}.add_events(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.events ({PackedEvent.*})
    overriding system value
    select
        {PackedEvent.* from one}
    from jsonb_array_elements(p_items) as one
$$;

create function {f}.add_signals(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.signals (number, signal_id, run, key, name, dedup_key, payload, sent_at, asks, refused, refused_by)
    overriding system value
    select
        (one->>{PackedSignal.number})::bigint, one->>{PackedSignal.signal_id}, r.id, one->>{PackedSignal.key},
            one->>{PackedSignal.name}, one->>{PackedSignal.dedup_key}, {f}.unb64(one->>{PackedSignal.payload}),
            (one->>{PackedSignal.sent_at})::bigint,
        (one->>{PackedSignal.asks})::boolean, one->>{PackedSignal.refused}, one->>{PackedSignal.refused_by}
    from jsonb_array_elements(p_items) as one left join {t}.runs as r on r.run_id = one->>{PackedSignal.run_id};
    insert into {t}.replies (number, status, value, at)
    select (one->>{PackedSignal.number})::bigint, one->{PackedSignal.reply}->>{PackedReply.status},
        {f}.unb64(one->{PackedSignal.reply}->>{PackedReply.value}), (one->{PackedSignal.reply}->>{PackedReply.at})::bigint
    from jsonb_array_elements(p_items) as one
    where jsonb_typeof(one->{PackedSignal.reply}) = 'array'
$$;

create function {f}.add_records(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.records (
        number, kind, record_id, version, state, labels, due_at, is_open, end_state, run, location, body, created_at,
        updated_at
    )
    overriding system value
    select
        (one->>{Record.number})::bigint, one->>{Record.kind}, one->>{Record.record_id}, (one->>{Record.version})::bigint,
        one->>{Record.state}, {f}.texts(one->{Record.labels}), (one->>{Record.due_at})::bigint,
        (one->>{Record.is_open})::boolean, one->>{Record.end_state}, r.id, {f}.unb64(one->>{Record.location}),
        {f}.unb64(one->>{Record.body}), (one->>{Record.created_at})::bigint, (one->>{Record.updated_at})::bigint
    from jsonb_array_elements(p_items) as one left join {t}.runs as r on r.run_id = one->>{Record.run_id};
    insert into {t}.record_labels (kind, label, is_open, number, state, due_at)
    select
        one->>{Record.kind}, label, (one->>{Record.is_open})::boolean, (one->>{Record.number})::bigint,
        one->>{Record.state}, (one->>{Record.due_at})::bigint
    from jsonb_array_elements(p_items) as one
    cross join lateral jsonb_array_elements_text(one->{Record.labels}) as label
$$;

-- The runs that have a row here, each with its packed item.
create function {f}.arrived(p_items jsonb) returns table (run bigint, item jsonb) language sql stable as $$
    select r.id, one from jsonb_array_elements(p_items) as one
        join {t}.runs as r on r.run_id = one->{PackedRun.run}->>{Run.run_id}
$$;

-- Add runs in the order of the batch, without an owner.
create function {f}.add_runs(p_items jsonb) returns void language plpgsql volatile as $$
begin
    insert into {t}.runs (
        {Run.*},
        definition, parent, parent_location, detached, tied, previous, previous_started_at, previous_finished_at, discards
    )
    select
        {Run.* from r},
        {f}.define(r->>{Run.workflow}, (r->>{Run.version})::bigint, (r->>{Run.priority})::bigint),
        r->{Run.parent}->>{Parent.run_id}, {f}.unb64(r->{Run.parent}->>{Parent.location}),
        coalesce((r->{Run.parent}->>{Parent.detached})::boolean, false),
        coalesce((r->{Run.parent}->>{Parent.tied})::boolean, false),
        r->{Run.previous}->>{Previous.run_id}, (r->{Run.previous}->>{Previous.started_at})::bigint,
        (r->{Run.previous}->>{Previous.finished_at})::bigint, discards
    from (
        select one->{PackedRun.run} as r, (one->>{PackedRun.discards})::boolean as discards
        from jsonb_array_elements(p_items) with ordinality as x (one, place)
        order by place
    ) as coming;
    insert into {t}.heads (run, number, revision, last_seq, stalls)
    select run, (item->>{PackedRun.applied})::bigint, (item->{PackedRun.run}->>{Run.revision})::bigint,
        (item->{PackedRun.run}->>{Run.last_seq})::bigint, (item->{PackedRun.run}->>{Run.stalls})::bigint
    from {f}.arrived(p_items);
    insert into {t}.payloads (run, input, output, failure, tags, title, started_by, headers, retry)
    select run, {f}.unb64(item->{PackedRun.run}->>{Run.input}), {f}.unb64(item->{PackedRun.run}->>{Run.output}),
        {f}.unb64(item->{PackedRun.run}->>{Run.failure}), (item->{PackedRun.run}->{Run.tags})::json,
        item->{PackedRun.run}->>{Run.title}, item->{PackedRun.run}->>{Run.started_by},
        {f}.unb64(item->{PackedRun.run}->>{Run.headers}), item->{PackedRun.run}->>{Run.retry}
    from {f}.arrived(p_items);
    perform {f}.set_attributes(run, item->{PackedRun.run}->>{Run.run_id}, item->{PackedRun.run}->{Run.attributes})
    from {f}.arrived(p_items);
    perform {f}.add_histories(p_items);
    perform {f}.add_waits(p_items);
    insert into {t}.receipts (number, run, event, locations, is_read)
    overriding system value
    select
        (got->>{PackedReceipt.number})::bigint, run, e.number,
        array(
            select {f}.unb64(l) from jsonb_array_elements_text(got->{PackedReceipt.locations}) with ordinality as x (l,
                place) order by place
        ),
        (got->>{PackedReceipt.is_read})::boolean
    from {f}.arrived(p_items), jsonb_array_elements(item->{PackedRun.receipts}) as got
    join {t}.events as e on e.event_id = got->>{PackedReceipt.event_id};
    insert into {t}.published (run, {Published.*})
    select run, {Published.* from p} from {f}.arrived(p_items), jsonb_array_elements(item->{PackedRun.published}) as p;
    insert into {t}.audit (run, at, verb, by, before, after, reason)
    select run, (a->>{Audit.at})::bigint, a->>{Audit.verb}, a->>{Audit.by}, a->>{Audit.before}, a->>{Audit.after},
        a->>{Audit.reason}
    from {f}.arrived(p_items), jsonb_array_elements(item->{PackedRun.audit}) with ordinality as x (a, place)
    order by run, place;
end $$;

-- Add one run to a store that is open, unless its id or its key is taken.
create function {f}.restore(p_now bigint, p_seen bigint, p_item jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint;
begin
    if p_item->{PackedRun.run}->>{Run.key} is not null then
        perform {f}.lock_key(p_item->{PackedRun.run}->>{Run.key});
    end if;
    v_now := {f}.begin_at(p_now, p_seen);
    if exists (select 1 from {t}.runs where run_id = p_item->{PackedRun.run}->>{Run.run_id}) or (
        p_item->{PackedRun.run}->>{Run.ended_at} is null and exists (
            select 1 from {t}.runs
            where key = p_item->{PackedRun.run}->>{Run.key} and ended_at is null and replaced_by is null
                and debounced_until is null
        )
    ) then
        return {f}.answer(v_now, 'false');
    end if;
    perform {f}.add_runs(jsonb_build_array(p_item));
    if p_item->{PackedRun.run}->>{Run.wake_at} is not null then
        perform {f}.hint('ready', p_item->{PackedRun.run}->>{Run.run_id});
    end if;
    return {f}.answer(v_now, 'true');
end $$;

create function {f}.add_histories(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.names (run, number, name)
    select run, place - 1, name
    from {f}.arrived(p_items), jsonb_array_elements_text(item->{PackedRun.history}->{History.names}) with ordinality as x (name, place);
    insert into {t}.entries (run, {Entry.*})
    select
        run, {Entry.* from e}
    from {f}.arrived(p_items), jsonb_array_elements(item->{PackedRun.history}->{History.entries}) as e;
    insert into {t}.attempts (run, {Attempt.*})
    select run, {Attempt.* from a}
    from {f}.arrived(p_items), jsonb_array_elements(item->{PackedRun.history}->{History.attempts}) as a;
    insert into {t}.cursors (run, {Cursor.*})
    select run, {Cursor.* from c}
    from {f}.arrived(p_items), jsonb_array_elements(item->{PackedRun.history}->{History.cursors}) as c;
    insert into {t}.progress (run, {Progress.*})
    select
        run, {Progress.* from p}
    from {f}.arrived(p_items), jsonb_array_elements(item->{PackedRun.history}->{History.progress}) as p
$$;

-- A topic wait without a number among the open waits is closed.
create function {f}.add_waits(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.waits (
        run, position, location, kind, token, due_at, names, since, facets, topic, facet, armed, limit_at
    )
    select
        run, place - 1, {f}.unb64(w->>{Wait.location}), w->>{Wait.kind}, (w->>{Wait.token})::bigint,
        (w->>{Wait.due_at})::bigint, {f}.texts(w->{Wait.names}),
        case when w->>{Wait.kind} = 'topic' then w->>{Wait.since} end,
        case when w->>{Wait.kind} = 'topic' then {f}.texts(w->{Wait.where}) end,
        case when armed is not null then w->{Wait.names}->>0 end,
        case
            when armed is not null
                then coalesce((select min(one collate "C") from jsonb_array_elements_text(w->{Wait.where}) as one), '')
        end,
        armed, (w->>{Wait.limit_at})::bigint
    from {f}.arrived(p_items)
    cross join lateral jsonb_array_elements(item->{PackedRun.history}->{History.waits}) with ordinality as x (w, place)
    left join lateral (
        select (o->>{OpenWait.number})::bigint as armed from jsonb_array_elements(item->{PackedRun.open_waits}) as o
            where (o->>{OpenWait.position})::bigint = place - 1
    ) as opened on true
$$;
