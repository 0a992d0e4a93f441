-- name: find
select id from stepwell_definitions where workflow = :workflow and version = :version;

-- name: add
insert into stepwell_definitions (workflow, version) values (:workflow, :version) returning id;

-- name: list
select workflow, version from stepwell_definitions;
