-- name = "MemoryNearLimit"
-- means = "Memory is nearly exhausted: that of a GPU, the run's control group, or the host. Further allocations fail, or a process is killed."
-- advice = "Reduce the batch size, accumulate gradients, keep less in memory, or give the run more. On a GPU, a framework that preallocates all memory looks the same."
-- severity = "warning"
-- lookback = "5 min"
-- [parameters.threshold]
-- default = 0.95
-- unit = "ratio"
-- help = "share of the total from which on memory is nearly exhausted"
-- [parameters.minimum_duration]
-- default = "10 s"
-- help = "minimum duration of the condition"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means"

with usage as (
    -- Memory of other processes counts as well: it leaves less for the run.
    select device as what, started_at, max(high) filter (where quantity = 'gpu_memory_used') as used,
           max(value) filter (where quantity = 'gpu_memory_total') as there
    from rule_points(%(run)s, '{gpu_memory_used,gpu_memory_total}', %(start)s, %(stop)s, %(point)s, true, '{instance,device}')
    group by device, started_at
    union all
    select 'control group', started_at, max(high) filter (where quantity = 'memory_used'),
           max(value) filter (where quantity = 'memory_limit')
    from rule_points(%(run)s, '{memory_used,memory_limit}', %(start)s, %(stop)s, %(point)s, false, '{process}')
    group by started_at
    union all
    select 'host', started_at, max(value) filter (where quantity = 'memory_total')
                               - max(low) filter (where quantity = 'memory_available'),
           max(value) filter (where quantity = 'memory_total')
    from rule_points(%(run)s, '{memory_total,memory_available}', %(start)s, %(stop)s, %(point)s, false, '{host}')
    group by started_at
), found as (
    select what, array_agg(started_at) as times, array_agg(used >= %(threshold)s * there) as near
    from usage group by what
)
select s.started_at, s.ended_at,
       jsonb_build_object('memory', f.what, 'used_bytes', max(x.used), 'there_bytes', max(x.there)) as evidence
from found f
cross join lateral rule_intervals(f.times, f.near, %(minimum_duration)s, %(stop)s) s
join usage x on x.what = f.what and x.started_at >= s.started_at and x.started_at < s.until
group by f.what, s.started_at, s.ended_at
