-- Idempotency keys, and the audit.

create function {f}.reserve(
    p_now bigint, p_seen bigint, p_scope text, p_key text, p_fingerprint text, p_answer text, p_until bigint
) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
    v_is_new boolean;
    v_found record;
begin
    -- Rows that another transaction is deleting are skipped.
    delete from {t}.requests as r using (
        select scope, key from {t}.requests where kept_until <= v_now for update skip locked
    ) as x
    where r.scope = x.scope and r.key = x.key;
    loop
        insert into {t}.requests as r ({Reservation.*})
        values (p_scope, p_key, p_fingerprint, p_answer, p_until)
        on conflict (scope, key) do update
        set fingerprint = excluded.fingerprint, answer = excluded.answer, kept_until = excluded.kept_until
        where r.kept_until <= v_now;
        v_is_new := found;
        select fingerprint, answer into v_found from {t}.requests where scope = p_scope and key = p_key;
        exit when found;
    end loop;
    return {f}.answer(v_now, json_build_array(v_found.fingerprint, v_found.answer, v_is_new)::text);
end $$;

create function {f}.settle_request(p_now bigint, p_seen bigint, p_scope text, p_key text, p_answer text) returns text
language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
begin
    update {t}.requests set answer = p_answer where scope = p_scope and key = p_key;
    return {f}.answer(v_now, 'null');
end $$;

create function {f}.packed_act(p_number bigint) returns json language sql stable as $$
    select json_build_array({Act.* to json})
    from {t}.acts
    where number = p_number
$$;

-- The row of `chain` is locked from the beginning, so lines are appended one after the other, even by several servers.
-- The hash is `chain_of` in model/ledger.py.
create function {f}.note_act(
    p_now bigint, p_seen bigint, p_request_id text, p_who text, p_act text, p_target text, p_outcome text, p_before text,
    p_after text
) returns text language plpgsql volatile as $$
declare
    v_now bigint;
    v_head record;
    v_number bigint;
    v_chain text;
begin
    select number, chain into v_head from {t}.chain for no key update;
    v_now := {f}.begin_at(p_now, p_seen);
    select number into v_number from {t}.acts where request_id = p_request_id and outcome = p_outcome;
    if v_number is null then
        v_number := v_head.number + 1;
        v_chain := encode(
            sha256(convert_to(
                concat_ws(
                    e'\x1f', v_head.chain, v_number, v_now, p_request_id, p_who, p_act, p_target, p_outcome, p_before, p_after
                ),
                'UTF8'
            )),
            'hex'
        );
        insert into {t}.acts ({Act.*})
        values (v_number, v_now, p_request_id, p_who, p_act, p_target, p_outcome, p_before, p_after, v_chain);
        update {t}.chain set number = v_number, chain = v_chain;
    end if;
    return {f}.answer(v_now, {f}.packed_act(v_number)::text);
end $$;

create function {f}.list_acts(p_now bigint, p_seen bigint, p_limit bigint, p_below bigint) returns text
language sql stable as $$
    select coalesce(json_agg({f}.packed_act(number) order by number desc), '[]')::text
    from (select number from {t}.acts where number < p_below order by number desc limit p_limit) as lines
$$;

create function {f}.read_head() returns json language sql stable as $$
    select json_build_array(number, chain) from {t}.chain
$$;

create function {f}.find_head(p_now bigint, p_seen bigint) returns text language sql stable as $$
    select {f}.read_head()::text
$$;
