-- What other programs used of a run's hosts and GPUs, and the time that they may have cost it.

-- Return the share of a run's time from which on other programs count: what they may have cost then hides what a neighbour costs.
create or replace function bench_internal.delay_limit() returns float8 language sql immutable as $$
    select 0.2::float8
$$;

-- Return the largest share of a run's time that other programs on its hosts may have cost. It is bounded twice:
--
-- * by the share of time in which some process waited for a core. Where a core was free in each sample, a run that may use all
--   cores never waited. Without a measurement of pressure, the fullest sample stands in for it;
-- * by the other programs' share of the busy cores: without them the runs could have used these cores as well.
create or replace function bench_internal.core_delay(
    p_other float8, p_busy float8, p_pressure float8, p_least_idle float8, p_cores float8, p_available float8
) returns float8 language sql immutable as $$
    -- `least` ignores nulls.
    select case when p_other is not null and p_busy > 0 then least(1, p_other / p_busy,
                 case when p_available < p_cores - 0.5 then coalesce(p_pressure, 1)  -- its own cores may have been full
                      when p_least_idle >= 1 then 0
                      else coalesce(p_pressure, 1 - p_least_idle, 1) end) end
$$;

-- Return the cores that the runs on a run's hosts used on average meanwhile: those of its own workload, and the others.
create or replace function bench_internal.cores_of_runs(p_run text)
returns table (own float8, other float8, others integer) language plpgsql stable as $$
declare
    mine runs;
    until timestamptz;
    present text[];
begin
    select * into mine from runs where run_id = p_run;
    until := coalesce(mine.ended_at, now());
    present := array(
        select distinct other.run_id
        from run_sets here join places p using (place_id) join run_sets other using (runset_id)
        where here.run_id = p_run and p.kind = 'host');
    return query
    with placed as materialized (
        select s.run_id, s.series_id, s.runset_ids, s.scale from run_sources(present, '{cpu_usage}') s
        join series using (series_id) join places p using (place_id)
        where s.scope = 'process' and s.counts
          and p.host in (select q.host from run_sets x join places q using (place_id) where x.run_id = p_run and q.kind = 'host')
    ), used as (
        select p.run_id, sum(x.value * p.scale * x.seconds) / nullif(sum(x.seconds), 0) as cores
        from placed p cross join lateral (
            -- A minute is the longest scrape interval.
            select value, seconds_in(tstzmultirange(tstzrange(mine.started_at, until)), time - dt * interval '1 s', time) as seconds
            from bounded_samples
            where series_id = p.series_id and runset_id = any(p.runset_ids) and value is not null
              and time >= mine.started_at and last >= mine.started_at
              and time < until + interval '1 min' and first < until + interval '1 min'
            offset 0) x
        group by p.run_id
    ), shares as (
        select u.cores, r.workload_id = mine.workload_id as own,
               extract(epoch from least(coalesce(r.ended_at, until), until) - greatest(r.started_at, mine.started_at))::float8
               / nullif(extract(epoch from until - mine.started_at), 0)::float8 as share
        from used u join runs r using (run_id)
    )
    select sum(s.cores * s.share) filter (where s.own), coalesce(sum(s.cores * s.share) filter (where not s.own), 0),
           (select count(*) from runs o where o.run_id = any(present) and o.workload_id <> mine.workload_id)::integer
    from shares s;
end $$;

-- Compute the contention of a run, see `run_contention`. It needs the run's summary, stored or computed.
create or replace function bench_internal.compute_contention(p_run text) returns setof stored_contention
language plpgsql stable as $$
begin
    return query
    with measured as materialized (
        select quantity, scope, mean, min from run_summary_of(array[p_run],
            '{cpu_usage,cpu_idle,cpu_iowait,cpu_pressure,services_cpu_usage,listener_cpu_usage,cpu_available,
              gpu_other_processes,gpu_other_memory,gpu_other_sm_utilization}')
        where metric is null
    ), host as (
        select max(mean) filter (where quantity = 'cpu_usage' and scope = 'host') as busy,
               max(mean) filter (where quantity = 'cpu_idle') + coalesce(max(mean) filter (where quantity = 'cpu_iowait'), 0) as idle,
               max(min) filter (where quantity = 'cpu_idle') as least_idle,
               max(mean) filter (where quantity = 'cpu_pressure') as pressure,
               -- The exporters are among the services of a stack; on a site they run alone.
               greatest(max(mean) filter (where quantity = 'services_cpu_usage'),
                        max(mean) filter (where quantity = 'listener_cpu_usage')) as services,
               max(mean) filter (where quantity = 'cpu_available') as available,
               max(mean) filter (where quantity = 'gpu_other_processes') as gpu_processes,
               max(mean) filter (where quantity = 'gpu_other_memory') as gpu_memory,
               -- Where the driver does not know it, as under MPS and MIG, the time with processes.
               coalesce(max(mean) filter (where quantity = 'gpu_other_sm_utilization'),
                        max(least(mean, 1)) filter (where quantity = 'gpu_other_processes')) as gpu_share
        from measured
    ), outside as (
        select h.*, c.own, c.other, c.others,
               case when h.busy is not null and c.own is not null
                    then greatest(h.busy - c.own - c.other - coalesce(h.services, 0), 0) end as outside
        from host h cross join cores_of_runs(p_run) c
    )
    select p_run, busy + idle, own, other, outside, services, pressure, others, gpu_processes, gpu_memory,
           gpu_share, greatest(core_delay(outside + other, busy, pressure, least_idle, busy + idle, available), gpu_share)
    from outside;
end $$;

-- The lateral join starts from the runs, as in `run_summary`.
create or replace view run_contention as
select r.run_id, c.cores, c.workload_cores, c.other_run_cores, c.other_cores, c.service_cores, c.cpu_pressure, c.other_runs,
       c.gpu_other_processes, c.gpu_other_memory, c.gpu_other_share, c.delay
from runs r cross join lateral (
    select * from stored_contention where run_id = r.run_id and r.summarised
    union all
    select * from compute_contention(r.run_id) where r.started_at is not null and not r.summarised
) c;

-- Return the notices of programs that may have cost runs much of their time: see `notice_codes`.
create or replace function bench_internal.contention_notice(p_runs text[])
returns table (code text, runs text[], "values" jsonb) language sql stable as $$
    with disturbed as materialized (
        select run_label(w, r) as run, array_position(p_runs, r.run_id) as nth, c.*, c.other_cores + c.other_run_cores as used,
               coalesce(c.gpu_other_share, 0) > delay_limit() as on_gpu
        from runs r join workloads w using (workload_id)
        cross join lateral (select * from run_contention where run_id = r.run_id offset 0) c
        where r.run_id = any(p_runs) and c.delay > delay_limit()
    )
    select 'other_programs', array_agg(run order by nth),
           jsonb_build_object('other_cores', array_agg(used order by nth), 'cores', array_agg(cores order by nth),
                              'delays', array_agg(delay order by nth))
    from disturbed where used is not null and not (on_gpu and gpu_other_share = delay) having count(*) > 0
    union all
    select 'other_gpu_processes', array_agg(run order by nth), jsonb_build_object('shares', array_agg(gpu_other_share order by nth))
    from disturbed where on_gpu having count(*) > 0
$$;
