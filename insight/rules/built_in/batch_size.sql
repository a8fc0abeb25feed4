-- name = "BatchSize"
-- means = "Cores, GPUs and their memory all have much left: there is too little work at a time."
-- advice = "Make the batch larger, or take a smaller GPU or a part of one (MIG), or put several runs on one."
-- severity = "info"
-- lookback = "15 min"
-- [parameters.cpu_threshold_p95]
-- default = 0.7
-- unit = "ratio"
-- help = "below this 95th percentile the cores that the run may use have much left"
-- [parameters.gpu_threshold_p95]
-- default = 0.7
-- unit = "ratio"
-- help = "the same of the time in which the GPUs work"
-- [parameters.gpu_memory_threshold_p95]
-- default = 0.7
-- unit = "ratio"
-- help = "the same of the GPUs' memory"
-- [parameters.window]
-- default = "250 s"
-- help = "how long a window is"
-- [parameters.patience]
-- default = "50 s"
-- help = "what is not judged after the run's start"
-- [parameters.point]
-- default = "10 s"
-- help = "means are taken over this"
-- [presets.smdebug]
-- patience = "500 s"

with windows as (
    select started_at, max(p95) filter (where quantity = 'cpu_usage')
                       / nullif(max(mean) filter (where quantity = 'cpu_available'), 0) as cpu,
           max(p95) filter (where quantity = 'gpu_utilization') as gpu,
           max(p95) filter (where quantity = 'gpu_memory_used')
           / nullif(max(mean) filter (where quantity = 'gpu_memory_total'), 0) as gpu_memory
    from rule_windows(%(run)s, '{cpu_usage,cpu_available,gpu_utilization,gpu_memory_used,gpu_memory_total}', %(start)s,
                      %(stop)s, %(point)s, %(window)s, %(patience)s)
    group by started_at
), judged as (
    select array_agg(started_at) as times,
           array_agg(cpu < %(cpu_threshold_p95)s and gpu < %(gpu_threshold_p95)s
                     and gpu_memory < %(gpu_memory_threshold_p95)s) as small
    from windows
)
select s.started_at, s.ended_at,
       jsonb_build_object('cpu_p95', max(w.cpu), 'gpu_p95', max(w.gpu), 'gpu_memory_p95', max(w.gpu_memory)) as evidence
from judged
cross join lateral rule_stretches(times, small, '0', %(stop)s, %(window)s) s
join windows w on w.started_at >= s.started_at and w.started_at < s.until
group by s.started_at, s.ended_at
