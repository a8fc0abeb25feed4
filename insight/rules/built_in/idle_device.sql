-- name = "IdleDevice"
-- means = "A GPU that the run is placed on does nothing, or nothing for this run."
-- advice = "Give the device back: end the run, or place it on fewer GPUs. Where it should be at work, look at its output: it may hang, or wait for data."
-- severity = "warning"
-- lookback = "20 min"
-- [parameters.threshold]
-- default = 0.05
-- unit = "ratio"
-- help = "below this share of time with work a GPU is idle"
-- [parameters.patience]
-- default = "5 min"
-- help = "how long it has to be"
-- [parameters.point]
-- default = "10 s"
-- help = "means are taken over this"

with points as (
    -- Where others are on the GPU as well, the driver's accounts say whose work it is.
    select device, started_at, min(value) as value
    from rule_points(%(run)s, '{gpu_utilization,gpu_sm_utilization}', %(start)s, %(stop)s, %(point)s, true)
    group by device, started_at
), devices as (
    select device, array_agg(started_at) as times, array_agg(value < %(threshold)s) as idle from points group by device
)
select s.started_at, s.ended_at,
       jsonb_build_object('device', d.device, 'utilization', avg(p.value)) as evidence
from devices d
cross join lateral rule_stretches(d.times, d.idle, %(patience)s, %(stop)s) s
join points p on p.device = d.device and p.started_at >= s.started_at and p.started_at < s.until
group by d.device, s.started_at, s.ended_at, s.until
