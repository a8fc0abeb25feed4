-- From placements to run sets. Each write of a placement updates the run sets in its transaction. Imported runs bring their own
-- run sets, on resources of their own.

-- Return the id of a resource, which is added if it is new.
create or replace function bench_internal.place(p_kind text, p_host text, p_gpu_uuid text, p_gpu_instance_id integer, p_run_id text)
returns integer language plpgsql as $$
declare
    found_id integer;
begin
    loop
        -- No index serves `is not distinct from`. A host has few resources but for those of runs, and a run has few.
        if p_run_id is null then
            select place_id into found_id from places
            where kind = p_kind and host = p_host and gpu_uuid is not distinct from p_gpu_uuid
              and gpu_instance_id is not distinct from p_gpu_instance_id and run_id is null and origin = '';
        else
            select place_id into found_id from places
            where kind = p_kind and host = p_host and gpu_uuid is not distinct from p_gpu_uuid
              and gpu_instance_id is not distinct from p_gpu_instance_id and run_id = p_run_id and origin = '';
        end if;
        if found_id is not null then
            return found_id;
        end if;
        insert into places (kind, host, gpu_uuid, gpu_instance_id, run_id)
        values (p_kind, p_host, p_gpu_uuid, p_gpu_instance_id, p_run_id)
        on conflict do nothing;
    end loop;
end $$;

-- Return the run set of a sample of this resource and time. Runs are half-open intervals [start, end).
create or replace function bench_internal.tag_at(p_place integer, p_time timestamptz) returns integer language sql stable as $$
    select coalesce((select runset_id from run_sets
                     where place_id = p_place and started_at <= p_time and (ended_at is null or ended_at > p_time)
                     limit 1), 0)
$$;

-- Rebuild the run sets of a resource from its placements, from `p_from` on; nothing earlier has changed. A set that starts at
-- the same time with the same runs keeps its id, so that samples keep their tags.
create or replace function bench_internal.rebuild_run_sets(p_place integer, p_from timestamptz) returns void language plpgsql as $$
declare
    since timestamptz;
    here places;
begin
    -- One lock for all resources, so that rebuilds in any order cannot deadlock.
    perform from tag_version for update;
    select * into here from places where place_id = p_place;
    select coalesce(max(started_at), p_from) into since from run_sets
    where place_id = p_place and started_at <= p_from and (ended_at is null or ended_at > p_from);

    with present as (
        select run_id, greatest(started_at, since) as started_at, coalesce(ended_at, 'infinity') as ended_at,
               here.gpu_uuid is not null and gpu_instance_id is not distinct from here.gpu_instance_id as fits
        from placements
        where coalesce(ended_at, 'infinity') > since and host = here.host
          and origin = '' and (here.run_id is null or run_id = here.run_id)
          and (here.gpu_uuid is null or gpu_uuid = here.gpu_uuid)
          and (here.gpu_instance_id is null or gpu_instance_id = here.gpu_instance_id)
    ), edges as (
        select started_at as at from present union select ended_at from present where ended_at < 'infinity'
    ), spans as (
        select at as started_at, lead(at, 1, 'infinity') over (order by at) as ended_at from edges
    ), members as (
        select s.started_at, s.ended_at, p.run_id, bool_or(p.fits) as fits
        from spans s join present p on p.started_at <= s.started_at and p.ended_at > s.started_at
        group by s.started_at, s.ended_at, p.run_id
    ), wanted as (
        select started_at, nullif(ended_at, 'infinity') as ended_at, array_agg(run_id order by run_id) as run_ids,
               case when here.kind in ('host', 'process') then here.kind
                    when count(*) = 1 and bool_and(fits) then 'instance'
                    else 'device' end as scope
        from members group by 1, 2
    ), known as (
        select runset_id, started_at, array_agg(run_id order by run_id) as run_ids
        from run_sets where place_id = p_place and started_at >= since group by 1, 2
    ), numbered as (
        select coalesce(k.runset_id, nextval('runset_ids')::integer) as runset_id, k.runset_id is not null as kept, w.*
        from wanted w left join known k using (started_at, run_ids)
    ), deleted as (
        delete from run_sets r where place_id = p_place and started_at >= since
           and not exists (select from numbered n where n.runset_id = r.runset_id)
    ), moved as (
        update run_sets r set ended_at = n.ended_at, scope = n.scope from numbered n
        where n.kept and r.runset_id = n.runset_id
          and (r.ended_at, r.scope) is distinct from (n.ended_at, n.scope)
    )
    insert into run_sets (runset_id, place_id, run_id, scope, started_at, ended_at)
    select n.runset_id, p_place, unnest(n.run_ids), n.scope, n.started_at, n.ended_at
    from numbered n where not n.kept;

    insert into retag_queue (place_id, from_time) values (p_place, p_from);
    update tag_version set version = version + 1;
end $$;

-- Rebuild the run sets that a changed placement affects, from the first affected time on.
create or replace function bench_internal.placement_changed() returns trigger language plpgsql as $$
declare
    changed_from timestamptz;
    a_place integer;
    sample placements := coalesce(new, old);
begin
    if sample.origin <> '' then
        return null;
    end if;
    if tg_op = 'UPDATE' then
        -- The earliest time at which the old and the new interval differ.
        changed_from := least(
            case when old.started_at is distinct from new.started_at then least(old.started_at, new.started_at) end,
            case when old.ended_at is distinct from new.ended_at
                 then least(coalesce(old.ended_at, 'infinity'), coalesce(new.ended_at, 'infinity')) end);
        if changed_from is null then
            return null;
        end if;
    else
        changed_from := sample.started_at;
    end if;
    perform rebuild_run_sets(place('host', sample.host, null, null, null), changed_from);
    perform rebuild_run_sets(place('process', sample.host, null, null, sample.run_id), changed_from);
    if sample.gpu_uuid is not null then
        perform rebuild_run_sets(place('gpu', sample.host, sample.gpu_uuid, null, null), changed_from);
    end if;
    if sample.gpu_instance_id is not null then
        a_place := place('instance', sample.host, sample.gpu_uuid, sample.gpu_instance_id, null);
        perform rebuild_run_sets(a_place, changed_from);
    end if;
    return null;
end $$;

create or replace trigger placements_to_run_sets after insert or update or delete on placements
for each row execute function placement_changed();

-- Split the samples of a resource at the boundaries of its run sets from `p_from` on. The collector splits the samples that it
-- writes in the same way: see `Tags.parts`. Process trees need no split, since all of their samples belong to one run.
create or replace function bench_internal.divide(p_place integer, p_from timestamptz) returns void language plpgsql as $$
declare
    boundary timestamptz;
    ids integer[];
    high timestamptz;
begin
    for boundary in
        select distinct e from run_sets cross join lateral (values (started_at), (ended_at)) edges (e)
        where place_id = p_place and scope <> 'process' and e >= p_from and e > (select raw_cutoff from retention) order by e
    loop
        -- For each series, only the first sample after the boundary can reach back across it.
        execute format($q$
            select array_agg(s.series_id), max(x.time)
            from series s cross join lateral (
                select time, dt from %1$s where series_id = s.series_id and time >= %2$L::timestamptz order by time limit 1) x
            cross join lateral (select extract(epoch from x.time - %2$L::timestamptz)::float8 as since) y
            where s.place_id = %3$s
              and x.dt - case when s.counts then since else greatest(since, 1) end > greatest(1e-3, 1e-6 * x.dt)$q$,
            sample_table(), boundary, p_place) into ids, high;
        continue when ids is null;
        execute format($q$
            with whole as (
                delete from %5$s
                where series_id = any(%1$L::integer[]) and time >= %2$L::timestamptz and time <= %3$L::timestamptz
                  and time - dt * interval '1 s' < %2$L::timestamptz
                returning *, extract(epoch from time - %2$L::timestamptz)::float8 as since
            )
            insert into %5$s (time, series_id, runset_id, value, dt)
            select p.* from whole join series s using (series_id) cross join lateral (
                select %2$L::timestamptz - interval '1 us', series_id, tag_at(%4$s, %2$L::timestamptz - interval '1 us'), value,
                       dt - case when since >= 1e-3 then since else 0 end
                where s.counts
                union all
                select time, series_id, runset_id, value, case when s.counts then since else greatest(since, 1) end
                where since >= 1e-3 or s.counts is not true) p$q$, ids, boundary, high, p_place, sample_table());
    end loop;
end $$;

-- Retag the samples of a resource by its current run sets, and return the number of changed samples. Tags below the raw cutoff
-- stay, since the aggregates there cannot be recomputed.
create or replace function bench_internal.retag(p_place integer, p_from timestamptz) returns bigint language plpgsql as $$
declare
    ids constant integer[] := array(select series_id from series where place_id = p_place);
    start timestamptz;
    moved bigint;
begin
    lock table bench_internal.retention in share mode;  -- keeps the raw cutoff from moving
    lock table bench_internal.pack_lock in share mode;  -- excludes packing
    select greatest(p_from, raw_cutoff) into start from retention;
    perform set_config('timescaledb.max_tuples_decompressed_per_dml_transaction', '0', true);  -- no limit
    perform unpack(p_place, start);
    perform divide(p_place, start);
    execute format($q$
        with changed as (
            update %4$s set runset_id = tag_at(%1$s, time)
            where series_id = any(%2$L::integer[]) and time >= %3$L::timestamptz and runset_id <> tag_at(%1$s, time)
            returning 1)
        select count(*) from changed$q$, p_place, ids, start, sample_table()) into moved;
    update runs set summarised = false
    where summarised and started_at >= (select raw_cutoff from retention)
      and run_id in (select run_id from run_sets where place_id = p_place and (ended_at is null or ended_at >= p_from));
    return moved;
end $$;
