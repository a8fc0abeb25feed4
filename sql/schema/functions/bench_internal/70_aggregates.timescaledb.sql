-- Aggregates and raw samples always agree. Samples above an aggregate's watermark are aggregated on read. A write below it
-- records an invalidation, and becomes visible with the next refresh. Only the owner may refresh, so a job of the owner does.

-- Refresh what has changed, each level after the one below. The refresh ends behind the clock, so that live samples stay above
-- the watermark and are readable within seconds. It starts at the raw cutoff: the samples below are deleted, and a refresh
-- would erase their aggregates. Late samples below the cutoff are added instead. Batches span three hours: TimescaleDB's
-- default of ten buckets takes twenty times as long for an imported week.
create or replace procedure bench_internal.refresh(job integer default null, config jsonb default null) language plpgsql as $$
declare
    cutoff timestamptz;
begin
    perform pg_advisory_lock(hashtext('bench.refresh'));  -- one at a time
    select nullif(coalesce(r.moved_from, r.raw_cutoff), '-infinity') into cutoff from bench_internal.retention r;
    if cutoff is not null then
        call bench_internal.raise_watermark(cutoff);
        execute format('with late as (delete from bench_internal.samples_10s_late returning *)
                        insert into %s (bucket, series_id, runset_id, n, seconds, area, min, max)
                        select bucket, series_id, runset_id, n, seconds, area, min, max from late', bench_internal.materialized_10s());
        commit;
    end if;
    call public.refresh_continuous_aggregate('bench.samples_10s', cutoff, now() - interval '1 min',
                                             options => '{"buckets_per_batch": 1080}');
    call public.refresh_continuous_aggregate('bench.samples_1m', null, now() - interval '5 min',
                                             options => '{"buckets_per_batch": 180}');
    call public.refresh_continuous_aggregate('bench.samples_10m', null, now() - interval '30 min',
                                             options => '{"buckets_per_batch": 18}');
    perform pg_advisory_unlock(hashtext('bench.refresh'));
end $$;

-- Return the relation that holds the rows of samples_10s.
create or replace function bench_internal.materialized_10s() returns regclass language sql stable as $$
    select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name)::regclass
    from timescaledb_information.continuous_aggregates where view_schema = 'bench' and view_name = 'samples_10s'
$$;

-- Return the relations that hold samples and aggregates, with the columns that bound a row in time, and an expression of the
-- number of its samples; null for aggregates.
create or replace function bench_internal.sample_relations()
returns table (relation text, first_column text, last_column text, samples text) language sql stable as $$
    values ('bench.samples', 'time', 'time', '1'), ('bench_internal.samples_10s_late', 'bucket', 'bucket', null)
    union all
    select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name), 'bucket', 'bucket', null
    from timescaledb_information.continuous_aggregates where view_schema = 'bench'
$$;

-- Raise the watermark of samples_10s to `p_time`, so that it reads materialized rows below, even where there is nothing to
-- materialize. A watermark follows the data of a refresh: hence a sample of no series, deleted afterwards with its bucket.
create or replace procedure bench_internal.raise_watermark(p_time timestamptz) language plpgsql as $$
declare
    watermark constant timestamptz := (
        select _timescaledb_functions.to_timestamp(_timescaledb_functions.cagg_watermark(mat_hypertable_id))
        from _timescaledb_catalog.continuous_agg where user_view_schema = 'bench' and user_view_name = 'samples_10s');
begin
    if watermark < p_time then
        insert into bench.samples values (p_time - interval '1 s', 0, 0, null, 0);
        commit;
        call public.refresh_continuous_aggregate('bench.samples_10s', p_time - interval '10 s', p_time);
        delete from bench.samples where series_id = 0 and time = p_time - interval '1 s';
        execute format('delete from %s where bucket = $1', bench_internal.materialized_10s()) using p_time - interval '10 s';
        commit;
    end if;
end $$;

-- Aggregate and store the samples in `late_samples`, all of them below the raw cutoff. While that moves, a refresh would count
-- them a second time: they wait for its end.
create or replace function bench_internal.write_below_cutoff() returns void language plpgsql as $$
begin
    if (select moved_from is not null from retention) then
        return;
    end if;
    insert into samples_10s_late
    select public.time_bucket(interval '10 s', time), series_id, runset_id, count(*),
           sum(case when value is not null then dt::float8 end), sum(value * dt), min(value), max(value)
    from late_samples group by 1, 2, 3;
    insert into samples select * from late_samples;
    delete from late_samples;
end $$;

-- Move the raw cutoff to where `retention` wants it, and drop the chunks below it, except those of runs that are protected or
-- have no summary yet. A move that was cut off continues.
create or replace procedure bench_internal.retain(job integer default null, config jsonb default null) language plpgsql as $$
declare
    old_cutoff timestamptz;
    new_cutoff timestamptz;
    wanted timestamptz;
    chunk record;
begin
    perform pg_advisory_lock(hashtext('bench.refresh'));
    select coalesce(moved_from, raw_cutoff), raw_cutoff, date_trunc('day', now() - keep_raw, 'UTC')
    into old_cutoff, new_cutoff, wanted from bench_internal.retention;
    new_cutoff := greatest(new_cutoff, wanted);
    wanted := case when wanted is not null then new_cutoff end;
    perform bench_internal.summarise_before(wanted);  -- also for an unchanged cutoff: more runs may have ended
    commit;
    if new_cutoff > old_cutoff then
        call public.refresh_continuous_aggregate('bench.samples_10s', nullif(old_cutoff, '-infinity'), new_cutoff,
                                                 options => '{"buckets_per_batch": 1080}');
        -- The update waits for the writes in progress. The second refresh covers what they wrote.
        update bench_internal.retention set raw_cutoff = new_cutoff, moved_from = old_cutoff;
        commit;
        call public.refresh_continuous_aggregate('bench.samples_10s', nullif(old_cutoff, '-infinity'), new_cutoff,
                                                 options => '{"buckets_per_batch": 1080}');
        call bench_internal.raise_watermark(new_cutoff);
        update bench_internal.retention set moved_from = null;
        perform bench_internal.write_below_cutoff();
        commit;
    end if;
    for chunk in
        select range_start, range_end from timescaledb_information.chunks
        where hypertable_schema = 'bench' and hypertable_name = 'samples' and range_end <= wanted
    loop
        if not exists (select from bench.runs where (keep or not summarised) and started_at < chunk.range_end
                       and coalesce(ended_at, 'infinity') >= chunk.range_start) then
            perform public.drop_chunks('bench.samples', older_than => chunk.range_end, newer_than => chunk.range_start);
            commit;
        end if;
    end loop;
    perform pg_advisory_unlock(hashtext('bench.refresh'));
end $$;

-- Return the chunks that a policy should have compressed `p_late` ago. It uses the views that TimescaleDB documents, since its
-- catalog changes between releases.
create or replace function bench_internal.chunks_to_compress(p_late interval)
returns table (job_id integer, relation regclass, is_compressed boolean, range_start timestamptz) language sql stable as $$
    select j.job_id, format('%I.%I', i.chunk_schema, i.chunk_name)::regclass, i.is_compressed, i.range_start
    from timescaledb_information.jobs j
    left join timescaledb_information.continuous_aggregates c
           on (j.hypertable_schema, j.hypertable_name) in (
              (c.view_schema, c.view_name), (c.materialization_hypertable_schema, c.materialization_hypertable_name))
    join timescaledb_information.chunks i
      on i.hypertable_schema = coalesce(c.materialization_hypertable_schema, j.hypertable_schema)
     and i.hypertable_name = coalesce(c.materialization_hypertable_name, j.hypertable_name)
    where j.proc_name = 'policy_compression' and 'bench' in (j.hypertable_schema, c.view_schema)
      and i.range_end < now() - (j.config ->> 'compress_after')::interval - p_late
$$;

-- Run the work of jobs and policies now. A chunk that is locked by a policy's job is left to that job.
create or replace procedure bench_internal.maintain() language plpgsql as $$
declare
    chunk regclass;
begin
    call bench_internal.refresh();
    call bench_internal.retain();
    for chunk in
        select i.relation from bench_internal.chunks_to_compress(interval '0') i
        where not i.is_compressed or _timescaledb_functions.chunk_status(i.relation) & 10 <> 0  -- or written to since its compression
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
    if not exists (select from timescaledb_information.jobs where proc_schema = 'bench_internal' and proc_name = 'refresh') then
        perform public.add_job('bench_internal.refresh', interval '10 s');
        perform public.add_job('bench_internal.retain', interval '1 day');
    end if;
end $$;
