-- The relations that people query.

-- What selects a run: 20/1/3, or 20/1/3@2 where it is not the first attempt.
create or replace function run_label(w workloads, r runs) returns text language sql immutable as $$
    select concat_ws('/', w.experiment_id, w.workload, r.position) || case when r.attempt > 1 then '@' || r.attempt else '' end
$$;

-- Whether a run had its GPUs, or its MIG instance, to itself for most of its time on them; true where it has none.
create or replace function mostly_alone(p_run text) returns boolean language sql stable as $$
    select coalesce(bool_or(alone > shared), true)
    from (select sum(seconds) filter (where scope = 'instance') as alone,
                 coalesce(sum(seconds) filter (where scope = 'device'), 0) as shared
          from (select p.kind, rs.scope, extract(epoch from coalesce(rs.ended_at, now()) - rs.started_at) as seconds
                from run_sets rs join places p using (place_id)
                where rs.run_id = p_run and rs.scope in ('instance', 'device')) spans
          group by kind) kinds
$$;

-- The order of scopes, the narrowest first. What was measured in the moments that a run was alone on a GPU is not the run,
-- where it shared the GPU for the rest.
create or replace function scope_width(p_scope text, p_alone boolean) returns integer language sql immutable as $$
    select array_position(case when p_alone then array['process', 'instance', 'device', 'host']
                               else array['process', 'device', 'instance', 'host'] end, p_scope)
$$;

-- The tag alone decides. The condition on time only narrows the search, to the chunks and the part of each index that a
-- run can have samples in: it is wider than the run by a scrape's longest interval. `offset 0` keeps it there: joined
-- as they are, all samples of the series would be read.
create or replace view run_samples as
select w.experiment_id, w.workload, r.run_id, r.position,
       run_label(w, r) as run,
       s.quantity, s.metric, coalesce(m.unit, '') as unit, rs.scope, s.host, s.device, x.time,
       extract(epoch from x.time - r.started_at)::float8 as elapsed,
       x.value * coalesce(m.scale, 1) as value, x.dt
from runs r
join workloads w using (workload_id)
join run_sets rs using (run_id)
join series s on s.place_id = rs.place_id
left join metrics m on m.metric_id = s.metric_id
cross join lateral (
    select time, value, dt from samples
    where series_id = s.series_id and runset_id = rs.runset_id and time >= rs.started_at - interval '1 min'
      and time < coalesce(rs.ended_at, 'infinity') + interval '1 min'
    offset 0) x;

-- What a run did in some quantities (all where null) between two times (in all where they are null), from its raw
-- samples: one row a quantity, scope, metric and device, and one a quantity and scope over all its devices (metric and
-- device null), from one source: of those that cover the run, the preferred one. A GPU that it does not measure is taken
-- from the next. Series of one device that are scraped together count together: a CPU's modes are added up before their
-- mean, minimum and percentiles are taken. Those of several targets, each scraped at moments of its own, are averaged over
-- the longest of their intervals before. A sample at an edge counts for the part of its time that lies inside.
--
-- `seen` are the seconds less gaps: a sample that stands for more than three of the usual intervals, a minute at most each,
-- is the mean of what nobody saw, and counts for one.
create or replace function summary_between(p_run text, p_quantities text[], p_from timestamptz, p_to timestamptz)
returns table (run_id text, quantity text, scope text, metric text, device text, n bigint, seconds float8, mean float8,
               min float8, max float8, p50 float8, p95 float8, total float8, seen float8)
-- So few rows are expected of samples that each would be compared with every source in turn.
language plpgsql stable set enable_nestloop = off as $$
#variable_conflict use_column
begin
    return query
    with repeated as materialized (
        select series_id from repeats_of(array[p_run], p_quantities)
    ), sources as materialized (
        -- Of what was imported nobody knows the target: each place may have had its own.
        select s.series_id, coalesce(s.target_id, -s.place_id) as target_id, s.quantity, rs.scope, s.metric,
               coalesce(s.device, '') as device, rs.runset_id,
               rs.started_at, rs.ended_at, coalesce(m.scale, 1) as scale, coalesce(m.combine, 'sum') as combine,
               counts_once(m.board, s.metric, s.device, s.labels) as once, coalesce(m.preference, 1) as preference,
               min(s.metric) over one <> max(s.metric) over one as several
        from run_sets rs join series s using (place_id) left join metrics m using (metric_id)
        where rs.run_id = p_run and (p_quantities is null or s.quantity = any(p_quantities))
          and s.series_id not in (select series_id from repeated)
        window one as (partition by s.quantity, rs.scope)
    ), read as not materialized (
        select f.series_id, f.target_id, f.quantity, f.scope, f.metric, f.device, f.combine, f.preference, f.several, f.once,
               x.time, x.value * f.scale as value, x.dt
        from sources f cross join lateral (
            -- Bounds on time only narrow the search; the tag decides. A minute is a scrape's longest interval.
            select time, value,
                   case when p_from is null then dt
                        else date_part('epoch', least(time, p_to) - greatest(time - dt * interval '1 s', p_from)) end::float8 as dt
            from samples
            where series_id = f.series_id and runset_id = f.runset_id
              and time >= greatest(f.started_at - interval '1 min', p_from)
              and time < least(coalesce(f.ended_at, 'infinity'), p_to) + interval '1 min'
            offset 0) x
        where x.value is not null and (p_from is null or x.dt > 0)
    ), points as materialized (
        select series_id, target_id, quantity, scope, metric, device, combine, preference, several, time, value, dt
        from read where not once
        union all
        -- What is said of one device counts once, in however many lines it is repeated.
        select min(series_id), min(target_id), quantity, scope, metric, device, combine, preference, several, time, max(value),
               max(dt)
        from read where once group by quantity, scope, metric, device, combine, preference, several, time
    ), intervals as materialized (
        -- One series of each source says how often all of its are read.
        select quantity, scope, metric, target_id, least(percentile_disc(0.5) within group (order by dt), 60) as interval
        from points
        where dt > 0 and series_id in (select min(series_id) from sources group by quantity, scope, metric, target_id, device)
        group by quantity, scope, metric, target_id
    ), paced as materialized (
        select quantity, scope, metric, device, max(interval) as interval, count(distinct target_id) > 1 as apart
        from sources left join intervals using (quantity, scope, metric, target_id) group by quantity, scope, metric, device
    ), by_device as (
        select quantity, scope, metric, device, preference, several, interval,
               case combine when 'sum' then sum(value) when 'max' then max(value) else avg(value) end as value,
               case when combine = 'sum' then sum(value * dt) end as area, max(dt) as dt
        from (
            select quantity, scope, metric, device, preference, several, interval, combine, time, value, dt
            from points join paced using (quantity, scope, metric, device) where not apart
            union all
            select quantity, scope, metric, device, preference, several, interval, combine, interval_bin(time, interval),
                   coalesce(sum(value * dt) / nullif(sum(dt), 0), avg(value)), sum(dt)
            from points join paced using (quantity, scope, metric, device) where apart
            group by series_id, quantity, scope, metric, device, preference, several, interval, combine, interval_bin(time, interval)
        ) moments
        group by grouping sets ((quantity, scope, metric, device, preference, several, interval, time, combine))
    ), figures as materialized (
        select quantity, scope, metric, device, preference, several, count(*) as n, sum(dt) as seconds,
               sum(coalesce(area, value * dt)) / nullif(sum(dt), 0) as mean, min(value) as min, max(value) as max,
               percentile_cont(0.5) within group (order by value) as p50,
               percentile_cont(0.95) within group (order by value) as p95,
               sum(coalesce(area, value * dt)) as total, sum(seen_of(dt, interval)) as seen
        from by_device group by quantity, scope, metric, device, preference, several
    ), measured as (
        select *, sum(seconds) over (partition by quantity, scope, metric) as measured from figures where several
    ), covering as (
        select *, covers(measured, max(measured) over (partition by quantity, scope)) as covering from measured
    ), chosen as materialized (
        select quantity, scope, metric, device,
               dense_rank() over (partition by quantity, scope, case when quantity like 'gpu\_%' then device end
                                  order by covering desc, preference, metric) as rank
        from covering
    ), counted as materialized (
        select distinct quantity, scope, metric, device, max(interval) over one as longest,
               min(target_id) over one <> max(target_id) over one as apart
        from (select distinct quantity, scope, metric, device, target_id, interval
              from sources left join intervals using (quantity, scope, metric, target_id)
              where not several or (quantity, scope, metric, device) in
                                   (select quantity, scope, metric, device from chosen where rank = 1)) x
        window one as (partition by quantity, scope)
    ), together as (
        select quantity, scope, longest, apart, time, min(begins) as begins, max(ends) as ends,
               case combine when 'sum' then sum(value) when 'max' then max(value) else avg(value) end as value,
               case when combine = 'sum' then sum(value * dt) end as area, max(dt) as dt
        from (
            select quantity, scope, longest, apart, combine, time, value, dt, time as begins, time as ends
            from points join counted using (quantity, scope, metric, device) where not apart
            union all
            select quantity, scope, longest, apart, combine, interval_bin(time, longest),
                   coalesce(sum(value * dt) / nullif(sum(dt), 0), avg(value)), sum(dt), min(time - dt * interval '1 s'), max(time)
            from points join counted using (quantity, scope, metric, device) where apart
            group by series_id, quantity, scope, longest, apart, combine, interval_bin(time, longest)
        ) moments
        group by quantity, scope, longest, apart, time, combine
    ), whole as (
        select quantity, scope, count(*) as n, sum(coalesce(area, value * dt) order by time) as total,
               -- What one target counted over a gap, others may have measured meanwhile.
               case when apart then least(sum(dt), extract(epoch from max(ends) - min(begins))) else sum(dt order by time) end as seconds,
               min(value) as min, max(value) as max, percentile_cont(0.5) within group (order by value) as p50,
               percentile_cont(0.95) within group (order by value) as p95, sum(seen_of(dt, longest) order by time) as seen
        from together group by quantity, scope, apart
    )
    select p_run, quantity, scope, metric, nullif(device, ''), n, seconds, mean, min, max, p50, p95, total, seen from figures
    union all
    select p_run, quantity, scope, null, null, n, seconds, total / nullif(seconds, 0), min, max, p50, p95, total, seen
    from whole;
end $$;

-- What a run did in all. Not in SQL, or it would become part of every statement on summaries, and be planned for every chunk
-- where nothing is to be computed.
create or replace function compute_summary(p_run text)
returns table (run_id text, quantity text, scope text, metric text, device text, n bigint, seconds float8, mean float8,
               min float8, max float8, p50 float8, p95 float8, total float8) language plpgsql stable as $$
begin
    return query
    select s.run_id, s.quantity, s.scope, s.metric, s.device, s.n, s.seconds, s.mean, s.min, s.max, s.p50, s.p95, s.total
    from summary_between(p_run, null, null, null) s;
end $$;

-- Written when a run has ended and its last sample is in; for a run that goes on, computed.
create or replace function summarise(p_run text) returns void language plpgsql as $$
begin
    delete from repeats where run_id = p_run;
    insert into repeats select * from repeats_of(array[p_run], null, true);
    delete from stored_summaries where run_id = p_run;
    insert into stored_summaries select * from summary_between(p_run, null, null, null);
    delete from tracked_summaries where run_id = p_run;
    update runs set summarised = true where run_id = p_run;
end $$;

-- Before raw samples are deleted: what they said of runs that began before then.
create or replace function summarise_before(p_time timestamptz) returns void language sql as $$
    select bench.summarise(run_id) from bench.runs
    where not summarised and started_at < p_time and ended_at is not null
$$;

-- From the runs to their figures, one run at a time: so a condition on runs, by name or through a join, reaches the
-- stored table by its index, and nothing is computed for a run that nobody asked for.
create or replace view run_summary as
select r.run_id, s.quantity, s.scope, s.metric, s.device, s.n, s.seconds, s.mean, s.min, s.max, s.p50, s.p95, s.total
from runs r cross join lateral (
    select run_id, quantity, scope, metric, device, n, seconds, mean, min, max, p50, p95, total
    from stored_summaries where run_id = r.run_id and r.summarised
    union all
    select * from compute_summary(r.run_id) where r.started_at is not null and not r.summarised
) s;

-- The same of some runs and quantities (all where null), and what was seen: of a run that goes on, no others are computed.
create or replace function run_summary_of(p_runs text[], p_quantities text[])
returns setof stored_summaries language sql stable as $$
    select s.* from runs r cross join lateral (
        select * from stored_summaries where run_id = r.run_id and r.summarised and (p_quantities is null or quantity = any(p_quantities))
        union all
        select * from summary_between(r.run_id, p_quantities, null, null)
        where r.started_at is not null and not r.summarised
    ) s
    where r.run_id = any(p_runs)
$$;

-- Whether a run's GPUs are simulated: it was started on such, or an exporter says so of what it measured there.
create or replace function on_simulated_gpus(r runs) returns boolean language sql stable as $$
    select r.simulated or exists (select from run_sets rs join series s using (place_id)
                                  where rs.run_id = r.run_id and rs.scope <> 'host' and s.labels ->> 'simulated' = 'true')
$$;

-- What has to be said of a run whenever its figures are shown.
create or replace view run_marks as
select r.run_id, on_simulated_gpus(r) as simulated,
       r.profilers <> '' as profiled,
       exists (select from run_sets mine
               where mine.run_id = r.run_id and (mine.scope = 'device' or r.devices = '')
                 and (mine.others > 0 or exists (select from run_sets other where other.runset_id = mine.runset_id
                                                 and other.run_id <> r.run_id))) as shared
from runs r where r.started_at is not null;

-- How far a run's figures can be trusted. `coverage` is the share of its duration in which its processes were measured
-- (of a gap no more than the total is known), `throttled` whether something kept the clocks of its GPUs down at any time, and
-- `overhead` the share of what its host's cores had to give that the exporters used while it went on, known of what has its
-- summary: a host's cores are many series.
create or replace view run_quality as
select r.run_id,
       -- Of a run that was not measured it is 0: `least` passes over a null.
       least(1, coalesce(q.seen, 0) / greatest(extract(epoch from coalesce(r.ended_at, now()) - r.started_at), 1e-6))::float8
           as coverage,
       q.seen / nullif(q.n, 0) as interval_seconds,
       m.simulated, m.profiled, m.shared,
       q.throttled,
       (select sum(total) filter (where quantity = 'listener_cpu_usage')
               / nullif(sum(total) filter (where quantity <> 'listener_cpu_usage'), 0)
        from stored_summaries s
        where r.summarised and s.run_id = r.run_id and s.scope = 'host' and s.metric is null
          and s.quantity = any('{listener_cpu_usage,cpu_usage,cpu_idle,cpu_iowait}')
        having bool_or(quantity = 'cpu_idle')) as overhead
from runs r join run_marks m using (run_id)
cross join lateral (
    select max(coalesce(seen, seconds)) filter (where own) as seen, max(n) filter (where own) as n,
           max(max) filter (where not own) > 0 as throttled
    from (select s.*, quantity = 'cpu_usage' as own from run_summary_of(array[r.run_id], '{cpu_usage,gpu_throttled}') s
          where metric is null and (scope = 'process' or quantity = 'gpu_throttled')) figures) q;

-- The exporters that runs were measured by: of a run that goes on those of all series of its places.
create or replace function run_listeners(p_runs text[])
returns table (run_id text, listeners text[]) language sql stable as $$
    with placed as materialized (
        select distinct rs.run_id, r.summarised, rs.place_id
        from run_sets rs join runs r using (run_id) where rs.run_id = any(p_runs)
    ), sources as materialized (
        select distinct s.place_id, s.quantity, s.metric, t.listener
        from series s join targets t using (target_id) where s.place_id = any(array(select place_id from placed))
    )
    select p.run_id, array_agg(distinct s.listener order by s.listener)
    from placed p join sources s using (place_id)
    where not p.summarised
       or exists (select from stored_summaries x
                  where (x.run_id, x.quantity, x.metric) = (p.run_id, s.quantity, s.metric))
    group by p.run_id
$$;
