-- Relations for queries by users.

-- Return the label that selects a run: 20/1/3 for the latest attempt, 20/1/3@1 for an earlier one.
create or replace function run_label(w workloads, r runs) returns text language sql stable as $$
    select concat_ws('/', w.experiment_id, w.workload, r.position)
           || case when exists (select from runs later where later.workload_id = r.workload_id and later.position = r.position
                                                       and later.attempt > r.attempt)
                   then '@' || r.attempt else '' end
$$;

-- Only the tag decides. The bounds on time narrow the search to a few chunks and a part of each index: they are wider than the
-- run by the longest scrape interval. `offset 0` keeps them inside: a plain join would read all samples of the series.
create or replace view run_samples as
select w.experiment_id, w.workload, r.run_id, r.position,
       l.run,
       s.quantity, s.metric, coalesce(m.unit, '') as unit, rs.scope, s.host, s.device, x.time,
       extract(epoch from x.time - r.started_at)::float8 as elapsed,
       x.value * coalesce(m.scale, 1) as value, x.dt
from runs r
join workloads w using (workload_id)
cross join lateral (select run_label(w, r) as run offset 0) l -- once for each run, and not for each sample
join run_sets rs using (run_id)
join series s on s.place_id = rs.place_id
left join metrics m on m.metric_id = s.metric_id
cross join lateral (
    select time, value, dt from bounded_samples
    where series_id = s.series_id and runset_id = rs.runset_id
      and time >= rs.started_at - interval '1 min' and last >= rs.started_at - interval '1 min'
      and time < coalesce(rs.ended_at, 'infinity') + interval '1 min'
      and first < coalesce(rs.ended_at, 'infinity') + interval '1 min'
      and l.run is not null -- or the label might be made after the join with samples, for each of them
    offset 0) x;

-- Return the seconds of an interval that lie in a part of a run.
create or replace function bench_internal.seconds_in(p_part tstzmultirange, p_from timestamptz, p_to timestamptz)
returns float8 language sql immutable as $$
    select coalesce(extract(epoch from sum(upper(piece) - lower(piece))), 0)::float8
    from unnest(p_part * tstzmultirange(tstzrange(p_from, p_to))) as piece
$$;

-- Summarize a run's quantities (all where null) in a part of it (all where null) from raw samples: a row per quantity, scope,
-- metric and device, and a row per quantity and scope over all devices (metric and device null), from the sources that count
-- for the whole run, see `run_sources`. Series of one device that are scraped together are combined first: a CPU's modes are
-- added up before the mean, minimum and percentiles. Series of several exporters have different scrape times, and are first
-- averaged over the longest of their intervals: see `complete_bins`. Their mean is the sum of the exporters' means. A sample at a
-- bound counts for the part of its time inside.
--
-- `seen` are the seconds without gaps: a sample over more than three usual intervals (each a minute at most) is a mean over
-- unmeasured time, and counts for one interval.
create or replace function bench_internal.summary_between(p_run text, p_quantities text[], p_part tstzmultirange)
returns table (run_id text, quantity text, scope text, metric text, device text, n bigint, seconds float8, mean float8,
               min float8, max float8, p50 float8, p95 float8, total float8, seen float8)
-- The planner expects so few rows that it would compare each sample with every source in a nested loop.
language plpgsql stable set enable_nestloop = off as $$
#variable_conflict use_column
begin
    return query
    with sources as materialized (
        select series_id, exporter, quantity, scope, metric, coalesce(device, '') as device, runset_ids, started_at, ended_at,
               scale, combine, once, counts
        from run_sources(array[p_run], p_quantities)
    ), read as not materialized (
        select f.series_id, f.exporter, f.quantity, f.scope, f.metric, f.device, f.combine, f.once, x.time,
               x.value * f.scale as value, x.dt
        from sources f cross join lateral (
            -- The bounds on time narrow the search; the tag decides. A minute is the longest scrape interval.
            select time, value,
                   case when p_part is null or p_part @> tstzrange(time - dt * interval '1 s', time) then dt
                        else seconds_in(p_part, time - dt * interval '1 s', time) end::float8 as dt
            from bounded_samples
            where series_id = f.series_id and runset_id = any(f.runset_ids)
              and time >= greatest(f.started_at - interval '1 min', lower(p_part))
              and last >= greatest(f.started_at - interval '1 min', lower(p_part))
              and time < least(f.ended_at, upper(p_part)) + interval '1 min'
              and first < least(f.ended_at, upper(p_part)) + interval '1 min'
            offset 0) x
        where x.value is not null and (p_part is null or x.dt > 0)
    ), points as materialized (
        select series_id, exporter, quantity, scope, metric, device, combine, time, value, dt
        from read where not once
        union all
        -- Copies of a device's value count once, in however many series they are repeated.
        select min(series_id), min(exporter), quantity, scope, metric, device, combine, time, max(value),
               max(dt)
        from read where once group by quantity, scope, metric, device, combine, time
    ), own as materialized (
        -- One series per source yields the interval of all its series. The first and the last sample are cut short.
        select quantity, scope, metric, exporter, min(series_id) as series_id, max(n) as n,
               coalesce(percentile_disc(0.5) within group (order by dt) filter (where nth between 2 and n - 1), max(dt)) as usual
        from (select quantity, scope, metric, exporter, series_id, dt,
                     row_number() over (partition by series_id order by time) as nth, count(*) over (partition by series_id) as n
              from points
              where dt > 0 and series_id in (select min(series_id) from sources group by quantity, scope, metric, exporter, device)) x
        group by quantity, scope, metric, exporter
    ), intervals as materialized (
        -- Three samples do not tell an interval from a gap.
        select quantity, scope, metric, exporter,
               least(coalesce(case when n < 4 then usual_interval(p_run, series_id) end, usual), 60) as interval
        from own
    ), lines as materialized (
        -- Each device, and all devices together from the sources that count. Only exporters with samples belong to a line.
        select row_number() over () as line, quantity, scope, metric, device, max(interval) as interval, min(combine) as combine,
               min(exporter) <> max(exporter) as apart
        from (select distinct quantity, scope, metric, device, combine, exporter from points) present
        join (select distinct quantity, scope, metric, device, counts from sources) counting using (quantity, scope, metric, device)
        left join intervals using (quantity, scope, metric, exporter)
        group by grouping sets ((quantity, scope, metric, device), (quantity, scope, counts))
        having metric is not null or counts
    ), members as materialized (
        select l.line, l.interval, l.apart, c.*
        from lines l join (select distinct quantity, scope, metric, device, counts from sources) c
             on (c.quantity, c.scope) = (l.quantity, l.scope)
                and (c.metric = l.metric and c.device = l.device or l.metric is null and c.counts)
    ), binned as materialized (
        -- The values of a series in a bin; only lines of several exporters need bins.
        select line, exporter, combine, interval, bin, coalesce(sum(value * dt) / nullif(sum(dt), 0), avg(value)) as value,
               sum(dt) as dt, min(time - dt * interval '1 s') as begins, max(time) as ends
        from points join members m using (quantity, scope, metric, device)
        cross join lateral (select bin_number(time, coalesce(m.interval, 1)) as bin offset 0) b
        where apart
        group by line, exporter, series_id, combine, m.interval, bin
    ), given as materialized (
        select array_agg(line) as lines, array_agg(exporter) as targets, array_agg(bin) as bins,
               array(select line from lines where always_expected(quantity, scope)) as always
        from binned
    ), complete as materialized (
        select c.line, c.bin from given g cross join lateral complete_bins(g.lines, g.targets, g.bins, g.always) c
    ), exporter_means as (
        -- The mean of an exporter stands for the bins in which it is expected.
        select e.line, m.mean * (e.last - e.first + 1)
                       / (max(e.last) over (partition by e.line) - min(e.first) over (partition by e.line) + 1) as mean
        from given g cross join lateral expected_bins(g.lines, g.targets, g.bins, g.always) e
        join (select line, exporter, sum(area) / nullif(sum(dt), 0) as mean
              from (select line, exporter, bin, sum(value * dt) as area, max(dt) as dt
                    from binned where combine = 'sum' group by line, exporter, bin) each
              group by line, exporter) m on (m.line, m.exporter) = (e.line, e.target)
    ), together as (
        select line, interval, false as apart, true as complete, time, null::timestamptz as begins, null::timestamptz as ends,
               case combine when 'sum' then sum(value) when 'max' then max(value) else avg(value) end as value,
               case when combine = 'sum' then sum(value * dt) end as area, max(dt) as dt
        from points join members using (quantity, scope, metric, device) where not apart
        group by line, interval, combine, time
        union all
        select line, interval, true, bool_and(c.line is not null), max(ends), min(begins), max(ends),
               case combine when 'sum' then sum(value) when 'max' then max(value) else avg(value) end,
               case when combine = 'sum' then sum(value * dt) end, max(dt)
        from binned left join complete c using (line, bin)
        group by line, interval, combine, bin
    ), summed as (
        select line, count(*) as n, sum(coalesce(area, value * dt) order by time) as total,
               case when apart then extract(epoch from max(ends) - min(begins))::float8 end as extent, sum(dt order by time) as seconds,
               sum(value * dt) filter (where complete) / nullif(sum(dt) filter (where complete), 0) as mean,
               min(value) filter (where complete) as min, max(value) filter (where complete) as max,
               percentile_cont(0.5) within group (order by value) filter (where complete) as p50,
               percentile_cont(0.95) within group (order by value) filter (where complete) as p95,
               sum(seen_of(dt, interval) order by time) as seen
        from together group by line, apart
    ), averaged as (
        select line, n, total, least(seconds, extent) as seconds, min, max, p50, p95, seen, extent is not null as apart,
               case when extent is null then total / nullif(seconds, 0)
                    else coalesce((select sum(t.mean) from exporter_means t where t.line = s.line), mean) end as mean
        from summed s
    )
    -- The total is always the product of mean and seconds. A sum over exporters stands for the mean of their seconds.
    select p_run, l.quantity, l.scope, l.metric, nullif(l.device, ''), a.n,
           case when a.apart and l.combine = 'sum' then coalesce(a.total / nullif(a.mean, 0), a.seconds) else a.seconds end,
           a.mean, a.min, a.max, a.p50, a.p95,
           case when a.apart and l.combine <> 'sum' then a.mean * a.seconds else a.total end, a.seen
    from lines l join averaged a using (line);
end $$;

-- Return the summary of a run. PL/pgSQL, since SQL would be inlined into every statement on summaries, and planned for every
-- chunk even where nothing is computed.
create or replace function bench_internal.compute_summary(p_run text)
returns table (run_id text, quantity text, scope text, metric text, device text, n bigint, seconds float8, mean float8,
               min float8, max float8, p50 float8, p95 float8, total float8) language plpgsql stable as $$
begin
    return query
    select s.run_id, s.quantity, s.scope, s.metric, s.device, s.n, s.seconds, s.mean, s.min, s.max, s.p50, s.p95, s.total
    from summary_between(p_run, null, null) s;
end $$;

-- Store a run's summary, once the run has ended and its last sample is written. The summary of a running run is computed on
-- read.
create or replace function bench_internal.summarise(p_run text) returns void language plpgsql as $$
begin
    -- The choice of sources starts over, from the samples.
    update runs set summarised = false where run_id = p_run and summarised;
    delete from stored_duplicates where run_id = p_run;
    insert into stored_duplicates select * from duplicate_series(array[p_run], null);
    delete from stored_summaries where run_id = p_run;
    insert into stored_summaries select * from summary_between(p_run, null, null);
    delete from tracked_summaries where run_id = p_run;
    update runs set summarised = true where run_id = p_run;
    delete from stored_contention where run_id = p_run;
    insert into stored_contention select * from compute_contention(p_run);
    update runs r set listeners = l.listeners, intervals = l.intervals
    from measuring_listeners(array[p_run]) l where r.run_id = l.run_id;
end $$;

-- Store the summaries of ended runs that started before a time, before their raw samples are deleted.
create or replace function bench_internal.summarise_before(p_time timestamptz) returns void language sql as $$
    select bench_internal.summarise(run_id) from bench.runs
    where not summarised and started_at < p_time and ended_at is not null
$$;

-- The lateral join starts from the runs: a condition on runs reaches the stored table through its index, and computes no
-- summary of other runs.
create or replace view run_summary as
select r.run_id, s.quantity, s.scope, s.metric, s.device, s.n, s.seconds, s.mean, s.min, s.max, s.p50, s.p95, s.total
from runs r cross join lateral (
    select run_id, quantity, scope, metric, device, n, seconds, mean, min, max, p50, p95, total
    from stored_summaries where run_id = r.run_id and r.summarised
    union all
    select * from compute_summary(r.run_id) where r.started_at is not null and not r.summarised
) s;

-- Return the summaries of some runs and quantities (all where null), with the seconds that were seen. For a running run only
-- these quantities are computed.
create or replace function bench_internal.run_summary_of(p_runs text[], p_quantities text[])
returns setof stored_summaries language sql stable as $$
    select s.* from runs r cross join lateral (
        select * from stored_summaries where run_id = r.run_id and r.summarised and (p_quantities is null or quantity = any(p_quantities))
        union all
        select * from summary_between(r.run_id, p_quantities, null)
        where r.started_at is not null and not r.summarised
    ) s
    where r.run_id = any(p_runs)
$$;

-- Return whether a run's GPUs are simulated: by the run itself, or by the labels of an exporter's series.
create or replace function bench_internal.on_simulated_gpus(r runs) returns boolean language sql stable as $$
    select r.simulated or exists (select from run_sets rs join series s using (place_id)
                                  where rs.run_id = r.run_id and rs.scope <> 'host' and s.labels ->> 'simulated' = 'true')
$$;

-- Flags of runs that every display of their values shows.
create or replace view bench_internal.run_flags as
select r.run_id, on_simulated_gpus(r) as simulated,
       r.profilers <> '' as profiled,
       exists (select from run_sets mine
               where mine.run_id = r.run_id and (mine.scope = 'device' or r.devices = '')
                 and (mine.others > 0 or exists (select from run_sets other where other.runset_id = mine.runset_id
                                                 and other.run_id <> r.run_id))) as shared
from runs r where r.started_at is not null;

-- Return those runs whose energy is an equal part of that of several processes: of clients of an MPS server, or of all on its GPU.
-- The start of a run, before the driver has its share, counts little.
create or replace function bench_internal.energy_divided(p_runs text[]) returns setof text language sql stable as $$
    select p.run_id
    from places p join series s using (place_id) cross join lateral (select s.labels ->> 'method' as method) m
    where p.run_id = any(p_runs) and s.quantity = 'gpu_energy_attributed'
    group by p.run_id
    having (bool_or(method ^@ 'mps_clients') or bool_and(method ^@ 'process_count'))
       and (select f.shared from run_flags f where f.run_id = p.run_id)
$$;

-- Return those runs whose energy the exporter divided before it knew the idle power of their GPUs or host, in the energy that belongs
-- to one of the quantities: any of a GPU, or one of the host itself.
create or replace function bench_internal.idle_power_unknown(p_runs text[], p_quantities text[]) returns setof text language sql stable as $$
    select distinct p.run_id
    from places p join series s using (place_id)
    where p.run_id = any(p_runs) and s.quantity like '%\_energy\_attributed' and s.labels ->> 'method' like '%\_no\_idle'
      and exists (select from unnest(p_quantities) q (quantity)
                  where q.quantity = s.quantity or s.quantity ^@ 'gpu' and q.quantity ^@ 'gpu')
$$;

-- Quality of a run's values. `coverage` is the share of its duration in which its processes were measured (without gaps, as far as
-- they are known; null where its row chose exporters without that of processes), `throttled` whether heat or power ever reduced its
-- GPUs' clocks, and `overhead` the exporters' share of its host's cores during the run. `overhead` needs the stored summary, since
-- a host's cores are many series.
create or replace view run_quality as
select r.run_id,
       case when q.seen > 0 or r.exporters is null or r.exporters ? 'process' then
       measured_share(q.seen, q.n, extract(epoch from coalesce(r.ended_at, now()) - r.started_at)::float8, true) end as coverage,
       coalesce(case when q.n > 0 then run_interval(r.run_id, q.series_id) end,
                (select min(seconds::float8) from jsonb_each_text(r.intervals) as i(exporter, seconds)
                 where not r.exporters ? 'process')) as interval_seconds,
       m.simulated, m.profiled, m.shared,
       q.throttled,
       (select sum(total) filter (where quantity = 'listener_cpu_usage')
               / nullif(sum(total) filter (where quantity <> 'listener_cpu_usage'), 0)
        from stored_summaries s
        where r.summarised and s.run_id = r.run_id and s.scope = 'host' and s.metric is null
          and s.quantity = any('{listener_cpu_usage,cpu_usage,cpu_idle,cpu_iowait}')
        having bool_or(quantity = 'cpu_idle')) as overhead
from runs r join run_flags m using (run_id)
left join lateral (  -- a left join, since the planner leaves it out where only other columns are read
    select max(coalesce(seen, seconds)) filter (where own) as seen, max(n) filter (where own) as n,
           (select min(s.series_id) from places p join series s using (place_id)
            where p.run_id = r.run_id and p.kind = 'process' and s.quantity = 'cpu_usage') as series_id,
           -- A setting of the clocks does not throttle, but shows that an exporter reports reasons.
           max(case quantity when 'gpu_throttled' then max when 'gpu_clocks_pinned' then 0 end) > 0 as throttled
    from (select s.*, quantity = 'cpu_usage' as own
          from run_summary_of(array[r.run_id], '{cpu_usage,gpu_throttled,gpu_clocks_pinned}') s
          where metric is null and (scope = 'process' or quantity <> 'cpu_usage')) x) q on true;

-- Return whether any of some series measured run sets. PL/pgSQL, since SQL would be inlined, and planned for every chunk.
create or replace function bench_internal.has_measured(
    p_series integer[], p_sets integer[], p_from timestamptz, p_to timestamptz
) returns boolean language plpgsql stable as $$
begin
    return exists (select from bounded_samples where series_id = any(p_series) and runset_id = any(p_sets)
                   and time >= p_from - interval '1 min' and last >= p_from - interval '1 min'
                   and time < p_to + interval '1 min' and first < p_to + interval '1 min')
        or p_from < (select raw_cutoff from retention)
           and exists (select from samples_10m where series_id = any(p_series) and runset_id = any(p_sets)
                       and bucket >= p_from - interval '10 min' and bucket < p_to);
end $$;

-- Return the exporters that measured runs, by their series; for a running run, those of all series of its resources whose targets
-- were seen since its start. For an ended run also the seconds between their scrapes.
create or replace function bench_internal.measuring_listeners(p_runs text[])
returns table (run_id text, listeners text[], intervals jsonb) language sql stable as $$
    with placed as materialized (
        select rs.run_id, r.summarised, r.exporters, rs.place_id, array_agg(rs.runset_id) as sets, min(rs.started_at) as low,
               max(coalesce(rs.ended_at, 'infinity')) as high
        from run_sets rs join runs r using (run_id) where rs.run_id = any(p_runs) group by rs.run_id, r.summarised, r.exporters, rs.place_id
    ), sources as materialized (
        select s.place_id, s.quantity, s.metric, t.target_id, t.listener, seen_until(t.last_seen) as seen_until, min(s.series_id) as series_id
        from series s join targets t using (target_id) where s.place_id = any(array(select place_id from placed))
        group by s.place_id, s.quantity, s.metric, t.target_id, t.listener, t.last_seen  -- a view has no key that implies them
    ), given as (
        -- A few series of a target suffice to know whether it measured.
        select p.run_id, p.summarised, p.exporters, s.listener, p.sets, p.low, p.high, (array_agg(s.series_id order by s.series_id))[:5] as series
        from placed p join sources s using (place_id)
        where case when p.summarised then exists (select from stored_summaries x
                                                  where (x.run_id, x.quantity, x.metric) = (p.run_id, s.quantity, s.metric))
                   else s.seen_until >= p.low end
        group by p.run_id, p.summarised, p.exporters, p.place_id, p.sets, p.low, p.high, s.target_id, s.listener
    ), measured as (
        select run_id, listener,
               max((select max(listener_interval(run_id, s, sets, low, high, (exporters ->> listener)::float8))
                    from unnest(series[:2]) s where summarised)) as seconds
        from given where not summarised and exporters is null or has_measured(series, sets, low, high)
        group by run_id, listener
    )
    select run_id, array_agg(listener order by listener),
           coalesce(jsonb_object_agg(listener, seconds) filter (where seconds is not null), '{}')
    from measured group by run_id
$$;

-- Return the exporters that measured runs: those that are stored with the summary, else those of its resources.
create or replace function bench_internal.run_listeners(p_runs text[])
returns table (run_id text, listeners text[]) language sql stable as $$
    select run_id, listeners from runs where run_id = any(p_runs) and listeners <> '{}'
    union all
    select run_id, listeners from measuring_listeners(array(select run_id from runs where run_id = any(p_runs) and listeners = '{}'))
$$;
