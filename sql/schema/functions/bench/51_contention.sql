-- What other programs used of a run's hosts and GPUs, and the time that they may have cost it.

-- Return the share of a run's time from which on other programs count: what they may have cost then hides what a neighbour costs.
create or replace function bench_internal.delay_limit() returns float8 language sql immutable as $$
    select 0.2::float8
$$;

-- Return the largest share of a run's time that other programs on its hosts may have cost; null where its hosts were not measured.
-- It is bounded twice:
--
-- * by the share of time in which some process waited for a core. Where a core was free in each sample, a run that may use all
--   cores never waited. Without a measurement of pressure, the fullest sample stands in for it;
-- * by the other programs' share of the busy cores: without them the runs could have used these cores as well. Where their cores are
--   unknown, all may have been theirs.
create or replace function bench_internal.core_delay(
    p_other float8, p_busy float8, p_pressure float8, p_least_idle float8, p_cores float8, p_available float8
) returns float8 language sql immutable as $$
    select case when coalesce(p_busy, p_pressure) is not null then least(
        case when p_other is null then 1 when p_busy > 0 then least(1, p_other / p_busy) else 0 end,
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

-- Return the share of a run's time in which kernels of runs of other workloads ran on its GPUs, also of runs that did not declare
-- them, and of runs in other databases. Where the driver does not know it, as under MPS and MIG, the time with processes. 0 without any.
create or replace function bench_internal.gpu_share_of_runs(p_run text) returns float8 language plpgsql stable as $$
declare
    mine runs;
    until timestamptz;
begin
    select * into mine from runs where run_id = p_run;
    until := coalesce(mine.ended_at, now());
    return (
    with used as materialized (
        select d.gpu_uuid, s.series_id, s.quantity, p.run_id, coalesce(m.scale, 1) as scale
        from placements d join places p on p.kind = 'process' and p.host = d.host and p.origin = d.origin and p.run_id <> p_run
        left join runs r on r.run_id = p.run_id
        join series s on s.place_id = p.place_id
             and (s.device = concat_ws('/', d.gpu_uuid, d.gpu_instance_id) or d.gpu_instance_id is null and s.device ^@ (d.gpu_uuid || '/'))
        left join metrics m using (metric_id)
        where d.run_id = p_run and d.gpu_uuid is not null and s.quantity in ('gpu_sm_utilization', 'gpu_processes')
          and (r.run_id is null or r.workload_id <> mine.workload_id and r.started_at < until
                                   and coalesce(r.ended_at, 'infinity') > mine.started_at)
    ), shares as (
        select u.gpu_uuid, u.run_id, u.quantity, u.series_id, sum(least(x.value * u.scale, 1) * x.seconds) as seconds
        from used u cross join lateral (
            -- A minute is the longest scrape interval.
            select value, seconds_in(tstzmultirange(tstzrange(mine.started_at, until)), time - dt * interval '1 s', time) as seconds
            from bounded_samples
            where series_id = u.series_id and value is not null
              and time >= mine.started_at and last >= mine.started_at
              and time < until + interval '1 min' and first < until + interval '1 min'
            offset 0) x
        group by u.gpu_uuid, u.run_id, u.quantity, u.series_id
    ), runs_on as (
        select gpu_uuid, run_id, coalesce(max(seconds) filter (where quantity = 'gpu_sm_utilization'), max(seconds)) as seconds
        from shares group by gpu_uuid, run_id
    )
    select coalesce(max(seconds) / nullif(extract(epoch from until - mine.started_at)::float8, 0), 0)
    from (select sum(seconds) as seconds from runs_on group by gpu_uuid) each);
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
    select p_run, busy + idle, own, other, outside, services, pressure, others, gpu_processes, gpu_memory, g.share,
           greatest(core_delay(outside + other + busy_services(services), busy, pressure, least_idle, busy + idle, available),
                    g.share)
    from outside
    cross join lateral (select gpu_share_of_runs(p_run) as runs offset 0) r
    cross join lateral (select case when coalesce(gpu_share, nullif(runs, 0)) is not null
                                    then least(coalesce(gpu_share, 0) + runs, 1) end as share) g;
end $$;

-- The lateral join starts from the runs, as in `run_summary`. Earlier releases stored no delay where only the hosts were measured.
create or replace view run_contention as
select r.run_id, c.cores, c.workload_cores, c.other_run_cores, c.other_cores, c.service_cores, c.cpu_pressure, c.other_runs,
       c.gpu_other_processes, c.gpu_other_memory, c.gpu_other_share, coalesce(c.delay, c.cpu_pressure) as delay
from runs r cross join lateral (
    select * from stored_contention where run_id = r.run_id and r.summarised
    union all
    select * from compute_contention(r.run_id) where r.started_at is not null and not r.summarised
) c;

-- Return where programs beside a run on these devices were not measured, though they may have cost it much of its time: on its `host`,
-- or on its `gpu`. The other values are those of `run_contention`. Where the cores of a host alone show that little was lost, it does
-- not matter whose they were.
create or replace function bench_internal.unmeasured_others(
    p_devices text, p_cores float8, p_other_cores float8, p_pressure float8, p_gpu_processes float8, p_gpu_share float8, p_delay float8
) returns text[] language sql immutable as $$
    select array_remove(array[
        case when p_cores is null and p_pressure is null or p_delay is null
                  or p_other_cores is null and p_delay > greatest(delay_limit(), p_gpu_share) then 'host' end,
        case when p_devices <> '' and p_gpu_processes is null and p_gpu_share is null then 'gpu' end], null)
$$;

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
           jsonb_build_object('other_cores', array_agg(used order by nth), 'service_cores', array_agg(service_cores order by nth),
                              'cores', array_agg(cores order by nth), 'delays', array_agg(delay order by nth))
    from disturbed where used is not null and not (on_gpu and gpu_other_share = delay) having count(*) > 0
    union all
    select 'other_gpu_processes', array_agg(run order by nth), jsonb_build_object('shares', array_agg(gpu_other_share order by nth))
    from disturbed where on_gpu having count(*) > 0
$$;

-- Return the notices that programs beside runs were not measured: see `notice_codes` and `unmeasured_others`.
create or replace function bench_internal.unmeasured_notice(p_runs text[])
returns table (code text, runs text[], "values" jsonb) language sql stable as $$
    select 'others_unmeasured', array_agg(run_label(w, r) order by array_position(p_runs, r.run_id)),
           jsonb_build_object('where', place, 'exporters',
               case when place = 'host' then '["host", "process"]'::jsonb
                    -- Of GPUs, nvml alone knows them.
                    when bool_and(r.devices ~ '(GPU|MIG)-|^[0-9+]*$') then '["nvml"]' else '[]' end)
    from runs r join workloads w using (workload_id)
    left join lateral (select * from run_contention where run_id = r.run_id offset 0) c on true
    cross join lateral unnest(unmeasured_others(r.devices, c.cores, c.other_cores, c.cpu_pressure, c.gpu_other_processes, c.gpu_other_share,
                                                c.delay)) place
    where r.run_id = any(p_runs) group by place order by place desc
$$;
