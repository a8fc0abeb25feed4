-- Choices on dashboards, and their titles.

-- Return the chosen experiments: by number, or `newest` for the one with the latest start.
create or replace function bench_dashboard.chosen_experiments(p_chosen text[]) returns integer[] language sql stable as $$
    select array(
        select experiment_id from experiments where experiment_id::text = any(p_chosen)
        union
        (select experiment_id from experiments e where 'newest' = any(p_chosen)
         order by (select max(started_at) from workloads w where w.experiment_id = e.experiment_id) desc nulls last,
                  created_at desc, experiment_id desc limit 1))
$$;

-- Return the chosen workloads of the chosen experiments, by `workload_id`; `newest` is the one with the latest start.
create or replace function bench_dashboard.chosen_workloads(p_experiments text[], p_chosen text[]) returns integer[]
language sql stable as $$
    select array(
        select workload_id
        from (select *, row_number() over (order by started_at desc nulls last, workload_id desc) as age
              from workloads where experiment_id = any(chosen_experiments(p_experiments))) there
        where workload_id::text = any(p_chosen) or age = 1 and 'newest' = any(p_chosen)
        order by experiment_id, workload)
$$;

-- Return a run's title: 20/1/3, its name, and its way of sharing a GPU if it has one; * for simulated GPUs, ◆ for a profiled run.
create or replace function bench_internal.run_title(w workloads, r runs) returns text language sql stable as $$
    select concat_ws(' ', run_label(w, r), nullif(r.name, ''), '· ' || nullif(nullif(r.collocation, '-'), ''),
                     case when on_simulated_gpus(r) then '*' end, case when r.profilers <> '' then '◆' end)
$$;

-- Return one of twelve colors and three strokes for the n-th run or workload of an experiment, the same on every chart. The
-- order of starts counts, so that a color stays when runs follow, whatever the choice. For several experiments twelve colors
-- are too few: those of the second experiment on a chart, `p_number` 1, are dashed.
create or replace function bench_dashboard.chart_style(p_experiment integer, p_nth bigint, p_number bigint, out color text, out stroke text)
language sql immutable as $$
    select ((p_nth + 5 * p_experiment) % 12)::text, ((p_nth / 12 + p_number) % 3)::text
$$;

-- Return titles, order and colors of runs, by their ids; labels as `run_chart` returns them.
create or replace function bench_internal.titled_runs(p_runs text[])
returns table (run_id text, run text, title text, nth bigint, color text, stroke text) language sql stable as $$
    with experiments as (
        select w.experiment_id, row_number() over (order by w.experiment_id) - 1 as number
        from runs r join workloads w using (workload_id)
        where r.run_id = any(p_runs) or r.mlflow_run_id = any(p_runs) group by w.experiment_id
    ), numbered as (
        select r, w, number, row_number() over (order by w.experiment_id, w.workload, r.position, r.attempt) as nth,
               row_number() over (partition by w.experiment_id
                                  order by r.started_at, w.workload, r.position, r.attempt) - 1 as started_as
        from runs r join workloads w using (workload_id) join experiments using (experiment_id)
    )
    select (r).run_id, run_label(w, r), run_title(w, r), nth, s.color, s.stroke
    from numbered cross join lateral chart_style((w).experiment_id, started_as, number) s
    where (r).run_id = any(p_runs) or (r).mlflow_run_id = any(p_runs)
$$;

-- Return titles, order and colors of runs on a chart, by the label that `run_chart` returns.
create or replace function bench_dashboard.run_titles(p_runs text[])
returns table (run text, title text, nth bigint, color text, stroke text) language sql stable as $$
    select run, title, nth, color, stroke from titled_runs(p_runs)
$$;

-- Return titles, order and colors of workloads, by the label that `workload_chart` returns. A workload has the marks of its
-- runs.
create or replace function bench_dashboard.workload_titles(p_workloads integer[])
returns table (workload text, title text, workload_id integer, nth bigint, color text, stroke text)
language sql stable as $$
    with numbered as (
        select *, row_number() over (order by experiment_id, workload) as nth,
               dense_rank() over (order by experiment_id) - 1 as number,
               row_number() over (partition by experiment_id order by started_at, workload) - 1 as started_as
        from workloads
        where experiment_id in (select experiment_id from workloads where workload_id = any(p_workloads))
    )
    select l.label, concat_ws(' ', l.label, m.simulated, m.profiled), workload_id, nth, s.color, s.stroke
    from numbered
    cross join lateral chart_style(experiment_id, started_as, number) s
    cross join lateral (select workload_label(workload_id) as label offset 0) l
    cross join lateral (select max(case when on_simulated_gpus(r) then '*' end) as simulated,
                               max(case when r.profilers <> '' then '◆' end) as profiled
                        from workload_runs(array[workload_id]) r) m
    where workload_id = any(p_workloads)
$$;

-- Return the ids of the runs that count for workloads.
create or replace function bench_dashboard.runs_of(p_workloads integer[]) returns text[] language sql stable as $$
    select array(select run_id from workload_runs(p_workloads))
$$;

-- Return the duration of the longest of these runs in seconds.
create or replace function bench_dashboard.longest_run(p_runs text[]) returns double precision language sql stable as $$
    select max(extract(epoch from coalesce(ended_at, now()) - started_at))::float8 from runs where run_id = any(p_runs)
$$;

-- Return the end of a range from 1970 that shows the longest of these runs as a whole; an hour without runs. The result is a
-- timestamp for a URL, since Grafana reads a number of eight digits as a date.
create or replace function bench_dashboard.chart_end(p_runs text[]) returns text language sql stable as $$
    select to_char(timestamp '1970-01-01' + make_interval(secs => coalesce(ceil(longest_run(p_runs) * 1.01), 3600)),
                   'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Return Grafana's name of a unit of the catalog.
create or replace function bench_dashboard.grafana_unit(p_unit text) returns text language sql immutable as $$
    select case p_unit
        when 'bytes' then 'bytes' when 'bytes/s' then 'binBps' when 'celsius' then 'celsius'
        when 'cores' then 'suffix:cores' when 'events/s' then 'suffix:/s' when 'hertz' then 'hertz'
        when 'joules' then 'joule' when 'ratio' then 'percentunit' when 'seconds' then 's' when 'watts' then 'watt'
        else case when p_unit like '%/s' then 'suffix:' || p_unit else 'short' end end
$$;

-- Return the quantities of these runs' series, those of the runs before those of their hosts. Reads dimension tables alone.
create or replace function bench_dashboard.run_quantities(p_runs text[])
returns table (quantity text, unit text) language sql stable as $$
    select s.quantity, coalesce(min(m.unit), '')
    from (select distinct place_id, scope from run_sets where run_id = any(p_runs)) rs
    join series s using (place_id) left join metrics m using (metric_id)
    group by s.quantity
    order by min(scope_width(rs.scope, true)), min(m.metric_id) nulls last,
             s.quantity
$$;

-- Return the summary of quantities in each run over all its devices, in the scope of a chart: the narrowest that covers
-- the run.
create or replace function bench_dashboard.run_values(p_runs text[], p_quantities text[])
returns table (run_id text, title text, quantity text, unit text, scope text, mean float8, min float8, max float8,
               p50 float8, p95 float8, total float8, seconds float8) language sql stable as $$
    with requested as materialized (
        select r.run_id, run_title(w, r) as title, exclusive(r.run_id) as alone,
               row_number() over (order by w.experiment_id, w.workload, r.position, r.attempt) as nth
        from runs r join workloads w using (workload_id) where r.run_id = any(p_runs)
    )
    select run_id, title, quantity, unit, scope, mean, min, max, p50, p95, total, seconds
    from (select distinct on (a.nth, s.quantity) a.title, a.nth, s.*
          from requested a join run_summary_of(p_runs, p_quantities) s using (run_id)
          where s.metric is null and s.device is null
          order by a.nth, s.quantity, scope_width(s.scope, a.alone)) narrowest
    left join (select distinct on (quantity) quantity, unit from metrics order by quantity, origin) m using (quantity)
    order by nth, quantity
$$;

-- Return the mark of a value that is not the run's own, by its scope; null for one that is.
create or replace function bench_dashboard.shared_mark(p_scope text) returns text language sql immutable as $$
    select case p_scope when 'device' then '†' when 'host' then '§' end
$$;

-- Runs for tables. Quality appears once a run's summary is stored: before, it would take a read of all samples.
create or replace view run_list as
select r.run_id, r.mlflow_run_id, w.experiment_id, w.workload_id, w.workload, r.position, r.attempt,
       run_label(w, r) as run, run_title(w, r) as title, r.name, r.status, r.reason, r.started_at, r.ended_at,
       extract(epoch from coalesce(r.ended_at, now()) - r.started_at)::float8 as seconds,
       r.host, r.devices, r.collocation, r.environment, r.owner,
       (select string_agg(format('%s=%s', key, value), ' ' order by key) from jsonb_each_text(r.params)) as params,
       q.coverage, m.simulated, m.profiled, m.shared, q.interval_seconds, q.throttled, q.overhead
from runs r join workloads w using (workload_id) left join run_flags m using (run_id)
left join lateral (select coverage, interval_seconds, throttled, overhead from run_quality
                   where run_id = r.run_id and r.summarised) q on true;

-- Return the names of software metrics that runs have, see `logged_names`: one index lookup per key.
create or replace function bench_internal.software_keys(p_runs text[]) returns table (key text) language sql stable as $$
    with recursive found as (
        select r.run_id, (select min(s.key) from software_metrics s where s.run_id = r.run_id) as key
        from runs r where r.run_id = any(p_runs)
        union all
        select f.run_id, (select min(s.key) from software_metrics s where s.run_id = f.run_id and s.key > f.key)
        from found f where f.key is not null
    )
    select name from logged_names(array(select distinct key from found where key is not null), p_runs) order by name
$$;

-- Return the time of position 0 on an axis of time: the run's start, or the start of a phase. See `chart_axis`.
create or replace function bench_dashboard.axis_origin(p_run text, p_align text) returns timestamptz language sql stable as $$
    select started_at - make_interval(secs => first) from chart_axis(p_run, p_align)
$$;

-- Return the step for `run_chart` that gives the longest of these runs `p_points` points along an axis.
create or replace function bench_dashboard.axis_step(p_runs text[], p_align text, p_points integer default 500) returns double precision
language sql stable as $$
    select greatest(1000, 1000 * max(last - first) / p_points) from unnest(p_runs) one cross join lateral chart_axis(one, p_align)
$$;

-- Return software metrics of runs as curves of at most `p_points` points: over steps, or over the seconds of an axis of time;
-- of the first `p_max_runs` runs, in the order of `run_chart`, or of all where null. A point is the mean of the values up to
-- the next point; null where all of them were NaN or infinite, so that a curve has a gap there.
create or replace function bench_internal.software_chart(p_runs text[], p_keys text[], p_align text default 'time',
                                          p_points integer default 500, p_max_runs integer default null)
returns table (x float8, run text, key text, value float8, low float8, high float8)
language sql stable as $$
    with named as materialized (
        select key, name from named_keys(p_keys, p_runs)
    ), origins as materialized (
        select r.run_id, run_label(w, r) as run,
               case when p_align = 'time' then 0
                    when p_align <> 'step' then extract(epoch from axis_origin(r.run_id, p_align) - r.started_at) end as zero
        from runs r join workloads w using (workload_id) where r.run_id = any(p_runs)
        order by w.experiment_id, w.workload, r.position, r.attempt limit p_max_runs
    ), statistics as (
        select run_id, o.run, n.name as key, case when p_align = 'step' then s.step else s.elapsed - o.zero end::float8 as x, s.value
        from origins o join software_metrics s using (run_id) join named n using (key)
        where s.key = any(array(select key from named)) and (p_align = 'step' or o.zero is not null)
    ), wide as (
        select run_id, key, greatest(max(x) - min(x), 1e-9) / p_points as step, min(x) as first, count(*) as n
        from statistics group by run_id, key
    )
    select min(f.x), f.run, f.key, avg(f.value), min(f.value), max(f.value)
    from statistics f join wide w using (run_id, key)
    group by f.run, f.key, case when w.n > p_points then floor((f.x - w.first) / w.step) else f.x end
    order by 1, 2
$$;

-- Return the summary of quantities in each workload: mean, minimum and maximum of its runs' means. Totals are sums over its
-- runs. Where a run lacks a quantity, the mean and the total are null: those of the others would pass for all. A run without a GPU
-- lacks none of GPUs.
create or replace function bench_dashboard.workload_values(p_workloads integer[], p_quantities text[])
returns table (workload_id integer, title text, quantity text, runs bigint, mean float8, lowest float8, highest float8,
               p95 float8, total float8) language sql stable as $$
    with measured as materialized (
        select * from run_values(runs_of(p_workloads), p_quantities)
    ), expected as materialized (
        select r.workload_id, count(*) as runs,
               count(*) filter (where exists (select from placements p where p.run_id = r.run_id and p.gpu_uuid is not null)) as on_gpus
        from runs r where r.run_id = any(runs_of(p_workloads)) and r.started_at is not null group by r.workload_id
    ), summed as (
        select r.workload_id, f.quantity, count(*) as runs, avg(f.mean) as mean, min(f.mean) as lowest, max(f.mean) as highest,
               avg(f.p95) as p95, sum(f.total) as total
        from measured f join runs r using (run_id) group by r.workload_id, f.quantity
    )
    select t.workload_id, t.title, s.quantity, s.runs, case when whole then s.mean end, s.lowest, s.highest,
           case when whole then s.p95 end, case when whole then s.total end
    from summed s join expected e using (workload_id) join workload_titles(p_workloads) t using (workload_id)
    cross join lateral (select s.runs >= case when s.quantity like 'gpu\_%' then e.on_gpus else e.runs end as whole) x
    order by s.quantity, t.nth
$$;

-- Return the energy of runs in joules: their `share` of that of their GPUs, above idle, and that of `whole` GPUs that they had to
-- themselves, idle included.
create or replace function bench_dashboard.run_joules(p_runs text[])
returns table (run_id text, share float8, whole float8) language sql stable as $$
    select run_id, max(total) filter (where quantity = 'gpu_energy_attributed'),
           max(total) filter (where quantity = 'gpu_power' and scope = 'instance')
    from run_values(p_runs, '{gpu_energy_attributed,gpu_power}') group by run_id
$$;

-- Return the candidates for a throughput: software metrics with such names, runs per hour, then the other software metrics.
create or replace function bench_dashboard.throughput_keys(p_runs text[]) returns table (key text) language sql stable as $$
    select key from (select key, case when key ~* 'per_sec|per_s$|/s|throughput|samples_per|images_per|tokens_per' then 0 else 2 end as rank
                     from software_keys(p_runs)
                     union all select 'runs per hour', 1) keys
    order by rank, key
$$;

-- Return the phases of runs on an axis of time; of few runs only, since phases overlap.
create or replace function bench_dashboard.chart_phases(p_runs text[], p_align text default 'time', p_most integer default 4)
returns table ("time" timestamptz, timeend timestamptz, text text) language sql stable as $$
    select timestamptz '1970-01-01 00:00:00+00' + (s.started_at - o.zero),
           -- Phases of one run are intervals; of several runs, marks at their starts.
           timestamptz '1970-01-01 00:00:00+00'
               + (case when cardinality(p_runs) = 1 then coalesce(s.ended_at, r.ended_at, now()) else s.started_at end - o.zero),
           case when cardinality(p_runs) > 1 then run_title(w, r) || ': ' else '' end || s.name
    from runs r join workloads w using (workload_id) join spans s using (run_id)
    cross join lateral (select axis_origin(r.run_id, p_align) as zero offset 0) o
    where r.run_id = any(p_runs) and cardinality(p_runs) <= p_most and s.kind = 'phase' and o.zero is not null
    order by 1
$$;

-- Return where runs ended early on an axis of time: the ends of their curves, with the reason.
create or replace function bench_dashboard.chart_failures(p_runs text[], p_align text default 'time', p_most integer default 40)
returns table ("time" timestamptz, text text) language sql stable as $$
    select timestamptz '1970-01-01 00:00:00+00' + (r.ended_at - o.zero),
           concat_ws(': ', '✗ ' || run_title(w, r), coalesce(nullif(r.reason, ''), r.status))
    from runs r join workloads w using (workload_id)
    cross join lateral (select axis_origin(r.run_id, p_align) as zero offset 0) o
    where r.run_id = any(p_runs) and ended_early(r.status) and r.ended_at > o.zero
    order by 1 limit p_most
$$;
