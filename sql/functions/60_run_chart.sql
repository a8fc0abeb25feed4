-- A bound of a chart as a time of one run: as it is, or, in an aligned chart, counted from the run's start.
create or replace function chart_bound(bound timestamptz, run_start timestamptz, aligned boolean, open timestamptz)
returns timestamptz language sql immutable as $$
    select case when bound is null then open
                when aligned then run_start + (bound - timestamptz '1970-01-01 00:00:00+00')
                else bound end
$$;

-- The one function that charts call.
--
-- Returns one row a point: `value` is the mean over the step (weighted with the time each sample stands for), `low` and
-- `high` the least and greatest sample in it, so that a burst of one second stays visible at every step.
--
-- runs        run ids, ours or MLflow's
-- quantities  canonical quantities, or names of metrics that have none
-- start, stop the span; null for all. When `aligned`, in 1970: seconds since the run's start.
-- step_ms     wanted distance of points; rounded up to a multiple of the bucket of the relation that fits
-- max_series  how many series at most; the points are capped as well (by a longer step)
-- scopes      null: the narrowest that each run has for each quantity
-- per_device  a series a device instead of one over all
create or replace function run_chart(
    runs text[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, per_device boolean default false
) returns table ("time" timestamptz, run text, series text, quantity text, scope text, value double precision,
                 low double precision, high double precision)
language plpgsql stable as $body$
#variable_conflict use_column
declare
    max_points constant integer := 100000;
    epoch constant timestamptz := timestamptz '1970-01-01 00:00:00+00';
    span double precision;
    step double precision := greatest(coalesce(run_chart.step_ms, 1000), 1) / 1000;
    bucket double precision;
    relation text;
    points text;
begin
    -- A chart over everything a long run has must not return more than anyone can look at.
    select max(extract(epoch from
               least(coalesce(r.ended_at, now()), chart_bound(run_chart.stop, r.started_at, run_chart.aligned, 'infinity'))
               - greatest(r.started_at, chart_bound(run_chart.start, r.started_at, run_chart.aligned, '-infinity'))))
    into span from runs r
    where (r.run_id = any(run_chart.runs) or r.mlflow_run_id = any(run_chart.runs)) and r.started_at is not null;
    step := greatest(step, coalesce(span, 0) * greatest(run_chart.max_series, 1) / max_points);
    select b, n into bucket, relation
    from (values (600, 'samples_10m'), (60, 'samples_1m'), (10, 'samples_10s')) as sizes(b, n)
    where step >= b order by b desc limit 1;
    if relation is null then
        relation := 'samples';
        points := 'select time as at, value * dt as area, case when value is not null then dt::float8 end as seconds,
                          value as lowest, value as highest';
    else
        step := ceil(step / bucket) * bucket;
        points := 'select bucket as at, area, seconds, min as lowest, max as highest';
    end if;
    return query execute format($q$
        with sources as (
            select r.run_id, run_label(w, r) as label, r.name,
                   r.started_at as run_start, s.series_id, s.quantity, rs.scope, s.device, rs.runset_id,
                   rs.started_at, rs.ended_at, coalesce(m.scale, 1) as scale, coalesce(m.combine, 'sum') as combine,
                   dense_rank() over (partition by r.run_id, s.quantity order by
                       case when $6::text[] is null
                            then array_position(array['process', 'instance', 'device', 'host'], rs.scope) else 0 end)
                       as width,
                   dense_rank() over (partition by r.run_id, s.quantity, rs.scope
                       order by coalesce(m.preference, 1), s.metric) as rank
            from runs r
            join workloads w using (workload_id)
            join run_sets rs using (run_id)
            join series s on s.place_id = rs.place_id and s.quantity = any($2)
            left join metrics m on m.metric_id = s.metric_id
            where (r.run_id = any($1) or r.mlflow_run_id = any($1)) and ($6::text[] is null or rs.scope = any($6))
        ), chosen as (
            select *, concat_ws(' ', label, nullif(name, ''), case when $7 then device end) as series,
                   dense_rank() over (order by label, run_id, quantity, scope, case when $7 then device end) as place
            from sources where width = 1 and rank = 1
        ), binned as (
            select c.run_id, c.label, c.series, c.quantity, c.scope, c.combine, c.series_id,
                   case when $5 then %4$L::timestamptz
                             -- A bucket goes to the bin that most of it lies in: half a bucket is the most it can be off.
                             + make_interval(secs => $8 * floor(
                                   (greatest(extract(epoch from x.at - c.run_start)::float8, 0) + $9 / 2) / $8))
                        else greatest(date_bin(make_interval(secs => $8), x.at, timestamptz '2000-01-03 00:00:00+00'),
                                      c.run_start) end as at,
                   c.scale * sum(x.area) / nullif(sum(x.seconds), 0) as mean,
                   c.scale * min(x.lowest) as lowest, c.scale * max(x.highest) as highest
            from chosen c cross join lateral (
                %1$s from %2$I
                where series_id = c.series_id and runset_id = c.runset_id
                  and %3$I >= greatest(c.started_at - make_interval(secs => 60 + $9),
                                   chart_bound($3, c.run_start, $5, '-infinity'))
                  and %3$I < least(coalesce(c.ended_at, 'infinity') + interval '1 min',
                                chart_bound($11, c.run_start, $5, 'infinity'))
                offset 0) x
            where c.place <= $10
            group by c.run_id, c.label, c.series, c.quantity, c.scope, c.combine, c.series_id, c.scale, 8
        )
        select at, label, series, quantity, scope,
               case combine when 'sum' then sum(mean) when 'max' then max(mean) else avg(mean) end,
               case combine when 'sum' then sum(lowest) else min(lowest) end,
               case combine when 'sum' then sum(highest) else max(highest) end
        from binned
        where mean is not null
        group by at, label, series, quantity, scope, combine, run_id
        order by at, label, quantity, series
        $q$, points, relation, case when relation = 'samples' then 'time' else 'bucket' end, epoch)
    using run_chart.runs, run_chart.quantities, run_chart.start, run_chart.stop, run_chart.aligned, run_chart.scopes,
          run_chart.per_device, step, coalesce(bucket, 0), run_chart.max_series, run_chart.stop;
end $body$;
