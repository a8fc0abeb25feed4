-- Scrape intervals of sources, and the intervals and buckets of their samples.

-- Return the measured part of a sample's seconds, where its source is scraped every `p_interval` seconds.
create or replace function bench_internal.seen_of(p_dt float8, p_interval float8) returns float8 language sql immutable as $$
    select case when p_dt > 3 * p_interval then p_interval else p_dt end
$$;

-- Return the start of a time's interval, aligned as in a chart with this step.
create or replace function bench_internal.interval_bin(p_time timestamptz, p_interval float8) returns timestamptz language sql immutable as $$
    select date_bin(make_interval(secs => p_interval), p_time, timestamptz '2000-01-03 00:00:00+00')
$$;

-- Return the usual scrape interval of a series in seconds, with two digits and a minute at most, from its first samples in some
-- run sets (in all where null); null without samples. The first and the last sample, which a run cuts short, count only where there
-- are no others.
-- PL/pgSQL, since SQL would be inlined, and planned for every chunk, even where it is never called.
create or replace function bench_internal.scrape_interval(p_series integer, p_sets integer[], p_from timestamptz, p_to timestamptz)
returns float8 language plpgsql stable as $$
begin
    return (
        select least(round(usual::numeric, 1 - floor(log(usual))::integer), 60)
        from (select coalesce(percentile_disc(0.5) within group (order by dt) filter (where nth between 2 and n - 1), max(dt)) as usual
              from (select dt, row_number() over (order by time) as nth, count(*) over () as n
                    from (select time, dt::float8 from bounded_samples
                          where series_id = p_series and (p_sets is null or runset_id = any(p_sets))
                            and time >= p_from and last >= p_from and time < p_to and first < p_to and dt > 0
                          order by time limit 25) few) found) x
        where usual is not null);  -- `least` of null and 60 is 60
end $$;

-- Return the sampling interval of a run in seconds, from the summary of a quantity: `p_seen` seconds in `p_n` samples. Where these are
-- few it is that of a series' samples, as long as they are stored: the run cuts the first and the last one short.
create or replace function bench_internal.sampling_interval(
    p_seen float8, p_n bigint, p_series integer, p_from timestamptz, p_to timestamptz
) returns float8 language plpgsql stable as $$
begin
    return coalesce(
        case when p_n < 100 then
            (select case when max(n) < 3 then max(dt)
                         else percentile_disc(0.5) within group (order by dt) filter (where nth between 2 and n - 1) end
             from (select dt::float8, row_number() over (order by time) as nth, count(*) over () as n
                   from bounded_samples
                   where series_id = p_series and time > p_from and last > p_from and time <= p_to and first <= p_to
                     and dt > 0) found) end,
        p_seen / nullif(greatest(p_n - 1, least(p_n, 1)), 0));
end $$;

-- Return the time of the first sample of a series in some run sets; null without samples.
create or replace function bench_internal.first_sample(p_series integer, p_sets integer[], p_from timestamptz, p_to timestamptz)
returns timestamptz language plpgsql stable as $$
begin
    return (select time from bounded_samples
            where series_id = p_series and runset_id = any(p_sets) and time >= p_from and last >= p_from
              and time < p_to and first < p_to and dt > 0
            order by time limit 1);
end $$;
