-- name: set
insert into stepwell_attributes (run, name, value, shown, run_id) values (:run, :name, :value, :shown, :run_id)
on conflict (run, name) do update set value = excluded.value, shown = excluded.shown;

-- name: remove
delete from stepwell_attributes where run = :run and name = :name;

-- name: list_kinds
-- The types that an attribute has in any run: one look-up in the index for each.
select kind.value
from json_each('["b", "n", "t", "w"]') as kind
where exists (
    select 1 from stepwell_attributes as a
    where a.name = :name and a.value >= kind.value and a.value < char(unicode(kind.value) + 1)
);
