-- name: store
insert into stepwell_blobs (hash, content, stored_at) values (:hash, :content, :now) on conflict (hash) do nothing;

-- name: read
select content from stepwell_blobs where hash = :hash;
