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

-- Return the interval of an exporter in seconds, of those stored with a run's summary. The series of an imported run have no target,
-- so their exporter is unknown: then the interval of all exporters, if that is the same; else null.
create or replace function bench_internal.stored_interval(p_intervals jsonb, p_target integer, p_listener text) returns float8
language sql immutable as $$
    select case when p_target is not null then (p_intervals ->> p_listener)::float8
                else (select min(seconds::float8) from jsonb_each_text(p_intervals) as i (exporter, seconds)
                      having min(seconds::float8) = max(seconds::float8)) end
$$;

-- Return the usual seconds between samples of a series, for a run with too few of them to show it: those that the run chose for
-- its exporter, else those around the run, else those stored with its summary; null where unknown. A process has no samples around
-- its run: of these the same target's series of the host and the GPUs count.
create or replace function bench_internal.usual_interval(p_run text, p_series integer) returns float8 language plpgsql stable as $$
begin
    return (
        select coalesce(
            -- Between runs an exporter may be scraped more often.
            (r.exporters ->> t.listener)::float8,
            -- An imported run brings no samples around it.
            case when s.target_id is null and r.summarised then stored_interval(r.intervals, null, null) end,
            (select percentile_disc(0.5) within group (
                        order by scrape_interval(f.series_id, null, r.started_at - interval '5 min',
                                                 least(coalesce(r.ended_at, now()) + interval '5 min', now())))
             from (select s.series_id where p.kind <> 'process'
                   union all
                   (select o.series_id from series o join places q using (place_id)
                    where p.kind = 'process' and q.kind <> 'process' and o.target_id = s.target_id
                      and o.place_id in (select place_id from run_sets where run_id = p_run)
                    order by o.series_id desc limit 5)) f),
            case when r.summarised then stored_interval(r.intervals, s.target_id, t.listener) end)
        from runs r cross join series s join places p using (place_id) left join targets t using (target_id)
        where r.run_id = p_run and s.series_id = p_series);
end $$;

-- Return the seconds between scrapes of a series in some run sets of a run. Few samples show too little: see `usual_interval`.
create or replace function bench_internal.listener_interval(
    p_run text, p_series integer, p_sets integer[], p_from timestamptz, p_to timestamptz, p_chosen float8
) returns float8 language plpgsql stable as $$
begin
    if (select count(*) from (select from bounded_samples
                              where series_id = p_series and runset_id = any(p_sets) and time >= p_from and last >= p_from
                                and time < p_to and first < p_to and dt > 0 limit 5) few) = 5 then
        return scrape_interval(p_series, p_sets, p_from, p_to);
    end if;
    return coalesce(p_chosen, usual_interval(p_run, p_series), scrape_interval(p_series, p_sets, p_from, p_to));
end $$;

-- Return the seconds between scrapes of a series in a run: the interval of its exporter that every display shows. It is stored with
-- the summary, see `measuring_listeners`, and computed for a run without one.
create or replace function bench_internal.run_interval(p_run text, p_series integer) returns float8 language plpgsql stable as $$
begin
    return (
        select coalesce(case when r.summarised then stored_interval(r.intervals, s.target_id, t.listener) end,
                        listener_interval(p_run, p_series, x.sets, x.low, x.high, (r.exporters ->> t.listener)::float8))
        from runs r cross join series s left join targets t using (target_id)
        cross join lateral (select array_agg(runset_id) as sets, min(started_at) as low, max(coalesce(ended_at, 'infinity')) as high
                            from run_sets where run_id = p_run and place_id = s.place_id) x
        where r.run_id = p_run and s.series_id = p_series);
end $$;

-- Return the share of the seconds of a run, or of a part of it, that were measured, 0 to 1: the one computation of coverage. `p_seen`
-- are the seconds without gaps in `p_n` samples. A gauge has no value between its last reading and the end of the run: less than an
-- interval does not count as unmeasured, from three readings on. A counter misses nothing there.
create or replace function bench_internal.measured_share(p_seen float8, p_n bigint, p_seconds float8, p_counts boolean) returns float8
language sql immutable as $$
    select case when p_counts is not true and p_n >= 3 and p_seconds - p_seen < p_seen / (p_n - 1) then 1
                else least(1, coalesce(p_seen, 0) / greatest(p_seconds, 1e-6)) end
$$;

-- Return whether a mean is one of too few readings of a gauge to stand for a run. A counter's mean is exact.
create or replace function bench_internal.is_of_few(p_n bigint, p_counts boolean) returns boolean language sql immutable as $$
    select p_counts is not true and p_n between 1 and 4
$$;

-- Return whether the quantities of runs are read from counters, by the catalog; by the sources of a metric that it lacks.
create or replace function bench_internal.counted_quantities(p_runs text[]) returns table (run_id text, quantity text, counts boolean)
language sql stable as $$
    select rs.run_id, s.quantity, bool_and(coalesce(m.kind = 'counter', s.counts, false))
    from (select distinct run_id, place_id from run_sets where run_id = any(p_runs)) rs
    join series s using (place_id) left join metrics m using (metric_id)
    group by rs.run_id, s.quantity
$$;

-- Return the time of the first sample of a series in some run sets; null without samples.
create or replace function bench_internal.first_sample(p_series integer, p_sets integer[], p_from timestamptz, p_to timestamptz)
returns timestamptz language plpgsql stable as $$
begin
    return (select time from bounded_samples
            where series_id = p_series and runset_id = any(p_sets) and time >= p_from and last >= p_from
              and time < p_to and first < p_to and dt > 0
            order by time limit 1);
end $$;
