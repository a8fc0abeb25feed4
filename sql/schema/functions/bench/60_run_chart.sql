-- Return the interval of each run that a chart reads, and its bins along an axis other than time: see `axis_bins`. A chart of a
-- long run needs a limit on its points: `step` grows until `p_most` points suffice.
create or replace function bench_internal.chart_intervals(
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

-- Return the query of what a chart reads between two times: samples, or the rows of an aggregate. Times are texts of expressions,
-- `p_condition` selects series and run sets.
create or replace function bench_internal.rows_query(p_level text, p_condition text, p_low text, p_high text)
returns text language sql immutable as $$
    select case when p_level is null then format(
        'select series_id, time as moment, 1 as n, value * dt as area, case when value is not null then dt::float8 end as seconds,'
        ' value as lowest, value as highest from bounded_samples where %1$s and time >= %2$s and last >= %2$s and time < %3$s'
        ' and first < %3$s', p_condition, p_low, p_high)
    else format('select series_id, bucket as moment, n, area, seconds, min as lowest, max as highest from (%s) buckets',
                bucket_query(p_level, p_condition, p_low, p_high)) end
$$;

-- Return the statement of a chart, of runs or of the workloads of these runs.
--
-- Series, tags and bounds are literals. So the planner excludes other chunks, and reads what an aggregate has not materialized
-- for these series alone, or not at all.
--
-- fine        whether to read raw samples where there are any, because an aggregate has as many rows
create or replace function bench_internal.chart_statement(
    runs text[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[], per_device boolean, align text, by_workload boolean,
    parts jsonb, fine boolean default false
) returns text language plpgsql stable as $body$
#variable_conflict use_column
declare
    max_points constant integer := 100000;
    -- Above this number of intervals, a lookup for each is cheaper than a plan with each as a branch.
    max_branches constant integer := 40;
    -- Raw samples before this time are deleted.
    raw_since constant timestamptz := (select raw_cutoff from retention);
    -- Whether times are positions on an axis other than time.
    axial constant boolean := chart_statement.aligned and chart_statement.align <> 'time';
    charted text[];    -- of each drawn run: its id, the interval to read, and its bins along such an axis
    lows timestamptz[];
    highs timestamptz[];
    first_bins bigint[];
    bin_edges text[];
    begins timestamptz;
    step double precision;
    seconds double precision;  -- time that the shortest bin stands for
    bucket double precision;
    level text;        -- of the aggregate to read; null for samples
    bin text;          -- bin of a row; %1$s is the run's start or its first bin, %2$s its edges
    number text;       -- number of a bin; the next bin has the next number
    at_time text;      -- time of a point, from its bin
    inside text;       -- end of a query of rows: those of a part of a run; %s is the part
    answer text;       -- the outer select; %1$s is a point's time, %2$s the relation with its values
    branches text;
    axes text;         -- first bin and edges of each branch
    members text;
    slowest double precision;  -- seconds: the longest scrape interval, where it bounds the step
    one_each boolean;  -- bins hold a single sample of the slowest source
    repeated boolean;  -- a device's value has several copies
    together boolean;  -- several values add up to one
    apart boolean;     -- some of them are of several exporters
    always bigint[];   -- lines whose exporters are all expected at all times
    spans bigint;
begin
    select array_agg(s.run_id), array_agg(s.low), array_agg(s.high), array_agg(s.first_bin), array_agg(s.edges::text),
           min(s.begins), max(s.step), greatest(max(s.step) * min(s.pace), case when min(s.begins) < raw_since then 10 end)
    into charted, lows, highs, first_bins, bin_edges, begins, step, seconds
    from chart_intervals(
        chart_statement.runs, chart_statement.start, chart_statement.stop,
        greatest(coalesce(chart_statement.step_ms, 1000), 1) / 1000, max_points / greatest(chart_statement.max_series, 1.0),
        chart_statement.aligned, chart_statement.align) s;
    if not (fine and begins >= raw_since) then
        select l.seconds, l.level into bucket, level from level_of(seconds) l;
    end if;
    if not axial then
        step := ceil(seconds / coalesce(bucket, seconds)) * coalesce(bucket, seconds);
    end if;

    -- A bucket belongs to the side of a bound that holds most of it.
    inside := case when level is null then ' and %s::tstzmultirange @> time'
                   else format(' where %%s::tstzmultirange @> bucket + %L::interval', make_interval(secs => bucket / 2)) end;
    number := case when chart_statement.aligned then 'bin::bigint' else format('bin_number(bin, %s)', step) end;
    if chart_statement.aligned then
        -- A bucket belongs to the bin that holds most of it.
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

    with requested as materialized (
        select r.run_id, run_label(w, r) as label, r.name,
               row_number() over (order by w.experiment_id, w.workload, r.position, r.attempt, r.run_id) as nth,
               case when chart_statement.by_workload then array[w.experiment_id, w.workload] end as workload,
               case when chart_statement.by_workload then workload_label(workload_id) end as workload_label,
               case when chart_statement.by_workload and not chart_statement.aligned
                    then min(r.started_at) over (partition by workload_id) else r.started_at end as run_start,
               -- A bucket on a bound belongs to the side that holds most of it.
               low - make_interval(secs => case when axial then coalesce(bucket, 0) / 2 else 0 end) as low,
               high - make_interval(secs => case when axial then coalesce(bucket, 0) / 2 else 0 end) as high,
               chart_statement.parts ->> r.run_id as part
        from unnest(charted, lows, highs) as s (run_id, low, high) join runs r using (run_id) join workloads w using (workload_id)
    ), chosen as (
        select a.*, s.quantity, s.scope, s.device, s.exporter, s.series_id, s.scale, s.combine, s.once, s.runset_ids,
               s.started_at, s.ended_at,
               concat_ws(' ', label, nullif(name, ''), case when chart_statement.per_device then device end) as series,
               dense_rank() over (order by a.nth, quantity, scope,
                                  case when chart_statement.per_device then device end) as line,
               dense_rank() over (order by workload, quantity, case when chart_statement.scopes is not null then scope end)
                   as workload_line,
               first_value(scope) over (partition by workload, quantity order by scope_width(scope, true) desc) as widest
        from requested a join run_sources(charted, chart_statement.quantities) s using (run_id)
        where s.counts and case when chart_statement.scopes is null then s.narrowest else s.scope = any(chart_statement.scopes) end
          and (chart_statement.parts is null or chart_statement.parts ? a.run_id)
    ), sources as (
        select line, run_id, run_start, coalesce(workload_label, label) as label, series, quantity,
               case when chart_statement.by_workload and chart_statement.scopes is null then widest else scope end as scope,
               combine, once, device, exporter, series_id, scale, runset_ids as sets, part,
               greatest(started_at - make_interval(secs => 60 + coalesce(bucket, 0)), low) as low,
               least(ended_at + interval '1 min', high) as high
        from chosen
        where case when chart_statement.by_workload then workload_line else line end <= chart_statement.max_series
    ), intervals as materialized (
        -- An exporter is scraped alike in all runs, but a gap may have delayed the first samples of one.
        select exporter, min(scrape_interval(series_id, sets, low, high)) as usual
        from (select *, row_number() over (partition by exporter order by line, series_id) as nth from sources
              where seconds < 60
                and (chart_statement.aligned and not axial
                     or line in (select line from sources group by line having count(distinct exporter) > 1))) x
        where nth <= 5 group by exporter
    ), shifts as (
        -- The first sample lies in the middle of its bin, so that no bin stays empty because a sample comes a little late.
        select run_id, exporter,
               step / 2 - mod(greatest(date_part('epoch', min(first_sample(series_id, sets, low, high)) - run_start), 0)::numeric,
                              step::numeric)::float8 as shift
        from (select distinct on (line, exporter) * from sources order by line, exporter, series_id) x
        join intervals using (exporter)
        where chart_statement.aligned and not axial and bucket is null and usual > step / 2
        group by run_id, exporter, run_start
    ), numbered as (
        select s.*, coalesce(shift, 0) as shift,
               dense_rank() over (order by s.run_id, s.scope, s.low, s.high, shift) as branch,
               case when s.once then -dense_rank() over (order by s.device) else row_number() over () end as member
        from sources s left join shifts using (run_id, exporter)
    ), scans as (
        select branch, run_id, run_start - make_interval(secs => shift) as origin, low, high, part,
               array_agg(distinct series_id) as ids, array_agg(distinct one) as sets
        from numbered, unnest(sets) as one group by branch, run_id, run_start, shift, low, high, part
    ), binned as (
        select scans.*, first_bin, quote_literal(edges) || '::float8[]' as edges
        from scans join unnest(charted, first_bins, bin_edges) as s (run_id, first_bin, edges) using (run_id)
    )
    select (select count(*) from scans),
           (select string_agg(format(
                'select %s as branch, series_id, %s as bin, sum(area) as area, sum(seconds) as seconds,'
                ' min(lowest) as lowest, max(highest) as highest from (%s) x group by 2, 3',
                branch, format(bin, coalesce(first_bin::text, quote_literal(origin) || '::timestamptz'), edges),
                rows_query(level, format('series_id = any(%L::integer[]) and runset_id = any(%L::integer[])', ids, sets),
                           quote_literal(low) || '::timestamptz', quote_literal(high) || '::timestamptz')
                || case when part is null then '' else format(inside, quote_literal(part)) end),
                E'\nunion all\n') from binned),
           (select string_agg(format('(%s, %s, %s)', branch, first_bin, edges), ', ') from binned),
           string_agg(format('(%s, %s, %L::float8, %s, %s, %s, %L::integer[], %L::timestamptz, %L::timestamptz,'
                             ' %L::timestamptz, %L, %L, %L, %L, %L, %L)', branch, series_id, scale, line, exporter, member, sets,
                             low, high, run_start - make_interval(secs => shift), label, series, quantity, scope, combine, part),
                      ', '),
           count(*) > count(distinct (line, member)), count(*) > count(distinct line),
           count(distinct (line, exporter)) > count(distinct line),
           array_agg(distinct line) filter (where always_expected(quantity, scope)), (select max(usual) from intervals)
    into spans, branches, axes, members, repeated, together, apart, always, slowest
    from numbered;
    one_each := chart_statement.aligned and not axial and slowest > step / 2;
    if slowest > seconds or one_each and slowest >= bucket and begins >= raw_since then
        -- Values of exporters with different scrape times add up over an interval in which each has a sample. Aligned runs
        -- share their points if each has a sample for each of them.
        return chart_statement(
            runs, quantities, start, stop, 1000 * greatest(slowest, seconds) * case when axial then step / seconds else 1 end,
            aligned, max_series, scopes, per_device, align, by_workload, parts, one_each);
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
            ' from (%s offset 0) x group by 1) x',
            case when axial then 'join (values ' || axes || ') a (branch, first_bin, edges) using (branch)' end,
            format(bin, case when axial then 'a.first_bin' else 'm.origin' end, 'a.edges'),
            rows_query(level, 'series_id = m.series_id and runset_id = any(m.sets)', 'm.low', 'm.high')
            || case when chart_statement.parts is null then '' else format(inside, 'm.part') end);
    end if;
    return format($q$
with members (branch, series_id, scale, line, target, member, sets, low, high, origin, label, series, quantity, scope, combine, part)
as (values %1$s),
binned as (
%2$s
), points as (
    -- A single join: the planner expects so few rows from it that a second join would be a nested loop.
    select line, target, label, series, quantity, scope, combine, member, bin, scale * area / nullif(seconds, 0) as mean,
           scale * lowest as lowest, scale * highest as highest
    from binned join members using (branch, series_id)
    where area is not null and seconds > 0
)%3$s%4$s
%5$s$q$,
        members, branches,
        case when repeated then $q$, devices as (
    select line, min(target) as target, min(label) as label, min(series) as series, min(quantity) as quantity,
           min(scope) as scope, min(combine) as combine, member, bin, max(mean) as mean, max(lowest) as lowest, max(highest) as highest
    from points group by line, member, bin
)$q$ end,
        concat(case when apart then format($q$, complete as (
    select c.line, c.bin
    from (select array_agg(line::bigint) as lines, array_agg(target) as targets, array_agg(%1$s) as bins from %2$s) given
    cross join lateral complete_bins(given.lines, given.targets, given.bins, %3$L::bigint[]) c
), whole as (
    select p.* from (select *, %1$s as nth from %2$s) p join complete c on c.line = p.line and c.bin = p.nth
)$q$, number, case when repeated then 'devices' else 'points' end, always) end,
        case when together then format($q$, combined as (
    select line, min(label) as label, min(series) as series, min(quantity) as quantity, min(scope) as scope, bin,
           case min(combine) when 'sum' then sum(mean) when 'max' then max(mean) else avg(mean) end as mean,
           case min(combine) when 'sum' then sum(lowest) else min(lowest) end as lowest,
           case min(combine) when 'sum' then sum(highest) else max(highest) end as highest
    from %s group by line, bin
)$q$, case when apart then 'whole' when repeated then 'devices' else 'points' end) end),
        format(answer, at_time, case when together then 'combined' else 'points' end));
end $body$;

-- Return the statement that `run_chart` executes, for `explain` and for extensions of the query.
create or replace function bench_internal.run_chart_statement(
    runs text[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, per_device boolean default false,
    align text default 'time', parts jsonb default null
) returns text language sql stable as $$
    select chart_statement($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, false, $11)
$$;

-- Return the series of runs for a chart; all charts of runs call this function.
--
-- A row is a point: `value` is the mean over the step, weighted with the time of each sample; `low` and `high` are the
-- minimum and maximum, so that a burst of one second stays visible at every step.
--
-- runs        run ids, ours or MLflow's
-- quantities  canonical quantities, or names of metrics that have none
-- start, stop the interval; null for all. When `aligned`, in 1970: positions on the axis, by default seconds since the run's
--             start.
-- step_ms     wanted distance of points, rounded up to whole buckets of the relation that fits. Along another axis, thousandths
--             of a step or an epoch; never more points than there are samples. When `aligned`, at least the scrape interval of
--             the slowest source shown, a minute at most.
-- max_series  maximum number of series; a longer step limits the points as well
-- scopes      null: the narrowest scope of each run and quantity that covers the run: see `scope_width`
-- per_device  a series per device instead of one over all
-- align       when `aligned`, the axis, as in `chart_axis`. Runs without it, and times before and after it, are left out.
-- parts       null: all of each run; else the part of each run as the text of a `tstzmultirange`, by run id. Runs without one are
--             left out.
create or replace function run_chart(
    runs text[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, per_device boolean default false,
    align text default 'time', parts jsonb default null
) returns table ("time" timestamptz, run text, series text, quantity text, scope text, value double precision,
                 low double precision, high double precision)
-- The planner expects one row of all branches, where there are thousands, and would compare each with every series.
language plpgsql stable set enable_nestloop = off set jit = off as $$
begin
    return query execute run_chart_statement($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);
end $$;
