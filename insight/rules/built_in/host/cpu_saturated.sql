-- name = "CpuSaturated"
-- means = "The run uses all of its available cores: more cores, or less CPU work, would make it faster."
-- advice = "Give the run more cores (affinity, quota of its control group, fewer neighbours), preprocess once or on the GPU, or make preprocessing cheaper."
-- severity = "info"
-- lookback = "5 min"
-- [parameters.threshold]
-- default = 0.9
-- unit = "ratio"
-- help = "share of the available cores from which on they are saturated"
-- [parameters.minimum_duration]
-- default = "5 s"
-- help = "minimum duration of the condition"
-- [parameters.point]
-- default = "1 s"
-- help = "interval of the means"

with points as (
    select started_at, max(value) filter (where quantity = 'cpu_usage') as used,
           max(value) filter (where quantity = 'cpu_available') as available
    from rule_points(%(run)s, '{cpu_usage,cpu_available}', %(start)s, %(stop)s, %(point)s, false, '{process}')
    group by started_at
), smooth as (
    -- Means of three points: another process on a core for a moment does not end an interval.
    select started_at, avg(used) over line >= %(threshold)s * avg(available) over line as saturated
    from points window line as (order by started_at rows between 1 preceding and 1 following)
), evaluated as (
    select array_agg(started_at) as times, array_agg(saturated) as saturated from smooth
)
select s.started_at, s.ended_at,
       jsonb_build_object('share', avg(p.used) / avg(p.available), 'cores', avg(p.used), 'available', avg(p.available)) as evidence
from evaluated
cross join lateral rule_intervals(times, saturated, %(minimum_duration)s, %(stop)s) s
join points p on p.started_at >= s.started_at and p.started_at < s.until
group by s.started_at, s.ended_at
