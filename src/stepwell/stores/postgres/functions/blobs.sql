create function {f}.store_blobs(p_now bigint, p_seen bigint, p_blobs jsonb) returns text language plpgsql volatile as $$
declare
    v_now bigint := {f}.begin_at(p_now, p_seen);
begin
    insert into {t}.blobs (hash, content, stored_at)
    select decode(one->>{PackedBlob.name}, 'hex'), {f}.unb64(one->>{PackedBlob.content}), v_now
        from jsonb_array_elements(p_blobs) as one order by one->>{PackedBlob.name}
    -- A payload that is put again is in use: it must not be swept.
    on conflict (hash) do update set stored_at = excluded.stored_at;
    return {f}.answer(v_now, 'null');
end $$;

create function {f}.read_blob(p_now bigint, p_seen bigint, p_hash text) returns text language sql stable as $$
    select coalesce((select to_json({f}.b64(content))::text from {t}.blobs where hash = decode(p_hash, 'hex')), 'null')
$$;
