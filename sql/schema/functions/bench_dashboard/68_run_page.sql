-- The page of one run, except its curves.

-- Return a rate with three significant digits: `12.3 steps/s`; null for an unknown one.
create or replace function bench_internal.throughput_text(p_rate float8, p_unit text) returns text language sql immutable as $$
    select case when p_rate > 0 then trim_scale(round(p_rate::numeric, greatest(2 - floor(log(p_rate))::integer, 0))) end || ' ' || p_unit
$$;

-- Return a run in lines of `what` and `value`, without empty ones. Coverage is known once the summary is stored.
create or replace function bench_dashboard.run_card(p_run text)
returns table (what text, value text) language sql stable rows 20 as $$
    select x.what, x.value
    from runs r join workloads w using (workload_id) join experiments e using (experiment_id)
    left join lateral (select coverage, interval_seconds, throttled, overhead from run_quality
                       where run_id = r.run_id and r.summarised) q on true
    left join lateral (select cores, other_cores + other_run_cores as used, service_cores as services, delay from run_contention
                       where run_id = r.run_id and r.summarised) c on true
    cross join lateral (values
        (1, 'run', concat_ws(' ', run_label(w, r), nullif(r.name, ''))),
        (2, 'experiment', concat_ws(' ', e.experiment_id, nullif(e.name, ''))),
        (3, 'owner', r.owner),
        (4, 'note', r.note),
        (5, 'end', case when r.ended_at is not null then concat_ws(', ', r.status, 'exit status ' || r.exit_code, r.reason) end),
        (6, 'command', r.command),
        (7, 'parameters', (select string_agg(key || '=' || p.value, '  ' order by key) from jsonb_each_text(r.params) p)),
        (8, 'environment', nullif(r.environment, '-')),
        (9, 'host', r.host),
        (10, 'devices', device_label(r.run_id)),
        (11, 'collocation', nullif(r.collocation, '-')),
        (12, 'measured', case when r.exporters = '{}' then 'by no exporter, as its row says'
                              else coalesce(round(100 * q.coverage::numeric, 1) || ' % of its time, ', '')
                                   || 'every ' || round(q.interval_seconds::numeric, 1) || ' s' end),
        (13, 'overhead', round(100 * q.overhead::numeric, 1) || ' % of the host''s cores, for the exporters'),
        (14, 'other programs', notice_cores(c.used::numeric, c.cores::numeric)
                               || case when busy_services(c.services) > 0
                                       then format(', services of hypergauge %s', round(c.services::numeric, 1)) else '' end
                               || ', which may have cost ' || notice_percent(c.delay::numeric) || ' of its time'),
        (15, 'throttled', case when q.throttled then 'the clocks of its GPUs were kept down at some time' end),
        (16, 'throughput', (
            select concat_ws(', ', throughput_text(t.samples_per_second, 'samples/s'), throughput_text(t.tokens_per_second, 'tokens/s'),
                             throughput_text(t.steps_per_second, 'steps/s'),
                             'MFU ' || round(100 * (t.flops_per_second / peak_flops(r.run_id))::numeric, 1) || ' %',
                             round(100 * t.data_wait_share::numeric, 1) || ' % of it waiting for data')
            from throughput(r.run_id) t)),
        (17, 'id', r.run_id),
        (18, 'MLflow''s id', r.mlflow_run_id)
    ) as x (ord, what, value)
    where r.run_id = p_run and x.value <> '' order by x.ord
$$;

-- Return the energy of a run so far in joules: `above idle`, its share of its GPUs' energy (`divided evenly`: see `energy_divided`);
-- without one, that of `whole GPUs` that it had to itself, idle included, once it has ended. Null where neither is measured; no row
-- without the run.
create or replace function bench_dashboard.run_energy(p_run text) returns table (joules float8, energy_of text)
language sql stable as $$
    with run as materialized (
        select run_id, summarised, started_at, coalesce(ended_at, now()) as until from runs where run_id = p_run
    ), so_far as (
        select sum(x.area) as share
        from run r cross join series_steps(
            array(select series_id from run_sources(array[p_run], '{gpu_energy_attributed}') where counts and scope = 'process'),
            r.started_at - interval '1 min', r.until + interval '1 min', 10000) x
        where not r.summarised
    )
    select coalesce(x.share, j.whole),
           case when x.share is not null and p_run in (select energy_divided(array[p_run])) then 'divided evenly'
                when x.share is not null then 'above idle' when j.whole is not null then 'whole GPUs' end
    from run cross join so_far s
    left join run_joules(array(select run_id from run where summarised)) j on true
    cross join lateral (select coalesce(j.share, s.share) as share) x
$$;

-- Return the notices on the page of a run, for the range from `p_start` to `p_stop`.
create or replace function bench_dashboard.run_notice(p_run text, p_start timestamptz, p_stop timestamptz, p_most integer default 40)
returns table (code text, severity text, runs text[], "values" jsonb) language sql stable as $$
    with run as (
        select r.*, m.simulated as on_simulated, m.profiled, m.shared, run_label(w, r) as label
        from runs r join workloads w using (workload_id) left join run_flags m using (run_id) where r.run_id = p_run
    ), notices (code, runs, "values") as (
        select 'no_runs', '{}'::text[], '{}'::jsonb where not exists (select from run)
        union all
        select b.code, b.runs, b."values" from replica_notice() b
        union all
        select x.code, array[label], x."values" from run cross join lateral (values
            ('not_started', started_at is null, '{}'::jsonb),
            ('ended_early', ended_early(status), jsonb_build_object('status', status, 'cause', reason)),
            ('outside_range', coalesce(ended_at, now()) < p_start or started_at > p_stop, '{}'),
            ('simulated_gpu', on_simulated, '{}'),
            ('profiled', profiled, jsonb_build_object('profilers', string_to_array(profilers, '+'))),
            ('shared_resource', shared, '{}'),
            ('energy_divided', run_id in (select energy_divided(array[run_id])), '{}'),
            ('idle_power_unknown', run_id in (select idle_power_unknown(array[run_id], array(
                select distinct quantity from metrics where quantity like '%\_energy\_attributed'))), '{}')
        ) as x (code, holds, "values") where holds
        union all
        select 'watch_failed', array[max(label)], jsonb_build_object('problems', jsonb_agg(problem order by problem))
        from run join tensor_problems using (run_id) where not is_gap having count(*) > 0
        union all
        select 'watch_gaps', array[max(label)], jsonb_build_object('gaps', jsonb_agg(problem order by problem))
        from run join tensor_problems using (run_id) where is_gap having count(*) > 0
        union all
        select 'not_finite', array[label], jsonb_build_object('metrics', jsonb_build_array(key), 'steps', jsonb_build_array(f.step))
        from run cross join lateral not_finite(array[run_id]) f
        union all
        select 'gpus_left_out', array[max(label)], jsonb_build_object('total', count(*), 'drawn', p_most)
        from run join placements p using (run_id) having count(*) > p_most
    )
    select c.code, c.severity, n.runs, n."values"
    from notices n join notice_codes() with ordinality as c (code, severity, nth) using (code) order by c.nth
$$;

-- Return points of a quantity of a run on each of its devices, by display name.
create or replace function bench_dashboard.run_devices_chart(
    p_run text, p_quantity text, start timestamptz, stop timestamptz, step_ms double precision,
    max_series integer default 40
) returns table ("time" timestamptz, device text, scope text, value double precision)
language sql stable as $$
    select c.time, coalesce(d.device, nullif(c.id, ''), 'all'), c.scope, c.value
    from (select x.*, regexp_replace(x.series, '^.* ', '') as id
          from run_chart(array[p_run], array[p_quantity], run_devices_chart.start, run_devices_chart.stop,
                         run_devices_chart.step_ms, false, run_devices_chart.max_series, null, true) x) c
    left join (select distinct host, origin from placements where run_id = p_run) p on true
    left join devices d on d.host = p.host and d.origin = p.origin and concat_ws('/', d.gpu_uuid, d.gpu_instance_id) = c.id
    order by c.time, 2
$$;

-- Return the runs that ran at the same time as a run on the same MIG instance, the same GPU, or the same host.
create or replace function bench_internal.run_neighbours(p_run text)
returns table (run_id text, run text, owner text, status text, shared text, devices text, since timestamptz,
               until timestamptz, share double precision)
language sql stable as $$
    with pairs as (
        select n.run_id, min(case when n.gpu_uuid is distinct from p.gpu_uuid or p.gpu_uuid is null then 3
                                  when n.gpu_instance_id is distinct from p.gpu_instance_id or p.gpu_instance_id is null then 2
                                  else 1 end) as distance
        from placements p join placements n on n.host = p.host and n.origin = p.origin and n.run_id <> p.run_id
        where p.run_id = p_run and n.started_at < coalesce(p.ended_at, now())
          and coalesce(n.ended_at, now()) > p.started_at
        group by n.run_id
    )
    select o.run_id, run_title(w, o), o.owner, o.status, (array['instance', 'GPU', 'host'])[x.distance],
           device_label(o.run_id), o.started_at, o.ended_at,
           extract(epoch from least(coalesce(o.ended_at, now()), coalesce(r.ended_at, now()))
                              - greatest(o.started_at, r.started_at))
           / nullif(extract(epoch from coalesce(r.ended_at, now()) - r.started_at), 0)::float8
    from pairs x join runs o using (run_id) join workloads w using (workload_id) join runs r on r.run_id = p_run
    order by x.distance, o.started_at, o.run_id
$$;

-- Return the first process of a run that tracked spans; of several ranks, one suffices.
create or replace function bench_dashboard.first_tracked(p_run text) returns integer language sql stable as $$
    select pid from spans where run_id = p_run and kind in ('phase', 'epoch') order by started_at limit 1
$$;

-- Return the phases and epochs of a run's first process in an interval: a line per kind, and a further line per level of
-- nesting. Phases of one name share a color (see `chart_style`); epochs alternate between two.
create or replace function bench_dashboard.run_phases(p_run text, start timestamptz, stop timestamptz)
returns table ("time" timestamptz, ended timestamptz, line text, name text, color text) language sql stable as $$
    with recursive names as (
        select name, (row_number() over (order by min(started_at), name) - 1) % 12 as nth
        from spans where run_id = p_run and kind = 'phase' group by name
    ), requested as (
        select s.*, coalesce(s.ended_at, r.ended_at, now()) as until
        from spans s join runs r using (run_id)
        where s.run_id = p_run and s.kind in ('phase', 'epoch') and s.pid is not distinct from first_tracked(p_run)
          and s.started_at < run_phases.stop and coalesce(s.ended_at, r.ended_at, now()) > run_phases.start
    ), above (span_id, kind, parent_id, depth) as (
        select span_id, kind, parent_id, 1 from requested
        union all
        select a.span_id, a.kind, p.parent_id, a.depth + (p.kind = a.kind)::integer
        from above a join spans p on p.run_id = p_run and p.span_id = a.parent_id
    ), deep as (
        select span_id, max(depth) as depth from above group by span_id
    )
    select greatest(a.started_at, run_phases.start), least(a.until, run_phases.stop),
           a.kind || case when d.depth > 1 then ' ' || d.depth else '' end, a.name,
           case a.kind when 'phase' then n.nth else 5 * (a.step % 2) end::text
    from requested a join deep d using (span_id) left join names n using (name) order by 3, 1
    limit 2000
$$;

-- Return the steps per second of a run, from the end of one step to the end of the next: by its spans, or by its
-- `counting_metric` where it has none.
create or replace function bench_dashboard.run_steps(p_run text, start timestamptz, stop timestamptz, step_ms double precision)
returns table ("time" timestamptz, source text, value double precision) language sql stable as $$
    with tracked as materialized (
        select pid from spans where run_id = p_run and kind = 'step' order by started_at limit 1
    ), logged as materialized (
        select counting_metric(p_run) as key where not exists (select from tracked)
    ), ends as (
        select s.ended_at as time, 1 as steps, 'spans' as source,
               s.ended_at - coalesce(lag(s.ended_at) over (order by s.ended_at), s.started_at) as took
        from spans s join tracked t on t.pid is not distinct from s.pid
        where s.run_id = p_run and s.kind = 'step' and s.ended_at is not null
          and s.started_at >= run_steps.start and s.started_at < run_steps.stop
        union all
        select time, step - lag(step) over (order by time, step), key, time - lag(time) over (order by time, step)
        from software_metrics join logged using (key)
        where run_id = p_run and time >= run_steps.start and time < run_steps.stop
    )
    select date_bin(make_interval(secs => greatest(run_steps.step_ms, 1000) / 1000), time,
                    timestamptz '2000-01-03 00:00:00+00') as bin,
           min(source), sum(steps) / nullif(extract(epoch from sum(took)), 0)::float8
    from ends where steps > 0 group by bin order by bin
$$;

-- Return the software metrics of a run in an interval: mean, minimum and maximum of each step of time.
create or replace function bench_dashboard.run_logged(
    p_run text, p_keys text[], start timestamptz, stop timestamptz, step_ms double precision
) returns table ("time" timestamptz, key text, value double precision, low double precision, high double precision)
language sql stable as $$
    with named as materialized (
        select key, name from named_keys(p_keys, array[p_run])
    )
    select min(time), name, avg(value), min(value), max(value)
    from software_metrics join named using (key)
    where run_id = p_run and key = any(array(select key from named)) and time >= run_logged.start and time < run_logged.stop
    group by name, date_bin(make_interval(secs => greatest(run_logged.step_ms, 1) / 1000), time,
                           timestamptz '2000-01-03 00:00:00+00')
    order by 1, 2
$$;

-- Return the parts of the links on a run's dashboard: `whole` is a range that shows the whole run, and `workload` selects its
-- workload with a range that shows the longest run.
create or replace function bench_dashboard.run_links(p_run text, out whole text, out workload text, out mlflow text) language sql stable as $$
    select format('from=%s&to=%s', floor(extract(epoch from r.started_at) * 1000)::bigint,
                  coalesce(ceil(extract(epoch from r.ended_at) * 1000)::bigint::text, 'now&refresh=5s')),
           format('var-experiment=%s&var-workload=%s&from=1970-01-01T00:00:00.000Z&to=%s', w.experiment_id, w.workload_id,
                  chart_end(runs_of(array[w.workload_id]))),
           coalesce(r.mlflow_run_id, '')
    from runs r join workloads w using (workload_id) where r.run_id = p_run
$$;
