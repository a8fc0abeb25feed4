-- Samples and aggregates as relations, over rows and packed samples: `36_packing` turns one into the other.

-- Samples with the bounds of their block: those of a packed row, or the time of an unpacked sample. A condition on the bounds
-- narrows a search; a condition on `time` alone unpacks every row. `stored_10s` and the like say whether an aggregate of the block
-- is stored.
create or replace view bench_internal.bounded_samples as
select time, series_id, runset_id, value, dt, time as first, time as last, false as stored_10s, false as stored_1m,
       false as stored_10m
from unpacked_samples
union all
select time, series_id, runset_id, coalesce(single, double, value), dt, first, last, stored_10s, stored_1m, stored_10m
from (select unnest(s.times) as time, p.series_id, p.runset_id, unnest(p.singles)::float8 as single, unnest(p.doubles) as double,
             p.value, unnest(s.dts) as dt, p.first, p.last, s.buckets_10s is not null as stored_10s,
             s.buckets_1m is not null as stored_1m, s.buckets_10m is not null as stored_10m
      from packed_samples p
      -- By index: a hash table of all scrapes costs more than a chart.
      cross join lateral (select * from packed_scrapes where scrapes_id = p.scrapes_id offset 0) s) unpacked;

create or replace view bench.samples as select time, series_id, runset_id, value, dt from bounded_samples;
comment on view bench.samples is 'Samples as stored, in the units of their sources.';

-- Insert a sample through the view. The collector copies into `unpacked_samples`.
create or replace function bench_internal.insert_sample() returns trigger language plpgsql as $$
begin
    insert into unpacked_samples (time, series_id, runset_id, value, dt)
    values (new.time, new.series_id, new.runset_id, new.value, new.dt);
    return new;
end $$;

create or replace trigger insert_sample instead of insert on bench.samples for each row execute function insert_sample();

-- The downsampled relations, a view for each level. Aggregates below the raw cutoff and those of long packed rows are stored, the
-- others are computed on read. Several rows may have the same bucket, series and run set: they add up. The origin is time_bucket's,
-- so that both flavours have the same buckets.
--
-- `packed_10s` and the like are the aggregates of packed samples where they are stored, with the bounds of their block. A row with
-- one value has them for its scrapes alone.
do $do$
declare
    level text;
begin
    foreach level in array array['10s', '1m', '10m'] loop
        execute format($q$
            create or replace view bench_internal.packed_%1$s as
            select bucket, series_id, runset_id, n, case when coalesce(area, value) is not null then seconds end as seconds,
                   coalesce(area, value * seconds) as area, coalesce(low, value) as min, coalesce(high, value) as max, first, last
            from (select unnest(s.buckets_%1$s) as bucket, p.series_id, p.runset_id, unnest(s.counts_%1$s)::bigint as n,
                         unnest(s.seconds_%1$s) as seconds, unnest(p.areas_%1$s) as area, unnest(p.lows_%1$s) as low,
                         unnest(p.highs_%1$s) as high, p.value, p.first, p.last
                  from packed_samples p
                  cross join lateral (select * from packed_scrapes where scrapes_id = p.scrapes_id offset 0) s
                  where s.buckets_%1$s is not null) unpacked
            where first >= (select raw_cutoff from retention);

            create or replace view bench.samples_%1$s as
            select bucket, series_id, runset_id, n, seconds, area, min, max from samples_%1$s_stored
            union all
            select bucket, series_id, runset_id, n, seconds, area, min, max from packed_%1$s
            union all
            select date_bin(%2$L, time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id, count(*),
                   sum(case when value is not null then dt::float8 end), sum(value * dt), min(value), max(value)
            from bounded_samples where not stored_%1$s and first >= (select raw_cutoff from retention) group by 1, 2, 3;
            $q$, level, level_width(level));
    end loop;
end $do$;

-- Return the query of the rows of an aggregate between two times, given as texts of expressions. `p_condition` selects series and
-- run sets. Several rows of a series may have the same bucket: they add up.
create or replace function bench_internal.bucket_query(p_level text, p_condition text, p_low text, p_high text)
returns text language sql immutable as $$
    select format($q$
        select series_id, bucket, n, seconds, area, min, max from (
            select series_id, bucket, n, seconds, area, min, max from samples_%1$s_stored
            where %3$s
            union all
            select series_id, bucket, n, seconds, area, min, max from packed_%1$s
            where %3$s and last >= %4$s and first < %5$s + %2$s
            union all
            select series_id, date_bin(%2$s, time, timestamptz '2000-01-03 00:00:00+00'), 1,
                   case when value is not null then dt::float8 end, value * dt, value, value
            from bounded_samples
            where %3$s and not stored_%1$s and first >= (select raw_cutoff from retention)
              and last >= %4$s and first < %5$s + %2$s and time >= %4$s and time < %5$s + %2$s
        ) x where bucket >= %4$s and bucket < %5$s$q$,
        p_level, format('interval %L', level_width(p_level)), p_condition, p_low, p_high)
$$;

-- Return the table into which samples are written.
create or replace function bench_internal.sample_table() returns text language sql immutable as $$
    select 'bench_internal.unpacked_samples'
$$;
