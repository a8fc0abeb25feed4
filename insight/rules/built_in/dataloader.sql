-- name = "Dataloader"
-- means = "There are more workers than cores to run them, or so few that cores lie idle while the GPUs wait."
-- advice = "Set the number of workers that load data to about the number of cores that the run may use, less those of its neighbours."
-- severity = "info"
-- lookback = "5 min"
-- [parameters.min_threshold]
-- default = 0.7
-- unit = "ratio"
-- help = "workers for each core, below which there are too few"
-- [parameters.max_threshold]
-- default = 2
-- unit = "ratio"
-- help = "workers for each core, above which there are too many"
-- [parameters.gpu_threshold]
-- default = 0.7
-- unit = "ratio"
-- help = "below this share of time with work a GPU waits; where none does there are workers enough"
-- [parameters.patience]
-- default = "1 min"
-- help = "how long it has to be so"
-- [parameters.point]
-- default = "10 s"
-- help = "means are taken over this"

with ranks as (
    select greatest(count(distinct pid), 1) as n from spans where run_id = %(run)s and kind in ('step', 'epoch')
), points as (
    -- All processes of the run but those that train.
    select started_at, greatest(max(value) filter (where quantity = 'processes') - (select n from ranks), 0) as workers,
           max(value) filter (where quantity = 'cpu_available') as cores,
           max(value) filter (where quantity = 'gpu_utilization') as gpu
    from rule_points(%(run)s, '{processes,cpu_available,gpu_utilization}', %(start)s, %(stop)s, %(point)s)
    group by started_at
), judged as (
    select array_agg(started_at) as times,
           array_agg(workers > %(max_threshold)s * cores) as many,
           array_agg(workers < %(min_threshold)s * cores and gpu < %(gpu_threshold)s) as few
    from points
)
select s.started_at, s.ended_at,
       jsonb_build_object('what', what, 'workers', avg(p.workers), 'cores', avg(p.cores), 'gpu', avg(p.gpu)) as evidence
from judged
cross join lateral (values ('too many', many), ('too few', few)) as kinds (what, found)
cross join lateral rule_stretches(times, found, %(patience)s, %(stop)s) s
join points p on p.started_at >= s.started_at and p.started_at < s.until
group by what, s.started_at, s.ended_at
