-- name = "Dataloader"
-- means = "The run has more data-loading workers than cores, or so few that cores are idle while GPUs wait."
-- advice = "Set the number of data-loading workers to about the number of available cores, less those that neighbours use."
-- severity = "info"
-- needs = ["steps"]
-- lookback = "5 min"
-- [parameters.min_threshold]
-- default = 0.7
-- unit = "ratio"
-- help = "workers per core, below which there are too few"
-- [parameters.max_threshold]
-- default = 2
-- unit = "ratio"
-- help = "workers per core, above which there are too many"
-- [parameters.wait_threshold]
-- default = 0.1
-- unit = "ratio"
-- help = "share of the steps' time that waits for data, from which on there may be too few workers"
-- [parameters.gpu_threshold]
-- default = 0.7
-- unit = "ratio"
-- help = "GPU utilization below which a GPU waits; without waiting GPUs there are enough workers"
-- [parameters.minimum_duration]
-- default = "1 min"
-- help = "minimum duration of the condition"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means"

with ranks as (
    select greatest(count(distinct pid), 1) as n from spans where run_id = %(run)s and kind in ('step', 'epoch')
), loader as (
    -- Waits are measured where a loader is watched: without one, other processes are no workers.
    select sum(data_wait) / nullif(extract(epoch from max(ended_at) - min(started_at))::float8, 0) as waits
    from spans
    where run_id = %(run)s and kind = 'step' and data_wait is not null and started_at >= %(start)s - interval '1 hour'
      and started_at < %(stop)s
), points as (
    -- Workers are all processes of the run except its ranks.
    select started_at, greatest(max(value) filter (where quantity = 'processes') - (select n from ranks), 0) as workers,
           max(value) filter (where quantity = 'cpu_available') as cores,
           max(value) filter (where quantity = 'gpu_utilization') as gpu
    from rule_points(%(run)s, '{processes,cpu_available,gpu_utilization}', %(start)s, %(stop)s, %(point)s)
    group by started_at
), evaluated as (
    select array_agg(started_at) as times,
           array_agg(workers > %(max_threshold)s * cores) as many,
           array_agg(workers < %(min_threshold)s * cores and gpu < %(gpu_threshold)s and waits > %(wait_threshold)s) as few
    from points, loader where waits is not null
)
select s.started_at, s.ended_at,
       jsonb_build_object('what', what, 'workers', avg(p.workers), 'cores', avg(p.cores), 'gpu', avg(p.gpu)) as evidence
from evaluated
cross join lateral (values ('too many', many), ('too few', few)) as kinds (what, found)
cross join lateral rule_intervals(times, found, %(minimum_duration)s, %(stop)s) s
join points p on p.started_at >= s.started_at and p.started_at < s.until
group by what, s.started_at, s.ended_at
