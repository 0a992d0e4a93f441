-- How runs are described: attributes, titles and tags.

-- Set attributes of a run; those without a value are removed.
create function {f}.set_attributes(p_run bigint, p_run_id text, p_attributes jsonb) returns void language sql volatile as $$
    delete from {t}.attributes
    where run = p_run and name in (
        select a->>{Attribute.name} from jsonb_array_elements(p_attributes) as a where a->>{Attribute.value} = ''
    );
    insert into {t}.attributes (run, name, value, shown, run_id)
    select p_run, a->>{Attribute.name}, a->>{Attribute.value}, a->>{Attribute.shown}, p_run_id
    from jsonb_array_elements(p_attributes) as a
    where a->>{Attribute.value} <> ''
    on conflict (run, name) do update set value = excluded.value, shown = excluded.shown;
$$;

-- Change how a run is described.
create function {f}.describe(p_run bigint, p_run_id text, p_description jsonb) returns void language plpgsql volatile as $$
begin
    if p_description->{Description.attributes} <> '[]' then
        perform {f}.set_attributes(p_run, p_run_id, p_description->{Description.attributes});
    end if;
    if p_description->>{Description.title} is not null then
        update {t}.payloads set title = nullif(p_description->>{Description.title}, '') where run = p_run;
    end if;
    if p_description->>{Description.tags} is not null then
        update {t}.payloads set tags = (p_description->{Description.tags})::json where run = p_run;
    end if;
end $$;
