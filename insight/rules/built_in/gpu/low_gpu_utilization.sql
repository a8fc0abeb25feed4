-- name = "LowGPUUtilization"
-- means = "The utilization of a GPU is low or fluctuating for long."
-- advice = "Find what the GPU waits for: see CPUBottleneck, IOBottleneck and Dataloader. Otherwise increase the batch size, share the GPU (MPS, MIG), or use a smaller one."
-- severity = "warning"
-- needs = ["gpus"]
-- lookback = "15 min"
-- [parameters.threshold_p95]
-- default = 0.7
-- unit = "ratio"
-- help = "95th percentile of a window below which utilization is low"
-- [parameters.threshold_p5]
-- default = 0.1
-- unit = "ratio"
-- help = "5th percentile of a window below which utilization fluctuates, unless it is low"
-- [parameters.window]
-- default = "250 s"
-- help = "length of a window"
-- [parameters.warm_up]
-- default = "500 s"
-- help = "time after the run's start that is not evaluated"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means of which percentiles are taken"

with windows as (
    select *, p95 < %(threshold_p95)s as low
    from rule_windows(%(run)s, '{gpu_utilization}', %(start)s, %(stop)s, %(point)s, %(window)s, %(warm_up)s, true)
), devices as (
    select device, array_agg(started_at) as times, array_agg(low or p5 < %(threshold_p5)s) as found from windows group by device
)
select s.started_at, s.ended_at,
       jsonb_build_object('device', d.device, 'p95', max(w.p95), 'p5', min(w.p5), 'scope', min(w.scope),
                          'what', case when bool_and(w.low) then 'low' when bool_or(w.low) then 'low and fluctuating'
                                       else 'fluctuating' end) as evidence
from devices d
cross join lateral rule_intervals(d.times, d.found, '0', %(stop)s, %(window)s) s
join windows w on w.device = d.device and w.started_at >= s.started_at and w.started_at < s.until
group by d.device, s.started_at, s.ended_at
