-- Scrape intervals of sources, and the intervals and buckets of their samples.

-- Return the measured part of a sample's seconds, where its source is scraped every `p_interval` seconds.
create or replace function bench_internal.seen_of(p_dt float8, p_interval float8) returns float8 language sql immutable as $$
    select case when p_dt > 3 * p_interval then p_interval else p_dt end
$$;

-- Return the start of a time's interval, aligned as in a chart with this step.
create or replace function bench_internal.interval_bin(p_time timestamptz, p_interval float8) returns timestamptz language sql immutable as $$
    select date_bin(make_interval(secs => p_interval), p_time, timestamptz '2000-01-03 00:00:00+00')
$$;

-- Return the number of a time's bin: that of `interval_bin`, and of a chart with this step.
create or replace function bench_internal.bin_number(p_time timestamptz, p_interval float8) returns bigint language sql immutable as $$
    select floor(extract(epoch from p_time - timestamptz '2000-01-03 00:00:00+00')::float8 / p_interval + 1e-9)::bigint
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

-- Return the usual seconds between samples of a series, for a run with too few of them to show it: from samples around the run, else
-- those stored with its summary; null where unknown. A process has no samples around its run: of these the interval that the run
-- chose counts, else that of the same target's series of the host and the GPUs.
create or replace function bench_internal.usual_interval(p_run text, p_series integer) returns float8 language plpgsql stable as $$
begin
    return (
        select coalesce(
            case when p.kind = 'process' then (r.exporters ->> t.listener)::float8 end,
            -- An imported run brings no samples around it, and its series have no target.
            case when s.target_id is null and r.summarised
                 then (select min(seconds::float8) from jsonb_each_text(r.intervals) as i (exporter, seconds)
                       having min(seconds::float8) = max(seconds::float8)) end,
            (select percentile_disc(0.5) within group (
                        order by scrape_interval(f.series_id, null, r.started_at - interval '5 min',
                                                 least(coalesce(r.ended_at, now()) + interval '5 min', now())))
             from (select s.series_id where p.kind <> 'process'
                   union all
                   (select o.series_id from series o join places q using (place_id)
                    where p.kind = 'process' and q.kind <> 'process' and o.target_id = s.target_id
                      and o.place_id in (select place_id from run_sets where run_id = p_run)
                    order by o.series_id desc limit 5)) f),
            case when r.summarised then (r.intervals ->> t.listener)::float8 end)
        from runs r cross join series s join places p using (place_id) left join targets t using (target_id)
        where r.run_id = p_run and s.series_id = p_series);
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
