-- name = "GPUMemoryIncrease"
-- means = "The memory in use on a GPU grows from one window to the next."
-- advice = "Look for what is kept from step to step, such as losses with their graphs, or lists of outputs. Where it is meant, see that it ends below what the GPU has."
-- severity = "warning"
-- lookback = "15 min"
-- [parameters.increase]
-- default = 0.1
-- unit = "ratio"
-- help = "of the GPU's memory, by which the mean of a window is above that of the one before"
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
-- increase = 0.05
-- window = "5 s"
-- patience = "500 s"
-- point = "1 s"

with windows as (
    select device, started_at, max(mean) filter (where quantity = 'gpu_memory_used') as bytes,
           max(mean) filter (where quantity = 'gpu_memory_total') as total
    from rule_windows(%(run)s, '{gpu_memory_used,gpu_memory_total}', %(start)s, %(stop)s, %(point)s, %(window)s, %(patience)s,
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
cross join lateral rule_stretches(d.times, d.found, '0', %(stop)s, %(window)s) s
join grown g on g.device = d.device and g.started_at >= s.started_at and g.started_at < s.until
group by d.device, s.started_at, s.ended_at
