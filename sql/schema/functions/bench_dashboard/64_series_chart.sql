-- Series of hosts, GPUs and the collector, independent of runs. Charts of runs use `run_chart`.

-- Return the newest values of resources since `p_since`, in canonical units: from the preferred metric, from the first of
-- several targets with the same metric, and combined over the series of one target. Literals let the planner exclude older
-- chunks.
create or replace function bench_internal.newest(p_places integer[], p_quantities text[], p_since timestamptz)
returns table (place_id integer, quantity text, value double precision, "time" timestamptz)
language plpgsql stable rows 100 set jit = off as $body$
begin
    return query execute format($q$
        with read as (
            select s.place_id, s.quantity, s.metric, coalesce(m.preference, 1) as preference,
                   coalesce(m.combine, 'sum') as combine, counts_once(m.whole_device, s.metric, s.device, s.labels) as once,
                   x.value * coalesce(m.scale, 1) as value, x.time,
                   s.target_id, max(x.time) over (partition by s.place_id, s.quantity, s.metric, s.target_id) as latest
            from series s left join metrics m using (metric_id)
            cross join lateral (
                select time, value from samples where series_id = s.series_id and time > %L::timestamptz
                order by time desc limit 1) x
            where s.place_id = any(%L::integer[]) and s.quantity = any(%L::text[]) and x.value is not null
        )
        select distinct on (place_id, quantity) place_id, quantity,
               case when combine = 'max' or once then max(value) when combine = 'sum' then sum(value) else avg(value) end,
               latest
        from read where time = latest
        group by place_id, quantity, metric, target_id, preference, combine, once, latest
        order by place_id, quantity, preference, metric, target_id$q$, p_since, p_places, p_quantities);
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
    relation text;
    raw boolean;
begin
    select b, name into bucket, relation
    from (values (600, 'samples_10m'), (60, 'samples_1m'), (10, 'samples_10s')) as sizes(b, name)
    where step >= b order by b desc limit 1;
    step := ceil(step / coalesce(bucket, step)) * coalesce(bucket, step);
    -- Aggregates that are views would not use an index for bounds on time.
    raw := relation is null or aggregates_on_read() and has_raw;
    return query execute format($q$
        select series_id, date_bin(%1$L, %2$I, timestamptz '2000-01-03 00:00:00+00'), %3$s::float8, sum(n)::bigint,
               sum(seconds), sum(area), min(low), max(high)
        from (select series_id, %2$I, %4$s from %5$I
              where series_id = any(%6$L::integer[]) and %2$I >= %7$L::timestamptz and %2$I < %8$L::timestamptz) x
        group by 1, 2$q$,
        make_interval(secs => step), case when raw then 'time' else 'bucket' end, step,
        case when raw then '1 as n, case when value is not null then dt::float8 end as seconds, value * dt as area,
                            value as low, value as high'
             else 'n, seconds, area, min as low, max as high' end,
        case when raw then 'samples' else relation end, series_steps.ids, series_steps.start, series_steps.stop);
end $body$;

-- Return points of series outside runs, for charts.
--
-- quantities, step_ms, max_series as in `run_chart`; start and stop are required
-- by     one curve per 'device' (a GPU or an instance), per 'host', or per value of the label of this name
-- hosts  null for all
create or replace function bench_dashboard.series_chart(
    quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    by text default 'device', max_series integer default 40, hosts text[] default null
) returns table ("time" timestamptz, series text, quantity text, value double precision, low double precision,
                 high double precision)
language sql stable as $$
    with members as materialized (
        select s.series_id, s.quantity, s.metric, s.place_id, coalesce(m.scale, 1) as scale,
               coalesce(m.combine, 'sum') as combine, counts_once(m.whole_device, s.metric, s.device, s.labels) as once,
               coalesce(m.preference, 1) as preference,
               -- Each collector counts its own work; metrics outside the catalog may do so as well.
               case when p.kind <> 'process' and m.metric_id is not null then s.target_id end as target_id,
               s.target_id as source,
               case series_chart.by
                    when 'device' then concat_ws(' ', case when min(p.host) over () <> max(p.host) over () then p.host end,
                                                 coalesce(d.device, s.quantity))
                    when 'host' then p.host else s.labels ->> series_chart.by end as name
        from places p join series s using (place_id) left join metrics m using (metric_id) left join devices d using (place_id)
        where p.run_id is null and p.origin = '' and s.quantity = any(series_chart.quantities)
          and (series_chart.hosts is null or p.host = any(series_chart.hosts))
    ), added as (
        -- The source that counts for each resource, where a curve combines several targets.
        select *, min(source) over line <> max(source) over line as apart
        from (select distinct on (name, quantity, place_id) name, quantity, series_id, source from members
              order by name, quantity, place_id, preference, metric, source) one
        window line as (partition by name, quantity)
    ), slowest as (
        -- As in `chart_statement`: values add up over an interval in which each target has a sample.
        select 1000 * max(scrape_interval(series_id, null, series_chart.start, series_chart.stop)) as step_ms
        from (select distinct on (source) series_id from added
              where apart and coalesce(series_chart.step_ms, 1000) < 60000 order by source) each
    ), by_source as (
        select m.name, m.quantity, m.place_id, m.metric, m.target_id, m.preference, m.combine, x.time,
               case when m.combine = 'max' or m.once then max(x.area / x.seconds)
                    when m.combine = 'sum' then sum(x.area / x.seconds) else avg(x.area / x.seconds) end * m.scale as value,
               case when m.once then max(x.low) when m.combine = 'sum' then sum(x.low) else min(x.low) end * m.scale as low,
               case when m.combine = 'sum' and not m.once then sum(x.high) else max(x.high) end * m.scale as high
        from members m
        join series_steps(array(select series_id from members), series_chart.start, series_chart.stop,
                          (select greatest(step_ms, series_chart.step_ms) from slowest)) x using (series_id)
        where x.seconds > 0
        group by m.name, m.quantity, m.place_id, m.metric, m.target_id, m.preference, m.combine, m.once, m.scale, x.time
    ), preferred as (
        select distinct on (name, quantity, place_id, time) * from by_source
        order by name, quantity, place_id, time, preference, metric, target_id
    ), lines as (
        select name, quantity, time,
               case combine when 'sum' then sum(value) when 'max' then max(value) else avg(value) end as value,
               case combine when 'sum' then sum(low) else min(low) end as low,
               case combine when 'sum' then sum(high) else max(high) end as high,
               dense_rank() over (order by name, quantity) as line
        from preferred group by name, quantity, time, combine
    )
    select time, coalesce(name, ''), quantity, value, low, high from lines
    where line <= series_chart.max_series order by time, line
$$;
