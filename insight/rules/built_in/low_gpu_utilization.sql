-- name = "LowGPUUtilization"
-- means = "A GPU has little to do for long, or work and none in turn."
-- advice = "Find what it waits for: CPUBottleneck, IOBottleneck and Dataloader say where to look. Else a larger batch, mixed work on one GPU (MPS, MIG), or a smaller GPU."
-- severity = "warning"
-- lookback = "15 min"
-- [parameters.threshold_p95]
-- default = 0.7
-- unit = "ratio"
-- help = "a window whose 95th percentile is below is one of low utilization"
-- [parameters.threshold_p5]
-- default = 0.1
-- unit = "ratio"
-- help = "one whose 5th percentile is below, but not the 95th, is one of fluctuating utilization"
-- [parameters.window]
-- default = "250 s"
-- help = "how long a window is"
-- [parameters.patience]
-- default = "500 s"
-- help = "what is not judged after the run's start"
-- [parameters.point]
-- default = "10 s"
-- help = "percentiles are taken over means of this"

with windows as (
    select *, p95 < %(threshold_p95)s as low
    from rule_windows(%(run)s, '{gpu_utilization}', %(start)s, %(stop)s, %(point)s, %(window)s, %(patience)s, true)
), devices as (
    select device, array_agg(started_at) as times, array_agg(low or p5 < %(threshold_p5)s) as found from windows group by device
)
select s.started_at, s.ended_at,
       jsonb_build_object('device', d.device, 'p95', max(w.p95), 'p5', min(w.p5), 'scope', min(w.scope),
                          'what', case when bool_and(w.low) then 'low' when bool_or(w.low) then 'low and fluctuating'
                                       else 'fluctuating' end) as evidence
from devices d
cross join lateral rule_stretches(d.times, d.found, '0', %(stop)s, %(window)s) s
join windows w on w.device = d.device and w.started_at >= s.started_at and w.started_at < s.until
group by d.device, s.started_at, s.ended_at
