-- Aggregates and raw samples agree, always. What is written above an aggregate's watermark is computed on read; what is
-- written below is on record as invalid and stays unseen until it is refreshed. Only the owner may do that, so a job of
-- the owner does.

-- Whether the aggregates are computed on read, from a series' whole past: only what is newest.
create or replace function aggregates_on_read() returns boolean language sql immutable as 'select false';

-- Refreshes what has changed, and nothing else; each level after the one that it is made of. It ends behind the clock, so
-- that live samples, readable within seconds, stay above the watermark. It begins at the edge of retention: below, the
-- samples are gone, and a refresh would erase what was made of them; what comes late there is added. It goes by three hours
-- at a time: TimescaleDB's own batches of ten buckets take twenty times as long for a week that is brought in.
create or replace procedure refresh(job integer default null, config jsonb default null) language plpgsql as $$
declare
    edge timestamptz;
begin
    perform pg_advisory_lock(hashtext('bench.refresh'));  -- one at a time
    select nullif(r.edge, '-infinity') into edge from bench.retention r;
    if edge is not null then
        call bench.raise_watermark(edge);
        execute format('with late as (delete from bench.samples_10s_late returning *)
                        insert into %s (bucket, series_id, runset_id, n, seconds, area, min, max)
                        select bucket, series_id, runset_id, n, seconds, area, min, max from late', bench.materialized_10s());
        commit;
    end if;
    call public.refresh_continuous_aggregate('bench.samples_10s', edge, now() - interval '1 min',
                                             options => '{"buckets_per_batch": 1080}');
    call public.refresh_continuous_aggregate('bench.samples_1m', null, now() - interval '5 min',
                                             options => '{"buckets_per_batch": 180}');
    call public.refresh_continuous_aggregate('bench.samples_10m', null, now() - interval '30 min',
                                             options => '{"buckets_per_batch": 18}');
    perform pg_advisory_unlock(hashtext('bench.refresh'));
end $$;

-- Where samples_10s keeps its rows.
create or replace function materialized_10s() returns regclass language sql stable as $$
    select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name)::regclass
    from timescaledb_information.continuous_aggregates where view_schema = 'bench' and view_name = 'samples_10s'
$$;

-- Where the aggregates keep their rows.
create or replace function stored_aggregates() returns text[] language sql stable as $$
    select array['bench.samples_10s_late'] || array_agg(
        format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name))
    from timescaledb_information.continuous_aggregates where view_schema = 'bench'
$$;

-- Has samples_10s read what is materialized below `p_time`, where so far it is computed on read and there is nothing to
-- materialize. A watermark follows what a refresh finds: a sample of no series, taken away again with its bucket.
create or replace procedure raise_watermark(p_time timestamptz) language plpgsql as $$
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
        execute format('delete from %s where bucket = $1', bench.materialized_10s()) using p_time - interval '10 s';
        commit;
    end if;
end $$;

-- Takes what was put into `late_samples`, all of it below the edge.
create or replace function write_below_edge() returns void language plpgsql as $$
begin
    insert into samples_10s_late
    select public.time_bucket(interval '10 s', time), series_id, runset_id, count(*),
           sum(case when value is not null then dt::float8 end), sum(value * dt), min(value), max(value)
    from late_samples group by 1, 2, 3;
    insert into samples select * from late_samples;
    delete from late_samples;
end $$;

-- Moves the edge to where `retention` wants it and drops the chunks below it, less those in which a run ran that is to
-- be kept, or has no summary yet.
create or replace procedure retain(job integer default null, config jsonb default null) language plpgsql as $$
declare
    here timestamptz;
    wanted timestamptz;
    chunk record;
begin
    perform pg_advisory_lock(hashtext('bench.refresh'));
    select nullif(edge, '-infinity'), greatest(edge, date_trunc('day', now() - keep_raw, 'UTC'))
    into here, wanted from bench.retention where keep_raw is not null;
    perform bench.summarise_before(wanted);  -- also where the edge stays: what went on when it came may have ended
    commit;
    if wanted > here or here is null and wanted is not null then
        call public.refresh_continuous_aggregate('bench.samples_10s', here, wanted,
                                                 options => '{"buckets_per_batch": 1080}');
        -- Once more without writers, for what came meanwhile: from here on no sample is without its aggregate.
        perform pg_advisory_lock(hashtext('bench.samples'));
        call public.refresh_continuous_aggregate('bench.samples_10s', here, wanted,
                                                 options => '{"buckets_per_batch": 1080}');
        call bench.raise_watermark(wanted);
        update bench.retention set edge = wanted;
        commit;
        perform pg_advisory_unlock(hashtext('bench.samples'));
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

-- The chunks that a policy is to have compressed for `p_late`: by the views that TimescaleDB documents, since its catalog
-- changes from release to release.
create or replace function chunks_to_compress(p_late interval)
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

-- Does now what jobs and policies do in time. A chunk that a policy's job has in its hands is left to it.
create or replace procedure maintain() language plpgsql as $$
declare
    chunk regclass;
begin
    call bench.refresh();
    call bench.retain();
    for chunk in
        select i.relation from bench.chunks_to_compress(interval '0') i
        where not i.is_compressed or _timescaledb_functions.chunk_status(i.relation) & 10 <> 0  -- or written to since then
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
