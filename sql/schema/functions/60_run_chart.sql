-- Of each run the stretch of time that is read for a chart, and, along an axis other than time, its bins: see `axis_bins`.
-- A chart over everything a long run has must not return more than anyone can look at: `step` grows until `p_most` suffice.
create or replace function chart_stretches(
    p_runs text[], p_start timestamptz, p_stop timestamptz, p_step float8, p_most float8, p_aligned boolean, p_align text
) returns table (run_id text, low timestamptz, high timestamptz, first_bin bigint, edges float8[], step float8, pace float8,
                 begins timestamptz)
language plpgsql stable as $$
begin
    perform check_align(p_align);
    if p_aligned and p_align <> 'time' then
        return query select b.*, b.low from axis_bins(
            p_runs, p_align, extract(epoch from p_start)::float8, extract(epoch from p_stop)::float8, p_step, p_most) b;
    else
        return query select r.run_id, b.low, b.high, null::bigint, null::float8[],
                            greatest(p_step, max(extract(epoch from least(coalesce(r.ended_at, now()), b.high)
                                                                    - greatest(r.started_at, b.low))) over () / p_most)::float8,
                            1::float8, greatest(r.started_at, b.low)
        from runs r cross join lateral (
            select chart_bound(p_start, r.started_at, p_aligned, '-infinity') as low,
                   chart_bound(p_stop, r.started_at, p_aligned, 'infinity') as high) b
        where (r.run_id = any(p_runs) or r.mlflow_run_id = any(p_runs)) and r.started_at is not null;
    end if;
end $$;

-- What a chart executes: of runs, or of the workloads that these runs are of.
--
-- All in it is literal: series, tags and bounds. So chunks outside of them are excluded when it is planned, and what an
-- aggregate has not materialized yet is read for these series alone, or not at all.
create or replace function chart_statement(
    runs text[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[], per_device boolean, align text, by_workload boolean
) returns text language plpgsql stable as $body$
#variable_conflict use_column
declare
    max_points constant integer := 100000;
    -- More spans than this are looked up one after the other: planning each would cost more than it saves.
    max_branches constant integer := 40;
    -- Raw samples before this are gone.
    raw_since constant timestamptz := (select edge from retention);
    -- Whether times are places of an axis other than time.
    axial constant boolean := chart_statement.aligned and chart_statement.align <> 'time';
    charted text[];    -- of each run that is drawn: its id, what is read of it, and its bins along such an axis
    lows timestamptz[];
    highs timestamptz[];
    first_bins bigint[];
    bin_edges text[];
    begins timestamptz;
    step double precision;
    seconds double precision;  -- that the least of bins stands for
    bucket double precision;
    relation text;
    moment text;       -- when a row is, by its bucket
    figures text;      -- its area, seconds, least and greatest
    bounds text;       -- of a scan; %1$s and %2$s are the times
    whole interval;    -- buckets to which samples are cut, where they are read for an aggregate
    bin text;          -- what rows of one point have in common; %1$s is the run's start or its first bin, %2$s its edges
    at_time text;      -- a point's time, from its bin
    answer text;       -- the last select; %1$s is a point's time, %2$s where its figures are
    branches text;
    axes text;         -- first bin and edges of each branch
    members text;
    slowest double precision;  -- seconds: the longest interval of several targets that make one line
    repeated boolean;  -- a figure of a device is said several times
    together boolean;  -- several figures make one
    spans bigint;
begin
    select array_agg(s.run_id), array_agg(s.low), array_agg(s.high), array_agg(s.first_bin), array_agg(s.edges::text),
           min(s.begins), max(s.step), greatest(max(s.step) * min(s.pace), case when min(s.begins) < raw_since then 10 end)
    into charted, lows, highs, first_bins, bin_edges, begins, step, seconds
    from chart_stretches(
        chart_statement.runs, chart_statement.start, chart_statement.stop,
        greatest(coalesce(chart_statement.step_ms, 1000), 1) / 1000, max_points / greatest(chart_statement.max_series, 1.0),
        chart_statement.aligned, chart_statement.align) s;
    select b, n into bucket, relation
    from (values (600, 'samples_10m'), (60, 'samples_1m'), (10, 'samples_10s')) as sizes(b, n)
    where seconds >= b order by b desc limit 1;
    if not axial then
        step := ceil(seconds / coalesce(bucket, seconds)) * coalesce(bucket, seconds);
    end if;

    if relation is null or (aggregates_on_read() and begins >= raw_since) then
        -- Where the aggregates are views, their rows' bounds on time would reach no index.
        relation := 'samples';
        figures := 'value * dt as area, case when value is not null then dt::float8 end as seconds,
                    value as lowest, value as highest';
        -- Bins are made of whole buckets, so that it makes no difference unless they begin with the run.
        moment := case when bucket is null or not chart_statement.aligned then 'time'
                       else format('date_bin(%L, time, timestamptz ''2000-01-03 00:00:00+00'')',
                                   make_interval(secs => bucket)) end;
        bounds := 'time >= %1$s and time < %2$s';
        whole := make_interval(secs => bucket);
    else
        figures := 'area, seconds, min as lowest, max as highest';
        moment := 'bucket';
        bounds := 'bucket >= %1$s and bucket < %2$s';
    end if;
    if chart_statement.aligned then
        -- A bucket goes to the bin that most of it lies in.
        bin := case when axial then
                   format('%%1$s + width_bucket(date_part(''epoch'', moment) + %s, %%2$s)', coalesce(bucket, 0) / 2)
               else
                   format('floor((greatest(date_part(''epoch'', moment - %%1$s), 0) + %s) / %s)', coalesce(bucket, 0) / 2, step)
               end;
        at_time := format('timestamptz ''1970-01-01 00:00:00+00'' + make_interval(secs => %s * bin)', step);
    else
        bin := format('greatest(date_bin(%L, moment, timestamptz ''2000-01-03 00:00:00+00''), %%1$s)',
                      make_interval(secs => step));
        at_time := 'bin';
    end if;

    with asked as materialized (
        select r.run_id, run_label(w, r) as label, r.name, r.summarised,
               case when chart_statement.by_workload then array[w.experiment_id, w.workload] end as workload,
               case when chart_statement.by_workload then workload_label(workload_id) end as workload_label,
               case when chart_statement.by_workload and not chart_statement.aligned
                    then min(r.started_at) over (partition by workload_id) else r.started_at end as run_start,
               chart_statement.scopes is not null or mostly_alone(r.run_id) as alone,
               -- A bucket that lies in both is of the bin that most of it lies in.
               low - make_interval(secs => case when axial then coalesce(bucket, 0) / 2 else 0 end) as low,
               high - make_interval(secs => case when axial then coalesce(bucket, 0) / 2 else 0 end) as high
        from unnest(charted, lows, highs) as s (run_id, low, high) join runs r using (run_id) join workloads w using (workload_id)
    ), repeated as materialized (
        select * from repeats_of(charted, chart_statement.quantities)
    ), candidates as (
        select a.*, s.series_id, coalesce(s.target_id, -s.place_id) as target_id, s.quantity, rs.scope, s.metric, s.device, rs.runset_id,
               rs.started_at, rs.ended_at, coalesce(m.scale, 1) as scale, coalesce(m.combine, 'sum') as combine,
               counts_once(m.board, s.metric, s.device, s.labels) as once,
               coalesce(m.preference, 1) as preference, min(s.metric) over one <> max(s.metric) over one as several,
               dense_rank() over (partition by a.run_id, s.quantity order by
                   case when chart_statement.scopes is null then scope_width(rs.scope, a.alone) else 0 end) as width
        from asked a
        join run_sets rs using (run_id)
        join series s on s.place_id = rs.place_id and s.quantity = any(chart_statement.quantities)
        left join metrics m on m.metric_id = s.metric_id
        where (chart_statement.scopes is null or rs.scope = any(chart_statement.scopes))
          and (a.run_id, s.series_id) not in (select run_id, series_id from repeated)
        window one as (partition by a.run_id, s.quantity, rs.scope)
    ), measured as (
        -- As in `compute_summary`. While a run goes on, what a source measured of it is taken to be all of a device's time.
        select run_id, quantity, scope, metric,
               covers(sum(seconds), max(sum(seconds)) over (partition by run_id, quantity, scope)) as covering
        from (select distinct run_id, run_start, summarised, quantity, scope, metric, device
              from candidates where width = 1 and several) c
        cross join lateral (
            select case when c.summarised then
                       (select coalesce(sum(x.seconds), 0) from stored_summaries x
                        where x.run_id = c.run_id and x.quantity = c.quantity and x.scope = c.scope
                          and x.metric = c.metric and x.device is not distinct from c.device)
                   else extract(epoch from now() - c.run_start) end::float8 as seconds) x
        group by run_id, quantity, scope, metric
    ), ranked as (
        select *, dense_rank() over (partition by run_id, quantity, scope, case when quantity like 'gpu\_%' then device end
                                     order by coalesce(covering, true) desc, preference, metric) as rank
        from candidates left join measured using (run_id, quantity, scope, metric) where width = 1
    ), chosen as (
        select *, concat_ws(' ', label, nullif(name, ''), case when chart_statement.per_device then device end)
                   as series,
               dense_rank() over (order by label, quantity, run_id, scope,
                                  case when chart_statement.per_device then device end) as line,
               dense_rank() over (order by workload, quantity, case when chart_statement.scopes is not null then scope end)
                   as workload_line,
               first_value(scope) over (partition by workload, quantity order by scope_width(scope, true) desc) as widest
        from ranked where rank = 1
    ), sources as (
        select line, run_id, run_start, coalesce(workload_label, label) as label, series, quantity,
               case when chart_statement.by_workload and chart_statement.scopes is null then widest else scope end as scope,
               combine, once, device, target_id, series_id, scale, array_agg(runset_id) as sets,
               next_bucket(whole, greatest(
                   min(started_at) - make_interval(secs => 60 + coalesce(bucket, 0)), low)) as low,
               next_bucket(whole, least(max(coalesce(ended_at, 'infinity')) + interval '1 min', high)) as high
        from chosen
        where case when chart_statement.by_workload then workload_line else line end <= chart_statement.max_series
        group by line, run_id, run_start, low, high, label, workload_label, series, quantity, scope, widest, combine, once, device,
                 target_id, series_id, scale
    ), numbered as (
        select *, dense_rank() over (order by run_id, scope, low, high) as branch,
               case when once then -dense_rank() over (order by device) else row_number() over () end as member
        from sources
    ), scans as (
        select branch, run_id, run_start, low, high, array_agg(distinct series_id) as ids, array_agg(distinct one) as sets
        from numbered, unnest(sets) as one group by branch, run_id, run_start, low, high
    ), binned as (
        select scans.*, first_bin, quote_literal(edges) || '::float8[]' as edges
        from scans join unnest(charted, first_bins, bin_edges) as s (run_id, first_bin, edges) using (run_id)
    )
    select (select count(*) from scans),
           (select string_agg(format(
                'select %s as branch, series_id, %s as bin, sum(area) as area, sum(seconds) as seconds,'
                ' min(lowest) as lowest, max(highest) as highest from (select series_id, %s as moment, %s from %I'
                ' where series_id = any(%L::integer[]) and runset_id = any(%L::integer[]) and %s) x group by 2, 3',
                branch, format(bin, coalesce(first_bin::text, quote_literal(run_start) || '::timestamptz'), edges), moment,
                figures, relation, ids, sets,
                format(bounds, quote_literal(low) || '::timestamptz', quote_literal(high) || '::timestamptz')),
                E'\nunion all\n') from binned),
           (select string_agg(format('(%s, %s, %s)', branch, first_bin, edges), ', ') from binned),
           string_agg(format('(%s, %s, %L::float8, %s, %s, %L::integer[], %L::timestamptz, %L::timestamptz,'
                             ' %L::timestamptz, %L, %L, %L, %L, %L)', branch, series_id, scale, line, member, sets, low,
                             high, run_start, label, series, quantity, scope, combine), ', '),
           count(*) > count(distinct (line, member)), count(*) > count(distinct line),
           (select max(usual_interval(series_id, sets, low, high)) from (
                select distinct on (line, target_id) series_id, sets, low, high from numbered
                where seconds < 60 and line in (select line from numbered group by line having count(distinct target_id) > 1)) x)
    into spans, branches, axes, members, repeated, together, slowest
    from numbered;
    if slowest > seconds then
        -- Each target has moments of its own: what they say adds up over as long as it takes all of them to say it.
        return chart_statement(runs, quantities, start, stop, 1000 * slowest * case when axial then step / seconds else 1 end,
                               aligned, max_series, scopes, per_device, align, by_workload);
    end if;

    answer := case when chart_statement.by_workload then
        'select %s as time, label as workload, quantity, scope, avg(mean) as value, min(lowest) as low,'
        ' max(highest) as high, count(*)::integer as runs from %s group by bin, label, quantity, scope order by bin, min(line)'
        else
        'select %s as time, label as run, series, quantity, scope, mean as value, lowest as low, highest as high'
        ' from %s order by bin, line' end;
    if members is null then
        return format(answer, 'bin', '(select null::timestamptz as bin, 0 as line, ''''::text as label, ''''::text as series,'
                      ' ''''::text as quantity, ''''::text as scope, 0::float8 as mean, 0::float8 as lowest,'
                      ' 0::float8 as highest where false) nothing');
    end if;
    if spans > max_branches then
        branches := format(
            'select m.branch, m.series_id, x.* from members m %s cross join lateral ('
            'select %s as bin, sum(area) as area, sum(seconds) as seconds, min(lowest) as lowest, max(highest) as highest'
            ' from (select %s as moment, %s from %I where series_id = m.series_id and runset_id = any(m.sets) and %s'
            ' offset 0) x group by 1) x',
            case when axial then 'join (values ' || axes || ') a (branch, first_bin, edges) using (branch)' end,
            format(bin, case when axial then 'a.first_bin' else 'm.run_start' end, 'a.edges'), moment, figures, relation,
            format(bounds, 'm.low', 'm.high'));
    end if;
    return format($q$
with members (branch, series_id, scale, line, member, sets, low, high, run_start, label, series, quantity, scope, combine)
as (values %1$s),
binned as (
%2$s
), points as (
    -- One join alone: so few rows are expected of it that a second one would be a loop in a loop.
    select line, label, series, quantity, scope, combine, member, bin, scale * area / nullif(seconds, 0) as mean,
           scale * lowest as lowest, scale * highest as highest
    from binned join members using (branch, series_id)
    where area is not null and seconds > 0
)%3$s%4$s
%5$s$q$,
        members, branches,
        case when repeated then $q$, devices as (
    select line, min(label) as label, min(series) as series, min(quantity) as quantity, min(scope) as scope,
           min(combine) as combine, member, bin, max(mean) as mean, max(lowest) as lowest, max(highest) as highest
    from points group by line, member, bin
)$q$ end,
        case when together then format($q$, combined as (
    select line, min(label) as label, min(series) as series, min(quantity) as quantity, min(scope) as scope, bin,
           case min(combine) when 'sum' then sum(mean) when 'max' then max(mean) else avg(mean) end as mean,
           case min(combine) when 'sum' then sum(lowest) else min(lowest) end as lowest,
           case min(combine) when 'sum' then sum(highest) else max(highest) end as highest
    from %s group by line, bin
)$q$, case when repeated then 'devices' else 'points' end) end,
        format(answer, at_time, case when together then 'combined' else 'points' end));
end $body$;

-- The statement that `run_chart` executes, for `explain` and for whoever wants to go on from it.
create or replace function run_chart_statement(
    runs text[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, per_device boolean default false,
    align text default 'time'
) returns text language sql stable as $$
    select chart_statement($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, false)
$$;

-- The one function that charts call.
--
-- Returns one row a point: `value` is the mean over the step (weighted with the time each sample stands for), `low` and
-- `high` the least and greatest sample in it, so that a burst of one second stays visible at every step.
--
-- runs        run ids, ours or MLflow's
-- quantities  canonical quantities, or names of metrics that have none
-- start, stop the span; null for all. When `aligned`, in 1970: places of the axis, by default seconds since the run's start.
-- step_ms     wanted distance of points; rounded up to a multiple of the bucket of the relation that fits. Along another axis
--             thousandths of a step or an epoch, and never more points than the samples give.
-- max_series  how many series at most; the points are capped as well (by a longer step)
-- scopes      null: the narrowest that each run has for each quantity, and that covers it: see `scope_width`
-- per_device  a series a device instead of one over all
-- align       when `aligned`, the axis, as in `chart_axis`. A run that has none, and what lies before and after it, is left out.
create or replace function run_chart(
    runs text[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, per_device boolean default false,
    align text default 'time'
) returns table ("time" timestamptz, run text, series text, quantity text, scope text, value double precision,
                 low double precision, high double precision)
-- A row is expected of all branches where there are thousands, and each would be compared with every series in turn.
language plpgsql stable set enable_nestloop = off set jit = off as $$
begin
    return query execute run_chart_statement($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
end $$;
