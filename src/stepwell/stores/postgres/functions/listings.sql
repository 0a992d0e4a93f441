-- Listings of runs. A value of a condition is a list of texts: see stores/base/filters.py. Statements are assembled
-- from an allow-list and from positions in the filter; a caller's text is only ever a parameter.

-- The literal pieces between stars as a pattern for LIKE.
create function {f}.like_of(p_pieces jsonb) returns text language sql immutable parallel safe
return (
    select string_agg(replace(replace(replace(piece, '\', '\\'), '%', '\%'), '_', '\_'), '%' order by place)
    from jsonb_array_elements_text(p_pieces) with ordinality as x (piece, place)
);

-- A failure as JSON; null if it is not the record of one.
create function {f}.failure_of(p_run bigint) returns json language plpgsql stable as $$
declare
    v_failure json;
begin
    select convert_from(failure, 'UTF8')::json into v_failure from {t}.payloads where run = p_run;
    return case when v_failure->>'type' is not null and v_failure->>'message' is not null then v_failure end;
exception when data_exception then
    return null;
end $$;

-- The text that `error` conditions test.
create function {f}.error_of(p_run bigint) returns text language plpgsql stable as $$
declare
    v_failure json := {f}.failure_of(p_run);
begin
    return lower(
        (coalesce(v_failure->>'code', '') || ' ' || (v_failure->>'type') || ': ' || (v_failure->>'message')) collate "C"
    );
end $$;

-- The JSON text at a path through the objects of an input; null if there is none, or if the input is not plain JSON.
create function {f}.input_at(p_run bigint, p_path text) returns text language plpgsql stable as $$
declare
    v_name text;
    v_found json;
begin
    select convert_from(substr(input, 2), 'UTF8')::json into v_found from {t}.payloads
    where run = p_run and substr(input, 1, 1) = 'j'::bytea;
    foreach v_name in array string_to_array(p_path, '.') loop
        if v_found is null or json_typeof(v_found) <> 'object' then
            return null;
        end if;
        v_found := v_found->v_name;
    end loop;
    return v_found::text;
exception when data_exception then
    return null;
end $$;

-- The expression that an order sorts by; null if it is the id.
create function {f}.place_of(p_by text) returns text language sql immutable parallel safe
return case p_by
    when 'created' then 'r.created_at'
    when 'started' then 'coalesce(r.started_at, -1)'
    when 'ended' then 'coalesce(r.ended_at, -1)'
    when 'took' then 'coalesce(r.ended_at - coalesce(r.started_at, r.created_at), -1)'
end;

-- What a value of a condition asks of an attribute (a), as SQL. Values of one type begin with the same letter.
create function {f}.attribute_test_of(p_value text, p_test text) returns text language sql immutable parallel safe
return case
    when p_test = '*' then 'true'
    when p_test = '~' then 'a.value like ''t'' || {f}.like_of(' || p_value || ' - 0)'
    when p_test = '=' then 'a.value = (' || p_value || '->>1)'
    when p_test in ('<', '<=')
        then 'a.value ' || p_test || ' (' || p_value || '->>1) and a.value >= left(' || p_value || '->>1, 1)'
    when p_test in ('>', '>=')
        then 'a.value ' || p_test || ' (' || p_value || '->>1) and a.value < chr(ascii(' || p_value || '->>1) + 1)'
end;

-- One value of a condition as SQL; `p_value` is its position in the filter. If few runs are expected to match
-- (`p_is_rare`), these are found first: no statistics tell the planner how few they are. Reading JSON is expensive, so
-- it is read only for runs that can have failed, and for inputs that contain the value somewhere.
create function {f}.test_of(
    p_field text, p_path text, p_value text, p_is_exact boolean, p_relation text, p_is_rare boolean
) returns text
language plpgsql immutable as $$
declare
    v_test constant text := case
        when p_is_exact then ' = (' || p_value || '->>0)' else ' like {f}.like_of(' || p_value || ')'
    end;
    v_compared constant text := case when p_relation in ('<', '<=', '=', '>=', '>') then ' ' || p_relation end
        || ' (' || p_value || '->>{Comparison.number})::bigint';
    v_tag constant text := '(tag->>{Tag.name}) || ''='' || (tag->>{Tag.value})' || v_test;
begin
    return case p_field
        when 'id' then 'r.run_id' || v_test
        when 'key' then 'r.key' || v_test
        when 'at' then '(select case when x.failure is not null then coalesce(x.failure->>''path'', '''') end'
            || ' from {f}.failure_of(r.id) as x (failure))' || v_test
        when 'tag' then case
            when p_is_rare then 'r.id = any (array(select p.run from {t}.payloads as p where p.tags::text <> ''[]'''
                || ' and exists (select 1 from json_array_elements(p.tags) as tag where ' || v_tag || ') order by p.run))'
            else 'exists (select 1 from {t}.payloads as p, json_array_elements(p.tags) as tag'
                || ' where p.run = r.id and p.tags::text <> ''[]'' and ' || v_tag || ')'
        end
        when 'attr' then case
            -- Few would have been found by `few_of`. Of many, each run is looked up (`offset 0`): as a join, without
            -- statistics, every run would be compared with every value.
            when p_is_rare then 'r.id in (select a.run from {t}.attributes as a where a.name = ' || p_path
                || ' and ' || {f}.attribute_test_of(p_value, p_relation) || ')'
            else 'exists (select 1 from {t}.attributes as a where a.run = r.id and a.name = ' || p_path
                || ' and ' || {f}.attribute_test_of(p_value, p_relation) || ' offset 0)'
        end
        when 'started_by' then '(select p.started_by from {t}.payloads as p where p.run = r.id)' || v_test
        when 'title' then '(select lower(p.title collate "C") from {t}.payloads as p where p.run = r.id)' || v_test
        when 'waiting' then 'exists (select 1 from {t}.waits as w where w.run = r.id and (w.kind || '':''' || v_test
            || ' or exists (select 1 from unnest(w.names) as name where w.kind || '':'' || name' || v_test || ')))'
        when 'error' then '{f}.error_of(r.id)' || v_test
        when 'word' then '(lower(r.run_id collate "C")' || v_test || ' or lower(coalesce(r.key, '''') collate "C")' || v_test
            || ' or r.definition in (select d.id from {t}.definitions as d where lower(d.workflow collate "C")' || v_test || ')'
            || ' or (select lower(p.title collate "C") from {t}.payloads as p where p.run = r.id)' || v_test
            || ' or r.status <> ''completed'' and {f}.error_of(r.id)' || v_test || ')'
        when 'input' then case
            when p_is_exact then 'exists (select 1 from {t}.payloads as p where p.run = r.id'
                || ' and position(convert_to(' || p_value || '->>0, ''UTF8'') in p.input) > 0) and '
            else ''
        end || '{f}.input_at(r.id, ' || p_path || ')' || v_test
        when 'created' then 'r.created_at' || v_compared
        when 'took' then '(r.ended_at is not null and ' || {f}.place_of('took') || v_compared || ')'
    end;
end $$;

-- Definitions are few, so their numbers are written into the statement: the planner knows how many runs have each.
create function {f}.one_of(p_definitions int[]) returns text language sql immutable parallel safe
return 'r.definition = any (' || quote_literal(p_definitions::text) || '::int[])';

-- A value of a condition on the workflow as SQL.
create function {f}.workflow_is(p_value jsonb) returns text language sql stable
return {f}.one_of(array(
    select id from {t}.definitions
    where case when jsonb_array_length(p_value) = 1 then workflow = p_value->>0 else workflow like {f}.like_of(p_value) end
));

-- A value of a condition on the version as SQL.
create function {f}.version_is(p_relation text, p_number bigint) returns text language sql stable
return {f}.one_of(array(
    select id from {t}.definitions
    where case p_relation
        when '<' then version < p_number
        when '<=' then version <= p_number
        when '=' then version = p_number
        when '>=' then version >= p_number
        when '>' then version > p_number
    end
));

-- All conditions of a filter as SQL; the filter is parameter $1.
create function {f}.conditions_of(p_conditions jsonb, p_is_rare boolean) returns text language plpgsql stable as $$
declare
    v_text text := '';
    v_any text;
    v_condition jsonb;
    v_value jsonb;
    v_at bigint;
    v_place bigint;
begin
    for v_condition, v_at in select one, place - 1 from jsonb_array_elements(p_conditions) with ordinality as x (one,
        place) loop
        v_any := null;
        for v_value, v_place in
            select one, place - 1 from jsonb_array_elements(v_condition->{Condition.values}) with ordinality as x (one, place)
        loop
            v_any := concat_ws(
                ' or ', v_any,
                case v_condition->>{Condition.field}
                    when 'workflow' then {f}.workflow_is(v_value)
                    when 'version' then {f}.version_is(v_value->>{Comparison.relation}, (v_value->>{Comparison.number})::bigint)
                    else {f}.test_of(
                        v_condition->>{Condition.field}, format('($1->{RunFilter.conditions}->%s->>{Condition.path})', v_at),
                        format('($1->{RunFilter.conditions}->%s->{Condition.values}->%s)', v_at, v_place),
                        jsonb_array_length(v_value) = 1, v_value->>{Comparison.relation}, p_is_rare
                            and not (v_condition->{Condition.negated})::boolean
                    )
                end
            );
        end loop;
        -- Without `coalesce` an index can be used; null never meets a condition.
        v_text := v_text || case
            when (v_condition->{Condition.negated})::boolean then format(' and not coalesce(%s, false)', coalesce(v_any,
                'false'))
            else format(' and (%s)', coalesce(v_any, 'false'))
        end;
    end loop;
    return v_text;
end $$;

-- The runs that a filter selects, apart from their statuses; the filter is parameter $1.
create function {f}.selection_of(p_filter jsonb, p_runs text, p_is_rare boolean) returns text language sql stable
return ' from ' || p_runs || ' as r where true'
    || case when p_filter->>{RunFilter.workflow} is null then ''
        else ' and ' || {f}.one_of(array(select id from {t}.definitions where workflow = p_filter->>{RunFilter.workflow})) end
    || case when p_filter->>{RunFilter.key} is null then '' else ' and r.key = $1->>{RunFilter.key}' end
    || case when p_filter->>{RunFilter.parent} is null then '' else ' and r.parent = $1->>{RunFilter.parent}' end
    || {f}.conditions_of(p_filter->{RunFilter.conditions}, p_is_rare);

-- A status as a condition. Completed runs are not in the index by status, and only ended runs are in the indexes by
-- time.
create function {f}.has_status(p_status text) returns text language sql immutable
return ' and r.status = ' || quote_literal(p_status)
    || case when p_status = 'completed' then '' else ' and r.status <> ''completed''' end
    || case when p_status in ('completed', 'failed', 'compensated', 'cancelled', 'continued') then ' and r.ended_at is not null'
        else ' and r.ended_at is null' end;

-- The statuses of a filter as one condition.
create function {f}.has_any_status(p_filter jsonb) returns text language sql immutable
return case when p_filter->{RunFilter.statuses} = '[]' then ''
    else ' and r.status = any (array(select jsonb_array_elements_text($1->{RunFilter.statuses})))' end;

-- A select of run numbers that contains all runs of a filter, if an index finds few by an attribute, by who started them,
-- or, for an order by an attribute, by their status. Nothing tells how many runs have a value, so they are counted
-- first, up to a bound: so many are found and sorted faster than a walk through all runs takes. Null if there are more.
create function {f}.few_of(p_filter jsonb) returns text language plpgsql stable as $$
declare
    -- With an order, so that the planner reads the index, whatever it believes about the number of rows.
    v_selects text[] := array(
        select string_agg(
            case one->>{Condition.field}
                when 'attr' then format('(select a.run from {t}.attributes as a where a.name = (%s->>{Condition.path})', said)
                    || ' and ' || {f}.attribute_test_of(format('(%s->{Condition.values}->%s)', said, place - 1), value->>0)
                    || ' order by a.value limit 5000)'
                else '(select p.run from {t}.payloads as p where p.started_by is not null and p.started_by'
                    || format(
                        case when jsonb_array_length(value) = 1 then ' = (%s->>0)' else ' like {f}.like_of(%s)' end,
                        format('(%s->{Condition.values}->%s)', said, place - 1)
                    )
                    || ' order by p.started_by limit 5000)'
            end,
            ' union all ' order by place
        )
        from jsonb_array_elements(p_filter->{RunFilter.conditions}) with ordinality as x (one, at)
        cross join lateral format('$1->{RunFilter.conditions}->%s', at - 1) as said
        cross join lateral jsonb_array_elements(one->{Condition.values}) with ordinality as y (value, place)
        where one->>{Condition.field} in ('attr', 'started_by') and not (one->{Condition.negated})::boolean
        group by at
    );
    v_select text;
    v_count bigint;
    v_least bigint := 5000;
    v_few text;
begin
    if cardinality(v_selects) = 0 and p_filter->{RunFilter.order}->>{Order.attribute} = '' then
        return null;
    end if;
    if p_filter->{RunFilter.statuses} <> '[]' and not p_filter->{RunFilter.statuses} ? 'completed' then
        v_selects := v_selects || ('select r.id from {t}.runs as r where r.status <> ''completed''' || {f}.has_any_status(p_filter));
    end if;
    if p_filter->>{RunFilter.key} is not null then
        v_selects := v_selects || 'select r.id from {t}.runs as r where r.key = ($1->>{RunFilter.key})'::text;
    end if;
    if p_filter->>{RunFilter.parent} is not null then
        v_selects := v_selects || 'select r.id from {t}.runs as r where r.parent = ($1->>{RunFilter.parent})'::text;
    end if;
    foreach v_select in array v_selects loop
        execute 'select count(*) from (select 1 from (' || v_select || ') as selected limit $2) as counted'
        into v_count
        using p_filter, v_least;
        if v_count < v_least then
            v_least := v_count;
            v_few := v_select;
        end if;
    end loop;
    return v_few;
end $$;

-- An order by an attribute contains only runs that have it.
create function {f}.has_order(p_filter jsonb) returns text language sql immutable
return case when p_filter->{RunFilter.order}->>{Order.attribute} = '' then ''
    else ' and exists (select 1 from {t}.attributes as a where a.run = r.id'
        || ' and a.name = ($1->{RunFilter.order}->>{Order.attribute}))' end;

create function {f}.count_runs(p_now bigint, p_seen bigint, p_filter jsonb, p_limit bigint) returns text
language plpgsql stable as $$
declare
    v_few constant text := {f}.few_of(p_filter);
    v_text constant text := '(select 1' || {f}.selection_of(p_filter, '{t}.runs', false)
        || {f}.has_order(p_filter);
    v_parts text[] := array(
        select v_text || {f}.has_status(one) || ' limit $2)'
        from (select distinct one from jsonb_array_elements_text(p_filter->{RunFilter.statuses}) as x (one)) as named
    );
    v_count bigint;
begin
    if v_few is not null then
        v_parts := array[v_text || {f}.has_any_status(p_filter) || ' and r.id = any (array(' || v_few || ')) limit $2)'];
    elsif cardinality(v_parts) = 0 then
        v_parts := array[v_text || ' limit $2)'];
    end if;
    execute 'select count(*) from (select 1 from (' || array_to_string(v_parts, ' union all ')
        || ') as parts limit $2) as found'
    into v_count
    using p_filter, p_limit;
    return v_count::text;
end $$;

-- Whether a filter only names a workflow: then each of its definitions is a range of an index.
create function {f}.is_workflow(p_filter jsonb) returns boolean language sql immutable
return p_filter->>{RunFilter.workflow} is not null and p_filter->>{RunFilter.key} is null
    and p_filter->>{RunFilter.parent} is null and p_filter->{RunFilter.conditions} = '[]'
    and p_filter->{RunFilter.statuses} in ('[]', '["completed"]') and p_filter->{RunFilter.order}->>{Order.by} = 'id';

-- Whether a page of a filter is a few ranges of an index, or simply the first of all runs.
create function {f}.is_range(p_filter jsonb) returns boolean language sql immutable
return p_filter->{RunFilter.order} <> '["id", true, ""]' or p_filter->>{RunFilter.key} is not null
    or p_filter->>{RunFilter.parent} is not null
    or (p_filter->>{RunFilter.workflow} is null and p_filter->{RunFilter.conditions} = '[]') or {f}.is_workflow(p_filter)
    or exists (select 1 from jsonb_array_elements_text(p_filter->{RunFilter.statuses}) as x (one) where one <> 'completed');

-- The conditions that divide a filter into ranges, each of which an index has in order: its statuses; or, where the
-- workflow or times matter, the ended runs of each definition, and the other runs, which are found by their status.
create function {f}.ranges_of(p_filter jsonb) returns text[] language plpgsql stable as $$
declare
    v_statuses constant text[] := array(
        select {f}.has_status(one) from (select distinct one
            from jsonb_array_elements_text(p_filter->{RunFilter.statuses}) as x (one)) as named
    );
    v_unended constant text := ' and r.ended_at is null and r.status <> ''completed'' and r.status in (''pending'', ''running'','
        || ' ''waiting'', ''paused'', ''cancelling'', ''compensating'', ''compensation_failed'')';
    v_ended text[];
begin
    if {f}.is_workflow(p_filter) then
        v_ended := array(
            select ' and r.ended_at is not null and r.definition = ' || id || array_to_string(v_statuses, '')
            from {t}.definitions where workflow = p_filter->>{RunFilter.workflow}
        );
        return case when cardinality(v_statuses) = 0 then v_ended || v_unended else v_ended end;
    elsif cardinality(v_statuses) > 0 then
        return v_statuses;
    elsif p_filter->{RunFilter.order}->>{Order.by} <> 'id'
        or p_filter->{RunFilter.conditions} @? '$[*][{Condition.field}] ? (@ == "created" || @ == "workflow" || @ == "version")' then
        return array[' and r.ended_at is not null', v_unended];
    end if;
    return array[''];
end $$;

-- One way to find the ids of a page: among these runs, in this order, from each range. If few runs match, they are
-- found before they are sorted. The parameters are the filter, the run before the page, and the page's length.
create function {f}.page_of(p_filter jsonb, p_before text, p_runs text, p_order text, p_is_rare boolean) returns text
language plpgsql stable as $$
declare
    v_place constant text := {f}.place_of(p_filter->{RunFilter.order}->>{Order.by});
    v_sign constant text := case when (p_filter->{RunFilter.order}->{Order.descending})::boolean then '<' else '>' end;
    v_end constant text := case when p_is_rare then ') select * from matching' else '' end
        || ' order by ' || p_order || ' limit $3)';
    v_text text := case when p_is_rare then '(with matching as materialized (' else '(' end
        || 'select r.id, r.run_id, ' || coalesce(v_place, '0') || ' as place' || {f}.selection_of(p_filter, p_runs, p_is_rare);
    v_parts text[];
begin
    if p_before is not null and v_place is null then
        v_text := v_text || ' and r.run_id ' || v_sign || ' $2';
    elsif p_before is not null then
        v_text := v_text || ' and (' || v_place || ', r.run_id) ' || v_sign
            || ' ((select ' || v_place || ' from {t}.runs as r where r.run_id = $2), $2)';
    end if;
    v_parts := array(select v_text || one || v_end from unnest({f}.ranges_of(p_filter)) as x (one));
    if cardinality(v_parts) = 0 then
        return 'select ''{}''::bigint[]';
    end if;
    return 'select coalesce(array_agg(id order by ' || p_order || '), ''{}'') from (select * from ('
        || array_to_string(v_parts, ' union all ') || ') as parts order by ' || p_order || ' limit $3) as found';
end $$;

-- The place of a condition that names one value of an attribute, if a page can be read from its range of the index.
create function {f}.walked_condition(p_filter jsonb) returns bigint language sql immutable
return (
    select min(place) - 1
    from jsonb_array_elements(p_filter->{RunFilter.conditions}) with ordinality as x (one, place)
    where one->>{Condition.field} = 'attr' and not (one->{Condition.negated})::boolean
        and jsonb_array_length(one->{Condition.values}) = 1 and one->{Condition.values}->0->>0 = '='
        and p_filter->{RunFilter.order}->>{Order.by} = 'id' and p_filter->>{RunFilter.key} is null
        and p_filter->>{RunFilter.parent} is null
);

-- The ids of a page, from the index of attributes: of the runs with one value of an attribute (`p_place` is that of the
-- condition), of all runs that have an attribute, in the order of its values, or of few runs that are found first
-- (`p_few`), in any order. The parameters are those of `page_of`.
create function {f}.indexed_page_of(p_filter jsonb, p_before text, p_place bigint, p_few text) returns text
language plpgsql stable as $$
declare
    v_is_ordered constant boolean := p_filter->{RunFilter.order}->>{Order.attribute} <> '';
    v_way constant text := case when (p_filter->{RunFilter.order}->{Order.descending})::boolean then ' desc' else ' asc' end;
    v_sign constant text := case when (p_filter->{RunFilter.order}->{Order.descending})::boolean then ' < ' else ' > ' end;
    v_condition constant text := format('$1->{RunFilter.conditions}->%s', p_place);
    v_name constant text := '($1->{RunFilter.order}->>{Order.attribute})';
    v_by constant text := {f}.place_of(p_filter->{RunFilter.order}->>{Order.by});
    v_has_o constant boolean := v_is_ordered or p_few is null;
    v_place constant text := case when v_is_ordered then 'o.value' else v_by end;
    v_run_id constant text := case when v_has_o then 'o.run_id' else 'r.run_id' end;
    v_text text := 'select array(select r.id' || {f}.selection_of(
        p_filter, case when v_has_o then '{t}.attributes as o cross join {t}.runs' else '{t}.runs' end, false
    ) || {f}.has_any_status(p_filter);
begin
    if v_is_ordered then
        v_text := v_text || ' and r.id = o.run and o.name = ' || v_name;
    elsif v_has_o then
        v_text := v_text || ' and r.id = o.run and o.name = (' || v_condition || '->>{Condition.path})'
            || ' and o.value = (' || v_condition || '->{Condition.values}->0->>1)';
    end if;
    if p_few is not null then
        v_text := v_text || ' and r.id = any (array(' || p_few || '))';
    end if;
    if p_before is not null and v_place is null then
        v_text := v_text || ' and ' || v_run_id || v_sign || '$2';
    elsif p_before is not null and v_is_ordered then
        v_text := v_text || ' and (o.value, o.run_id)' || v_sign
            || '((select b.value from {t}.attributes as b join {t}.runs as x on x.id = b.run where x.run_id = $2'
            || ' and b.name = ' || v_name || '), $2)';
    elsif p_before is not null then
        v_text := v_text || ' and (' || v_place || ', r.run_id)' || v_sign
            || '((select ' || v_place || ' from {t}.runs as r where r.run_id = $2), $2)';
    end if;
    return v_text || ' order by ' || coalesce(v_place || v_way || ', ', '') || v_run_id || v_way || ' limit $3)';
end $$;

-- The ids of the runs on a page, in order. If many runs match a condition without an index, the newest runs fill a page
-- quickly. If few match, a scan of the whole table is several times as fast as walking the ids in order.
create function {f}.find_page(p_filter jsonb, p_limit bigint, p_before text) returns bigint[] language plpgsql stable as $$
declare
    v_way constant text := case when (p_filter->{RunFilter.order}->{Order.descending})::boolean then ' desc' else ' asc' end;
    v_order constant text := case when {f}.place_of(p_filter->{RunFilter.order}->>{Order.by}) is null then '' else 'place'
        || v_way || ', ' end
        || 'run_id' || v_way;
    v_newest constant text := '(select * from {t}.runs' || case when p_before is null then '' else ' where run_id < $2' end
        || ' order by run_id desc limit 5000)';
    v_walked bigint;
    v_few text;
    v_found bigint[];
begin
    if p_filter = '[[], null, null, null, [], ["id", true, ""]]' and p_before is null then
        -- The most common request, without assembling a statement.
        return array(select id from {t}.runs order by run_id desc limit p_limit);
    end if;
    v_few := {f}.few_of(p_filter);
    v_walked := {f}.walked_condition(p_filter);
    if v_few is not null or v_walked is not null or p_filter->{RunFilter.order}->>{Order.attribute} <> '' then
        execute {f}.indexed_page_of(p_filter, p_before, v_walked, v_few) into v_found using p_filter, p_before, p_limit;
    elsif {f}.is_range(p_filter) then
        execute {f}.page_of(p_filter, p_before, '{t}.runs', v_order, false) into v_found using p_filter, p_before, p_limit;
    else
        execute {f}.page_of(p_filter, p_before, v_newest, v_order, false) into v_found using p_filter, p_before, p_limit;
        if cardinality(v_found) < p_limit then
            execute {f}.page_of(p_filter, p_before, '{t}.runs', v_order, true) into v_found using p_filter, p_before, p_limit;
        end if;
    end if;
    return v_found;
end $$;

create function {f}.list_runs(p_now bigint, p_seen bigint, p_filter jsonb, p_limit bigint, p_before text) returns text
language plpgsql stable as $$
declare
    v_found constant bigint[] := {f}.find_page(p_filter, p_limit, p_before);
begin
    return (
        select coalesce(json_agg(found.value order by listed.place), '[]')::text
        from unnest(v_found) with ordinality as listed (run, place)
            join {f}.read_runs(v_found) as found on found.run = listed.run
    );
end $$;
