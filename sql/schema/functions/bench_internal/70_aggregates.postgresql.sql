-- In plain PostgreSQL the downsampled relations are computed on read, so that late writes need no refresh. Aggregates are
-- stored only before raw samples are deleted.

-- Return whether aggregates are computed on read, over the whole history of a series.
create or replace function bench_internal.aggregates_on_read() returns boolean language sql immutable as 'select true';

create or replace procedure bench_internal.refresh() language plpgsql as 'begin end';

-- Add the aggregates of `late_samples`, or of `samples` in an interval, to the stored ones.
create or replace function bench_internal.store_aggregates(p_from timestamptz, p_to timestamptz, p_late boolean) returns void
language plpgsql as $$
declare
    level record;
begin
    for level in select * from (values ('10 s', '10s'), ('1 min', '1m'), ('10 min', '10m')) as levels(width, name) loop
        execute format($q$
            insert into bench_internal.samples_%s_stored
            select date_bin(%L, time, timestamptz '2000-01-03 00:00:00+00'), series_id, runset_id, count(*),
                   sum(case when value is not null then dt::float8 end), sum(value * dt), min(value), max(value)
            from %s where time >= $1 and time < $2 group by 1, 2, 3
            $q$, level.name, level.width, case when p_late then 'bench_internal.late_samples' else 'bench.samples' end)
        using p_from, p_to;
    end loop;
end $$;

-- Aggregate and store the samples in `late_samples`, all of them below the raw cutoff.
create or replace function bench_internal.write_below_cutoff() returns void language plpgsql as $$
begin
    perform store_aggregates('-infinity', 'infinity', true);
    insert into samples select * from late_samples;
    delete from late_samples;
end $$;

-- Rebuild the stored upper levels from the lowest, for a restore, which brings the lowest alone.
create or replace function bench_internal.store_upper_levels() returns void language sql as $$
    delete from bench_internal.samples_1m_stored;
    delete from bench_internal.samples_10m_stored;
    insert into bench_internal.samples_1m_stored
    select date_bin('1 min', bucket, timestamptz '2000-01-03 00:00:00+00'), series_id, runset_id, sum(n), sum(seconds),
           sum(area), min(min), max(max)
    from bench_internal.samples_10s_stored group by 1, 2, 3;
    insert into bench_internal.samples_10m_stored
    select date_bin('10 min', bucket, timestamptz '2000-01-03 00:00:00+00'), series_id, runset_id, sum(n), sum(seconds),
           sum(area), min(min), max(max)
    from bench_internal.samples_1m_stored group by 1, 2, 3;
$$;

-- Move the raw cutoff to where `retention` wants it, a day at a time, and delete the raw samples below it, except those of runs
-- that are protected or have no summary yet.
create or replace procedure bench_internal.retain() language plpgsql as $$
declare
    wanted timestamptz := (select date_trunc('day', now() - keep_raw, 'UTC') from bench_internal.retention);
    here timestamptz;
    following timestamptz;
begin
    loop
        perform bench_internal.summarise_before(wanted);
        perform pg_advisory_xact_lock(hashtext('bench.samples'));  -- excludes writers
        select raw_cutoff into here from bench_internal.retention;
        if here = '-infinity' then
            select coalesce(date_trunc('day', min(time), 'UTC'), wanted) into here from bench.samples where time < wanted;
        end if;
        exit when wanted is null or here >= wanted;
        following := least(here + interval '1 day', wanted);
        perform bench_internal.store_aggregates(here, following, false);
        update bench_internal.retention set raw_cutoff = following;
        commit;
    end loop;
    delete from bench.samples
    where time < (select raw_cutoff from bench_internal.retention)
      and runset_id not in (select runset_id from bench.run_sets join bench.runs using (run_id)
                            where keep or not summarised);
    commit;
end $$;

-- Run the work of TimescaleDB's policies.
create or replace procedure bench_internal.maintain() language plpgsql as $$
begin
    call bench_internal.retain();
    analyze bench.samples;
end $$;

-- Return the relations that hold stored aggregates.
create or replace function bench_internal.stored_aggregates() returns text[] language sql stable as $$
    select array['bench_internal.samples_10s_stored', 'bench_internal.samples_1m_stored', 'bench_internal.samples_10m_stored']
$$;
