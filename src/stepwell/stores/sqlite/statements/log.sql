-- name: fill
-- Never committed. It uses a table whose rows may be large.
insert into stepwell_blobs (hash, content, stored_at) values (x'', zeroblob(:bytes), 0);
