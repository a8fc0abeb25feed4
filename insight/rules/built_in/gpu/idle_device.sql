-- name = "IdleDevice"
-- means = "A GPU of the run is idle, or does no work for this run."
-- advice = "Stop the run or place it on fewer GPUs. If the run should be working, read its output: it may hang or wait for data."
-- severity = "warning"
-- needs = ["gpus"]
-- lookback = "20 min"
-- [parameters.threshold]
-- default = 0.05
-- unit = "ratio"
-- help = "GPU utilization below which a GPU is idle"
-- [parameters.minimum_duration]
-- default = "5 min"
-- help = "minimum duration of the condition"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means"

with points as (
    -- On a shared GPU, the driver's accounting of processes distinguishes the run's work from that of others.
    select device, started_at, min(value) as value
    from rule_points(%(run)s, '{gpu_utilization,gpu_sm_utilization}', %(start)s, %(stop)s, %(point)s, true)
    group by device, started_at
), devices as (
    select device, array_agg(started_at) as times, array_agg(value < %(threshold)s) as idle from points group by device
)
select s.started_at, s.ended_at,
       jsonb_build_object('device', d.device, 'utilization', avg(p.value)) as evidence
from devices d
cross join lateral rule_intervals(d.times, d.idle, %(minimum_duration)s, %(stop)s) s
join points p on p.device = d.device and p.started_at >= s.started_at and p.started_at < s.until
group by d.device, s.started_at, s.ended_at, s.until
