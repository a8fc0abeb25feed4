-- Choice of sources. Several series may measure one quantity of a run: in several scopes, by several metrics, from several
-- targets. Their sum would count it several times. So for each run and quantity
--
-- 1. one of the exporters counts that expose the same metric of the same device, such as node_exporter and our own exporter
--    (`duplicate_series`), be they targets or the jobs and instances of a Prometheus that is federated;
-- 2. the narrowest scope with samples counts, so that a host's CPU is never taken for the run's. Scope `instance` has the times
--    when the run was alone on its devices. Scope `device` of a run that shared any of them has all of its time on them;
-- 3. one metric counts in each scope: of those that cover the run, the one that the catalog prefers. GPUs without this metric
--    use the next one.
--
-- The coverage of a source comes from the run's summary; before there is one, from the samples of an ended run. For a running
-- run it comes from the times at which its targets were seen: reading all samples for each chart would take too long.
--
-- Outside runs a resource takes the place of run and scope. `ranked_sources` has the one order for both. Callers differ in the
-- interval alone: of a run, of a chart, or since some time.

-- Return which exporter of a target a series is from. A target is one exporter, except where it federates a Prometheus: its series
-- name their jobs and instances, as far as they are not the target's own. Exporters are scraped at times of their own.
create or replace function bench_internal.federated_exporter(p_host text, p_labels jsonb) returns text language sql immutable as $$
    select concat_ws(' ', p_host, 'job ' || (p_labels ->> 'job'), 'instance ' || (p_labels ->> 'instance'))
$$;

-- Return whether a series may be one of several copies of one value, which count once: a value of a whole GPU, repeated on each of
-- its instances; any value of dcgm-exporter, repeated for each pod, job and virtual GPU of a GPU; a disk with several NVMe
-- paths. Of copies that differ the largest counts: some versions of dcgm-exporter report a pod's part as well, and Linux before
-- 6.4 counts at the paths alone. Links of a GPU (`gpu_uuid`) are not duplicates.
create or replace function bench_internal.counts_once(p_whole_device boolean, p_metric text, p_device text, p_labels jsonb) returns boolean
language sql immutable as $$
    select coalesce(p_whole_device, false) or p_metric ^@ 'DCGM_FI_' and p_labels ?| '{UUID,uuid}'
           or p_metric ^@ 'node_disk_' and p_device ^@ 'nvme'
$$;

-- Return whether a source with `p_seconds` covers as much as the best one, with `p_most` seconds.
create or replace function bench_internal.covers(p_seconds float8, p_most float8) returns boolean language sql immutable as $$
    select p_seconds >= least(0.9 * p_most, p_most - 5)
$$;

-- Return whether a run had its GPUs or its MIG instance to itself for nine tenths of its time on them; true for a run without
-- GPUs.
create or replace function bench_internal.exclusive(p_run text) returns boolean language sql stable as $$
    select coalesce(bool_or(alone >= 9 * shared), true)
    from (select coalesce(sum(seconds) filter (where scope = 'instance'), 0) as alone,
                 coalesce(sum(seconds) filter (where scope = 'device'), 0) as shared
          from (select p.kind, rs.scope, extract(epoch from coalesce(rs.ended_at, now()) - rs.started_at) as seconds
                from run_sets rs join places p using (place_id)
                where rs.run_id = p_run and rs.scope in ('instance', 'device')) spans
          group by kind) kinds
$$;

-- Return the rank of a scope, the narrowest first. For a run that shared its GPU for a good part of its time, the moments alone
-- on it do not represent the run.
create or replace function bench_internal.scope_width(p_scope text, p_alone boolean) returns integer language sql immutable as $$
    select array_position(case when p_alone then array['process', 'instance', 'device', 'host']
                               else array['process', 'device', 'instance', 'host'] end, p_scope)
$$;

-- Return the seconds that series of one device measured in run sets, or 0 where a sample suffices; null without samples.
-- PL/pgSQL, since SQL would be inlined, and planned for every chunk, even where it is never called.
create or replace function bench_internal.measured_seconds(
    p_series integer[], p_sets integer[], p_from timestamptz, p_to timestamptz, p_enough boolean
) returns float8 language plpgsql stable as $$
begin
    if p_enough then
        return (
            select 0 from bounded_samples
            where series_id = any(p_series) and runset_id = any(p_sets) and value is not null
              and time >= p_from - interval '1 min' and last >= p_from - interval '1 min'
              and time < p_to + interval '1 min' and first < p_to + interval '1 min'
            limit 1);
    end if;
    return (
        select sum(x.dt) from (
            select max(dt) as dt from bounded_samples
            where series_id = any(p_series) and runset_id = any(p_sets) and value is not null
              and time >= p_from - interval '1 min' and last >= p_from - interval '1 min'
              and time < p_to + interval '1 min' and first < p_to + interval '1 min'
            group by time) x);
end $$;

-- Return the time until which a target has measured: now, where it was seen in the last minute.
create or replace function bench_internal.seen_until(p_last_seen timestamptz) returns timestamptz language sql stable as $$
    select case when p_last_seen < now() - interval '1 min' then p_last_seen else now() end
$$;

-- Return whether exporters with the same metric of a resource repeat each other. Metrics outside the catalog do not: two servers of
-- a host may each count their own requests. Each exporter counts its own CPU time, and each collector its own work.
create or replace function bench_internal.exporters_repeat(p_metric_id integer, p_quantity text, p_kind text, p_run text) returns boolean
language sql immutable as $$
    select p_metric_id is not null and p_quantity <> 'listener_cpu_usage' and (p_kind <> 'process' or p_run is not null)
$$;

-- Return the ranks of sources in each line: a run, quantity and scope, or a resource and quantity. This is their one order.
-- `p_seconds` is the time that the exporter of a series measured its metric and device in the interval of the caller; null without
-- samples.
--
-- copy  rank of the exporter among those that expose the same metric of the same resource, and for GPUs of the same device: the
--       first one that covers the interval has 1
-- rank  rank of the metric's exporter: 1 counts. First are metrics that cover the interval over all devices, of these the one that
--       the catalog prefers. GPUs without this metric use the next one.
create or replace function bench_internal.ranked_sources(p_lines text[], p_series integer[], p_seconds float8[])
returns table (line text, series_id integer, copy bigint, rank bigint)
language plpgsql stable rows 100 set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    with given as (
        select g.line, g.series_id, g.seconds, s.place_id, s.metric, s.device, x.gpu, coalesce(m.preference, 1) as preference,
               min(g.series_id) over exporter as first, coalesce(max(g.seconds) over exporter, 0) as lasted
        from unnest(p_lines, p_series, p_seconds) g (line, series_id, seconds)
        join series s using (series_id) join places p using (place_id) left join metrics m using (metric_id)
        cross join lateral (
            select case when s.quantity like 'gpu\_%' then s.device end as gpu,
                   exporters_repeat(s.metric_id, s.quantity, p.kind, p.run_id) as repeats) x
        cross join lateral (
            select case when x.repeats then s.target_id end as target_id,
                   case when x.repeats then federated_exporter(s.host, s.labels) end as federated) e
        window exporter as (partition by g.line, s.place_id, s.metric, x.gpu, e.target_id, e.federated)
    ), copies as (
        select *, dense_rank() over (partition by line, place_id, metric, gpu order by covering desc, first) as copy
        from (select *, covers(lasted, max(lasted) over (partition by line, place_id, metric, gpu)) as covering from given) x
    ), devices as (
        select *, max(seconds) filter (where copy = 1) over device as device_seconds,
               row_number() over (partition by line, metric, device) as nth
        from copies window device as (partition by line, metric, device)
    ), totals as (
        select *, min(preference) over source as preferred,
               coalesce(sum(device_seconds) filter (where nth = 1) over source, 0) as total,
               bool_or(seconds is not null) over (partition by line, metric, gpu) as measured
        from devices window source as (partition by line, metric)
    ), covering as (
        select line, series_id, copy, gpu, metric, preferred, measured,
               covers(total, max(total) over (partition by line)) as covering
        from totals
    )
    select line, series_id, copy,
           dense_rank() over (partition by line, gpu order by measured desc, covering desc, preferred, metric, copy)
    from covering;
end $$;

-- Return the series that do not count for runs, for some quantities or for all where null: another exporter exposes the same
-- metric of the same resource, and for GPUs of the same device. The result is stored with the run's summary.
create or replace function bench_internal.duplicate_series(p_runs text[], p_quantities text[])
returns setof stored_duplicates language sql stable as $$
    with given as (
        select s.place_id, s.quantity, s.metric, d.device, t.last_seen, array_agg(s.series_id) as ids, min(s.series_id) as first,
               count(*) over (partition by s.place_id, s.quantity, s.metric, d.device) as exporters
        from (select distinct place_id from run_sets where run_id = any(p_runs)) there
        join places p using (place_id) join series s using (place_id) join targets t using (target_id)
        cross join lateral (select case when s.quantity like 'gpu\_%' then s.device end as device) d
        where exporters_repeat(s.metric_id, s.quantity, p.kind, p.run_id)
          and (p_quantities is null or s.quantity = any(p_quantities))
        group by s.place_id, s.quantity, s.metric, d.device, t.target_id, t.last_seen, federated_exporter(s.host, s.labels)
    ), measured as materialized (
        select r.run_id, concat_ws(' ', r.run_id, g.quantity) as line, g.first, g.ids,
               case when r.ended_at is not null and not r.summarised
                    then coalesce(measured_seconds(array[g.first], x.sets, x.low, x.high, false), 0)
                    else extract(epoch from least(seen_until(g.last_seen), r.ended_at) - r.started_at) end::float8 as seconds
        from given g
        join (select run_id, place_id, array_agg(runset_id) as sets, min(started_at) as low,
                     max(coalesce(ended_at, 'infinity')) as high
              from run_sets where run_id = any(p_runs) group by run_id, place_id) x using (place_id)
        join runs r using (run_id)
        where g.exporters > 1 and not exists (select from stored_duplicates stored where stored.run_id = r.run_id)
    ), ranked as (
        select r.line, r.series_id as first, r.copy
        from (select array_agg(line) as lines, array_agg(first) as series, array_agg(seconds) as seconds from measured) given
        cross join lateral ranked_sources(given.lines, given.series, given.seconds) r
    )
    select run_id, series_id from stored_duplicates where run_id = any(p_runs)
    union all
    select run_id, unnest(ids) from measured join ranked using (line, first) where copy > 1
$$;

-- Return all series that measured runs, for some quantities or for all where null, without duplicates: a row per scope of a
-- series.
--
-- runset_ids  the tags of its samples, which alone decide; started_at and ended_at are their bounds, and narrow the search
-- exporter    number of the exporter of the series, which are scraped together: see `federated_exporter`; for imported series, of
--             the resource too, since their targets are unknown
-- once        whether only the largest value of its metric and device counts at each moment, see `counts_once`
-- counts      whether it counts for its run, quantity and scope
-- narrowest   whether its scope is the default one
create or replace function bench_internal.run_sources(p_runs text[], p_quantities text[])
returns table (run_id text, quantity text, scope text, metric text, device text, series_id integer, exporter integer,
               runset_ids integer[], started_at timestamptz, ended_at timestamptz, unit text, scale float8, combine text,
               once boolean, counts boolean, narrowest boolean)
-- Planning takes longer than execution, and each chart calls it: so the plan is kept for the connection.
language plpgsql stable rows 100 set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    with duplicates as materialized (
        select d.run_id, d.series_id from duplicate_series(p_runs, p_quantities) d
    ), spans as (
        select rs.run_id, rs.place_id, rs.scope, rs.runset_id, rs.started_at, rs.ended_at,
               bool_or(rs.scope = 'device') over (partition by rs.run_id, p.kind) as shared
        from run_sets rs join places p using (place_id) where rs.run_id = any(p_runs)
    ), sets as (
        -- A device that the run shared for a while is measured over all of the run's time on it.
        select x.run_id, x.place_id, y.scope, array_agg(x.runset_id) as runset_ids, min(x.started_at) as started_at,
               max(coalesce(x.ended_at, 'infinity')) as ended_at
        from spans x
        cross join lateral (select x.scope union select 'device' where x.scope = 'instance' and x.shared) y (scope)
        group by x.run_id, x.place_id, y.scope
    ), candidates as materialized (
        select x.*, s.series_id, s.target_id, s.quantity, s.metric, s.device, s.labels, s.metric_id,
               min(s.series_id) over (partition by coalesce(s.target_id, -s.place_id), federated_exporter(s.host, s.labels)) as exporter,
               min(x.scope) over one <> max(x.scope) over one or min(s.metric) over one <> max(s.metric) over one as several
        from sets x join series s using (place_id)
        where (p_quantities is null or s.quantity = any(p_quantities))
          and (x.run_id, s.series_id) not in (select d.run_id, d.series_id from duplicates d)
        window one as (partition by x.run_id, s.quantity)
    ), choices as (
        -- A single candidate needs no coverage.
        select c.run_id, c.quantity, c.scope, c.metric, c.device, c.runset_ids, c.started_at, c.ended_at,
               array_agg(c.series_id) as series, min(c.series_id) as first, max(t.last_seen) as last_seen,
               min(c.metric) over scope = max(c.metric) over scope as only_metric
        from candidates c left join targets t using (target_id)
        where c.several
        group by c.run_id, c.quantity, c.scope, c.metric, c.device, c.runset_ids, c.started_at, c.ended_at
        window scope as (partition by c.run_id, c.quantity, c.scope)
    ), lasted as materialized (
        select c.run_id, c.quantity, c.scope, c.metric, c.device, concat_ws(' ', c.run_id, c.quantity, c.scope) as line,
               min(c.first) as first,
               max(case when r.summarised then
                            (select x.seconds from stored_summaries x
                             where x.run_id = c.run_id and x.quantity = c.quantity and x.scope = c.scope and x.metric = c.metric
                               and x.device is not distinct from c.device)
                        when r.ended_at is not null
                            then measured_seconds(c.series, c.runset_ids, c.started_at, c.ended_at, c.only_metric)
                        else extract(epoch from least(seen_until(c.last_seen), c.ended_at) - c.started_at) end)::float8 as seconds
        from choices c join runs r using (run_id)
        group by c.run_id, c.quantity, c.scope, c.metric, c.device
    ), scopes as (
        select l.*, x.alone, bool_or(l.seconds is not null) over (partition by l.run_id, l.quantity, l.scope) as measured
        from lasted l join (select i.run_id, exclusive(i.run_id) as alone from lasted i group by i.run_id) x using (run_id)
    ), ranked as (
        select s.run_id, s.quantity, s.scope, s.metric, s.device, r.rank,
               dense_rank() over (partition by s.run_id, s.quantity
                                  order by s.measured desc, scope_width(s.scope, s.alone)) as width
        from (select array_agg(line) as lines, array_agg(first) as series, array_agg(seconds) as seconds from lasted) given
        cross join lateral ranked_sources(given.lines, given.series, given.seconds) r
        join scopes s on s.line = r.line and s.first = r.series_id
    )
    select c.run_id, c.quantity, c.scope, c.metric, c.device, c.series_id, c.exporter, c.runset_ids,
           c.started_at, c.ended_at, coalesce(m.unit, ''), coalesce(m.scale, 1), coalesce(m.combine, 'sum'),
           counts_once(m.whole_device, c.metric, c.device, c.labels), coalesce(x.rank = 1, true), coalesce(x.width = 1, true)
    from candidates c left join metrics m using (metric_id)
    left join ranked x
         on c.several and (x.run_id, x.quantity, x.scope, x.metric, coalesce(x.device, ''))
                          = (c.run_id, c.quantity, c.scope, c.metric, coalesce(c.device, ''));
end $$;
