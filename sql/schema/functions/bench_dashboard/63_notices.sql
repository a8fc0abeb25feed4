-- Notices of charts: facts to know before curves are compared.

-- Return the series that `run_chart` draws for runs and quantities: scope, metrics, and whether it is drawn. For ended runs
-- also the share of their time that was measured (see `measured_share`), the interval of their exporter in seconds, whether there is
-- no sample at all, and whether there are `few`, of `n`, see `is_of_few`.
create or replace function bench_dashboard.chart_lines(p_runs text[], p_quantities text[], p_max_series integer,
                                       p_scopes text[] default null)
returns table (run_id text, run text, quantity text, scope text, metrics text[], share float8, every float8, empty boolean,
               drawn boolean, few boolean, n bigint)
language sql stable as $$
    with requested as materialized (
        select r.run_id, run_label(w, r) as run, r.ended_at is not null as ended,
               extract(epoch from r.ended_at - r.started_at)::float8 as lasted, r.started_at, r.ended_at,
               row_number() over (order by w.experiment_id, w.workload, r.position, r.attempt, r.run_id) as nth
        from runs r join workloads w using (workload_id) where r.run_id = any(p_runs) and r.started_at is not null
    ), measured as materialized (
        -- Ended runs only: for a running run, each call would read all samples.
        select run_id, quantity, scope, n, seconds, coalesce(seen, seconds) as seen
        from run_summary_of(array(select run_id from requested where ended), p_quantities) where metric is null and device is null
    ), chosen as (
        select a.run_id, a.run, a.ended, a.lasted, a.started_at, a.ended_at, a.nth, s.quantity, s.scope,
               array_agg(distinct s.metric) as metrics, min(s.series_id) as series_id
        from requested a join run_sources(array(select run_id from requested), p_quantities) s using (run_id)
        where s.counts and case when p_scopes is null then s.narrowest else s.scope = any(p_scopes) end
        group by a.run_id, a.run, a.ended, a.lasted, a.started_at, a.ended_at, a.nth, s.quantity, s.scope
    ), paced as (
        select c.*, s.counts, x.n, x.seconds, x.seen,
               case when x.seen > 0 then run_interval(c.run_id, c.series_id) end as every
        from chosen c left join measured x using (run_id, quantity, scope)
        left join counted_quantities(p_runs) s using (run_id, quantity)
    )
    select run_id, run, quantity, scope, metrics, case when seen is not null then measured_share(seen, n, lasted, counts) end, every, ended and coalesce(seconds, 0) = 0,
           p_max_series is null or dense_rank() over (partition by quantity order by nth) <= p_max_series, is_of_few(n, counts), n
    from paced
$$;

-- Return the software metrics of runs that were NaN or infinite, which are stored as null, and the first such step. The watched
-- losses of a run stand in for a metric of that name.
create or replace function bench_internal.not_finite(p_runs text[]) returns table (run_id text, key text, step bigint)
language sql stable as $$
    with lost as materialized (
        select run_id, key, min(step) as step from software_metrics where run_id = any(p_runs) and value is null group by run_id, key
    )
    select run_id, name, step from lost join logged_names(array(select distinct key from lost), p_runs) using (key)
    union all
    select run_id, name, min(step)
    from tensor_sets s join tensor_steps v using (run_id, tensor_set)
    cross join lateral unnest(s.names, v.nonfinite) as t (name, nonfinite)
    where run_id = any(p_runs) and s.collection = 'losses' and t.nonfinite > 0
    group by run_id, name
    having not exists (select from software_metrics m where m.run_id = s.run_id and m.key = t.name)
$$;

-- Return the notices of charts of runs: see `notice_codes` and `notice_text`. Labels are in the order of `p_runs`. `p_from` and
-- `p_to` are the range of an aligned chart, in 1970; null where the range does not matter.
create or replace function bench_internal.chart_notice(p_runs text[], p_quantities text[], p_max_series integer default 40,
                                        p_from timestamptz default null, p_to timestamptz default null,
                                        p_scopes text[] default null)
returns table (code text, severity text, runs text[], "values" jsonb) language sql stable as $$
    with requested as materialized (
        select r.run_id, run_label(w, r) as run, r.status, r.reason, r.started_at, r.summarised, m.simulated, m.shared,
               nullif(r.profilers, '') as profilers, array_position(p_runs, r.run_id) as nth
        from runs r join workloads w using (workload_id) left join run_flags m using (run_id) where r.run_id = any(p_runs)
    ), lines as materialized (
        select l.*, a.nth from chart_lines(p_runs, p_quantities, p_max_series, p_scopes) l join requested a using (run_id)
    ), measured as (
        select *, count(*) over (partition by quantity, scope) < count(*) over one as scopes_differ,
               count(*) over (partition by quantity, metrics) < count(*) over one as sources_differ,
               max(every) over one > 1.5 * min(every) over one as intervals_differ,
               notice_number(every::numeric)::numeric as seconds
        from lines where not empty window one as (partition by quantity)
    ), trusted as materialized (
        -- Runs with a summary only: for a running run, each call would read all samples. Hence one run after the other.
        select a.run, a.nth, q.overhead,
               (select max(mean) from stored_summaries s
                where s.run_id = a.run_id and s.quantity = 'gpu_throttled' and s.metric is null) as held_down
        from requested a cross join lateral (select overhead from run_quality where run_id = a.run_id offset 0) q
        where a.summarised
    ), shown as (
        select longest_run(p_runs) as longest, extract(epoch from p_to - p_from)::float8 as seconds
    ), notices (code, quantity, runs, "values") as (
        select case when exists (select from runs) then 'no_runs_selected' else 'no_runs' end, null, '{}'::text[], '{}'::jsonb
        where not exists (select from requested)
        union all
        select * from replica_notice()
        union all
        select 'runs_left_out', quantity, array_agg(run order by nth) filter (where not drawn),
               jsonb_build_object('total', count(*), 'drawn', p_max_series)
        from (select distinct quantity, run, nth, drawn from lines) each group by quantity having not bool_and(drawn)
        union all
        select 'range_mismatch', null, '{}', jsonb_build_object('shown_seconds', seconds, 'longest_seconds', longest)
        from shown where seconds < 0.98 * longest or seconds > 3 * longest
        union all
        select 'not_measured', q.quantity, array_agg(a.run order by a.nth), '{}'
        from unnest(p_quantities) as q (quantity) cross join requested a
        where a.started_at is not null
          and not exists (select from measured m where m.run_id = a.run_id and m.quantity = q.quantity)
        group by q.quantity
        union all
        select 'not_finite', key, array_agg(run order by nth), jsonb_build_object('steps', array_agg(step order by nth))
        from not_finite(array(select run_id from requested)) join requested using (run_id) group by key
        union all
        select case when scopes_differ then 'scopes_differ' else 'wide_scope' end, quantity, array_agg(run order by nth),
               jsonb_build_object('scope', scope)
        from measured where scopes_differ or scope in ('device', 'host') group by quantity, scope, scopes_differ
        union all
        select 'sources_differ', quantity, array_agg(run order by nth), jsonb_build_object('sources', metrics)
        from measured where sources_differ group by quantity, metrics
        union all
        select 'intervals_differ', quantity, array_agg(run order by nth),
               jsonb_build_object('interval_seconds', array_agg(seconds order by nth))
        from (select distinct quantity, run, nth, seconds from measured where intervals_differ and every is not null) each
        group by quantity
        union all
        select 'partial_coverage', quantity, array_agg(run order by nth),
               jsonb_build_object('shares', array_agg(share order by nth))
        from measured where share < 0.9 group by quantity
        union all
        select 'few_samples', quantity, array_agg(run order by nth), jsonb_build_object('samples', array_agg(n order by nth))
        from measured where few and share >= 0.9 group by quantity
        union all
        select 'utilization_overstates', 'gpu_utilization', array_agg(run order by nth),
               jsonb_build_object('better', 'gpu_sm_active')
        from (select distinct l.run, l.nth from lines l
              join chart_lines(case when 'gpu_utilization' = any(p_quantities) then p_runs end, '{gpu_sm_active}', null) better
                   using (run_id)
              where l.quantity = 'gpu_utilization' and not better.empty) each
        having count(*) > 0
        union all
        select 'throttled', null, array_agg(run order by nth), jsonb_build_object('shares', array_agg(held_down order by nth))
        from trusted where held_down > 0 having count(*) > 0
        union all
        select 'exporter_overhead', null, array_agg(run order by nth),
               jsonb_build_object('shares', array_agg(overhead order by nth))
        from trusted where round(overhead::numeric, 3) > 0.01 having count(*) > 0
        union all
        select 'shared_resource', null, array_agg(run order by nth), '{}' from requested where shared having count(*) > 0
        union all
        -- Runs with a summary only, see `trusted`.
        select n.code, null, n.runs, n."values"
        from contention_notice(array(select run_id from requested where summarised order by nth)) n
        union all
        select 'energy_divided', null, array_agg(run order by nth), '{}'
        from requested
        where exists (select from unnest(p_quantities) q (quantity) where q.quantity like 'gpu%')
          and run_id in (select energy_divided(p_runs)) having count(*) > 0
        union all
        select 'idle_power_unknown', null, array_agg(run order by nth), '{}'
        from requested where run_id in (select idle_power_unknown(p_runs, p_quantities)) having count(*) > 0
        union all
        select 'simulated_gpu', null, array_agg(run order by nth), '{}' from requested where simulated having count(*) > 0
        union all
        select 'profiled', null, array_agg(run order by nth),
               jsonb_build_object('profilers', string_to_array(profilers, '+'))
        from requested where profilers is not null group by profilers
        union all
        select 'watch_failed', null, array_agg(run order by nth), jsonb_build_object('problems', problems)
        from requested join (select run_id, jsonb_agg(problem order by problem) as problems from tensor_problems
                             where run_id = any(p_runs) and not is_gap group by run_id) p using (run_id)
        group by problems
        union all
        select 'watch_gaps', null, array_agg(run order by nth), jsonb_build_object('gaps', gaps)
        from requested join (select run_id, jsonb_agg(problem order by problem) as gaps from tensor_problems
                             where run_id = any(p_runs) and is_gap group by run_id) p using (run_id)
        group by gaps
        union all
        select 'ended_early', null, array_agg(run order by nth), jsonb_build_object('status', status, 'cause', reason)
        from requested where ended_early(status) group by status, reason
        union all
        select 'running', null, array_agg(run order by nth), '{}' from requested where status = 'running' having count(*) > 0
        union all
        select 'not_started', null, array_agg(run order by nth), '{}' from requested where started_at is null having count(*) > 0
    ), together as (
        select code, runs, "values" || case when count(quantity) > 0
               then jsonb_build_object('metrics', array_agg(quantity order by quantity)) else '{}' end as "values"
        from notices group by code, runs, "values"
    )
    select c.code, c.severity, t.runs, t."values"
    from together t join notice_codes() with ordinality as c (code, severity, nth) using (code)
    order by c.nth, t."values" -> 'metrics', t.runs
$$;

-- Return the labels of workloads of which some of these runs lasted less than nine tenths of the longest; null for none.
create or replace function bench_internal.uneven_workloads(p_runs text[]) returns text[] language sql stable as $$
    select array_agg(label order by experiment_id, workload)
    from (select w.experiment_id, w.workload, w.experiment_id || '/' || w.workload as label
          from runs r join workloads w using (workload_id)
          cross join lateral (select extract(epoch from coalesce(r.ended_at, now()) - r.started_at) as seconds) d
          where r.run_id = any(p_runs) and r.started_at is not null
          group by w.workload_id, w.experiment_id, w.workload having min(seconds) < 0.9 * max(seconds)) uneven
$$;

-- Return the notices of charts of workloads, which draw `p_max_series` workloads, and the ranges of the first `p_bands`.
create or replace function bench_dashboard.workload_notice(p_workloads integer[], p_quantities text[], p_max_series integer default 40,
                                           p_bands integer default 8, p_from timestamptz default null,
                                           p_to timestamptz default null)
returns table (code text, severity text, runs text[], "values" jsonb) language sql stable as $$
    with titles as (
        select workload, row_number() over (order by nth) as nth from workload_titles(p_workloads)
    ), left_out (code, "values") as (
        select 'workloads_left_out',
               jsonb_build_object('total', max(nth), 'drawn', p_max_series,
                                  'workloads', array_agg(workload order by nth) filter (where nth > p_max_series))
        from titles having max(nth) > p_max_series
        union all
        select 'bands_left_out', jsonb_build_object('drawn', p_bands) from titles having max(nth) > p_bands
        union all
        select 'mean_of_fewer', jsonb_build_object('workloads', labels)
        from uneven_workloads(runs_of(p_workloads)) labels where labels is not null
    )
    select code, c.severity, '{}'::text[], l."values" from left_out l join notice_codes() c using (code)
    union all
    -- The energy of a workload is a sum, however it was divided.
    select * from chart_notice(runs_of(p_workloads), p_quantities, null, p_from, p_to) where code <> 'energy_divided'
$$;
