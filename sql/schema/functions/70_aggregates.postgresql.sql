-- In plain PostgreSQL the downsampled relations are computed on read, so that nothing has to follow a late write. Only
-- when raw samples are deleted, their aggregates are written down first.

-- Whether the aggregates are computed on read, from a series' whole past.
create or replace function aggregates_on_read() returns boolean language sql immutable as 'select true';

create or replace procedure refresh() language plpgsql as 'begin end';

-- Adds the aggregates of samples in `late_samples` and in `samples` within a span to what is stored.
create or replace function store_aggregates(p_from timestamptz, p_to timestamptz, p_late boolean) returns void
language plpgsql as $$
declare
    level record;
begin
    for level in select * from (values ('10 s', '10s'), ('1 min', '1m'), ('10 min', '10m')) as levels(width, name) loop
        execute format($q$
            insert into bench.samples_%s_stored
            select date_bin(%L, time, timestamptz '2000-01-03 00:00:00+00'), series_id, runset_id, count(*),
                   sum(case when value is not null then dt::float8 end), sum(value * dt), min(value), max(value)
            from bench.%I where time >= $1 and time < $2 group by 1, 2, 3
            $q$, level.name, level.width, case when p_late then 'late_samples' else 'samples' end)
        using p_from, p_to;
    end loop;
end $$;

-- Takes what was put into `late_samples`, all of it below the edge.
create or replace function write_below_edge() returns void language plpgsql as $$
begin
    perform store_aggregates('-infinity', 'infinity', true);
    insert into samples select * from late_samples;
    delete from late_samples;
end $$;

-- Makes what is stored of the upper levels from the lowest: for a restore, which brings that alone.
create or replace function store_upper_levels() returns void language sql as $$
    delete from bench.samples_1m_stored;
    delete from bench.samples_10m_stored;
    insert into bench.samples_1m_stored
    select date_bin('1 min', bucket, timestamptz '2000-01-03 00:00:00+00'), series_id, runset_id, sum(n), sum(seconds),
           sum(area), min(min), max(max)
    from bench.samples_10s_stored group by 1, 2, 3;
    insert into bench.samples_10m_stored
    select date_bin('10 min', bucket, timestamptz '2000-01-03 00:00:00+00'), series_id, runset_id, sum(n), sum(seconds),
           sum(area), min(min), max(max)
    from bench.samples_1m_stored group by 1, 2, 3;
$$;

-- Moves the edge to where `retention` wants it, a day at a time, and deletes the raw samples below it, less those of runs
-- that are to be kept, or have no summary yet.
create or replace procedure retain() language plpgsql as $$
declare
    wanted timestamptz := (select date_trunc('day', now() - keep_raw, 'UTC') from bench.retention);
    here timestamptz;
    following timestamptz;
begin
    loop
        perform bench.summarise_before(wanted);
        perform pg_advisory_xact_lock(hashtext('bench.samples'));  -- without writers
        select edge into here from bench.retention;
        if here = '-infinity' then
            select coalesce(date_trunc('day', min(time), 'UTC'), wanted) into here from bench.samples where time < wanted;
        end if;
        exit when wanted is null or here >= wanted;
        following := least(here + interval '1 day', wanted);
        perform bench.store_aggregates(here, following, false);
        update bench.retention set edge = following;
        commit;
    end loop;
    delete from bench.samples
    where time < (select edge from bench.retention)
      and runset_id not in (select runset_id from bench.run_sets join bench.runs using (run_id)
                            where keep or not summarised);
    commit;
end $$;

-- What policies do elsewhere.
create or replace procedure maintain() language plpgsql as $$
begin
    call bench.retain();
    analyze bench.samples;
end $$;

-- Where the aggregates keep rows of their own.
create or replace function stored_aggregates() returns text[] language sql stable as $$
    select array['bench.samples_10s_stored', 'bench.samples_1m_stored', 'bench.samples_10m_stored']
$$;
