-- name = "BatchSize"
-- means = "The run leaves most of its cores, GPUs and GPU memory unused: its batches are too small."
-- advice = "Increase the batch size, use a smaller GPU or a MIG instance, or run several runs on one GPU."
-- severity = "info"
-- needs = ["gpus"]
-- lookback = "15 min"
-- [parameters.cpu_threshold_p95]
-- default = 0.7
-- unit = "ratio"
-- help = "upper limit of the 95th percentile of CPU usage, as a share of the available cores"
-- [parameters.gpu_threshold_p95]
-- default = 0.7
-- unit = "ratio"
-- help = "upper limit of the 95th percentile of GPU utilization"
-- [parameters.gpu_memory_threshold_p95]
-- default = 0.7
-- unit = "ratio"
-- help = "upper limit of the 95th percentile of used GPU memory"
-- [parameters.window]
-- default = "250 s"
-- help = "length of a window"
-- [parameters.warm_up]
-- default = "50 s"
-- help = "time after the run's start that is not evaluated"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means"
-- [presets.smdebug]
-- warm_up = "500 s"

with windows as (
    select started_at, max(p95) filter (where quantity = 'cpu_usage')
                       / nullif(max(mean) filter (where quantity = 'cpu_available'), 0) as cpu,
           max(p95) filter (where quantity = 'gpu_utilization') as gpu,
           max(p95) filter (where quantity = 'gpu_memory_used')
           / nullif(max(mean) filter (where quantity = 'gpu_memory_total'), 0) as gpu_memory
    from rule_windows(%(run)s, '{cpu_usage,cpu_available,gpu_utilization,gpu_memory_used,gpu_memory_total}', %(start)s,
                      %(stop)s, %(point)s, %(window)s, %(warm_up)s)
    group by started_at
), evaluated as (
    select array_agg(started_at) as times,
           array_agg(cpu < %(cpu_threshold_p95)s and gpu < %(gpu_threshold_p95)s
                     and gpu_memory < %(gpu_memory_threshold_p95)s) as small
    from windows
)
select s.started_at, s.ended_at,
       jsonb_build_object('cpu_p95', max(w.cpu), 'gpu_p95', max(w.gpu), 'gpu_memory_p95', max(w.gpu_memory)) as evidence
from evaluated
cross join lateral rule_intervals(times, small, '0', %(stop)s, %(window)s) s
join windows w on w.started_at >= s.started_at and w.started_at < s.until
group by s.started_at, s.ended_at
