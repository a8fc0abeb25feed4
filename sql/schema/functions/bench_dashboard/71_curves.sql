-- Curves of runs on charts: titles and colors, shared parts, the band of many.

-- Return titles, order and colors of the curves of a metric, as `run_titles`, and the last value of a software metric as text. Of more
-- than `p_many` runs, only those that ended early, and those with the lowest and the highest mean of a quantity or last value of a
-- software metric keep their color.
create or replace function bench_dashboard.curve_titles(p_runs text[], p_metrics text[], p_many integer default 12)
returns table (run text, title text, nth bigint, color text, stroke text, "last" text) language sql stable as $$
    with logged as materialized (
        select run_id, value from last_values(p_runs, p_metrics)
    ), many as (
        select p_runs as runs where cardinality(p_runs) > p_many
    ), "values" as materialized (
        select v.run_id, v.mean as value from many cross join lateral run_values(runs, p_metrics) v
        union all
        select run_id, value from logged where value is not null
    ), ranked as (
        select x.run_id, x.low, x.high
        from (select array_agg(run_id order by run_id, value) as runs, array_agg(value order by run_id, value) as numbers from "values") v
        cross join lateral rows from (unnest(v.runs), unnest(places(v.numbers, -1)), unnest(places(v.numbers, 1))) as x (run_id, low, high)
    ), named as (
        select run_id from ranked where low = 1 or high = 1
        union
        select r.run_id from many join runs r on r.run_id = any(many.runs) where ended_early(r.status)
    )
    select t.run, t.title, t.nth,
           case when exists (select from many) and t.run_id not in (select run_id from named) then 'gray' else t.color end, t.stroke,
           (select string_agg(last_text(l.value), ', ') from logged l where l.run_id = t.run_id)
    from titled_runs(p_runs) t
$$;

-- Return the end of the titles of charts whose range from 1970 ends before the longest of these runs; no row for others.
create or replace function bench_dashboard.chart_cut(p_runs text[], p_from timestamptz, p_to timestamptz)
returns setof text language sql stable as $$
    select format(' · first %s of %s', duration_text(seconds), duration_text(longest))
    from (select longest_run(p_runs) as longest, extract(epoch from p_to)::float8 as seconds) x
    where p_from = timestamptz '1970-01-01 00:00:00+00' and floor(longest) > seconds
$$;

-- Return the intervals in which other runs used a GPU of a run.
create or replace function bench_internal.shared_times(p_runs text[])
returns table (run_id text, started_at timestamptz, ended_at timestamptz) language sql stable as $$
    select run_id, lower(part), upper(part)
    from (select run_id, unnest(range_agg(tstzrange(started_at, coalesce(ended_at, now())))) as part
          from run_sets where run_id = any(p_runs) and scope = 'device' group by run_id) shared
$$;

-- Return the same on an axis of time, by the label that `run_chart` returns; `whole` where that is the whole run.
create or replace function bench_dashboard.chart_shared(p_runs text[], p_align text default 'time')
returns table (run text, since timestamptz, until timestamptz, whole boolean) language sql stable as $$
    select l.run, timestamptz '1970-01-01 00:00:00+00' + (s.started_at - o.zero),
           timestamptz '1970-01-01 00:00:00+00' + (s.ended_at - o.zero),
           s.started_at <= r.started_at and s.ended_at >= coalesce(r.ended_at, s.ended_at)
    from shared_times(p_runs) s join runs r using (run_id) join workloads w using (workload_id)
    cross join lateral (select run_label(w, r) as run offset 0) l
    cross join lateral (select axis_origin(r.run_id, p_align) as zero offset 0) o
$$;

-- Return the median and the 10th and 90th percentile of more than `p_many` runs at each point that three quarters of their curves
-- have; no row for fewer runs.
create or replace function bench_dashboard.run_band(
    p_runs text[], p_quantities text[], start timestamptz, stop timestamptz, step_ms double precision, p_max_series integer,
    p_align text default 'time', p_many integer default 12
) returns table ("time" timestamptz, low double precision, median double precision, high double precision) language sql stable as $$
    select c.time, at[1], at[2], at[3]
    from (select x.time, percentile_cont('{0.1,0.5,0.9}'::float8[]) within group (order by x.value) as at,
                 max(count(*)) over () > p_many and 4 * count(*) >= 3 * max(count(*)) over () as most
          from run_chart(p_runs, p_quantities, run_band.start, run_band.stop, run_band.step_ms, true, p_max_series, null, false,
                         p_align) x
          where cardinality(p_runs) > p_many group by x.time) c
    where most order by c.time
$$;
