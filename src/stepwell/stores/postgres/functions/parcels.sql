-- What is moved, as JSON in the order of the fields of stores/base/parcels.py, and back into rows.

create function {f}.packed_kinds() returns text[] language sql immutable
return array['blobs', 'events', 'runs', 'chunks', 'signals', 'owed', 'requests', 'acts'];

create function {f}.packed_blob(p_hash bytea) returns json language sql stable as $$
    select json_build_array(encode(hash, 'hex'), {f}.b64(content)) from {t}.blobs where hash = p_hash
$$;

create function {f}.packed_event(p_number bigint) returns json language sql stable as $$
    select json_build_array(
        number, event_id, topic, {f}.b64(payload), facets, deliver, published_at, kept_until, is_taken, reached, forget_at
    )
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
            select coalesce(json_agg(json_build_array(name, position, {f}.b64(value)) order by name), '[]')
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

-- A reason is of no use without the signal: one that was dropped later may still have it.
create function {f}.packed_signal(p_number bigint) returns json language sql stable as $$
    select json_build_array(
        s.number, s.signal_id, r.run_id, s.key, s.name, s.dedup_key, {f}.b64(s.payload), s.sent_at, s.asks,
        case when s.payload is not null then s.refused end,
        case when p.number is not null then json_build_array(p.status, {f}.b64(p.value), p.at) end
    )
    from {t}.signals as s
    left join {t}.runs as r on r.id = s.run
    left join {t}.replies as p on p.number = s.number
    where s.number = p_number
$$;

create function {f}.packed_request(p_scope text, p_key text) returns json language sql stable as $$
    select json_build_array(scope, key, fingerprint, answer, kept_until)
    from {t}.requests
    where scope = p_scope and key = p_key
$$;

-- The marks of the next things of a kind: numbers, hashes, [run, stream, number], or [scope, key]. Columns are named with their table where
-- they are spelled out: `order by number` alone would sort the spelling.
create function {f}.list_marks(p_kind text, p_after text, p_limit bigint) returns text[] language plpgsql stable as $$
declare
    v_number bigint := case
        when p_kind not in ('blobs', 'chunks', 'requests') then coalesce(nullif(p_after, '')::bigint, 0)
    end;
    v_chunk jsonb := case when p_kind = 'chunks' then coalesce(nullif(p_after, '')::jsonb, '[0, "", 0]') end;
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
            where (run, stream, number) > ((v_chunk->>0)::bigint, v_chunk->>1, (v_chunk->>2)::bigint)
            order by run, stream, number
            limit p_limit
        )
        when 'signals' then array(
            select x.number::text from {t}.signals as x where x.number > v_number order by x.number limit p_limit
        )
        when 'owed' then array(
            select x.number::text from {t}.outbox as x where x.number > v_number order by x.number limit p_limit
        )
        when 'requests' then array(
            select json_build_array(scope, key)::text
            from {t}.requests
            where (scope, key) > (v_place->>0, v_place->>1)
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
            (p_mark::jsonb->>0)::bigint, p_mark::jsonb->>1, (p_mark::jsonb->>2)::bigint
        )
        when 'signals' then {f}.packed_signal(p_mark::bigint)
        when 'owed' then {f}.read_owed(p_mark::bigint)
        when 'requests' then {f}.packed_request(p_mark::jsonb->>0, p_mark::jsonb->>1)
        when 'acts' then {f}.packed_act(p_mark::bigint)
    end;
end $$;

-- Things of one kind, one by one until they weigh enough: no more than one of them is read in vain. `mark` is that of the last
-- one, or null if it is the last of its kind.
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

-- --- and back ---

-- What is there in the place of something that comes.
create function {f}.find_packed(p_kind text, p_item jsonb) returns json language plpgsql stable as $$
begin
    return case p_kind
        when 'blobs' then {f}.packed_blob(decode(p_item->>0, 'hex'))
        when 'events' then (select {f}.packed_event(number) from {t}.events where event_id = p_item->>1)
        when 'runs' then (select {f}.packed_run(id) from {t}.runs where run_id = p_item->0->>0)
        when 'chunks' then (
            select {f}.packed_chunk(id, p_item->>1, (p_item->>2)::bigint) from {t}.runs where run_id = p_item->>0
        )
        when 'signals' then (select {f}.packed_signal(number) from {t}.signals where signal_id = p_item->>1)
        when 'owed' then {f}.read_owed((p_item->>0)::bigint)
        when 'requests' then {f}.packed_request(p_item->>0, p_item->>1)
        when 'acts' then {f}.packed_act((p_item->>0)::bigint)
    end;
end $$;

-- Whether what something belongs to is not there.
create function {f}.is_homeless(p_kind text, p_item jsonb) returns boolean language plpgsql stable as $$
declare
    v_run_id text := case p_kind when 'chunks' then p_item->>0 when 'signals' then p_item->>2 when 'owed' then p_item->>7 end;
begin
    if p_kind = 'runs' then
        return exists (
            select 1 from jsonb_array_elements(p_item->5) as got
            where not exists (select 1 from {t}.events as e where e.event_id = got->>1)
        );
    end if;
    return v_run_id is not null and not exists (select 1 from {t}.runs where run_id = v_run_id);
end $$;

create function {f}.refuse_item(p_why text, p_kind text, p_place bigint) returns void language plpgsql as $$
begin
    raise exception using errcode = 'SW010', message = 'a thing cannot be unpacked',
        detail = json_build_array(p_why, p_kind, p_place)::text;
end $$;

-- Add things of one kind that are not there; what is there just so is left alone. They are the parcel's from `p_first` on.
create function {f}.add_things(p_now bigint, p_kind text, p_items jsonb, p_first bigint) returns void
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
        min(place) filter (where there is null and {f}.is_homeless(p_kind, one)),
        coalesce(jsonb_agg(one order by place) filter (where there is null), '[]')
    into v_other, v_lost, v_new
    from compared;
    if v_other is not null then
        perform {f}.refuse_item('differs', p_kind, p_first + v_other - 1);
    end if;
    if v_lost is not null then
        perform {f}.refuse_item('homeless', p_kind, p_first + v_lost - 1);
    end if;
    case p_kind
        when 'blobs' then
            insert into {t}.blobs (hash, content, stored_at)
            select decode(one->>0, 'hex'), {f}.unb64(one->>1), p_now from jsonb_array_elements(v_new) as one;
        when 'events' then perform {f}.add_events(v_new);
        when 'runs' then perform {f}.add_runs(v_new);
        when 'chunks' then
            insert into {t}.chunks (run, stream, number, kind, source, part, value)
            select r.id, one->>1, (one->>2)::bigint, one->>3, one->>4, (one->>5)::bigint, {f}.unb64(one->>6)
            from jsonb_array_elements(v_new) as one join {t}.runs as r on r.run_id = one->>0;
        when 'signals' then perform {f}.add_signals(v_new);
        when 'owed' then
            insert into {t}.outbox (
                number, run, sink, event_id, name, path, payload, at, attempts, next_at, died_at, failure
            )
            overriding system value
            select
                (one->>0)::bigint, r.id, one->>1, one->>2, one->>3, one->>4, {f}.unb64(one->>5), (one->>6)::bigint,
                (one->>10)::bigint, (one->>11)::bigint, (one->>12)::bigint, one->>13
            from jsonb_array_elements(v_new) as one join {t}.runs as r on r.run_id = one->>7;
        when 'requests' then
            insert into {t}.requests (scope, key, fingerprint, answer, kept_until)
            select one->>0, one->>1, one->>2, one->>3, (one->>4)::bigint from jsonb_array_elements(v_new) as one;
        when 'acts' then
            insert into {t}.acts (number, at, request_id, who, act, target, outcome, before, after, chain)
            select
                (one->>0)::bigint, (one->>1)::bigint, one->>2, one->>3, one->>4, one->>5, one->>6, one->>7, one->>8, one->>9
            from jsonb_array_elements(v_new) as one;
    end case;
end $$;

create function {f}.add_events(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.events (
        number, event_id, topic, payload, facets, deliver, published_at, kept_until, is_taken, reached, forget_at
    )
    overriding system value
    select
        (one->>0)::bigint, one->>1, one->>2, {f}.unb64(one->>3), {f}.texts(one->4), one->>5, (one->>6)::bigint,
        (one->>7)::bigint, (one->>8)::boolean, (one->>9)::bigint, (one->>10)::bigint
    from jsonb_array_elements(p_items) as one
$$;

create function {f}.add_signals(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.signals (number, signal_id, run, key, name, dedup_key, payload, sent_at, asks, refused)
    overriding system value
    select
        (one->>0)::bigint, one->>1, r.id, one->>3, one->>4, one->>5, {f}.unb64(one->>6), (one->>7)::bigint,
        (one->>8)::boolean, one->>9
    from jsonb_array_elements(p_items) as one left join {t}.runs as r on r.run_id = one->>2;
    insert into {t}.replies (number, status, value, at)
    select (one->>0)::bigint, one->10->>0, {f}.unb64(one->10->>1), (one->10->>2)::bigint
    from jsonb_array_elements(p_items) as one
    where jsonb_typeof(one->10) = 'array'
$$;

-- Runs that have a row here, each with what came of it.
create function {f}.arrived(p_items jsonb) returns table (run bigint, item jsonb) language sql stable as $$
    select r.id, one from jsonb_array_elements(p_items) as one join {t}.runs as r on r.run_id = one->0->>0
$$;

-- Runs in the order in which they come, nobody's.
create function {f}.add_runs(p_items jsonb) returns void language plpgsql volatile as $$
begin
    insert into {t}.runs (
        run_id, definition, status, epoch, wake_at, created_at, started_at, ended_at, key, generation, parent,
        parent_location, detached, tied, previous, previous_started_at, previous_finished_at, successor, cause, reason,
        undo_floor, retried_at, deadline_at, max_suspend, replaced_by, debounced_until, discards, hold,
        amendment, forked_from, loose
    )
    select
        r->>0, {f}.define(r->>1, (r->>2)::bigint, (r->>25)::bigint), r->>3, (r->>5)::bigint, (r->>12)::bigint,
        (r->>9)::bigint, (r->>10)::bigint, (r->>11)::bigint, r->>4, (r->>14)::bigint, r->15->>0, {f}.unb64(r->15->>1),
        coalesce((r->15->>2)::boolean, false), coalesce((r->15->>3)::boolean, false), r->16->>0, (r->16->>1)::bigint,
        (r->16->>2)::bigint, r->>17, r->>18, r->>19, (r->>20)::bigint, (r->>22)::bigint, (r->>27)::bigint,
        (r->>28)::bigint, r->>29, (r->>30)::bigint, discards, case when jsonb_typeof(r->31) = 'array' then (r->31)::json end,
        r->>32, r->>33, (r->34)::json
    from (
        select one->0 as r, (one->>2)::boolean as discards
        from jsonb_array_elements(p_items) with ordinality as x (one, place)
        order by place
    ) as coming;
    insert into {t}.heads (run, number, revision, last_seq, stalls)
    select run, (item->>1)::bigint, (item->0->>7)::bigint, (item->0->>8)::bigint, (item->0->>21)::bigint
    from {f}.arrived(p_items);
    insert into {t}.payloads (run, input, output, failure, tags)
    select run, {f}.unb64(item->0->>13), {f}.unb64(item->0->>24), {f}.unb64(item->0->>23), (item->0->26)::json
    from {f}.arrived(p_items);
    perform {f}.add_histories(p_items);
    perform {f}.add_waits(p_items);
    insert into {t}.receipts (number, run, event, locations, is_read)
    overriding system value
    select
        (got->>0)::bigint, run, e.number,
        array(
            select {f}.unb64(l) from jsonb_array_elements_text(got->2) with ordinality as x (l, place) order by place
        ),
        (got->>3)::boolean
    from {f}.arrived(p_items), jsonb_array_elements(item->5) as got
    join {t}.events as e on e.event_id = got->>1;
    insert into {t}.published (run, name, position, value)
    select run, p->>0, (p->>1)::bigint, {f}.unb64(p->>2) from {f}.arrived(p_items), jsonb_array_elements(item->6) as p;
    insert into {t}.audit (run, at, verb, by, before, after, reason)
    select run, (a->>0)::bigint, a->>2, a->>3, a->>4, a->>5, a->>6
    from {f}.arrived(p_items), jsonb_array_elements(item->7) with ordinality as x (a, place)
    order by run, place;
end $$;

-- Add one run to a store that is open, unless its id or its key is taken.
create function {f}.restore(p_now bigint, p_seen bigint, p_item jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint;
begin
    if p_item->0->>4 is not null then
        perform {f}.lock_key(p_item->0->>4);
    end if;
    v_now := {f}.begin_at(p_now, p_seen);
    if exists (select 1 from {t}.runs where run_id = p_item->0->>0) or (
        p_item->0->>11 is null and exists (
            select 1 from {t}.runs
            where key = p_item->0->>4 and ended_at is null and replaced_by is null and debounced_until is null
        )
    ) then
        return {f}.answer(v_now, 'false');
    end if;
    perform {f}.add_runs(jsonb_build_array(p_item));
    if p_item->0->>12 is not null then
        perform {f}.hint('ready', p_item->0->>0);
    end if;
    return {f}.answer(v_now, 'true');
end $$;

create function {f}.add_histories(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.names (run, number, name)
    select run, place - 1, name
    from {f}.arrived(p_items), jsonb_array_elements_text(item->3->0) with ordinality as x (name, place);
    insert into {t}.entries (run, location, seq, kind, status, value, at, took, attempts, undo)
    select
        run, {f}.unb64(e->>1), (e->>0)::bigint, e->>2, e->>3, {f}.unb64(e->>4), (e->>5)::bigint, (e->>6)::bigint,
        (e->>7)::bigint, {f}.unb64(e->>8)
    from {f}.arrived(p_items), jsonb_array_elements(item->3->1) as e;
    insert into {t}.attempts (run, location, number, at, failure, next_at)
    select run, {f}.unb64(a->>0), (a->>1)::bigint, (a->>2)::bigint, {f}.unb64(a->>3), (a->>4)::bigint
    from {f}.arrived(p_items), jsonb_array_elements(item->3->2) as a;
    insert into {t}.cursors (run, location, iteration, trimmed, state)
    select run, {f}.unb64(c->>0), (c->>1)::bigint, (c->>2)::bigint, {f}.unb64(c->>3)
    from {f}.arrived(p_items), jsonb_array_elements(item->3->3) as c;
    insert into {t}.progress (run, location, at, state, done, total, unit, note, turns)
    select
        run, {f}.unb64(p->>0), (p->>1)::bigint, {f}.unb64(p->>2), (p->>3)::bigint, (p->>4)::bigint, p->>5, p->>6,
        (p->>7)::bigint
    from {f}.arrived(p_items), jsonb_array_elements(item->3->5) as p
$$;

-- A topic wait that has no number among the open ones is closed.
create function {f}.add_waits(p_items jsonb) returns void language sql volatile as $$
    insert into {t}.waits (
        run, position, location, kind, token, due_at, names, since, facets, topic, facet, armed, limit_at
    )
    select
        run, place - 1, {f}.unb64(w->>0), w->>1, (w->>2)::bigint, (w->>3)::bigint, {f}.texts(w->4),
        case when w->>1 = 'topic' then w->>6 end,
        case when w->>1 = 'topic' then {f}.texts(w->5) end,
        case when armed is not null then w->4->>0 end,
        case
            when armed is not null
                then coalesce((select min(one collate "C") from jsonb_array_elements_text(w->5) as one), '')
        end,
        armed, (w->>7)::bigint
    from {f}.arrived(p_items)
    cross join lateral jsonb_array_elements(item->3->4) with ordinality as x (w, place)
    left join lateral (
        select (o->>1)::bigint as armed from jsonb_array_elements(item->4) as o where (o->>0)::bigint = place - 1
    ) as opened on true
$$;
