-- Closing and opening the store, and moving its contents out and in; see stores/base/transfers.py. The store calls the
-- writing functions here in a transaction in which each statement sees everything committed before it: after the lock,
-- that is everything.

-- The beginning of these transitions: no other transition is in progress, and none begins before this one has ended.
create function {f}.begin_exclusive(p_now bigint, p_seen bigint) returns bigint language plpgsql volatile as $$
begin
    perform pg_advisory_xact_lock(1398034259, hashtext('{t}'));
    perform set_config('stepwell.hints', '', true);
    return {f}.read_clock(p_now, p_seen);
end $$;

create function {f}.find_seal(p_now bigint, p_seen bigint) returns text language sql stable as $$
    select coalesce((select json_build_array(transfer_id, kind, peer, at)::text from {t}.seals), 'null')
$$;

create function {f}.manifest(p_now bigint, p_seen bigint) returns text language sql stable as $$
    select json_build_array(
        (select count(*) from {t}.runs),
        (select count(*) from {t}.runs where ended_at is null),
        (select count(*) from {t}.chunks),
        (select count(*) from {t}.events),
        (select count(*) from {t}.signals),
        (select count(*) from {t}.outbox),
        (select count(*) from {t}.blobs),
        (select count(*) from {t}.requests),
        (select count(*) from {t}.acts),
        (select count(*) from {t}.records),
        (select count(*) from {t}.record_events)
    )::text
$$;

create function {f}.refuse_unsealed(p_transfer_id text) returns void language plpgsql as $$
begin
    raise exception using errcode = 'SW009', message = 'the store is not sealed', detail = p_transfer_id;
end $$;

create function {f}.refuse_if_used(p_now bigint) returns void language plpgsql stable as $$
declare
    v_live json;
begin
    select json_agg(json_build_array(incarnation, name, started_at, lease_until, definitions) order by started_at, id)
    into v_live from {t}.workers where lease_until > p_now;
    if v_live is not null then
        raise exception using errcode = 'SW007', message = 'workers use the store', detail = v_live::text;
    end if;
end $$;

-- Close the store as leaving, or as arriving: then it must be empty, and shows no instant before `p_since` from now on.
create function {f}.seal(
    p_now bigint, p_seen bigint, p_transfer_id text, p_kind text, p_peer text, p_since bigint
) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    v_known record;
begin
    -- Also before the lock: an attempt to seal must not block a store that is in use.
    perform {f}.refuse_if_used({f}.peek_clock(p_now, p_seen));
    v_now := {f}.begin_exclusive(p_now, p_seen);
    select transfer_id, kind into v_known from {t}.seals;
    if found then
        if (v_known.transfer_id, v_known.kind) is distinct from (p_transfer_id, p_kind) then
            perform {f}.refuse_sealed();
        end if;
        return {f}.answer(v_now, {f}.find_seal(p_now, p_seen));
    end if;
    perform {f}.refuse_if_used(v_now);
    if p_kind = 'arriving' and {f}.manifest(p_now, p_seen)::jsonb <> '[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]' then
        raise exception using errcode = 'SW008', message = 'the store is not empty', detail = {f}.manifest(p_now, p_seen);
    end if;
    -- Wait here for the last plain commits, which the lock does not stop: see `enter`. `rescue` would skip a run that
    -- another transaction is writing.
    perform {f}.lock_owned(array(select distinct owner from {t}.runs where owner is not null));
    v_now := ({f}.rescue(p_now, v_now, 9223372036854775807)::json->>{Answer.now})::bigint;
    v_now := greatest(v_now, p_since);
    update {t}.meta set value = v_now where name = 'floor' and value < v_now;
    update {t}.meta set value = value + 1 where name = 'seals';
    insert into {t}.seals (transfer_id, kind, peer, at) values (p_transfer_id, p_kind, p_peer, v_now);
    return {f}.answer(v_now, {f}.find_seal(p_now, p_seen));
end $$;

create function {f}.release(p_now bigint, p_seen bigint, p_transfer_id text) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_exclusive(p_now, p_seen);
begin
    update {t}.seals set kind = 'left' where transfer_id = p_transfer_id and kind <> 'arriving';
    if not found then
        perform {f}.refuse_unsealed(p_transfer_id);
    end if;
    return {f}.answer(v_now, {f}.find_seal(p_now, p_seen));
end $$;

-- Open the store, if it has this seal: unchanged, with the contents that arrived, or emptied.
create function {f}.unseal(p_now bigint, p_seen bigint, p_transfer_id text, p_kind text, p_clears boolean) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_exclusive(p_now, p_seen);
begin
    if not exists (select 1 from {t}.seals) then
        return {f}.answer(v_now, 'null');
    end if;
    delete from {t}.seals where transfer_id = p_transfer_id and kind = p_kind;
    if not found then
        perform {f}.refuse_sealed();
    end if;
    update {t}.meta set value = value + 1 where name = 'seals';
    if p_clears then
        perform {f}.clear();
    elsif p_kind = 'arriving' then
        perform {f}.advance_sequences();
    end if;
    return {f}.answer(v_now, 'null');
end $$;

-- The sequence that numbers a table's rows.
create function {f}.numbers_of(p_table text) returns regclass language sql stable as $$
    select pg_get_serial_sequence('{t}.' || p_table, 'number')::regclass
$$;

-- Raise the sequences above the numbers that arrived.
create function {f}.advance_sequences() returns void language plpgsql volatile as $$
declare
    v_table text;
    v_last bigint;
begin
    foreach v_table in array array['signals', 'events', 'receipts', 'outbox', 'records'] loop
        execute 'select max(number) from {t}.' || v_table into v_last;
        perform {f}.advance_sequence({f}.numbers_of(v_table), v_last);
    end loop;
    perform {f}.advance_sequence('{t}.armed', (select max(armed) from {t}.waits));
end $$;

-- Use up the numbers of a sequence up to this one. A role that may only take numbers, as docs/postgres.md grants it,
-- takes them one by one.
create function {f}.advance_sequence(p_sequence regclass, p_last bigint) returns void language plpgsql volatile as $$
declare
    v_last bigint := {f}.last_assigned(p_sequence);
begin
    if v_last >= coalesce(p_last, 0) then
        return;
    end if;
    if has_sequence_privilege(p_sequence, 'update') then
        perform setval(p_sequence, p_last);
    else
        perform nextval(p_sequence) from generate_series(v_last + 1, p_last);
    end if;
end $$;

create function {f}.last_assigned(p_sequence regclass) returns bigint language sql volatile as $$
    select coalesce(pg_sequence_last_value(p_sequence), 0)
$$;

-- Delete everything except the clock, the assigned numbers, and the seal.
create function {f}.clear() returns void language sql volatile as $$
    delete from {t}.definitions;
    delete from {t}.workers;
    delete from {t}.runs;
    delete from {t}.heads;
    delete from {t}.payloads;
    delete from {t}.published;
    delete from {t}.chunks;
    delete from {t}.entries;
    delete from {t}.names;
    delete from {t}.attempts;
    delete from {t}.progress;
    delete from {t}.cursors;
    delete from {t}.blobs;
    delete from {t}.waits;
    delete from {t}.events;
    delete from {t}.receipts;
    delete from {t}.signals;
    delete from {t}.replies;
    delete from {t}.audit;
    delete from {t}.holds;
    delete from {t}.requests;
    delete from {t}.acts;
    update {t}.chain set number = 0, chain = '';
    delete from {t}.outbox;
    delete from {t}.records;
    delete from {t}.record_labels;
    delete from {t}.record_events;
    update {t}.meta set value = 0 where name = 'encrypted'
$$;

-- A batch, in the order of the fields of `TransferBatch`. A mark is the kind, a colon, and the mark of the last item.
create function {f}.pack(p_now bigint, p_seen bigint, p_after text, p_limit bigint, p_bytes bigint) returns text
language plpgsql stable as $$
declare
    v_kinds text[] := {f}.packed_kinds();
    v_first int := case when p_after = '' then 1 else array_position(v_kinds, split_part(p_after, ':', 1)) end;
    v_key text := substr(p_after, length(split_part(p_after, ':', 1)) + 2);
    v_page record;
    v_fields text[] := array_fill('[]'::text, array[{TransferBatch.record_events} + 1]);
    v_next text := '';
begin
    if not exists (select 1 from {t}.seals) then
        perform {f}.refuse_unsealed('');
    end if;
    if v_first is null then
        perform {f}.refuse_value('no batch ends at ' || p_after);
    end if;
    for v_place in v_first..cardinality(v_kinds) loop
        select * into v_page from {f}.pack_kind(v_kinds[v_place], v_key, p_limit, p_bytes);
        v_key := '';
        if cardinality(v_page.items) > 0 then
            v_fields[{f}.field_of(v_kinds[v_place]) + 1] := '[' || array_to_string(v_page.items, ',') || ']';
            v_next := case
                when v_page.mark is not null then v_kinds[v_place] || ':' || v_page.mark
                else coalesce(v_kinds[v_place + 1] || ':', '')
            end;
            exit;
        end if;
    end loop;
    v_fields[{TransferBatch.highest} + 1] := json_build_array(
        {f}.last_assigned({f}.numbers_of('receipts')), {f}.last_assigned({f}.numbers_of('outbox')),
        {f}.last_assigned({f}.numbers_of('records'))
    );
    v_fields[{TransferBatch.next} + 1] := to_json(v_next);
    v_fields[{TransferBatch.holds} + 1] := {f}.read_holds();
    v_fields[{TransferBatch.hold_acts} + 1] := (
        select coalesce(json_agg(act order by place desc), '[]')
        from json_array_elements({f}.list_hold_acts(p_now, p_seen, null)::json) with ordinality as x (act, place)
    );
    v_fields[{TransferBatch.head} + 1] := {f}.read_head();
    v_fields[{TransferBatch.is_encrypted} + 1] := (select to_json(value <> 0) from {t}.meta where name = 'encrypted');
    return '[' || array_to_string(v_fields, ',') || ']';
end $$;

create function {f}.unpack(p_now bigint, p_seen bigint, p_transfer_id text, p_batch jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_exclusive(p_now, p_seen);
    v_kind text;
    v_items jsonb;
    v_damaged bigint;
begin
    if not exists (select 1 from {t}.seals where transfer_id = p_transfer_id and kind = 'arriving') then
        perform {f}.refuse_unsealed(p_transfer_id);
    end if;
    select min(place) into v_damaged
    from jsonb_array_elements(p_batch->{TransferBatch.blobs}) with ordinality as x (one, place)
    where encode(sha256({f}.unb64(one->>{PackedBlob.content})), 'hex') <> one->>{PackedBlob.name};
    if v_damaged is not null then
        perform {f}.refuse_item('damaged', 'blobs', v_damaged - 1);
    end if;
    foreach v_kind in array {f}.packed_kinds() loop
        v_items := p_batch->{f}.field_of(v_kind);
        if jsonb_array_length(v_items) > 0 then
            perform {f}.unpack_kind(v_now, v_kind, v_items);
        end if;
    end loop;
    perform {f}.replace_holds(p_batch->{TransferBatch.holds}, p_batch->{TransferBatch.hold_acts});
    update {t}.chain set number = (p_batch->{TransferBatch.head}->>{ChainHead.number})::bigint,
        chain = p_batch->{TransferBatch.head}->>{ChainHead.chain};
    update {t}.meta set value = 1 where name = 'encrypted' and (p_batch->>{TransferBatch.is_encrypted})::boolean;
    -- The numbers of deleted rows are not assigned again either.
    perform {f}.advance_sequence({f}.numbers_of('receipts'), (p_batch->{TransferBatch.highest}->>{HighestNumbers.receipts})::bigint);
    perform {f}.advance_sequence({f}.numbers_of('outbox'), (p_batch->{TransferBatch.highest}->>{HighestNumbers.owed})::bigint);
    perform {f}.advance_sequence({f}.numbers_of('records'), (p_batch->{TransferBatch.highest}->>{HighestNumbers.records})::bigint);
    return {f}.answer(v_now, 'null');
end $$;

create function {f}.unpack_kind(p_now bigint, p_kind text, p_items jsonb) returns void language plpgsql volatile as $$
begin
    perform {f}.add_items(p_now, p_kind, p_items, 0);
exception when unique_violation then
    -- Another item has a number, a key or an id of these. Items are added one by one to find which; identical ones are
    -- fine.
    for v_place in 0..jsonb_array_length(p_items) - 1 loop
        begin
            perform {f}.add_items(p_now, p_kind, jsonb_build_array(p_items->v_place), v_place);
        exception when unique_violation then
            perform {f}.refuse_item('differs', p_kind, v_place);
        end;
    end loop;
end $$;
