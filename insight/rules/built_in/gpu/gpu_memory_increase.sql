-- name = "GPUMemoryIncrease"
-- means = "Used GPU memory grows from one window to the next."
-- advice = "Look for objects kept from step to step, such as losses with their graphs, or lists of outputs. If the growth is intended, check that it ends below the total memory of the GPU."
-- severity = "warning"
-- needs = ["gpus"]
-- lookback = "15 min"
-- [parameters.increase]
-- default = 0.1
-- unit = "ratio"
-- help = "share of the GPU's memory by which the mean of a window exceeds that of the previous one"
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
-- increase = 0.05
-- window = "5 s"
-- warm_up = "500 s"
-- point = "1 s"

with windows as (
    select device, started_at, max(mean) filter (where quantity = 'gpu_memory_used') as bytes,
           max(mean) filter (where quantity = 'gpu_memory_total') as total
    from rule_windows(%(run)s, '{gpu_memory_used,gpu_memory_total}', %(start)s, %(stop)s, %(point)s, %(window)s, %(warm_up)s,
                      true)
    group by device, started_at
), grown as (
    select *, lag(bytes) over line as before, (bytes - lag(bytes) over line) / nullif(total, 0) as increase
    from windows window line as (partition by device order by started_at)
), devices as (
    select device, array_agg(started_at) as times, array_agg(increase > %(increase)s) as found from grown group by device
)
select s.started_at, s.ended_at,
       jsonb_build_object('device', d.device, 'increase', max(g.increase), 'from_bytes', min(g.before), 'to_bytes', max(g.bytes))
           as evidence
from devices d
cross join lateral rule_intervals(d.times, d.found, '0', %(stop)s, %(window)s) s
join grown g on g.device = d.device and g.started_at >= s.started_at and g.started_at < s.until
group by d.device, s.started_at, s.ended_at
