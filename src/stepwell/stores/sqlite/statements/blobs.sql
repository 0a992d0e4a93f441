-- name: store
-- A payload that is put again is in use: it must not be swept.
insert into stepwell_blobs (hash, content, stored_at) values (:hash, :content, :now)
on conflict (hash) do update set stored_at = excluded.stored_at;

-- name: read
select content from stepwell_blobs where hash = :hash;
