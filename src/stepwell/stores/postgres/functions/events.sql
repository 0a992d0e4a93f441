-- Events in topics and in the inboxes of runs. Callers have locked the topic.

-- The open waits that get an event, longest open first. Their runs are locked, by number.
create function {f}.choose_waits(p_deliver text, p_topic text, p_facets text[])
returns table (run bigint, "position" bigint, location bytea, run_id text, status text, owner bigint)
language plpgsql volatile as $$
begin
    perform 1
    from {t}.runs as r
    where r.id in (
        select w.run from {t}.waits as w
        where w.topic = p_topic and w.facet = any (array_prepend('', p_facets)) and w.facets <@ p_facets
    )
    order by r.id
    for no key update;
    return query
    select w.run, w.position, w.location, r.run_id, r.status, r.owner
    from {t}.waits as w
    join {t}.runs as r on r.id = w.run
    where w.topic = p_topic and w.facet = any (array_prepend('', p_facets)) and w.facets <@ p_facets
        and r.status <> 'cancelling'
    order by p_deliver = 'one' and r.status = 'paused', w.armed
    limit case when p_deliver = 'one' then 1 end;
end $$;

-- Put an event into the inboxes of the runs with these waits. Returns the runs that this wakes, and how many runs got
-- it.
create function {f}.give_event(
    p_now bigint, p_event bigint, p_deliver text, p_topic text, p_facets text[], out woken bigint[], out reached bigint
) language plpgsql volatile as $$
declare
    v_wait record;
    v_last bigint[] := '{}';
begin
    woken := '{}';
    reached := 0;
    for v_wait in select * from {f}.choose_waits(p_deliver, p_topic, p_facets) loop
        update {t}.waits as w set topic = null, facet = null, armed = null
        where w.run = v_wait.run and w.position = v_wait.position;
        if v_wait.run = any (v_last) then
            update {t}.receipts as r set locations = r.locations || v_wait.location
            where r.run = v_wait.run and r.event = p_event;
            continue;
        end if;
        v_last := v_last || v_wait.run;
        reached := reached + 1;
        insert into {t}.receipts (run, event, locations, is_read)
        values (v_wait.run, p_event, array[v_wait.location], false);
        if v_wait.owner is not null then
            perform {f}.hint('mail', v_wait.run_id);
        elsif v_wait.status in ('waiting', 'compensating') then
            perform {f}.wake(p_now, v_wait.run, v_wait.run_id);
            woken := woken || v_wait.run;
        end if;
    end loop;
end $$;

-- Drop the payload of an event that is neither kept by its topic nor in an inbox; only its id is remembered.
create function {f}.empty_event(p_event bigint) returns void language sql volatile as $$
    update {t}.events as e
    set payload = null
    where e.number = p_event and (e.kept_until is null or e.is_taken)
        and not exists (select 1 from {t}.receipts as r where r.event = p_event and not r.is_read)
$$;

-- Take an event out of the inbox. If its topic still keeps it, the run remembers it as received.
create function {f}.receive_event(p_run bigint, p_run_id text, p_number bigint) returns void language plpgsql volatile as $$
declare
    v_event bigint;
    v_is_remembered boolean;
begin
    select e.number, e.deliver = 'all' and e.kept_until is not null into v_event, v_is_remembered
    from {t}.receipts as r join {t}.events as e on e.number = r.event
    where r.number = p_number and r.run = p_run and not r.is_read;
    if not found then
        perform {f}.refuse_value('run ' || p_run_id || ' has no event ' || p_number || ' in its inbox');
    end if;
    if v_is_remembered then
        update {t}.receipts set is_read = true where number = p_number;
    else
        delete from {t}.receipts where number = p_number;
        perform {f}.empty_event(v_event);
    end if;
end $$;

-- The position of the wait that takes an event from the run's inbox: among matching waits, one that the event was
-- delivered to, else the first.
create function {f}.find_receiver(p_run bigint, p_topic text, p_facets text[], p_locations bytea[]) returns bigint
language sql stable as $$
    select position
    from {t}.waits
    where run = p_run and kind = 'topic' and p_topic = any (names) and facets <@ p_facets
    order by location = any (p_locations) desc, position
    limit 1
$$;

create function {f}.has_receiver(p_run bigint) returns boolean language sql stable as $$
    select exists (
        select 1
        from {t}.receipts as r
        join {t}.events as e on e.number = r.event
        where r.run = p_run and not r.is_read and {f}.find_receiver(p_run, e.topic, e.facets, r.locations) is not null
    )
$$;

-- Give a new wait an event that is in the inbox for no other wait of its run, or an event that its topic keeps.
create function {f}.take_available(p_now bigint, p_run bigint, p_run_id text, p_position bigint) returns void
language plpgsql volatile as $$
declare
    w record;
    v_event record;
begin
    select location, names[1] as topic, facets, since into strict w
    from {t}.waits where run = p_run and position = p_position;
    for v_event in
        select r.number, e.topic, e.facets, r.locations
        from {t}.receipts as r join {t}.events as e on e.number = r.event
        where r.run = p_run and not r.is_read
        order by r.number
    loop
        if {f}.find_receiver(p_run, v_event.topic, v_event.facets, v_event.locations) = p_position then
            update {t}.receipts
            set locations = case when w.location = any (locations) then locations else locations || w.location end
            where number = v_event.number;
            update {t}.waits set topic = null, facet = null, armed = null where run = p_run and position = p_position;
            perform {f}.hint('mail', p_run_id);
            return;
        end if;
    end loop;
    if w.since = 'wait' then
        return;
    end if;
    select e.number, e.deliver into v_event
    from {t}.events as e
    where e.topic = w.topic and e.kept_until is not null and not e.is_taken and e.kept_until > p_now
        and w.facets <@ e.facets
        and (w.since <> 'start' or e.published_at >= (select created_at from {t}.runs where id = p_run))
        and not exists (select 1 from {t}.receipts as r where r.run = p_run and r.event = e.number)
    order by e.number
    limit 1;
    if found then
        if v_event.deliver = 'one' then
            update {t}.events set is_taken = true where number = v_event.number;
        end if;
        insert into {t}.receipts (run, event, locations, is_read)
        values (p_run, v_event.number, array[w.location], false);
        update {t}.waits set topic = null, facet = null, armed = null where run = p_run and position = p_position;
        perform {f}.hint('mail', p_run_id);
    end if;
end $$;

-- Replace all waits of a run. A topic wait that was stored before, unchanged, keeps its state (open or not).
create function {f}.replace_waits(p_now bigint, p_run bigint, p_run_id text, p_waits jsonb) returns void
language plpgsql volatile as $$
declare
    v_position bigint;
    v_has_topics boolean := false;
    v_before jsonb := '[]';
begin
    if exists (select 1 from jsonb_array_elements(p_waits) as w where w->>{Wait.kind} = 'topic') then
        v_has_topics := true;
        select coalesce(
            jsonb_agg(
                jsonb_build_array(
                    {f}.b64(location), token, due_at, to_jsonb(names), to_jsonb(facets), since, limit_at, topic, armed
                )
            ),
            '[]'
        )
        into v_before
        from {t}.waits
        where run = p_run and kind = 'topic';
    end if;
    delete from {t}.waits where run = p_run;
    if jsonb_array_length(p_waits) = 0 then
        return;
    end if;
    insert into {t}.waits (run, position, location, kind, token, due_at, names, limit_at)
    select p_run, place - 1, {f}.unb64(w->>{Wait.location}), w->>{Wait.kind}, (w->>{Wait.token})::bigint,
        (w->>{Wait.due_at})::bigint,
        case when w->>{Wait.kind} = 'run' then array[{f}.find_last_of_chain(w->{Wait.names}->>0)]
            else {f}.texts(w->{Wait.names}) end,
        (w->>{Wait.limit_at})::bigint
    from jsonb_array_elements(p_waits) with ordinality as x (w, place)
    where w->>{Wait.kind} <> 'topic';
    if not v_has_topics then
        return;
    end if;
    insert into {t}.waits (
        run, position, location, kind, token, due_at, names, since, facets, limit_at, topic, facet, armed
    )
    select
        p_run, new.position, new.location, 'topic', new.token, new.due_at, new.names, new.since, new.facets, new.limit_at,
        case when b is null then new.names[1] else b->>{StoredWait.topic} end,
        case when b is null or b->>{StoredWait.topic} is not null
            then coalesce((select min(one collate "C") from unnest(new.facets) as one), '') end,
        case when b is null then nextval('{t}.armed') else (b->>{StoredWait.armed})::bigint end
    from (
        select
            place - 1 as position, {f}.unb64(w->>{Wait.location}) as location, (w->>{Wait.token})::bigint as token,
            (w->>{Wait.due_at})::bigint as due_at,
            {f}.texts(w->{Wait.names}) as names, {f}.texts(w->{Wait.where}) as facets, w->>{Wait.since} as since,
            (w->>{Wait.limit_at})::bigint as limit_at, w
        from jsonb_array_elements(p_waits) with ordinality as x (w, place)
        where w->>{Wait.kind} = 'topic'
        order by place
    ) as new
    left join lateral (
        select b
        from jsonb_array_elements(v_before) as b
        where b->>{StoredWait.location} = new.w->>{Wait.location} and b->{StoredWait.token} = new.w->{Wait.token}
            and b->{StoredWait.due_at} = new.w->{Wait.due_at} and b->{StoredWait.names} = new.w->{Wait.names}
            and b->{StoredWait.facets} = new.w->{Wait.where}
            and b->{StoredWait.since} = new.w->{Wait.since} and b->{StoredWait.limit_at} = new.w->{Wait.limit_at}
        limit 1
    ) as known on true
    order by new.position;
    for v_position in
        select place - 1
        from jsonb_array_elements(p_waits) with ordinality as x (w, place)
        where w->>{Wait.kind} = 'topic' and not exists (
            select 1 from jsonb_array_elements(v_before) as b
            where b->>{StoredWait.location} = w->>{Wait.location} and b->{StoredWait.token} = w->{Wait.token}
                and b->{StoredWait.due_at} = w->{Wait.due_at} and b->{StoredWait.names} = w->{Wait.names}
                and b->{StoredWait.facets} = w->{Wait.where} and b->{StoredWait.since} = w->{Wait.since}
                and b->{StoredWait.limit_at} = w->{Wait.limit_at}
        )
        order by place
    loop
        perform {f}.take_available(p_now, p_run, p_run_id, v_position);
    end loop;
end $$;

-- Return unread events of an ended run to their topics, if they were for one run only.
create function {f}.give_back(p_now bigint, p_run bigint) returns void language plpgsql volatile as $$
declare
    v_topic text;
    v_receipt record;
    v_until bigint;
    v_last record;
begin
    if not exists (select 1 from {t}.receipts where run = p_run) then
        return;
    end if;
    for v_topic in
        select distinct e.topic from {t}.receipts as r join {t}.events as e on e.number = r.event
        where r.run = p_run and not r.is_read and e.deliver = 'one'
        order by 1
    loop
        perform {f}.lock_topic(v_topic);
    end loop;
    for v_receipt in
        select r.number, r.is_read, e.number as event, e.topic, e.facets, e.deliver, e.kept_until
        from {t}.receipts as r join {t}.events as e on e.number = r.event
        where r.run = p_run
        order by r.number
    loop
        delete from {t}.receipts where number = v_receipt.number;
        v_until := coalesce(v_receipt.kept_until, p_now + 604800000000);
        if v_receipt.is_read or v_receipt.deliver = 'all' or v_until <= p_now then
            perform {f}.empty_event(v_receipt.event);
            continue;
        end if;
        select * into v_last
        from {f}.give_event(p_now, v_receipt.event, 'one', v_receipt.topic, v_receipt.facets);
        update {t}.events
        set is_taken = v_last.reached > 0, kept_until = v_until, forget_at = greatest(forget_at, v_until)
        where number = v_receipt.event;
    end loop;
end $$;

create function {f}.publish_one(p_now bigint, p_new jsonb, out published json, out woken bigint[])
language plpgsql volatile as $$
declare
    v_reached bigint;
    v_event bigint;
    v_topic text := p_new->>{NewEvent.topic};
    v_facets text[] := {f}.texts(p_new->{NewEvent.facets});
    v_deliver text := p_new->>{NewEvent.deliver};
    v_kept_until bigint := p_now + (p_new->>{NewEvent.retain})::bigint;
    v_has_waits boolean;
    v_start jsonb;
    v_made record;
    v_run record;
    v_started text[] := '{}';
begin
    woken := '{}';
    select reached into v_reached from {t}.events where event_id = p_new->>{NewEvent.event_id};
    if found then
        published := json_build_array('duplicate', v_reached, '[]'::json);
        return;
    end if;
    if jsonb_typeof(p_new->{NewEvent.seen}) = 'array' and {f}.is_stale(p_new->{NewEvent.seen}) then
        published := json_build_array('stale', 0, '[]'::json);
        return;
    end if;
    -- Delete events that no wait can ask for any more, some at a time.
    for v_event in
        select e.number from {t}.events as e
        where e.topic = v_topic and e.forget_at <= p_now
            and not exists (select 1 from {t}.receipts as r where r.event = e.number and not r.is_read)
        limit 100
    loop
        delete from {t}.receipts where event = v_event;
        delete from {t}.events where number = v_event;
    end loop;
    v_has_waits := exists (select 1 from {f}.choose_waits(v_deliver, v_topic, v_facets));
    if v_kept_until is not null and (v_deliver = 'all' or not v_has_waits) and (
        select count(*) from {t}.events
        where topic = v_topic and kept_until is not null and not is_taken and kept_until > p_now
    ) >= (p_new->>{NewEvent.room})::bigint then
        published := json_build_array('full', 0, '[]'::json);
        return;
    end if;
    insert into {t}.events (
        event_id, topic, payload, facets, deliver, published_at, kept_until, is_taken, reached, forget_at
    ) values (
        p_new->>{NewEvent.event_id}, v_topic, case when v_has_waits or v_kept_until is not null
            then {f}.unb64(p_new->>{NewEvent.payload}) end, v_facets,
        v_deliver, p_now, v_kept_until, v_deliver = 'one' and v_has_waits, 0,
        greatest(p_now + 604800000000, v_kept_until)
    )
    returning number into v_event;
    v_reached := 0;
    if v_has_waits then
        select g.woken, g.reached into woken, v_reached
        from {f}.give_event(p_now, v_event, v_deliver, v_topic, v_facets) as g;
        update {t}.events set reached = v_reached where number = v_event;
    end if;
    for v_start in select one from jsonb_array_elements(p_new->{NewEvent.starts}) as one loop
        if v_start->>{NewRun.key} is not null then
            perform {f}.lock_key(v_start->>{NewRun.key});
        end if;
        select * into v_made
        from {f}.create_one(p_now, v_start, {f}.offer(p_now, null), array[v_start->>{NewRun.run_id}]);
        if (v_made.created->>{Created.is_new})::boolean then
            v_started := v_started || (v_made.created->>{Created.run_id});
            select id, wake_at into v_run from {t}.runs where run_id = v_made.created->>{Created.run_id};
            if (v_start->>{NewRun.delay})::bigint <= 0 and v_run.wake_at <= p_now then
                woken := woken || v_run.id;
            end if;
        end if;
    end loop;
    published := json_build_array('published', v_reached, v_started);
end $$;

create function {f}.publish(p_now bigint, p_seen bigint, p_events jsonb, p_claimant jsonb) returns text
language plpgsql volatile as $$
declare
    v_now bigint;
    v_name text;
    v_new jsonb;
    v_made record;
    v_published text[] := '{}';
    v_woken bigint[] := '{}';
begin
    for v_name in
        select distinct start->>{NewRun.key}
        from jsonb_array_elements(p_events) as new, jsonb_array_elements(new->{NewEvent.starts}) as start
        where start->>{NewRun.key} is not null
        order by 1
    loop
        perform {f}.lock_key(v_name);
    end loop;
    for v_name in select distinct new->>{NewEvent.topic} from jsonb_array_elements(p_events) as new order by 1 loop
        perform {f}.lock_topic(v_name);
    end loop;
    v_now := {f}.begin_at(p_now, p_seen);
    for v_new in select new from jsonb_array_elements(p_events) as new loop
        select * into v_made from {f}.publish_one(v_now, v_new);
        v_published := v_published || v_made.published::text;
        v_woken := v_woken || v_made.woken;
    end loop;
    select coalesce(array_agg(run order by place), '{}') into v_woken
    from (select run, min(place) as place from unnest(v_woken) with ordinality as x (run, place) group by run) as once;
    perform {f}.settle_records(v_now);
    return {f}.answer(
        v_now, '[[' || array_to_string(v_published, ',') || '],' || {f}.take_woken(v_now, v_woken, p_claimant) || ']'
    );
end $$;
