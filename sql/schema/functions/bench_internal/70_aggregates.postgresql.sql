-- In plain PostgreSQL aggregates need no refresh: they are stored with packed samples, and computed on read for others, so also
-- for late ones. Those of samples that retention deletes are stored before.

create or replace procedure bench_internal.refresh() language plpgsql as 'begin end';

-- Add the aggregates of `late_samples`, or of `samples` in an interval, to the stored ones.
create or replace function bench_internal.store_aggregates(p_from timestamptz, p_to timestamptz, p_late boolean) returns void
language plpgsql as $$
declare
    level record;
begin
    for level in select name, level_width(name) as width from unnest(array['10s', '1m', '10m']) name loop
        execute format($q$
            insert into bench_internal.samples_%s_stored
            select date_bin(%L, time, timestamptz '2000-01-03 00:00:00+00'), series_id, runset_id, count(*),
                   sum(case when value is not null then dt::float8 end), sum(value * dt), min(value), max(value)
            from %s where time >= $1 and time < $2 %s group by 1, 2, 3
            $q$, level.name, level.width, case when p_late then 'bench_internal.late_samples' else 'bench_internal.bounded_samples' end,
            case when not p_late then 'and last >= $1 and first < $2' end)
        using p_from, p_to;
    end loop;
end $$;

-- Aggregate and store the samples in `late_samples`, all of them below the raw cutoff.
create or replace function bench_internal.write_below_cutoff() returns void language plpgsql as $$
begin
    perform store_aggregates('-infinity', 'infinity', true);
    insert into unpacked_samples select * from late_samples;
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
    protected integer[];
begin
    loop
        perform bench_internal.summarise_before(wanted);
        lock table bench_internal.retention in exclusive mode;  -- excludes writers
        select raw_cutoff into here from bench_internal.retention;
        if here = '-infinity' then
            select coalesce(date_trunc('day', min(first), 'UTC'), wanted) into here
            from (select min(time) as first from bench_internal.unpacked_samples where time < wanted
                  union all
                  select min(first) from bench_internal.packed_samples where last < wanted) oldest;
        end if;
        exit when wanted is null or here >= wanted;
        following := least(here + interval '1 day', wanted);
        perform bench_internal.store_aggregates(here, following, false);
        update bench_internal.retention set raw_cutoff = following;
        commit;
    end loop;
    lock table bench_internal.pack_lock in exclusive mode;
    select raw_cutoff, array(select runset_id from bench.run_sets join bench.runs using (run_id) where keep or not summarised)
    into here, protected from bench_internal.retention;
    delete from bench_internal.unpacked_samples where time < here and runset_id <> all(protected);
    delete from bench_internal.packed_samples where last < here and runset_id <> all(protected);
    perform bench_internal.delete_unused_scrapes();
    commit;
end $$;

-- Run the work of TimescaleDB's policies.
create or replace procedure bench_internal.maintain() language plpgsql as $$
begin
    call bench_internal.retain();
    call bench_internal.pack(now() - interval '10 min');
    analyze bench_internal.unpacked_samples, bench_internal.packed_samples, bench_internal.packed_scrapes;
end $$;

-- Return the relations that hold samples and aggregates, with the columns that bound a row in time, and an expression of the
-- number of its samples; null for aggregates.
create or replace function bench_internal.sample_relations()
returns table (relation text, first_column text, last_column text, samples text) language sql immutable as $$
    values ('bench_internal.unpacked_samples', 'time', 'time', '1'), ('bench_internal.packed_samples', 'first', 'last', 'n'),
           ('bench_internal.samples_10s_stored', 'bucket', 'bucket', null), ('bench_internal.samples_1m_stored', 'bucket', 'bucket', null),
           ('bench_internal.samples_10m_stored', 'bucket', 'bucket', null)
$$;
