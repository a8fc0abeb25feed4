-- Aggregates and raw samples agree, always. What is written above an aggregate's watermark is computed on read; what is
-- written below is on record as invalid and stays unseen until it is refreshed. Only the owner may do that, so a job of
-- the owner does.

-- Up to where samples_10s is materialized.
create or replace function watermark() returns timestamptz language sql as $$
    select _timescaledb_functions.to_timestamp(_timescaledb_functions.cagg_watermark(mat_hypertable_id))
    from _timescaledb_catalog.continuous_agg where user_view_schema = 'bench' and user_view_name = 'samples_10s'
$$;

-- Refreshes samples_10s from the edge of retention on. Below it the samples are gone, and a refresh would erase what was
-- made of them; but where the watermark is lower still, there was nothing in between, and what came since is raw.
create or replace procedure refresh_up_to(p_end timestamptz) language plpgsql as $$
declare
    start timestamptz := (select nullif(least(edge, bench.watermark()), '-infinity') from bench.retention
                          where edge > '-infinity');
begin
    if start is null or start < p_end then
        call public.refresh_continuous_aggregate('bench.samples_10s', start, p_end);
    end if;
end $$;

-- Refreshes what has changed, and nothing else; each level after the one that it is made of. It ends behind the clock, so
-- that live samples, readable within seconds, stay above the watermark.
create or replace procedure refresh(job integer default null, config jsonb default null) language plpgsql as $$
declare
    edge timestamptz;
begin
    perform pg_advisory_lock(hashtext('bench.refresh'));  -- one at a time
    select r.edge into edge from bench.retention r;
    if bench.watermark() < edge then
        perform pg_advisory_lock(hashtext('bench.samples'));  -- see write_below_edge: the watermark may not move under it
        call bench.refresh_up_to(edge);
        perform pg_advisory_unlock(hashtext('bench.samples'));
    end if;
    call public.refresh_continuous_aggregate('bench.samples_10s', nullif(edge, '-infinity'), now() - interval '1 min');
    call public.refresh_continuous_aggregate('bench.samples_1m', null, now() - interval '5 min');
    call public.refresh_continuous_aggregate('bench.samples_10m', null, now() - interval '30 min');
    perform pg_advisory_unlock(hashtext('bench.refresh'));
end $$;

-- Takes what was put into `late_samples`, all of it below the edge. What is below the watermark too is added to
-- samples_10s, of which the levels above are then made anew.
create or replace function write_below_edge() returns void language plpgsql security definer
set search_path = bench, pg_temp as $$
begin
    execute (
        select format($q$
            insert into %I.%I (bucket, series_id, runset_id, n, seconds, area, min, max)
            select public.time_bucket(interval '10 s', time), series_id, runset_id, count(*),
                   sum(case when value is not null then dt::float8 end), sum(value * dt), min(value), max(value)
            from late_samples where time < watermark() group by 1, 2, 3
            $q$, materialization_hypertable_schema, materialization_hypertable_name)
        from timescaledb_information.continuous_aggregates where view_schema = 'bench' and view_name = 'samples_10s');
    insert into samples select * from late_samples;
    delete from late_samples;
end $$;

-- Moves the edge to where `retention` wants it and drops the chunks below it, less those in which a run ran that is to
-- be kept, or goes on.
create or replace procedure retain(job integer default null, config jsonb default null) language plpgsql as $$
declare
    wanted timestamptz;
    chunk record;
begin
    perform pg_advisory_lock(hashtext('bench.refresh'));
    select greatest(edge, date_trunc('day', now() - keep_raw, 'UTC')) into wanted
    from bench.retention where keep_raw is not null;
    if wanted is not null then
        perform bench.summarise_before(wanted);
        commit;
        call bench.refresh_up_to(wanted);
        -- Once more without writers, for what came meanwhile: from here on no sample is without its aggregate.
        perform pg_advisory_lock(hashtext('bench.samples'));
        call bench.refresh_up_to(wanted);
        update bench.retention set edge = wanted;
        commit;
        for chunk in
            select range_start, range_end from timescaledb_information.chunks
            where hypertable_schema = 'bench' and hypertable_name = 'samples' and range_end <= wanted
        loop
            if not exists (select from bench.runs where (keep or ended_at is null) and started_at < chunk.range_end
                           and coalesce(ended_at, 'infinity') >= chunk.range_start) then
                perform public.drop_chunks('bench.samples', older_than => chunk.range_end,
                                           newer_than => chunk.range_start);
                commit;
            end if;
        end loop;
        perform pg_advisory_unlock(hashtext('bench.samples'));
    end if;
    perform pg_advisory_unlock(hashtext('bench.refresh'));
end $$;

-- Does now what jobs and policies do in time. A chunk that a policy's job has in its hands is left to it.
create or replace procedure maintain() language plpgsql as $$
declare
    chunk regclass;
begin
    call bench.refresh();
    call bench.retain();
    for chunk in
        select format('%I.%I', c.schema_name, c.table_name)::regclass
        from timescaledb_information.jobs j join _timescaledb_catalog.chunk c
          on c.hypertable_id = (j.config ->> 'hypertable_id')::integer
        join timescaledb_information.chunks i on (i.chunk_schema, i.chunk_name) = (c.schema_name, c.table_name)
        where j.proc_name = 'policy_compression' and j.hypertable_schema = 'bench'
          and i.range_end < now() - (j.config ->> 'compress_after')::interval
          and (c.status & 1 = 0 or c.status & 10 <> 0)  -- not compressed, or since then written to
        order by i.range_start
    loop
        begin
            perform public.compress_chunk(chunk);
        exception when others then
            raise warning 'chunk % is not compressed: %', chunk, sqlerrm;
        end;
        commit;
    end loop;
end $$;

do $$
begin
    if not exists (select from timescaledb_information.jobs where proc_schema = 'bench' and proc_name = 'refresh') then
        perform public.add_job('bench.refresh', interval '10 s');
        perform public.add_job('bench.retain', interval '1 day');
    end if;
end $$;
