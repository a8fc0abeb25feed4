-- Series of hosts, GPUs and the collector, independent of runs. Charts of runs use `run_chart`.

-- Return the newest values of resources since `p_since`, in canonical units: from the source that counts since then (see
-- `ranked_sources`), combined over its series. A source has measured until its newest sample: reading all samples would take too
-- long. Literals let the planner exclude older chunks.
create or replace function bench_internal.newest(p_places integer[], p_quantities text[], p_since timestamptz)
returns table (place_id integer, quantity text, value double precision, "time" timestamptz)
language plpgsql stable rows 100 set jit = off as $body$
begin
    return query execute format($q$
        with read as materialized (
            select s.series_id, s.place_id, s.quantity, coalesce(m.combine, 'sum') as combine,
                   counts_once(m.whole_device, s.metric, s.device, s.labels) as once, x.value * coalesce(m.scale, 1) as value,
                   x.time, max(x.time) over (partition by s.place_id, s.quantity, s.metric, s.target_id, f.exporter) as latest,
                   -- A sample stands for the time until the next one.
                   extract(epoch from least(x.time + x.dt * interval '1 s', max(x.time) over one) - %1$L::timestamptz)::float8
                   as seconds,
                   min(s.metric) over one <> max(s.metric) over one or min(s.target_id) over one <> max(s.target_id) over one
                   or min(f.exporter) over one <> max(f.exporter) over one as several
            from series s left join metrics m using (metric_id)
            cross join lateral federated_exporter(s.host, s.labels) f (exporter)
            cross join lateral (
                select time, value, dt from bounded_samples
                where series_id = s.series_id and time > %1$L::timestamptz and last > %1$L::timestamptz
                order by time desc limit 1) x
            where s.place_id = any(%2$L::integer[]) and s.quantity = any(%3$L::text[]) and x.value is not null
            window one as (partition by s.place_id, s.quantity)
        ), counting as materialized (
            select r.series_id
            from (select array_agg(concat_ws(' ', place_id, quantity)) as lines, array_agg(series_id) as series,
                         array_agg(seconds) as seconds from read where several) given
            cross join lateral ranked_sources(given.lines, given.series, given.seconds) r where r.rank = 1
        )
        select place_id, quantity,
               case when min(combine) = 'max' or bool_or(once) then max(value) when min(combine) = 'sum' then sum(value)
                    else avg(value) end,
               max(time)
        from read where time = latest and (not several or series_id in (select series_id from counting))
        group by place_id, quantity$q$, p_since, p_places, p_quantities);
end $body$;

-- Return the aggregates of series in each step of an interval, from `samples` or the aggregate that fits: measured `seconds`,
-- `area` (value times seconds), minimum and maximum. `width` is the actual step: rounded up to whole buckets, and longer where
-- there would be too many rows, or where raw samples are deleted.
create or replace function bench_dashboard.series_steps(ids integer[], start timestamptz, stop timestamptz, step_ms double precision)
returns table (series_id integer, "time" timestamptz, width double precision, n bigint, seconds double precision,
               area double precision, low double precision, high double precision)
language plpgsql stable set jit = off as $body$
declare
    max_rows constant integer := 200000;
    has_raw constant boolean := series_steps.start >= (select raw_cutoff from retention);
    step double precision := greatest(
        coalesce(series_steps.step_ms, 1000) / 1000,
        extract(epoch from series_steps.stop - series_steps.start) * cardinality(series_steps.ids) / max_rows, 0.001,
        case when not has_raw then 10 end);
    bucket double precision;
    level text;
begin
    select l.seconds, l.level into bucket, level from level_of(step) l;
    step := ceil(step / coalesce(bucket, step)) * coalesce(bucket, step);
    return query execute format($q$
        select series_id, date_bin(%L, moment, timestamptz '2000-01-03 00:00:00+00'), %s::float8, sum(n)::bigint,
               sum(seconds), sum(area), min(lowest), max(highest)
        from (%s) x group by 1, 2$q$,
        make_interval(secs => step), step,
        rows_query(level, format('series_id = any(%L::integer[])', series_steps.ids),
                   format('%L::timestamptz', series_steps.start), format('%L::timestamptz', series_steps.stop)));
end $body$;

-- Return points of series outside runs, for charts.
--
-- quantities, step_ms, max_series as in `run_chart`; start and stop are required
-- by     one curve per 'device' (a GPU or an instance), per 'host', or per value of the label of this name
-- hosts  null for all
--
-- As in a run's chart, the source that covers the interval draws all of it (see `ranked_sources`), so that a preferred one which
-- stops half way does not change the curve. Only here the next source fills gaps of a hundredth of the interval and a minute:
-- a fleet outlives its exporters.
create or replace function bench_dashboard.series_chart(
    quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    by text default 'device', max_series integer default 40, hosts text[] default null
) returns table ("time" timestamptz, series text, quantity text, value double precision, low double precision,
                 high double precision)
language sql stable as $$
    with named as (
        select s.series_id, s.quantity, s.metric, s.place_id, s.target_id, s.device, coalesce(m.scale, 1) as scale,
               federated_exporter(s.host, s.labels) as exporter,
               coalesce(m.combine, 'sum') as combine, counts_once(m.whole_device, s.metric, s.device, s.labels) as once,
               case series_chart.by
                    when 'device' then concat_ws(' ', case when min(p.host) over () <> max(p.host) over () then p.host end,
                                                 coalesce(d.device, s.quantity))
                    when 'host' then p.host else s.labels ->> series_chart.by end as name
        from places p join series s using (place_id) left join metrics m using (metric_id) left join devices d using (place_id)
        where p.run_id is null and p.origin = '' and s.quantity = any(series_chart.quantities)
          and (series_chart.hosts is null or p.host = any(series_chart.hosts))
    ), members as materialized (
        select *, row(name, quantity, place_id)::text as line,
               min(series_id) over (partition by name, quantity, place_id, metric, target_id, exporter, device) as source,
               min(metric) over one <> max(metric) over one or min(target_id) over one <> max(target_id) over one
               or min(exporter) over one <> max(exporter) over one as several
        from named window one as (partition by name, quantity, place_id)
    ), covered as materialized (
        -- Only several sources need a choice, and so their coverage.
        select m.line, m.source, x.time, max(x.seconds) as seconds, max(x.width * ceil(greatest(60 / x.width, 1))) as gap
        from members m
        join series_steps(array(select series_id from members where several), series_chart.start, series_chart.stop,
                          greatest(extract(epoch from series_chart.stop - series_chart.start) * 10, series_chart.step_ms)) x
             using (series_id)
        where x.seconds > 0
        group by m.line, m.source, x.time
    ), ranked as materialized (
        select r.line, r.series_id as source, r.rank
        from (select array_agg(line) as lines, array_agg(source) as sources, array_agg(seconds) as seconds
              from (select line, source, sum(seconds) as seconds from covered group by line, source) lasted) given
        cross join lateral ranked_sources(given.lines, given.sources, given.seconds) r
    ), drawn as materialized (
        select c.line, interval_bin(c.time, c.gap) as time, min(r.rank) as rank
        from covered c join ranked r using (line, source) group by 1, 2
    ), sources as materialized (
        select m.*, coalesce(r.rank, 1) as rank
        from members m left join ranked r using (line, source)
        where not m.several or (m.line, r.rank) in (select line, rank from drawn)
    ), slowest as (
        -- As in `chart_statement`: values add up over an interval in which each exporter has a sample.
        select 1000 * max(scrape_interval(series_id, null, series_chart.start, series_chart.stop)) as step_ms
        from (select distinct on (target_id, exporter) series_id
              from (select *, min(target_id) over line <> max(target_id) over line
                              or min(exporter) over line <> max(exporter) over line as apart from sources where rank = 1
                    window line as (partition by name, quantity)) counting
              where apart and coalesce(series_chart.step_ms, 1000) < 60000 order by target_id, exporter, series_id) each
    ), resources as materialized (
        select dense_rank() over (order by s.name, s.quantity) as line, s.name, s.quantity, s.place_id, s.combine, x.time,
               bin_number(x.time, max(x.width)) as bin,
               case when s.combine = 'max' or s.once then max(x.area / x.seconds)
                    when s.combine = 'sum' then sum(x.area / x.seconds) else avg(x.area / x.seconds) end * s.scale as value,
               case when s.once then max(x.low) when s.combine = 'sum' then sum(x.low) else min(x.low) end * s.scale as low,
               case when s.combine = 'sum' and not s.once then sum(x.high) else max(x.high) end * s.scale as high
        from sources s
        join series_steps(array(select series_id from sources), series_chart.start, series_chart.stop,
                          (select greatest(step_ms, series_chart.step_ms) from slowest)) x using (series_id)
        left join drawn d
             on s.several and d.line = s.line
                and d.time = interval_bin(x.time, (select max(gap) from covered))
        where x.seconds > 0 and s.rank = coalesce(d.rank, 1)
        group by s.name, s.quantity, s.place_id, s.combine, s.once, s.scale, x.time
    ), complete as (
        -- As in a run's chart; but GPUs and hosts of a fleet come and go, so that none is expected at all times.
        select c.line, c.bin
        from (select array_agg(line) as lines, array_agg(place_id) as places, array_agg(bin) as bins from resources) given
        cross join lateral complete_bins(given.lines, given.places, given.bins, '{}') c
    ), lines as (
        select line, name, quantity, time,
               case combine when 'sum' then sum(value) when 'max' then max(value) else avg(value) end as value,
               case combine when 'sum' then sum(low) else min(low) end as low,
               case combine when 'sum' then sum(high) else max(high) end as high
        from resources join complete using (line, bin) group by line, name, quantity, time, combine
    )
    select time, coalesce(name, ''), quantity, value, low, high from lines
    where line <= series_chart.max_series order by time, line
$$;

-- Return a time in the middle of each gap in the times of a curve, for a point without a value: Grafana joins neighbouring points
-- however far apart they are. A gap is as in plots: above 3.5 times the median distance.
create or replace function bench_dashboard.chart_gaps(p_times timestamptz[]) returns setof timestamptz language sql immutable as $$
    with distances as materialized (
        select at, lead(at) over (order by at) - at as wide from (select distinct at from unnest(p_times) as x (at)) times
    ), usual as (
        select percentile_disc(0.5) within group (order by wide) as wide from distances
    )
    select d.at + d.wide / 2 from distances d cross join usual u where d.wide > 3.5 * u.wide order by 1
$$;
